"""The layout of a record in the store: a line of facts, then parts, which are JSON.

What decides about a record stands in the line, with the size of each part and the number of values in it.  So a part
goes out, or is refused as too large, without being decoded::

    {"facts":{…},"parts":[[bytes,values],…]} newline part part …

A list of items has an index, so that each item is found without decoding those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from attrs import frozen

from kiro_asgi.limits import REQUEST_DEPTH
from kiro_asgi.wire.json import JsonError, count_values, dumps, loads

_LINE_BYTES: Final = 128 * 1024
"""The line of facts: twice the metadata of a conversation, whose texts may have six bytes for each character."""


class DamagedRecord(ValueError):
    """Bytes of a store that are no record of ours."""


@frozen
class Part:
    """JSON within a record."""

    data: memoryview
    values: int
    """As `kiro_asgi.wire.json.count_values` counts them."""

    def decoded(self) -> Any:
        """The value.  Whoever calls this has checked its size, and calls it in a thread where that is large.

        Raises:
            DamagedRecord: It is no JSON.
        """
        data = bytes(self.data)
        try:
            return loads(data, max_depth=2 * REQUEST_DEPTH, max_values=len(data))
        except JsonError as error:
            raise DamagedRecord(error.message) from None


@frozen
class Record:
    """A record as it was read; its parts are views of its bytes."""

    facts: Mapping[str, Any]
    parts: Sequence[Part]

    @classmethod
    def read(cls, data: bytes, parts: int) -> Record:
        """The record of so many *parts* in *data*; only its line is decoded.

        Raises:
            DamagedRecord: There is none.
        """
        end = data.find(b"\n", 0, _LINE_BYTES)
        facts, sizes = _line(data[: max(end, 0)])
        if len(sizes) != parts or sum(size for size, _ in sizes) != len(data) - end - 1:
            raise DamagedRecord("its parts are not where its line has them")
        return cls(facts, [*_cut(memoryview(data)[end + 1 :], sizes)])


def _line(line: bytes) -> tuple[Mapping[str, Any], list[tuple[int, int]]]:
    try:
        value = loads(line)
        facts, sizes = value["facts"], [(size, values) for size, values in value["parts"]]
    except (JsonError, KeyError, TypeError, ValueError):
        raise DamagedRecord("it has no line of facts") from None
    if not isinstance(facts, dict) or not all(type(number) is int and number >= 0 for number in chain(*sizes)):
        raise DamagedRecord("its line has odd members")
    return facts, sizes


def _cut(view: memoryview, sizes: Iterable[tuple[int, int]]) -> Iterator[Part]:
    start = 0
    for size, values in sizes:
        yield Part(view[start : start + size], values)
        start += size


def write_record(facts: Mapping[str, Any], *parts: Sequence[bytes | memoryview]) -> bytes:
    """The bytes of a record; each part is given in pieces."""
    whole = [b"".join(pieces) for pieces in parts]
    sizes = [(len(data), count_values(data)) for data in whole]
    return b"".join((dumps({"facts": facts, "parts": sizes}), b"\n", *whole))


@frozen
class Entry:
    """One item of a list, as JSON."""

    id: str
    data: bytes | memoryview
    values: int

    @classmethod
    def of(cls, item_id: str, data: bytes) -> Entry:
        """The entry of an item whose JSON is *data*."""
        return cls(item_id, data, count_values(data))

    def decoded(self) -> Any:
        """The item.

        Raises:
            DamagedRecord: It is no JSON, or no object.
        """
        item = Part(memoryview(self.data), self.values).decoded()
        if not isinstance(item, dict):
            raise DamagedRecord("an item is no object")
        return item


def index_of(entries: Iterable[Entry]) -> bytes:
    """JSON of the index of a list: id, bytes and values of each entry, one after the other."""
    return dumps([member for entry in entries for member in (entry.id, len(entry.data), entry.values)])


def array_of(entries: Iterable[Entry]) -> list[bytes | memoryview]:
    """JSON of the list, in pieces."""
    return joined(entry.data for entry in entries)


def joined(items: Iterable[bytes | memoryview]) -> list[bytes | memoryview]:
    """JSON of an array of *items*, which are JSON, in pieces."""
    pieces: list[bytes | memoryview] = []
    for item in items:
        pieces += (b"," if pieces else b"[", item)
    return [*pieces, b"]"] if pieces else [b"[]"]


def entries_of(index: Part, array: Part) -> list[Entry]:
    """The inverse of `index_of` and `array_of`; the items are not decoded.

    Raises:
        DamagedRecord: They do not belong together.
    """
    flat, view, at = index.decoded(), array.data, 1
    if not isinstance(flat, list) or len(flat) % 3:
        raise DamagedRecord("it has no index")
    entries = []
    for item_id, size, values in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        if not (type(item_id) is str and type(size) is int and type(values) is int and size > 0):
            raise DamagedRecord("its index has odd members")
        entries.append(Entry(item_id, view[at : at + size], values))
        at += size + 1  # and a comma, or the closing bracket
    if at != max(len(view), 1) and (entries or bytes(view) != b"[]"):
        raise DamagedRecord("its items are not where its index has them")
    return entries
