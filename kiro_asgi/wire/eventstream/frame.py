"""One message of the ``application/vnd.amazon.eventstream`` encoding: its bounds, and its headers.

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

Source: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from struct import Struct
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.limits import FRAME_HEADERS, FRAME_HEADERS_BYTES

HeaderValue = bool | int | bytes | str | datetime | UUID
"""Types of header values; the tables below have the wire type of each."""

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


Reader = Callable[[bytes, int], tuple[HeaderValue, int]]
"""From a section and the offset of a value to the value and the offset behind it."""

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


def read_headers(section: bytes) -> Mapping[str, HeaderValue]:
    """Decode a whole headers section.

    Returns:
        Names (case kept) to values, in wire order; read-only.

    Raises:
        UpstreamProtocolError: Code ``frame.headers``: a value that overruns the section, an unknown type, text that is
            not UTF-8, an empty name, a name that occurs twice, too many headers.
    """
    headers: dict[str, HeaderValue] = {}
    at, size = 0, len(section)
    while at < size:
        start, at = at + 1, at + 1 + section[at]
        if at >= size:  # behind the name there is a type
            raise _bad("value overruns the section")
        name = _text(section[start:at])
        if not name or name in headers or len(headers) == FRAME_HEADERS:
            raise _bad("empty name" if not name else f"{name!r} twice" if name in headers else "too many")
        reader = READERS.get(section[at])
        if reader is None:
            raise _bad(f"unknown type {section[at]}")
        headers[name], at = reader(section, at + 1)
    return MappingProxyType(headers)


def write_headers(headers: Mapping[str, HeaderValue]) -> bytes:
    """Encode a headers section.

    Raises:
        TypeError: A value of a type that is not in `WRITERS`, or a ``datetime`` without time zone.
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
    writer = WRITERS.get(type(value))
    if writer is None:
        raise TypeError(f"no header type for {type(value).__name__}")
    return bytes((len(raw_name),)) + raw_name + writer(value)


def _bad(what: str) -> UpstreamProtocolError:
    return UpstreamProtocolError(f"bad frame header: {what}", code="frame.headers")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _bad("text that is not UTF-8") from None


def _read_constant(value: bool) -> Reader:
    return lambda section, at: (value, at)


def _read_packed(layout: Struct, build: Callable[[Any], HeaderValue]) -> Reader:
    def read(section: bytes, at: int) -> tuple[HeaderValue, int]:
        if (end := at + layout.size) > len(section):
            raise _bad("value overruns the section")
        return build(layout.unpack_from(section, at)[0]), end

    return read


def _read_sized(build: Callable[[bytes], HeaderValue]) -> Reader:
    def read(section: bytes, at: int) -> tuple[HeaderValue, int]:
        start = at + 2
        length = int.from_bytes(section[at:start], "big")
        if length > MAX_VALUE:
            raise _bad(f"value of {length} bytes")
        if (end := start + length) > len(section):
            raise _bad("value overruns the section")
        return build(section[start:end]), end

    return read


def _write_packed(kind: int, layout: Struct) -> Writer:
    bound = 1 << 8 * layout.size - 1

    def write(value: int) -> bytes:
        if not -bound <= value < bound:
            raise ValueError(f"{value} does not fit in {layout.size} bytes")
        return bytes((kind,)) + layout.pack(value)

    return write


def _write_sized(kind: int, data: bytes) -> bytes:
    if len(data) > MAX_VALUE:
        raise ValueError(f"header value of {len(data)} bytes, at most {MAX_VALUE} are allowed")
    return bytes((kind,)) + len(data).to_bytes(2, "big") + data


_BYTE: Final = Struct(">b")
_SHORT: Final = Struct(">h")
_INTEGER: Final = Struct(">i")
_LONG: Final = Struct(">q")

_write_integer: Final = _write_packed(4, _INTEGER)
_write_long: Final = _write_packed(5, _LONG)
_write_timestamp: Final = _write_packed(8, _LONG)


def _write_int(value: int) -> bytes:
    return _write_integer(value) if -(1 << 31) <= value < 1 << 31 else _write_long(value)


def _write_datetime(moment: datetime) -> bytes:
    return _write_timestamp((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


READERS: Final[Mapping[int, Reader]] = MappingProxyType(
    {
        0: _read_constant(True),
        1: _read_constant(False),
        2: _read_packed(_BYTE, Int8),
        3: _read_packed(_SHORT, Int16),
        4: _read_packed(_INTEGER, Int32),
        5: _read_packed(_LONG, Int64),
        6: _read_sized(bytes),
        7: _read_sized(_text),
        8: _read_packed(_LONG, Timestamp),
        9: _read_packed(Struct("16s"), lambda data: UUID(bytes=data)),
    }
)
"""Type byte to the reader of the value behind it."""

WRITERS: Final[Mapping[type, Writer]] = MappingProxyType(
    {
        # Looked up by the exact class: `isinstance` would take a bool, or an Int8, for an int.
        bool: lambda value: b"\x00" if value else b"\x01",
        Int8: _write_packed(2, _BYTE),
        Int16: _write_packed(3, _SHORT),
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
