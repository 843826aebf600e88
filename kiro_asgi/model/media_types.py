"""Media types: of what they consist, and which one a beginning proves."""

from __future__ import annotations

from typing import Final

BEGINNING: Final = 24
"""Bytes that are looked at; a multiple of three, so that their base64 can be cut off as well."""

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"GIF87a", 0, b"", "image/gif"),
    (b"GIF89a", 0, b"", "image/gif"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"%PDF-", 0, b"", "application/pdf"),
)
"""Magic bytes at the start, the offset and value of further ones, and the media type."""


def essence(media_type: str) -> str:
    """A media type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def media_type_of(content: bytes) -> str:
    """The media type of an image or a document, as its beginning proves it; empty where that proves none.

    Only beginnings are known that no other kind of file has: a text that begins like a document is still a text.

    Source: https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern, https://www.rfc-editor.org/rfc/rfc8118
    """
    head = content[:BEGINNING]
    return next(
        (
            kind
            for beginning, at, further, kind in _MAGIC
            if head.startswith(beginning) and head.startswith(further, at)
        ),
        "",
    )
