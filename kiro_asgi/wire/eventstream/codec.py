"""Decode bytes to frames, whatever the read sizes are; encode frames to bytes.

A frame is checked in the order in which its parts can be trusted: checksum of the prelude, lengths, then, once all is
there, checksum of the message, headers.  So a bad length is refused after twelve bytes, before room is made for it.

The buffer is never cut per frame: an offset walks through the bytes of a read, and what is left over is kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import Struct
from typing import Final, TypeVar
from zlib import crc32

from attrs import define, field, setters, validators

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.limits import EVENT_BYTES, FRAME_HEADERS_BYTES, REMEMBERED_BYTES, REMEMBERED_HEADERS
from kiro_asgi.wire.eventstream.frame import (
    CHECKSUM_SIZE,
    LENGTHS_SIZE,
    OVERHEAD,
    PRELUDE_SIZE,
    Frame,
    HeaderValue,
    read_headers,
    write_headers,
)

Prelude = tuple[int, int, int, bool]
"""Total length, length of the headers, checksum computed over both, and whether it is the one that was sent."""

T = TypeVar("T")

_unpack_prelude: Final[Callable[[bytes], tuple[int, int, int]]] = Struct(">III").unpack
_unpack_word: Final[Callable[[bytes, int], tuple[int]]] = Struct(">I").unpack_from


@define(on_setattr=setters.NO_OP)
class FrameDecoder:
    """Cut a byte stream into `Frame` objects.

    The format has no mark to find the next frame by, so an error is final.

    Args:
        checksums: What a wrong checksum means: ``strict`` is an error, ``warn`` counts it, ``off`` does not look.
        max_frame: Largest frame that is accepted, in bytes.

    Raises:
        UpstreamProtocolError: Codes ``frame.checksum``, ``frame.length``, ``frame.too_large``, ``frame.headers``, and
            from `flush` ``frame.truncated``.
    """

    checksums: str = field(default="strict", kw_only=True, validator=validators.in_(("strict", "warn", "off")))
    max_frame: int = field(default=EVENT_BYTES, kw_only=True)

    mismatches: int = field(init=False, default=0)
    """Frames that ``warn`` let through although a checksum was wrong."""

    _checked: bool = field(init=False)
    _buffer: bytearray = field(init=False, factory=bytearray)
    _needed: int = field(init=False, default=PRELUDE_SIZE)
    """Size of the buffer from which on another look at it is worth while."""

    _preludes: dict[bytes, Prelude] = field(init=False, factory=dict)
    _sections: dict[bytes, Mapping[str, HeaderValue]] = field(init=False, factory=dict)

    @_checked.default
    def _look_at_checksums(self) -> bool:
        return self.checksums != "off"

    def feed(self, items: Iterable[bytes], /) -> Iterator[Frame]:
        """Every frame that *items* complete; the chunks of a list are here already, so they are read as one."""
        # One generator and not one for each chunk: every frame would be handed on by both.
        checked, preludes, sections = self._checked, self._preludes, self._sections
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
                # What is left becomes the buffer, also where nobody wants the next frame.
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
        return _remember(self._preludes, prelude, (total, headers_size, checksum, right))

    def _read_section(self, section: bytes) -> Mapping[str, HeaderValue]:
        headers = read_headers(section)
        return _remember(self._sections, section, headers) if len(section) <= REMEMBERED_BYTES else headers

    def _refuse_if_strict(self) -> None:
        if self.checksums == "strict":
            raise UpstreamProtocolError("a frame does not match its checksum", code="frame.checksum")


def _remember(memory: dict[bytes, T], key: bytes, value: T) -> T:
    if len(memory) >= REMEMBERED_HEADERS:
        memory.clear()
    memory[key] = value
    return value


def _bad_lengths(code: str, total: int, headers_size: int) -> UpstreamProtocolError:
    return UpstreamProtocolError(
        f"the upstream sent a frame of {total} bytes with {headers_size} bytes of headers", code=code
    )


def decode_frame(buffer: bytes, offset: int = 0) -> tuple[Frame, int] | None:
    """The frame that starts at an offset, and the offset behind it; ``None`` while the frame is incomplete.

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
    section = write_headers(headers)
    lengths = _LENGTHS.pack(OVERHEAD + len(section) + len(payload), len(section))
    message = b"".join((lengths, _CHECKSUM.pack(crc32(lengths)), section, payload))
    return message + _CHECKSUM.pack(crc32(message))
