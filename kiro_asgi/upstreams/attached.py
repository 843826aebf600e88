"""Images and documents as clients send them: base64, and texts."""

from __future__ import annotations

from binascii import a2b_base64
from string import ascii_letters, digits
from typing import Final
from urllib.parse import urlsplit

from kiro_asgi.model.media import BEGINNING, media_type_of
from kiro_asgi.model.prompt import Document

__all__ = ["document_text", "image_type", "instead_of_address", "is_base64", "plain_base64"]

_SHOWN: Final = 100
"""Characters of a host's name that are told back."""

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


def image_type(data: str) -> str:
    """The media type of an image that the beginning of its base64 proves; empty where it proves none."""
    head = plain_base64(data[: BEGINNING * 4 // 3])
    found = media_type_of(a2b_base64(head)) if head else ""
    return found if found.startswith("image/") else ""


def instead_of_address(url: str) -> str:
    """What may be done where the service does not read what is at *url*."""
    try:
        host = (urlsplit(url).hostname or "")[:_SHOWN]
    except ValueError:
        host = ""
    return f"send the bytes as base64, or let fetch.allow name {host or 'its host'}"


def document_text(part: Document) -> str:
    """A plain-text document as part of a message's text."""
    return f"{part.title}\n\n{part.text}" if part.title else part.text
