"""Images and documents as clients send them: base64, and texts."""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Final

from kiro_asgi.model.prompt import Document

__all__ = ["IMAGE_BEGINNINGS", "document_text", "is_base64", "plain_base64"]

IMAGE_BEGINNINGS: Final = (("iVBORw0KGgo", "png"), ("/9j/", "jpeg"), ("R0lGOD", "gif"), ("UklGR", "webp"))
"""How the base64 of each format begins."""

_DIGITS: Final = (ascii_letters + digits + "+/").encode()
_URL_SAFE: Final = str.maketrans("-_", "+/")


def is_base64(data: str) -> bool:
    """Whether *data* is base64 of something: the standard alphabet, padded, and nothing between."""
    padding = data.encode("ascii", "replace").translate(None, _DIGITS)
    return bool(data) and not len(data) % 4 and padding in (b"", b"=", b"==") and data.endswith(padding.decode())


def plain_base64(data: str) -> str:
    """*data* in the one form that every decoder reads; empty where it is no base64."""
    plain = "".join(data.split()).translate(_URL_SAFE).rstrip("=")
    plain += "=" * (-len(plain) % 4)
    return plain if is_base64(plain) else ""


def document_text(part: Document) -> str:
    """A plain-text document as part of a message's text."""
    return f"{part.title}\n\n{part.text}" if part.title else part.text
