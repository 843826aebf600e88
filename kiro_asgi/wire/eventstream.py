"""The ``application/vnd.amazon.eventstream`` encoding: length-prefixed frames with typed headers and two checksums.

Layout, big-endian (sizes in bytes)::

    total_length 4 | headers_length 4 | prelude_crc 4 | headers | payload | message_crc 4

``prelude_crc`` covers the eight bytes before it, ``message_crc`` all bytes before it; both are those of `zlib.crc32`.
A header is ``name_length 1 | name | type 1 | value``; what a value looks like depends on the type only::

    0 true, 1 false            nothing
    2, 3, 4, 5                 signed integer of 1, 2, 4, 8 bytes
    6 bytes, 7 text            length 2, then that many bytes
    8 timestamp                signed milliseconds since 1970, 8 bytes
    9 uuid                     16 bytes

Integers and timestamps are read as small subclasses of ``int``, so that they compare like numbers and are written again
as what they were.

A frame is checked in the order in which its parts can be trusted: checksum of the prelude, lengths, then, once all is
there, checksum of the message, headers.  So a bad length is refused after twelve bytes, before room is made for it.

Source: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from struct import Struct
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID
from zlib import crc32

from attrs import define, field, frozen, setters, validators

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.limits import EVENT_BYTES, FRAME_HEADERS, FRAME_HEADERS_BYTES, REMEMBERED_BYTES, REMEMBERED_HEADERS

HeaderValue = bool | int | bytes | str | datetime | UUID
"""Types of header values; `_WRITERS` has the wire type of each."""

LENGTHS_SIZE: Final = 8
"""The part of the prelude that its checksum covers."""

PRELUDE_SIZE: Final = 12
CHECKSUM_SIZE: Final = 4

OVERHEAD: Final = 16
"""Prelude and message checksum: the size of a frame without headers and payload."""

MAX_NAME: Final = 255
"""Bytes of a header's name, of which there is at least one: its length is a single byte."""

MAX_VALUE: Final = 32_767
"""Bytes of a text or binary header value (aws-c-event-stream)."""


@frozen
class Frame:
    """One message."""

    headers: Mapping[str, HeaderValue]
    """Names (case kept) to values, in wire order.  Read-only, and shared between frames with the same headers."""

    payload: bytes

    @property
    def message_type(self) -> str:
        """``event``, ``exception`` or ``error``; an event where no header says it."""
        return self._text(":message-type", "event")

    @property
    def event_type(self) -> str:
        """The kind of event; ``unknown`` where no header says it."""
        return self._text(":event-type", "unknown")

    @property
    def content_type(self) -> str:
        """The media type of the payload; JSON's where no header says it."""
        return self._text(":content-type", "application/json")

    def _text(self, name: str, otherwise: str) -> str:
        value = self.headers.get(name)
        return value if type(value) is str and value else otherwise


Writer = Callable[[Any], bytes]
"""From a value to its type byte and encoding."""


class Int8(int):
    """An integer of one byte, type 2."""

    __slots__ = ()


class Int16(int):
    """An integer of two bytes, type 3."""

    __slots__ = ()


class Int32(int):
    """An integer of four bytes, type 4."""

    __slots__ = ()


class Int64(int):
    """An integer of eight bytes, type 5."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970 in UTC, type 8; the range is far wider than that of ``datetime``."""

    __slots__ = ()


def _read_headers(section: bytes) -> Mapping[str, HeaderValue]:
    """Decode a whole headers section.

    Returns:
        Names (case kept) to values, in wire order; read-only.

    Raises:
        UpstreamProtocolError: Code ``frame.headers``: a value that overruns the section, an unknown type, text that is
            not UTF-8, an empty name, a name that occurs twice, too many headers.
    """
    # One loop with a table, and no call of ours for a header: the sections of a stream are what it begins with.
    headers: dict[str, HeaderValue] = {}
    at, end = 0, len(section)
    try:
        while at < end:
            start, at = at + 1, at + 1 + section[at]
            if at >= end:  # a type byte follows the name
                raise _bad("value overruns the section")
            name = section[start:at].decode()
            if not name or name in headers or len(headers) == FRAME_HEADERS:
                raise _bad("empty name" if not name else f"{name!r} twice" if name in headers else "too many")
            kind, start = section[at], at + 1
            if kind not in _READERS:
                raise _bad(f"unknown type {kind}")
            size, read = _READERS[kind]
            if size is None:
                size, start = int.from_bytes(section[start : start + 2], "big"), start + 2
                if size > MAX_VALUE:
                    raise _bad(f"value of {size} bytes")
            at = start + size
            if at > end:
                raise _bad("value overruns the section")
            headers[name] = read(section[start:at])
    except UnicodeDecodeError:
        raise _bad("text that is not UTF-8") from None
    return MappingProxyType(headers)


