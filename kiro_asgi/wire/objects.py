"""JSON objects embedded in text or in binary noise.

The fallback for a stream whose framing is unknown or broken: an object is recognised by how it begins, and ends where
its braces balance.  Everything works on bytes; an object becomes text only when it is whole, so characters survive any
cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.limits import EVENT_BYTES
from kiro_asgi.wire import json

PREFIXES: Final = (
    b'{"content":',
    b'{"name":',
    b'{"input":',
    b'{"stop":',
    b'{"followupPrompt":',
    b'{"usage":',
    b'{"contextUsagePercentage":',
)
"""How the objects that we look for begin."""

_QUOTE, _BACKSLASH, _OPEN = b'"\\{'

_PLAIN: Final = re.compile(rb'[^"{}]*+')
"""Bytes that are skipped outside of strings."""

_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
"""The inside of a string, up to its end or to an escape that is cut; it can be resumed where it stopped."""


@define
class ObjectScanner:
    """Find JSON objects in a byte stream, in the order in which they begin.

    What looks like an object and does not parse is skipped.  Bytes that belong to no object are dropped at once.

    Args:
        prefixes: The beginnings to look for; each starts with the object's brace.
        later: The same behind the first object; without any, those before it.
        max_object: Largest object that is accepted, in bytes.
        damaged: What becomes of bytes that are not UTF-8, as of `bytes.decode`: ``replace`` by U+FFFD, or ``strict``,
            with which the object does not parse.

    Raises:
        UpstreamProtocolError: Codes ``object.too_large``, and from `flush` ``object.truncated``.
    """

    prefixes: tuple[bytes, ...] = field(default=PREFIXES, kw_only=True)
    later: tuple[bytes, ...] = field(default=(), kw_only=True)
    max_object: int = field(default=EVENT_BYTES, kw_only=True)
    damaged: str = field(default="replace", kw_only=True)
    loads: Callable[[str], Any] = field(default=json.loads, kw_only=True)
    """Decodes one object."""

    skipped: int = field(init=False, default=0)
    """Objects that did not parse."""

    _prefix: re.Pattern[bytes] = field(init=False)
    _longest: int = field(init=False)
    _buffer: bytearray = field(init=False, factory=bytearray)
    _start: int = field(init=False, default=0)
    """Where the open object begins, or what is still to be searched."""

    _at: int = field(init=False, default=0)
    """How far the open object has been read."""

    _depth: int = field(init=False, default=0)
    """Open braces; 0 while there is no open object."""

    _in_string: bool = field(init=False, default=False)

    @_prefix.default
    def _compile(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(map(re.escape, self.prefixes)))

    @_longest.default
    def _measure(self) -> int:
        return max(map(len, self.prefixes))

    def feed(self, items: Iterable[bytes], /) -> Iterator[dict[str, Any]]:
        """Every object that *items* complete."""
        for chunk in items:
            del self._buffer[: self._start]
            self._at -= self._start
            self._start = 0
            self._buffer += chunk
            while (self._depth or self._find()) and self._balance():
                value = self._parse()
                if value is not None:
                    yield value

    def flush(self) -> Iterator[dict[str, Any]]:
        """Yield nothing; a stream that ends inside an object is an error."""
        if self._depth:
            size = len(self._buffer) - self._start
            raise UpstreamProtocolError(
                f"the upstream's answer ended {size} bytes into an object", code="object.truncated"
            )
        yield from ()

    def _find(self) -> bool:
        """Go to the next beginning of an object; without one, keep only what may become one."""
        match = self._prefix.search(self._buffer, self._start)
        if match is None:
            self._start = max(self._start, len(self._buffer) - self._longest + 1)
            return False
        self._start, self._at, self._depth = match.start(), match.start() + 1, 1
        return True

    def _balance(self) -> bool:
        """Read on to the brace that ends the open object; ``False`` when it has not arrived."""
        buffer, at, size = self._buffer, self._at, len(self._buffer)
        depth, in_string = self._depth, self._in_string
        while depth and at < size:
            at = (_STRING if in_string else _PLAIN).match(buffer, at).end()  # type: ignore[union-attr]  # matches ""
            if at == size or buffer[at] == _BACKSLASH:
                break
            if buffer[at] == _QUOTE:
                in_string = not in_string
            else:
                depth += 1 if buffer[at] == _OPEN else -1
            at += 1
        self._at, self._depth, self._in_string = at, depth, in_string
        if (at if not depth else size) - self._start > self.max_object:
            raise UpstreamProtocolError(
                f"an object of the upstream has more than {self.max_object} bytes", code="object.too_large"
            )
        return not depth

    def _parse(self) -> dict[str, Any] | None:
        """Take the balanced object out."""
        data = self._buffer[self._start : self._at]
        self._start = self._at
        if self.later:
            self.prefixes, self.later = self.later, ()
            self._prefix, self._longest = self._compile(), self._measure()
        try:
            value: dict[str, Any] = self.loads(data.decode("utf-8", self.damaged))
        except (json.JsonError, UnicodeDecodeError):
            self.skipped += 1
            return None
        return value
