"""Tool calls of a stream, kept apart.

The API numbers the calls of an answer, and names a call and its id once, in its first piece.  Servers differ: some
give every call the number 0 and a new id, some no number, or no id, and some repeat name and id with every piece.
The output is always the same: pieces in their order, each call under an id of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from sys import getsizeof
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.budget import ITEM, AnswerBudget, of_unread
from kiro_asgi.model.events import Delta, Notice, SignatureDelta, ToolCallFragment
from kiro_asgi.model.signatures import CALL, GEMINI, marked
from kiro_asgi.model.unread import Unread, accumulated
from kiro_asgi.stages.parts.argument_text import canonical
from kiro_asgi.upstreams.unread import ARGUMENTS, arguments_in, others, within
from kiro_asgi.wire.json import object_of, text_of

API: Final = "openai_chat"
"""Name of the API, as of `kiro_asgi.model.unread.Unread`."""

UNREADABLE: Final = Notice("tool_call.unreadable")

Key = int | str
"""A call's number; where it has none, its id."""


_BATCH: Final = 4_096
"""Characters of arguments that are looked at together."""

_EMPTY: Final = re.compile(r"\{\s*+\}")

_PLAIN: Final = re.compile(r'[^"{}\[\]]*+')
"""Characters without a meaning outside a string."""

_STRING: Final = re.compile(r'[^"\\]*+')
"""Characters without a meaning inside of one."""


@define
class ObjectEnd:
    """Finds out whether a text that comes in pieces is one JSON object, by its brackets; keeps none of it."""

    _unread: str = ""
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False
    _closed: bool = False
    """Whether the first bracket, a brace, has been closed."""

    _invalid: bool = False
    """Whether it begins with anything else, or goes on behind its end."""

    def feed(self, text: str) -> None:
        """Take the next piece."""
        self._unread += text
        if len(self._unread) >= _BATCH:
            self._read()

    @property
    def reached(self) -> bool:
        """Whether the object is whole, with nothing but white space behind it."""
        self._read()
        return self._closed and not self._invalid

    def _read(self) -> None:
        text, self._unread, at = self._unread, "", 0
        while at < len(text) and not self._invalid:
            at = self._skip(text, at)

    def _skip(self, text: str, at: int) -> int:
        """Past the next character that matters."""
        if self._escaped:
            self._escaped = False
            return at + 1
        end = (_STRING if self._in_string else _PLAIN).match(text, at).end()  # type: ignore[union-attr]  # matches ""
        if not self._depth and text[at:end].strip():
            self._invalid = True
        elif end < len(text):
            self._turn(text[end])
        return end + 1

    def _turn(self, character: str) -> None:
        if character == '"':
            self._in_string = not self._in_string
            self._invalid = not self._depth
        elif character == "\\":
            self._escaped = True
        elif character in "{[":
            self._invalid = not self._depth and (self._closed or character == "[")
            self._depth += 1
        else:
            self._depth -= 1
            self._closed = not self._depth
            self._invalid = self._depth < 0


@define(eq=False)
class _StreamedCall:
    """One call."""

    server_id: str
    """The server's id; empty where it has sent none."""

    call_id: str
    name: str = ""
    begun: bool = False
    """Whether there have been arguments."""

    ended: bool = False
    """Whether its end was emitted; later pieces of it are ignored."""

    held: str = ""
    """An empty object that came first: other arguments may take its place."""

    unread: list[Unread] = field(init=False, factory=list)
    """Members of its pieces that are not understood, and have not gone out."""

    _pieces: list[str] = field(init=False, factory=list)
    _size: int = field(init=False, default=0)
    """Characters of all pieces."""

    _end: ObjectEnd = field(init=False, factory=ObjectEnd)

    _spelling: str | None = field(init=False, default=None)
    """The complete arguments as `canonical` spells them; ``None`` where that is not known."""

    @property
    def complete(self) -> bool:
        """Whether the arguments so far are a complete JSON object, which nothing can follow."""
        return bool(self.held) or self._end.reached

    def repeats(self, arguments: str) -> bool:
        """Whether these are all arguments once more, in whatever spelling, after they were complete."""
        if not self._end.reached or not arguments.rstrip().endswith("}"):
            return False
        if self._spelling is None:
            self._spelling = canonical("".join(self._pieces))
        return bool(self._spelling) and canonical(arguments) == self._spelling

    def fragment(self, arguments: str = "", *, stop: bool = False) -> ToolCallFragment:
        """Make the next piece; the first has the name."""
        if self.held:
            arguments = arguments if arguments.lstrip().startswith("{") else self.held + arguments
            self.held = ""
        name = "" if self.begun else self.name
        self.ended = stop
        if arguments:
            self.begun, self._spelling = True, None
            self._end.feed(arguments)
            self._pieces.append(arguments)
            self._size += len(arguments)
        unread, self.unread = self.unread, []
        more = Unread(API, accumulated(each.members for each in unread)) if unread else None
        return ToolCallFragment(self.call_id, name, arguments, stop, more)


