"""JSON in pieces, so that an answer of megabytes is neither written at once nor held several times.

Quoting a text is what takes long: 4 ms for a megabyte, in which the event loop serves no other request.  So it is done
for `LONG` characters at a time, and what has been quoted once is repeated by reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.message import LONG, unsplit
from kiro_asgi.wire.json import dumps, loads, quote_bytes


class Pieces(list[bytes]):
    """The JSON of a value; joined it is all of it."""


def dump_text(text: str) -> Iterator[bytes]:
    """JSON of *text*, made as it is taken."""
    if len(text) <= LONG:
        yield quote_bytes(text)
        return
    yield b'"'
    for piece in unsplit(text):
        yield quote_bytes(piece)[1:-1]
    yield b'"'


def dump_array(items: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """JSON of an array, made as it is taken; *items* are JSON already."""
    before = b"["
    for item in items:
        yield before
        yield from item
        before = b","
    yield b"[]" if before == b"[" else b"]"


def dump_object(fields: Mapping[str, Any]) -> Pieces:
    """JSON of an object, in one piece unless it is long; a member may be `Pieces` already."""
    found: list[bytes] = []
    plain: dict[str, Any] = {}
    before = b"{"
    for name, value in fields.items():
        if type(value) is Pieces:
            plain[name] = 0
            found += (before, dumps(plain)[1:-2], *value)
            plain, before = {}, b","
        else:
            plain[name] = value
    found += (before, dumps(plain)[1:]) if plain or not found else (b"}",)
    return Pieces(compact(found))


def closing(members: Mapping[str, Any]) -> bytes:
    """The end of an object that has members already: further *members*, and the brace."""
    return b"," + dumps({**members})[1:] if members else b"}"


def dump_value(value: Any) -> Iterator[bytes]:
    """JSON of any value, made as it is taken, so that its long texts are not quoted at once."""
    match value:
        case str():
            yield from dump_text(value)
        case Mapping():
            before = b"{"
            for name, member in value.items():
                yield before + quote_bytes(name) + b":"
                yield from dump_value(member)
                before = b","
            yield b"{}" if before == b"{" else b"}"
        case list() | tuple():
            yield from dump_array(map(dump_value, value))
        case _:
            yield dumps(value)


def compact(pieces: list[bytes]) -> list[bytes]:
    """*pieces* as one, unless they are long."""
    return [b"".join(pieces)] if sum(map(len, pieces)) <= LONG else pieces


_MANY: Final = 64


@define
class Literal:
    """The JSON of a text that comes in parts."""

    _joined: list[bytes] = field(init=False, factory=list)
    _parts: list[bytes] = field(init=False, factory=list)
    """The latest, which are joined when they are many: each by itself takes a multiple of its content in memory."""

    def add(self, part: bytes) -> None:
        """Add the JSON of a part."""
        parts = self._parts
        parts.append(part)
        if len(parts) == _MANY:
            self._join()

    def pieces(self) -> Pieces:
        """All of it so far."""
        self._join()
        return Pieces((b'"', *self._joined, b'"'))

    def text(self) -> str:
        """The text so far: it need not be kept beside its JSON."""
        self._join()
        return "".join([loads(b'"%b"' % part) for part in self._joined])

    def _join(self) -> None:
        self._joined.append(b"".join([part[1:-1] for part in self._parts]))
        self._parts.clear()
