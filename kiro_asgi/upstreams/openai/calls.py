"""Telling tool calls apart in a stream.

The API numbers the calls of an answer, and names a call and its id once, in its first piece.  Servers differ: some
give every call the number 0 and a new id, some no number, or no id, and some repeat name and id with every piece.
What is told on is always the same: pieces in their order, each call under an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.events import Delta, Notice, ToolCallFragment
from kiro_asgi.wire.json import JsonError, dumps, loads

__all__ = ["Calls"]

UNREADABLE: Final = Notice("tool_call.unreadable")

Key = int | str
"""A call's number; where it has none, its id."""


@define(eq=False)
class _Call:
    """One call."""

    said_id: str
    """As the server has it; empty where it has said none."""

    call_id: str
    name: str = ""
    pieces: list[str] = field(factory=list)

    ended: bool = False
    """Whether its end has been told; pieces that still come for it say nothing."""

    @property
    def whole(self) -> bool:
        """Whether the arguments so far are a whole JSON object, which nothing can follow."""
        text = "".join(self.pieces)
        if not text.rstrip().endswith("}"):
            return False
        try:
            return type(loads(text)) is dict
        except JsonError:
            return False

    def told(self, arguments: str = "", *, stop: bool = False) -> ToolCallFragment:
        """A piece; the first has the name."""
        name = "" if self.pieces else self.name
        self.ended = stop
        if arguments:
            self.pieces.append(arguments)
        return ToolCallFragment(self.call_id, name, arguments, stop)


@define
class Calls:
    """The calls of one answer."""

    new_id: Callable[[], str]
    """Makes the id of a call that has none, or another's."""

    _calls: dict[Key, _Call] = field(init=False, factory=dict)
    _latest: Key = field(init=False, default=0)
    _ids: set[str] = field(init=False, factory=set)

    def read(self, entries: Any) -> Iterator[Delta]:
        """What a list of pieces leads to."""
        if type(entries) is not list:
            yield UNREADABLE
            return
        for entry in entries:
            function = entry.get("function", {}) if type(entry) is dict else None
            if type(function) is dict:
                yield from self._take(entry.get("index"), _text(entry.get("id")), function)
            else:
                yield UNREADABLE

    def read_function(self, function: Any) -> Iterator[Delta]:
        """What a piece in the deprecated form leads to: there is one call, without an id."""
        if type(function) is dict:
            yield from self._take(-1, "", function)
        else:
            yield UNREADABLE

    def close(self) -> Iterator[Delta]:
        """The ends of the calls: the answer is whole."""
        yield from (call.told(stop=True) for call in self._calls.values() if not call.ended)

    def release(self) -> Iterator[Delta]:
        """What is known of calls that were cut."""
        yield from (call.told() for call in self._calls.values() if not (call.ended or call.pieces))

    def _take(self, index: Any, said_id: str, function: Mapping[str, Any]) -> Iterator[Delta]:
        name, arguments = _text(function.get("name")), _arguments(function.get("arguments"))
        key = self._key(index, said_id)
        call = self._calls.get(key)
        if call is None or _is_another(call, said_id, name, arguments):
            yield from self._end_others(key)
            call = self._calls[key] = _Call(said_id, self._unique(said_id))
        self._latest = key
        call.said_id = call.said_id or said_id
        if not call.pieces:
            call.name = _joined(call.name, name)
        if arguments and not call.ended:
            yield call.told(arguments)

    def _key(self, index: Any, said_id: str) -> Key:
        if type(index) is int:
            return index
        if not said_id:
            return self._latest
        return next((key for key, call in self._calls.items() if call.said_id == said_id), said_id)

    def _end_others(self, key: Key) -> Iterator[Delta]:
        """A new call begins under *key*: what stood there has ended, and any other that is whole."""
        for other, call in self._calls.items():
            if not call.ended and (other == key or call.whole):
                yield call.told(stop=True)

    def _unique(self, said_id: str) -> str:
        call_id = said_id
        while not call_id or call_id in self._ids:
            call_id = self.new_id()
        self._ids.add(call_id)
        return call_id


def _is_another(call: _Call, said_id: str, name: str, arguments: str) -> bool:
    """Whether a piece under the same number is of another call."""
    if said_id and call.said_id:
        return said_id != call.said_id
    return bool(name and arguments and call.pieces) and call.whole


def _joined(name: str, piece: str) -> str:
    """A name that comes in pieces; one that is repeated, or grows, begins with what was there."""
    return piece if piece.startswith(name) else name + piece


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _arguments(value: Any) -> str:
    """JSON text; some servers give the object itself."""
    if type(value) is str:
        return value
    return "" if value is None else dumps(value).decode()
