"""Frames to bytes."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final
from zlib import crc32

from kiro_asgi.wire.eventstream.frame import OVERHEAD, HeaderValue
from kiro_asgi.wire.eventstream.headers import write_headers

__all__ = ["encode_frame"]

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
