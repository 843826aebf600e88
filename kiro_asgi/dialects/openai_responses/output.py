"""The output of one response as it grows: numbers its events, places its items, and remembers those that are done.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from kiro_asgi.dialects.openai_responses.output_items import item_id
from kiro_asgi.dialects.openai_responses.response import Outcome, ResponseObject
from kiro_asgi.dialects.pieces import Pieces, compact, dump_object

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
    response: Pieces = field(init=False, factory=Pieces)
    """The response object as it was told last."""

    _sequence: int = field(init=False, default=0)
    _kinds: list[str] = field(init=False, factory=list)
    """Of the items that have begun, in their order."""

    _items: dict[int, Pieces] = field(init=False, factory=dict)
    _held: tuple[Place, dict[str, Any]] | None = field(init=False, default=None)

    def has(self, kind: str = "") -> bool:
        """Whether an item of this *kind* has begun, or any at all."""
        return kind in self._kinds if kind else bool(self._kinds)

    def next_number(self) -> int:
        """The number of one event: from 0, without gaps."""
        number, self._sequence = self._sequence, self._sequence + 1
        return number

    def event(self, name: str, fields: Mapping[str, Any]) -> list[bytes]:
        """One event."""
        first, *rest = dump_object(fields)
        return self.frame(name, first[1:], *rest)

    def frame(self, name: str, *rest: bytes) -> list[bytes]:
        """One event, in one piece unless it is long; *rest* is JSON of its fields, from behind the opening brace on."""
        word = name.encode()
        head = b'event: %b\ndata: {"type":"%b","sequence_number":%d,' % (word, word, self.next_number())
        return compact([head, *rest, b"\n\n"])

    def add(self, kind: str, fields: Mapping[str, Any]) -> tuple[Place, list[bytes]]:
        """Begin an item, which is told with *fields*; a message that was held is done before it."""
        released = self.release("completed")
        index = len(self._kinds)
        self._kinds.append(kind)
        place = Place(index, item_id(self._object.id, kind, index))
        return place, released + self._tell_item("added", place, dump_object({"id": place.id, **fields}))

    def done(self, place: Place, fields: Mapping[str, Any]) -> list[bytes]:
        """End an item; *fields* are all of it, its id apart."""
        item = self._items[place.index] = dump_object({"id": place.id, **fields})
        return self._tell_item("done", place, item)

    def _tell_item(self, what: str, place: Place, item: Pieces) -> list[bytes]:
        return self.frame(f"response.output_item.{what}", b'"output_index":%d,"item":' % place.index, *item, b"}")

    def hold(self, place: Place, message: dict[str, Any]) -> None:
        """End a message later: only the last one can be incomplete, and which that is the future knows."""
        self._held = place, message

    def release(self, status: str) -> list[bytes]:
        """End the message that was held, if there is one."""
        if self._held is None:
            return []
        (place, message), self._held = self._held, None
        return self.done(place, {**message, "status": status})

    def tell(self, outcome: Outcome, *names: str) -> list[bytes]:
        """The whole response as it stands, in an event of each name."""
        self.response = self._object.render(outcome, [self._items[index] for index in sorted(self._items)])
        told: list[bytes] = []
        for name in names:
            told += self.frame(f"response.{name}", b'"response":', *self.response, b"}")
        return told
