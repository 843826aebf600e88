"""Server-sent events: bytes to events, and events to bytes.

The decoder follows the interpretation rules of the standard to the letter.  It splits lines as bytes, which is safe
because no byte of a longer UTF-8 sequence is a line end, and decodes each field once it is whole, so characters survive
any cut.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.limits import EVENT_BYTES

MAX_RETRY_DIGITS: Final = 15
"""A longer ``retry`` is longer than any process lives."""

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


@frozen
class ServerSentEvent:
    """One dispatched event."""

    event: str = "message"
    data: str = ""

    id: str = ""
    """Last event id of the stream when the event was dispatched; it outlives the event that set it."""

    retry: int | None = None
    """Reconnection time in milliseconds, where this very event named one."""

    damaged: bool = False
    """Whether *data* was not UTF-8: U+FFFD stands where it was not, as the standard demands."""


@define
class SseDecoder:
    """Cut a byte stream into `ServerSentEvent` objects.

    An event is dispatched by the empty line after it; one that is still open at the end of the stream is discarded, as
    the standard demands.

    Args:
        max_event: Largest event that is accepted: its data lines without their ends, in bytes.
        also_data: Names of fields outside the standard that are read as ``data``.
        bare: How a line outside the standard begins that is an event by itself; empty for none.

    Raises:
        UpstreamProtocolError: Code ``sse.too_large``.
    """

    max_event: int = field(default=EVENT_BYTES, kw_only=True)
    also_data: frozenset[bytes] = field(default=frozenset(), kw_only=True)
    bare: bytes = field(default=b"", kw_only=True)

    retry: int | None = field(init=False, default=None)
    """Reconnection time of the stream in milliseconds, if one was named."""

    last_event_id: str = field(init=False, default="")

    _line: bytearray = field(init=False, factory=bytearray)
    """The line that has not ended."""

    _at_start: bool = field(init=False, default=True)
    _after_cr: bool = field(init=False, default=False)
    """Whether a line feed that comes next belongs to a line end already seen."""

    _size: int = field(init=False, default=0)
    """Bytes of the event's data lines so far; nothing else piles up."""

    _event: bytes = field(init=False, default=b"")
    _data: list[bytes] = field(init=False, factory=list)
    _id: str = field(init=False, default="")
    _retry: int | None = field(init=False, default=None)

    def feed(self, items: Iterable[bytes], /) -> Iterator[ServerSentEvent]:
        """Every event that *items* complete."""
        for chunk in items:
            for line in self._lines(chunk):
                if line:
                    self._check_size(line)
                    if self.bare and line.startswith(self.bare):
                        yield from self._alone(line)
                    else:
                        self._take(line)
                elif (event := self._dispatch()) is not None:
                    yield event
            self._check_size(self._line)

    def flush(self) -> Iterator[ServerSentEvent]:
        """Yield nothing: an event without its empty line does not count."""
        yield from ()

    def _lines(self, chunk: bytes) -> list[bytes]:
        """The lines that *chunk* ends; the beginning of another is kept."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._line += chunk
            return []
        self._after_cr = chunk.endswith(b"\r")
        lines = (bytes(self._line) + chunk).splitlines()
        self._line = bytearray(b"" if chunk.endswith((b"\r", b"\n")) else lines.pop())
        if self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(BOM_UTF8)
        return lines

    def _check_size(self, line: bytes | bytearray) -> None:
        if self._size + len(line) > self.max_event:
            raise UpstreamProtocolError(
                f"an event of the upstream has more than {self.max_event} bytes", code="sse.too_large"
            )

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(line)
        elif name == b"event":
            self._event = value
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
            self.retry = self._retry = int(value)
        elif name in self.also_data:
            self._data.append(value)
            self._size += len(line)

    def _alone(self, line: bytes) -> Iterator[ServerSentEvent]:
        """The event that a line is, behind the one that it breaks off."""
        events = [self._dispatch()]
        self._data.append(line)
        events.append(self._dispatch())
        yield from filter(None, events)

    def _dispatch(self) -> ServerSentEvent | None:
        self.last_event_id = self._id
        name, lines, retry = self._event, self._data, self._retry
        self._size, self._event, self._data, self._retry = 0, b"", [], None
        if not lines:
            return None
        data, damaged = _decoded(b"\n".join(lines))
        return ServerSentEvent(name.decode("utf-8", "replace") or "message", data, self._id, retry, damaged)


def _decoded(data: bytes) -> tuple[str, bool]:
    """*data* as text, and whether some of it had to be replaced."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def encode_sse(event: str, data: bytes | str) -> bytes:
    """One event.  Line ends in *data* become line feeds; an empty *event* leaves the name out.

    Raises:
        ValueError: A name with a line end, which would let it write fields of its own.
    """
    if "\n" in event or "\r" in event:
        raise ValueError("the name of an event must not contain a line end")
    head = b"event: " + event.encode("utf-8", "replace") + b"\n" if event else b""
    return head + _field(b"data: ", data) + b"\n"


def encode_comment(text: str = "") -> bytes:
    """A comment, which readers skip: it keeps the connection alive."""
    return _field(b": ", text) + b"\n"


def _field(name: bytes, value: bytes | str) -> bytes:
    raw = value.encode("utf-8", "replace") if isinstance(value, str) else value
    if b"\n" in raw or b"\r" in raw:
        raw = (b"\n" + name).join(_LINE_END.split(raw))
    return name + raw + b"\n"
