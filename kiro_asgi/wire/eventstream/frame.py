"""One message of the ``application/vnd.amazon.eventstream`` encoding, and how large it may be.

Layout, big-endian (sizes in bytes)::

    total_length 4 | headers_length 4 | prelude_crc 4 | headers | payload | message_crc 4

``prelude_crc`` covers the eight bytes before it, ``message_crc`` all bytes before it; both are those of `zlib.crc32`.

Source: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import frozen

__all__ = [
    "CHECKSUM_SIZE",
    "LENGTHS_SIZE",
    "MAX_NAME",
    "MAX_VALUE",
    "OVERHEAD",
    "PRELUDE_SIZE",
    "Frame",
    "HeaderValue",
]

HeaderValue = bool | int | bytes | str | datetime | UUID
"""What a header can hold; `kiro_asgi.wire.eventstream.headers` has the wire type of each."""

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
