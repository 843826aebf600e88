"""What is told about a request: to its client, in a header of the same name as the one that asks; and to the log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from logging import DEBUG, getLogger
from typing import Final

from kiro_asgi.asgi.http import header_values
from kiro_asgi.asgi.typing import Scope
from kiro_asgi.model.notes import Note

__all__ = ["RULES_HEADER", "log_notes", "rules_header", "wants_notes", "wants_rules"]

_log = getLogger("kiro_asgi")

RULES_HEADER: Final = b"x-kiro-asgi-rules"
"""In a request: anything but ``0`` or nothing asks for the rules that were applied to it."""

_MAX_NOTES: Final = 50
_FOREIGN: Final = re.compile(r"[^\w.\[\]-]", re.ASCII)


def wants_rules(scope: Scope) -> bool:
    """Whether the client asks for the rules that were applied."""
    return any(value.strip() not in (b"", b"0") for value in header_values(scope, RULES_HEADER))


def wants_notes(scope: Scope) -> bool:
    """Whether somebody reads what was left out of the request: its client, or the log."""
    return _log.isEnabledFor(DEBUG) or wants_rules(scope)


def log_notes(notes: Iterable[Note], request_id: str) -> None:
    """Write down what was changed of a request, without a word of it."""
    if _log.isEnabledFor(DEBUG):
        _log.debug("changed on the way: %s", _list(notes) or "nothing", extra={"request_id": request_id})


def rules_header(notes: Iterable[Note]) -> tuple[bytes, bytes]:
    """The rules as a list of RFC 9651: ``turns.merged;n=2;at="messages[3]", system.exchange``."""
    return RULES_HEADER, _list(notes).encode("ascii")


def _list(notes: Iterable[Note]) -> str:
    return ", ".join(map(_item, tuple(notes)[:_MAX_NOTES]))


def _item(note: Note) -> str:
    times = f";n={note.times}" if note.times > 1 else ""
    place = f';at="{_FOREIGN.sub("_", note.place)[:100]}"' if note.place else ""
    return _FOREIGN.sub("_", note.rule) + times + place
