"""Images and files that stand in a request as ``data:`` URLs, in whatever spelling, or by their address.

Upper or lower case, parameters, no media type, percent-encoding instead of base64, the alphabet of URLs, white space
and missing padding are all read: clients write every one of them, and what is meant is beyond doubt.

Sources: https://www.rfc-editor.org/rfc/rfc2397, https://fetch.spec.whatwg.org/#data-urls,
https://www.rfc-editor.org/rfc/rfc4648#section-5
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote_to_bytes

from attrs import frozen

from kiro_asgi.dialects.errors import invalid
from kiro_asgi.model.media_types import media_type_of
from kiro_asgi.model.prompt import Document, Image

PDF: Final = "application/pdf"
SVG: Final = "image/svg+xml"
"""The one kind of image that is text, which an upstream may refuse in its own words."""

_UNTYPED: Final = ("", "application/octet-stream")
"""Media types that leave open what a file is."""

_SPELLINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
)

_CHARSETS: Final[Mapping[str, str]] = MappingProxyType(
    {"iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "windows-1252": "cp1252", "utf-16": "utf-16"}
)
"""Character sets other than UTF-8, to their decoders; the first three are read as browsers read them:
https://encoding.spec.whatwg.org/#names-and-labels"""

_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")

_PIECE: Final = 64 * 1024
"""Characters whose escapes are decoded at once: the library takes an object for each escape."""


@frozen
class _Data:
    """The contents of a ``data:`` URL."""

    media_type: str
    """Lower case, without parameters; empty where there is none."""

    charset: str
    content: bytes
    is_base64: bool
    encoded: str
    """The same as base64: standard alphabet, padded, nothing between."""


def read_image(url: str, place: str) -> Image:
    """An image by its address, or by value in a ``data:`` URL.

    A declared type of image is kept, even a wrong one; services that look closer get the type that the bytes prove.

    Raises:
        RequestError: At *place*: neither, or not an image, or not readable.
    """
    if url[:8].lower().startswith(("https://", "http://")):
        return Image(url=url, place=place)
    data = _read(url, place)
    media_type, found = _SPELLINGS.get(data.media_type, data.media_type), media_type_of(data.content)
    if found.startswith("image/"):
        return Image(media_type if media_type.startswith("image/") else found, data.encoded, place=place)
    if not media_type.startswith("image/"):
        raise invalid(place, f"not an image: {media_type[:60] or 'no media type'}")
    if not data.is_base64 and media_type != SVG:
        raise invalid(place, "expected base64 in the data: URL")
    return Image(media_type, data.encoded, place=place)


def read_file(url: str, title: str, place: str) -> Document:
    """A file by its address, or by value in a ``data:`` URL; one of a text type is text.

    Raises:
        RequestError: At *place*: no such URL, or not readable.
    """
    if url[:8].lower().startswith(("https://", "http://")):
        return Document(PDF, url=url, title=title, place=place)
    data = _read(url, place)
    media_type, found = data.media_type, media_type_of(data.content)
    if found == PDF or (found and media_type in _UNTYPED):
        media_type = found
    media_type = media_type or "text/plain"
    if not media_type.startswith("text/"):
        return Document(media_type, data.encoded, title=title, place=place)
    text = data.content.decode(_CHARSETS.get(data.charset, "utf-8"), errors="replace")
    return Document(media_type, text=text, title=title, place=place)


def _read(url: str, place: str) -> _Data:
    scheme, _, rest = url.partition(":")
    head, comma, data = rest.partition(",")
    media_type, *parameters = (part.strip() for part in head.lower().split(";"))
    if scheme.strip().lower() != "data" or not comma:
        raise invalid(place, "expected an address or a data: URL")
    charset = next((part[8:].strip('"') for part in parameters if part.startswith("charset=")), "")
    try:
        if "base64" in parameters:
            encoded = _plain_base64(_unescaped(data))
            content = binascii.a2b_base64(encoded, strict_mode=True)
        else:
            content = _unescaped(data)
            encoded = binascii.b2a_base64(content, newline=False)
    except ValueError:
        raise invalid(place, "invalid base64" if "base64" in parameters else "invalid characters") from None
    if not content:
        raise invalid(place, "empty data")
    return _Data(media_type, charset, content, "base64" in parameters, encoded.decode("ascii"))


def _plain_base64(data: bytes) -> bytes:
    """*data* in the one form that every decoder reads, if it is base64 at all."""
    plain = data.translate(_URL_SAFE, b" \t\r\n\f").rstrip(b"=")
    return plain + b"=" * (-len(plain) % 4)


def _unescaped(data: str) -> bytes:
    """*data* as bytes, with ``%41`` as ``A``; other characters stay.

    Raises:
        ValueError: It holds half a character, as no request that was UTF-8 does.
    """
    plain = data.encode()
    if b"%" not in plain:
        return plain
    found = bytearray()
    at = 0
    while at < len(plain):
        end = at + _PIECE
        if end < len(plain) and (cut := plain.find(b"%", end - 2, end)) >= 0:
            end = cut
        found += unquote_to_bytes(plain[at:end])
        at = end
    return bytes(found)