@define
class StreamedCalls:
    """The calls of one answer."""

    new_id: Callable[[], str]
    """Makes the id of a call that has none, or another's."""

    _budget: AnswerBudget = field(init=False, factory=AnswerBudget)
    _calls: dict[Key, _StreamedCall] = field(init=False, factory=dict)
    _keys: dict[str, Key] = field(init=False, factory=dict)
    """By the server's id."""

    _strays: dict[int, Key] = field(init=False, factory=dict)
    """Numbers under which the arguments of a call came that has another."""

    _changed: dict[Key, None] = field(init=False, factory=dict)
    """Calls that had arguments since another one began."""

    _latest: Key = field(init=False, default=0)
    _ids: set[str] = field(init=False, factory=set)

    @property
    def any(self) -> bool:
        """Whether there has been a call."""
        return bool(self._calls)

    def read(self, entries: Any) -> Iterator[Delta]:
        """The deltas of a list of pieces."""
        if type(entries) not in (list, dict):
            yield UNREADABLE
            return
        for entry in entries if type(entries) is list else (entries,):
            function = _function(entry) if type(entry) is dict else None
            if function is not None:
                yield from _signature(entry)
                yield from self._take(entry.get("index"), _text(entry.get("id")), function, _unread(entry, function))
            else:
                yield UNREADABLE

    def read_function(self, function: Any) -> Iterator[Delta]:
        """The deltas of a piece in the deprecated form: there is one call, without an id."""
        if type(function) is dict:
            yield from self._take(-1, "", function, None)
        else:
            yield UNREADABLE

    def close(self) -> Iterator[Delta]:
        """The ends of the calls: the answer is complete."""
        yield from (call.fragment(stop=True) for call in self._calls.values() if not call.ended)

    def release(self) -> Iterator[Delta]:
        """The calls that were cut, as far as they are known."""
        yield from (call.fragment() for call in self._calls.values() if not (call.ended or call.begun))

    def _take(self, index: Any, server_id: str, function: Mapping[str, Any], unread: Unread | None) -> Iterator[Delta]:
        name, arguments = _text(function.get("name")), arguments_in(function)
        key = self._key(index, server_id, name, arguments)
        call = self._calls.get(key)
        if call is None or _is_another(call, server_id, name, arguments):
            yield from self._end_others(key)
            call = self._new_call(key, server_id)
        self._latest = key
        if server_id and not call.server_id:
            call.server_id = server_id
            self._keys.setdefault(server_id, key)
        if unread is not None:
            self._budget.take(of_unread(unread))
            call.unread.append(unread)
        if not call.begun:
            call.name = _joined(call.name, name)
        elif name and not call.name and not call.ended:
            call.name = name
            yield ToolCallFragment(call.call_id, name)
        if not arguments or call.ended or call.repeats(arguments):
            return
        self._changed[key] = None
        if not call.begun and not call.held and _EMPTY.fullmatch(arguments.strip()):
            call.held = arguments
        else:
            self._budget.take(getsizeof(arguments))  # kept, to know them again
            yield call.fragment(arguments)

    def _key(self, index: Any, server_id: str, name: str, arguments: str) -> Key:
        if type(index) is str and index.isdecimal() and len(index) < _DIGITS:
            index = int(index)
        if type(index) is int:
            # A call that goes on has no name: its id, which is known, precedes a number that is counted anew.
            known = None if name or index in self._calls else self._keys.get(server_id)
            if known is not None:
                return known
            return index if name or server_id else self._continued(index, arguments)
        if not server_id:
            return self._latest
        return self._keys.get(server_id, server_id)

    def _continued(self, index: int, arguments: str) -> Key:
        """The call that goes on with *arguments* alone.

        Some servers send them under another number than id and name.  They are of the call that began last, if that has
        none yet, and no other call is open under their number.
        """
        own, latest = self._calls.get(index), self._calls.get(self._latest)
        is_free = own is None or (own.begun and own.complete and not own.repeats(arguments))
        if arguments and is_free and latest is not None and not latest.begun:
            self._strays[index] = self._latest
        return self._strays.get(index, index)

    def _new_call(self, key: Key, server_id: str) -> _StreamedCall:
        self._budget.take(ITEM + 3 * getsizeof(server_id))
        before = self._calls.get(key)
        if before is not None and self._keys.get(before.server_id) == key:
            del self._keys[before.server_id]
        if type(key) is int:
            self._strays.pop(key, None)
        call = self._calls[key] = _StreamedCall("", self._unique(server_id))
        return call

    def _end_others(self, key: Key) -> Iterator[Delta]:
        """End calls, as a new one begins under *key*: the one before it there, and any other that is complete."""
        changed, self._changed = self._changed, {}
        for other in {**changed, key: None}:
            call = self._calls.get(other)
            if call is not None and not call.ended and (other == key or call.complete):
                yield call.fragment(stop=True)

    def _unique(self, server_id: str) -> str:
        call_id = server_id
        while not call_id or call_id in self._ids:
            call_id = self.new_id()
        self._ids.add(call_id)
        return call_id


