"""Answers in text, as test doubles and relays send them, in the form of frames without a type.

A frame begins with two lengths below 2**24, so with bytes that no text holds: the first twelve bytes decide which an
answer is, whatever its media type says.  A damaged frame is therefore still read as a frame, and refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from attrs import define, field

from kiro_asgi.limits import NOTICES
from kiro_asgi.wire.eventstream import encode_frame
from kiro_asgi.wire.json import dumps
from kiro_asgi.wire.objects import PREFIXES, ObjectScanner

PRELUDE: Final = 12
"""Bytes that distinguish a frame from anything else."""

SCANNED_PREFIXES: Final = (*PREFIXES, b'{"toolUseId":', b'{"stopReason":', b'{"stopDetails":', b'{"tokenUsage":')
"""Beginnings of the objects to find in a text that is no JSON."""

ANY_OBJECT: Final = (b"{",)

_JSON: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*(\[|\{\s*["}])')
"""The beginning of a text that is JSON, as far as it shows."""

_UNREADABLE: Final = encode_frame({}, b"?")
"""In place of an object that does not parse."""


@define
class TextAsFrames:
    """Turn a text into frames without a type, one for each JSON object in it; pass frames on as they are.

    Nothing is passed on before it is known which they are.
    """

    _head: bytearray = field(init=False, factory=bytearray)
    _is_known: bool = field(init=False, default=False)
    _scanner: ObjectScanner | None = field(init=False, default=None)
    """Of a text."""

    _skipped: int = field(init=False, default=0)

    def feed(self, items: Iterable[bytes], /) -> Iterator[bytes]:
        """Frames as bytes, in any pieces."""
        for chunk in items:
            if self._is_known:
                yield from self._passed(chunk)
                continue
            self._head += chunk
            if len(self._head) >= PRELUDE:
                yield from self._begin()

    def flush(self) -> Iterator[bytes]:
        """The rest."""
        if not self._is_known:
            yield from self._begin()
        if self._scanner is not None:
            yield from self._framed(self._scanner.flush())

    def _begin(self) -> Iterator[bytes]:
        head, self._head, self._is_known = bytes(self._head), bytearray(), True
        if head and _is_text(head[:PRELUDE]):
            self._scanner = _scanner(head)
        yield from self._passed(head)

    def _passed(self, chunk: bytes) -> Iterator[bytes]:
        yield from (chunk,) if self._scanner is None else self._framed(self._scanner.feed([chunk]))

    def _framed(self, objects: Iterable[dict[str, Any]]) -> Iterator[bytes]:
        for item in objects:
            yield from self._damage()
            yield encode_frame({}, dumps(item))
        yield from self._damage()

    def _damage(self) -> Iterator[bytes]:
        skipped = self._scanner.skipped if self._scanner is not None else 0
        yield from [_UNREADABLE] * (min(skipped, NOTICES) - self._skipped)
        self._skipped = min(skipped, NOTICES)


def _scanner(head: bytes) -> ObjectScanner:
    """The scanner of a text that begins with *head*.

    If that is JSON, its first object may be a whole answer, whatever key it begins with; so may each of a list.
    """
    begins = _JSON.match(head)
    later = SCANNED_PREFIXES if begins is None or begins[1] != b"[" else ANY_OBJECT
    return ObjectScanner(prefixes=later if begins is None else ANY_OBJECT, later=later)


def _is_text(head: bytes) -> bool:
    return not any(byte < 0x20 and byte not in b"\t\n\r" for byte in head)
