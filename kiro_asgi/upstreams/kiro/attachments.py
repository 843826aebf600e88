"""Images and documents as the service takes them: by value, in a handful of formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Document, Image

__all__ = ["document", "document_text", "image"]

IMAGE_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
)

IMAGE_BEGINNINGS: Final = (("iVBORw0KGgo", "png"), ("/9j/", "jpeg"), ("R0lGOD", "gif"), ("UklGR", "webp"))
"""How the base64 of each format begins.  The service refuses an image whose bytes are not what its format says."""

DOCUMENT_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "application/pdf": "pdf",
        "application/msword": "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "application/vnd.ms-excel": "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
        "text/csv": "csv",
        "text/html": "html",
        "text/markdown": "md",
        "text/plain": "txt",
    }
)

_NOT_IN_TITLE: Final = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")


def image(part: Image) -> dict[str, Any]:
    """One entry of ``images``.

    Raises:
        RequestError: An address instead of bytes (we never fetch what a client names), or an unknown format.
    """
    if not part.data:
        raise _unsupported("images by address are not fetched; send the bytes as base64")
    told = IMAGE_FORMATS.get(part.media_type.partition(";")[0].strip().lower(), "")
    found = next((name for beginning, name in IMAGE_BEGINNINGS if part.data.startswith(beginning)), told)
    if not found:
        raise _unsupported(
            f"image format {part.media_type[:40]!r}; there are {', '.join(sorted(set(IMAGE_FORMATS.values())))}"
        )
    return {"format": found, "source": {"bytes": part.data}}


def document(part: Document, number: int) -> dict[str, Any]:
    """One entry of ``documents``; *number* keeps names apart, which must not repeat.

    Raises:
        RequestError: As for `image`.
    """
    if not part.data:
        raise _unsupported("documents by address are not fetched; send the bytes as base64")
    kind = DOCUMENT_FORMATS.get(part.media_type.partition(";")[0].strip().lower())
    if kind is None:
        raise _unsupported(
            f"document format {part.media_type[:40]!r}; there are {', '.join(DOCUMENT_FORMATS.values())}"
        )
    title = " ".join(_NOT_IN_TITLE.sub(" ", part.title).split())[:100]
    return {"name": f"{title or 'document'} {number}", "format": kind, "source": {"bytes": part.data}}


def document_text(part: Document) -> str:
    """A plain-text document as part of the message's text."""
    return f"{part.title}\n\n{part.text}" if part.title else part.text


def _unsupported(what: str) -> RequestError:
    return RequestError(f"not supported: {what}", code="unsupported_value", param="messages")
