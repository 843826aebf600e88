"""Bare JSON objects to deltas: the fallback for answers without frames, where only the keys tell what an object is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.events import Delta
from kiro_asgi.upstreams.kiro.payloads import READERS, Reader, Seen
from kiro_asgi.wire.objects import PREFIXES

__all__ = ["SCANNED_PREFIXES", "ScannedEventDecoder"]

SCANNED_PREFIXES: Final = (*PREFIXES, b'{"toolUseId":', b'{"stopReason":', b'{"tokenUsage":')
"""How the objects begin that are worth finding."""


BY_KEY: Final[tuple[tuple[str, Reader], ...]] = (
    ("followupPrompt", READERS["followupPromptEvent"]),
    ("toolUseId", READERS["toolUseEvent"]),
    ("name", READERS["toolUseEvent"]),
    ("input", READERS["toolUseEvent"]),
    ("stop", READERS["toolUseEvent"]),
    ("content", READERS["assistantResponseEvent"]),
    ("usage", READERS["meteringEvent"]),
    ("tokenUsage", READERS["metadataEvent"]),
    ("stopReason", READERS["metadataEvent"]),
    ("contextUsagePercentage", READERS["contextUsageEvent"]),
)
"""Key to the reader of the objects that have it; the first that fits."""


@define
class ScannedEventDecoder:
    """Turn the objects that a scan found into deltas; an object without a known key says nothing."""

    _seen: Seen = field(init=False, factory=Seen)

    def feed(self, items: Iterable[dict[str, Any]], /) -> Iterator[Delta]:
        """What the objects say."""
        for item in items:
            reader = next((reader for key, reader in BY_KEY if key in item), None)
            if reader is not None:
                yield from reader(item, self._seen)

    def flush(self) -> Iterator[Delta]:
        """Nothing."""
        yield from ()