_DIGITS: Final = 10
"""Fewer digits than a call's number has, where it is written as text."""

_ENTRY: Final = frozenset({"index", "id", "type", "function", "extra_content"})
_FUNCTION: Final = frozenset({"name", *ARGUMENTS})
_FLAT: Final = frozenset({*_FUNCTION, "function"})


def _function(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What *entry* calls, wherever a server writes it: in an object, or beside its id; ``None`` for no such thing."""
    function = entry.get("function")
    if type(function) is dict:
        return function
    flat = {name: entry[name] for name in _FUNCTION if name in entry}
    if type(function) is str:
        return {"name": function, **flat}
    return flat if function is None else None


def _unread(entry: Mapping[str, Any], function: Mapping[str, Any]) -> Unread | None:
    """Members of a piece but those that are read."""
    known = _ENTRY if entry.get("function") is function else _ENTRY | _FLAT
    found = {**others(entry, known), **within(function=others(function, _FUNCTION))}
    if extra := object_of(entry.get("extra_content")):
        google = others(object_of(extra.get("google")), {"thought_signature"})
        found |= within(extra_content={**others(extra, {"google"}), **within(google=google)})
    return Unread(API, found) if found else None


def _signature(entry: Mapping[str, Any]) -> Iterator[Delta]:
    """The signature of a call, as Google's own server of this API puts it on the call's first piece."""
    signature = text_of(object_of(object_of(entry.get("extra_content")).get("google")), "thought_signature")
    if signature:
        yield SignatureDelta(marked(GEMINI, CALL, signature))


def _is_another(call: _StreamedCall, server_id: str, name: str, arguments: str) -> bool:
    """Whether a piece under the same number is of another call."""
    if server_id and call.server_id:
        renamed = bool(name and arguments) and _joined(call.name, name) != call.name and call.complete
        return renamed or (server_id != call.server_id and not _goes_on(call, name, arguments))
    return bool(name and arguments and (call.begun or call.held)) and call.complete


def _goes_on(call: _StreamedCall, name: str, arguments: str) -> bool:
    """Whether a piece is of *call* although it has another id: some servers make one for each piece."""
    is_rest = not name or (name == call.name and not arguments.lstrip().startswith("{"))
    return is_rest and bool(arguments) and call.begun and not call.complete


def _joined(name: str, piece: str) -> str:
    """A name that comes in pieces; one that is repeated, or grows, begins with what was there."""
    return piece if piece.startswith(name) else name + piece


def _text(value: Any) -> str:
    return value if type(value) is str else ""