def _write_headers(headers: Mapping[str, HeaderValue]) -> bytes:
    """Encode a headers section.

    Raises:
        TypeError: A value of a type that the format does not have, or a ``datetime`` without time zone.
        ValueError: A name, value or section that the format has no room for.
    """
    if len(headers) > FRAME_HEADERS:
        raise ValueError(f"{len(headers)} headers, at most {FRAME_HEADERS} are allowed")
    section = b"".join(_write_header(name, value) for name, value in headers.items())
    if len(section) > FRAME_HEADERS_BYTES:
        raise ValueError(f"headers of {len(section)} bytes, at most {FRAME_HEADERS_BYTES} are allowed")
    return section


def _write_header(name: str, value: HeaderValue) -> bytes:
    raw_name = name.encode()
    if not 1 <= len(raw_name) <= MAX_NAME:
        raise ValueError(f"header name of {len(raw_name)} bytes, 1 to {MAX_NAME} are allowed")
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise TypeError(f"no header type for {type(value).__name__}")
    return bytes((len(raw_name),)) + raw_name + writer(value)


def _bad(what: str) -> UpstreamProtocolError:
    return UpstreamProtocolError(f"bad frame header: {what}", code="frame.headers")


def _reader(build: Callable[[int], HeaderValue]) -> Callable[[bytes], HeaderValue]:
    return lambda data: build(int.from_bytes(data, "big", signed=True))


def _writer(kind: int, size: int) -> Writer:
    bound = 1 << 8 * size - 1

    def write(value: int) -> bytes:
        if not -bound <= value < bound:
            raise ValueError(f"{value} does not fit in {size} bytes")
        return bytes((kind,)) + value.to_bytes(size, "big", signed=True)

    return write


def _write_sized(kind: int, data: bytes) -> bytes:
    if len(data) > MAX_VALUE:
        raise ValueError(f"header value of {len(data)} bytes, at most {MAX_VALUE} are allowed")
    return bytes((kind,)) + len(data).to_bytes(2, "big") + data


_write_integer: Final = _writer(4, 4)
_write_long: Final = _writer(5, 8)
_write_timestamp: Final = _writer(8, 8)


def _write_int(value: int) -> bytes:
    return _write_integer(value) if -(1 << 31) <= value < 1 << 31 else _write_long(value)


