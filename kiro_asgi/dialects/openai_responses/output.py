"""The output of one response as it grows: numbers its events, places its items, and remembers those that are done.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from kiro_asgi.dialects.openai_responses.output_items import item_id
from kiro_asgi.dialects.openai_responses.response import Outcome, ResponseObject
from kiro_asgi.wire.json import dumps

__all__ = ["Output", "Place"]


@frozen
class Place:
    """Where an item is."""

    index: int
    id: str

    @property
    def fields(self) -> dict[str, Any]:
        """What every event about the item says."""
        return {"item_id": self.id, "output_index": self.index}


@define
class Output:
    """Makes the events of one response."""

    _object: ResponseObject
    response: bytes = field(init=False, default=b"")
    """The response object as it was told last: JSON."""

    _sequence: int = field(init=False, default=0)
    _kinds: list[str] = field(init=False, factory=list)
    """Of the items that have begun, in their order."""

    _items: dict[int, bytes] = field(init=False, factory=dict)
    _held: tuple[Place, dict[str, Any]] | None = field(init=False, default=None)

    def has(self, kind: str = "") -> bool:
        """Whether an item of this *kind* has begun, or any at all."""
        return kind in self._kinds if kind else bool(self._kinds)

    def next_number(self) -> int:
        """The number of one event: from 0, without gaps."""
        number, self._sequence = self._sequence, self._sequence + 1
        return number

    def event(self, name: str, fields: Mapping[str, Any]) -> bytes:
        """One event."""
        return self._frame(name, dumps(fields)[1:])

    def add(self, kind: str, fields: Mapping[str, Any]) -> tuple[Place, bytes]:
        """Begin an item, which is told with *fields*; a message that was held is done before it."""
        released = self.release("completed")
        index = len(self._kinds)
        self._kinds.append(kind)
        place = Place(index, item_id(self._object.id, kind, index))
        told = {"output_index": place.index, "item": {"id": place.id, **fields}}
        return place, released + self.event("response.output_item.added", told)

    def done(self, place: Place, fields: Mapping[str, Any]) -> bytes:
        """End an item; *fields* are all of it, its id apart."""
        item = self._items[place.index] = dumps({"id": place.id, **fields})
        return self._frame("response.output_item.done", b'"output_index":%d,"item":%b}' % (place.index, item))

    def hold(self, place: Place, message: dict[str, Any]) -> None:
        """End a message later: only the last one can be incomplete, and which that is the future knows."""
        self._held = place, message

    def release(self, status: str) -> bytes:
        """End the message that was held, if there is one."""
        if self._held is None:
            return b""
        (place, message), self._held = self._held, None
        return self.done(place, {**message, "status": status})

    def tell(self, name: str, outcome: Outcome) -> bytes:
        """The whole response as it stands."""
        self.response = self._object.render(outcome, [self._items[index] for index in sorted(self._items)])
        return self._frame(f"response.{name}", b'"response":%b}' % self.response)

    def _frame(self, name: str, rest: bytes) -> bytes:
        """*rest* is JSON of the fields, from behind the opening brace on."""
        word = name.encode()
        return b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b\n\n' % (word, word, self.next_number(), rest)
