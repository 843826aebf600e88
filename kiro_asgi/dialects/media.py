"""Images and files that stand in a request as ``data:`` URLs.

Source: https://www.rfc-editor.org/rfc/rfc2397
"""

from __future__ import annotations

import binascii
from urllib.parse import unquote_to_bytes

from kiro_asgi.dialects.refusals import invalid
from kiro_asgi.model.prompt import Document, Image

__all__ = ["read_file", "read_image"]


def read_image(url: str, place: str) -> Image:
    """An image by its address, or by value in a ``data:`` URL.

    Raises:
        RequestError: At *place*: neither, or not an image, or not base64.
    """
    if url.startswith(("https://", "http://")):
        return Image(url=url, place=place)
    media_type, data = _data_url(url, place)
    if not media_type.startswith("image/"):
        raise invalid(place, f"not an image: {media_type[:60]}")
    return Image("image/jpeg" if media_type == "image/jpg" else media_type, _base64(data, place)[0], place=place)


def read_file(url: str, title: str, place: str) -> Document:
    """A file by value in a ``data:`` URL; one of a text type is text.

    Raises:
        RequestError: At *place*: no such URL, or not base64.
    """
    media_type, data = _data_url(url, place)
    encoded, content = _base64(data, place)
    if media_type.startswith("text/"):
        return Document(media_type, text=content.decode(errors="replace"), title=title, place=place)
    return Document(media_type, encoded, title=title, place=place)


def _data_url(url: str, place: str) -> tuple[str, str]:
    """Media type, lower case and without parameters, and the encoded data."""
    scheme, _, rest = url.partition(":")
    head, comma, data = rest.partition(",")
    media_type, *parameters = head.lower().split(";")
    if scheme.lower() != "data" or not comma:
        raise invalid(place, "expected a data: URL")
    if not parameters or parameters[-1].strip() != "base64":
        raise invalid(place, "expected base64 in the data: URL")
    return media_type.strip() or "text/plain", data


def _base64(data: str, place: str) -> tuple[str, bytes]:
    """Base64 without escapes and white space, and what it stands for."""
    try:
        plain = unquote_to_bytes(data) if "%" in data else data.encode("ascii")
        plain = plain.translate(None, b" \t\r\n")
        content = binascii.a2b_base64(plain, strict_mode=True)
    except ValueError:
        raise invalid(place, "invalid base64") from None
    if not content:
        raise invalid(place, "empty data")
    return plain.decode("ascii"), content