def _write_datetime(moment: datetime) -> bytes:
    return _write_timestamp((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


_READERS: Final[Mapping[int, tuple[int | None, Callable[[bytes], HeaderValue]]]] = MappingProxyType(
    {
        0: (0, lambda _: True),
        1: (0, lambda _: False),
        2: (1, _reader(Int8)),
        3: (2, _reader(Int16)),
        4: (4, _reader(Int32)),
        5: (8, _reader(Int64)),
        6: (None, bytes),
        7: (None, bytes.decode),
        8: (8, _reader(Timestamp)),
        9: (16, lambda data: UUID(bytes=data)),
    }
)
"""Type byte to the size of a value (``None`` where two bytes before it hold the size) and to its reader."""

_WRITERS: Final[Mapping[type, Writer]] = MappingProxyType(
    {
        # Looked up by the exact class: `isinstance` would take a bool, or an Int8, for an int.
        bool: lambda value: b"\x00" if value else b"\x01",
        Int8: _writer(2, 1),
        Int16: _writer(3, 2),
        Int32: _write_integer,
        Int64: _write_long,
        int: _write_int,
        bytes: lambda value: _write_sized(6, value),
        str: lambda value: _write_sized(7, value.encode()),
        Timestamp: _write_timestamp,
        datetime: _write_datetime,
        UUID: lambda value: b"\x09" + value.bytes,
    }
)
"""Python type to writer.  A plain ``int`` takes four bytes, or eight where it must."""


Prelude = tuple[int, int, int, bool]
"""Total length, length of the headers, checksum computed over both, and whether it is the one that was sent."""

_unpack_prelude: Final[Callable[[bytes], tuple[int, int, int]]] = Struct(">III").unpack
_unpack_word: Final[Callable[[bytes, int], tuple[int]]] = Struct(">I").unpack_from


@define(on_setattr=setters.NO_OP)
class FrameDecoder:
    """Cut a byte stream into `Frame` objects, whatever the read sizes are.

    The buffer is never cut per frame: an offset walks through the bytes of a read, and what is left over is kept once.
    The format has no mark to find the next frame by, so an error is final.

    Args:
        checksums: What a wrong checksum means: ``strict`` is an error, ``warn`` counts it, ``off`` does not check.
        max_frame: Largest frame that is accepted, in bytes.

    Raises:
        UpstreamProtocolError: Codes ``frame.checksum``, ``frame.length``, ``frame.too_large``, ``frame.headers``, and
            from `flush` ``frame.truncated``.
    """

    checksums: str = field(default="strict", kw_only=True, validator=validators.in_(("strict", "warn", "off")))
    max_frame: int = field(default=EVENT_BYTES, kw_only=True)

    mismatches: int = field(init=False, default=0)
    """Frames that ``warn`` let through although a checksum was wrong."""

    _buffer: bytearray = field(init=False, factory=bytearray)
    _needed: int = field(init=False, default=PRELUDE_SIZE)
    """Size from which on the buffer may hold a complete frame."""

    _preludes: dict[bytes, Prelude] = field(init=False, factory=dict)
    _sections: dict[bytes, Mapping[str, HeaderValue]] = field(init=False, factory=dict)

    def feed(self, items: Iterable[bytes], /) -> Iterator[Frame]:
        """Every frame that *items* complete; the chunks of a list are here already, so they are read as one."""
        # One generator, not another one for each chunk, through which every frame would pass as well.
        checked, preludes, sections = self.checksums != "off", self._preludes, self._sections
        for chunk in (b"".join(items),) if type(items) is list else items:
            if self._buffer:
                self._buffer += chunk
                if len(self._buffer) < self._needed:
                    continue
            data = bytes(self._buffer or chunk)
            size, at, needed = len(data), 0, PRELUDE_SIZE
            try:
                while (section_at := at + PRELUDE_SIZE) <= size:
                    prelude = data[at:section_at]
                    total, headers_size, checksum, right = preludes.get(prelude) or self._read_prelude(prelude)
                    end = at + total
                    if end > size:
                        needed = total
                        break
                    payload_at = section_at + headers_size
                    payload_end = end - CHECKSUM_SIZE
                    if checked:
                        (wanted,) = _unpack_word(data, payload_end)
                        if crc32(data[at + LENGTHS_SIZE : payload_end], checksum) != wanted or not right:
                            self._refuse_if_strict()
                            self.mismatches += 1
                    section = data[section_at:payload_at]
                    headers = sections.get(section)
                    if headers is None:
                        headers = self._read_section(section)
                    at = end
                    yield Frame(headers, data[payload_at:payload_end])
            finally:
                # What is left becomes the buffer, also where the caller stops before the next frame.
                self._needed = needed
                if self._buffer or at < size:
                    self._buffer = bytearray(data[at:])

    def flush(self) -> Iterator[Frame]:
        """Yield nothing; a stream that ends inside a frame is an error."""
        if self._buffer:
            raise UpstreamProtocolError(
                f"the upstream's answer ended {len(self._buffer)} bytes into a frame", code="frame.truncated"
            )
        yield from ()

    def _read_prelude(self, prelude: bytes) -> Prelude:
        total, headers_size, expected = _unpack_prelude(prelude)
        checksum = crc32(prelude[:LENGTHS_SIZE])
        right = checksum == expected
        if not right:
            self._refuse_if_strict()
        if total > self.max_frame or headers_size > FRAME_HEADERS_BYTES:
            raise _bad_lengths("frame.too_large", total, headers_size)
        if total < OVERHEAD + headers_size:
            raise _bad_lengths("frame.length", total, headers_size)
        if len(self._preludes) >= REMEMBERED_HEADERS:
            self._preludes.clear()
        read = self._preludes[prelude] = total, headers_size, checksum, right
        return read

    def _read_section(self, section: bytes) -> Mapping[str, HeaderValue]:
        headers = _read_headers(section)
        if len(section) <= REMEMBERED_BYTES:
            if len(self._sections) >= REMEMBERED_HEADERS:
                self._sections.clear()
            self._sections[section] = headers
        return headers

    def _refuse_if_strict(self) -> None:
        if self.checksums == "strict":
            raise UpstreamProtocolError("a frame does not match its checksum", code="frame.checksum")


def _bad_lengths(code: str, total: int, headers_size: int) -> UpstreamProtocolError:
    return UpstreamProtocolError(
        f"the upstream sent a frame of {total} bytes with {headers_size} bytes of headers", code=code
    )


def decode_frame(buffer: bytes, offset: int = 0) -> tuple[Frame, int] | None:
    """The frame that starts at an offset, and the offset after it; ``None`` while the frame is incomplete.

    Raises:
        UpstreamProtocolError: As `FrameDecoder` with strict checksums.
    """
    if len(buffer) - offset < PRELUDE_SIZE:
        return None
    (total,) = _unpack_word(buffer, offset)
    end = offset + max(total, PRELUDE_SIZE)
    for frame in FrameDecoder().feed([buffer[offset:end]]):
        return frame, end
    return None


def decode_buffer(buffer: bytes) -> tuple[list[Frame], bytes]:
    """Every complete frame at the start of *buffer*, and the bytes that remain.

    Raises:
        UpstreamProtocolError: As `FrameDecoder` with strict checksums.
    """
    decoder = FrameDecoder()
    return list(decoder.feed([buffer])), bytes(decoder._buffer)


_LENGTHS: Final = Struct(">II")
_CHECKSUM: Final = Struct(">I")


def encode_frame(headers: Mapping[str, HeaderValue], payload: bytes = b"") -> bytes:
    """One frame as it goes over the wire.

    Raises:
        TypeError: A header value of a type that the format does not have.
        ValueError: A header that the format has no room for.
    """
    section = _write_headers(headers)
    lengths = _LENGTHS.pack(OVERHEAD + len(section) + len(payload), len(section))
    message = b"".join((lengths, _CHECKSUM.pack(crc32(lengths)), section, payload))
    return message + _CHECKSUM.pack(crc32(message))
