"""Server-sent events whose data is JSON, as every upstream but Kiro sends them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.model.events import Notice
from kiro_asgi.wire.json import JsonError, loads
from kiro_asgi.wire.sse import SseDecoder

__all__ = ["DONE", "JsonEvent", "JsonEvents"]

DONE: Final = "[DONE]"
"""Data of the event by which some services end a stream; it is no JSON."""


@frozen
class JsonEvent:
    """One event."""

    name: str
    value: Mapping[str, Any]
    """Empty where `done`."""

    done: bool = False
    """Whether it is the sentinel at the end."""


@define
class JsonEvents:
    """The stage from bytes to events.  What is no JSON object is passed over, with a notice."""

    also_data: frozenset[bytes] = frozenset()
    """As of `SseDecoder`."""

    _lines: SseDecoder = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._lines = SseDecoder(also_data=self.also_data)

    def feed(self, items: Iterable[bytes], /) -> Iterator[JsonEvent | Notice]:
        """The events that *items* complete."""
        for event in self._lines.feed(items):
            if event.data.strip() == DONE:
                yield JsonEvent(event.event, {}, done=True)
                continue
            try:
                value = loads(event.data)
            except JsonError:
                value = None
            if type(value) is dict:
                yield JsonEvent(event.event, value)
            else:
                yield Notice("event.undecodable")

    def flush(self) -> Iterator[JsonEvent | Notice]:
        """The event at the end that lacks its empty line, where it is whole: half an object is none."""
        return (item for item in self.feed((b"\n\n",)) if isinstance(item, JsonEvent))
