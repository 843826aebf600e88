"""The ``application/vnd.amazon.eventstream`` encoding: length-prefixed frames with typed headers and two checksums.

Source: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

from kiro_asgi.wire.eventstream.codec import FrameDecoder, decode_buffer, decode_frame, encode_frame
from kiro_asgi.wire.eventstream.frame import Frame, HeaderValue, Int8, Int16, Int32, Int64, Timestamp

__all__ = [
    "Frame",
    "FrameDecoder",
    "HeaderValue",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Timestamp",
    "decode_buffer",
    "decode_frame",
    "encode_frame",
]
