"""The recorder of an application, and the settings that its tapes name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import leaves, members_of, values_of
from kiro_asgi.redaction import Redactor
from kiro_asgi.tapes.recorder import TapeRecorder

__all__ = ["new_recorder", "shown_settings"]

_OF_THE_MACHINE: Final = ("path", "url", "endpoint", "file", "files", "folder", "principals", "source")
"""Last words of settings that name a place, or a person: a replay does without them."""

_NOT_REPLAYED: Final = frozenset({"client", "cors", "keys", "credentials", "quotas", "state", "tapes"})
"""Tables that say who may ask and how much, and where things are kept."""

_PLACE: Final = "https://tape.invalid"
"""Address of every service of the operator's own: which it is, is nobody else's business."""


def new_recorder(
    settings: Settings, redactor: Callable[[], Redactor], clock: Callable[[], float]
) -> TapeRecorder | None:
    """Make what records tapes; ``None`` where none are wanted."""
    if not settings.tapes.path:
        return None
    return TapeRecorder(settings.tapes, redactor, dict(shown_settings(settings)), clock)


def shown_settings(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Paths and values of what differs from its default and may be shown."""
    values = values_of(settings)
    known = leaves(type(settings), members_of(type(settings), values))
    for path, value in values.items():
        leaf = known[path]
        if leaf.name == "endpoint" and path.count(".") > 1:
            yield path, _PLACE
        if value == leaf.default or leaf.secret or path.partition(".")[0] in _NOT_REPLAYED:
            continue
        if leaf.name.rpartition("_")[2] not in _OF_THE_MACHINE:
            yield path, value
