"""Images and documents as the service takes them: by value, in a handful of formats."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.prompt import Document, Image
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.rules.notes import Notes, refusal

__all__ = ["Attachments", "document_text", "require_images"]

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

MAX_IMAGE: Final = 10_000_000
MAX_DOCUMENT: Final = 4_500_000
"""Bytes.  The number for documents is that of the models behind the service, and so is the next."""

MAX_DOCUMENTS: Final = 5

MAX_NAME: Final = 100
"""Characters of a document's title that become part of its name."""

_NOT_IN_TITLE: Final = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")


def require_images(model: ModelCard, images: list[Image], notes: Notes) -> None:
    """Stop where there are images for a model that takes none.

    Raises:
        RequestError: So it is.
    """
    if images and not model.images and "images.model" not in notes.off:
        raise refusal("images.model", f"{model.id} takes no images", images[0].place)


@define
class Attachments:
    """Writes the images and documents of one request.

    Raises:
        RequestError: An address instead of bytes (we never fetch what a client names), or an unknown format.
    """

    _notes: Notes
    _documents: int = field(init=False, default=0)

    def image(self, part: Image) -> dict[str, Any]:
        """One entry of ``images``."""
        if not part.data and "images.address" not in self._notes.off:
            raise refusal("images.address", "images by address are not fetched; send the bytes as base64", part.place)
        self._require_size("images.size", part, part.data, MAX_IMAGE)
        told = IMAGE_FORMATS.get(_essence(part.media_type), "")
        found = next((name for beginning, name in IMAGE_BEGINNINGS if part.data.startswith(beginning)), told)
        if told and found != told and not self._notes.applies("images.mismatch", part.place):
            found = told
        if not found and "images.format" not in self._notes.off:
            known = ", ".join(dict.fromkeys(IMAGE_FORMATS.values()))
            raise refusal("images.format", f"image format {part.media_type[:40]!r}; there are {known}", part.place)
        return {"format": found or _essence(part.media_type), "source": {"bytes": part.data}}

    def document(self, part: Document) -> dict[str, Any]:
        """One entry of ``documents``."""
        data = part.data or b64encode(part.text.encode("utf-8", "replace")).decode()
        if not data and "documents.address" not in self._notes.off:
            what = "documents by address are not fetched; send the bytes as base64"
            raise refusal("documents.address", what, part.place)
        kind = DOCUMENT_FORMATS.get(_essence(part.media_type), "")
        if kind != "pdf":
            self._require_size("documents.size", part, data, MAX_DOCUMENT)
        if not kind and "documents.format" not in self._notes.off:
            known = ", ".join(DOCUMENT_FORMATS.values())
            raise refusal(
                "documents.format", f"document format {part.media_type[:40]!r}; there are {known}", part.place
            )
        return {
            "name": self._name(part),
            "format": kind or _essence(part.media_type),
            "source": {"bytes": data},
        }

    def _require_size(self, rule: str, part: Image | Document, data: str, most: int) -> None:
        size = len(data) * 3 // 4
        if size > most and rule not in self._notes.off:
            raise refusal(rule, f"{size:,} bytes where {most:,} are taken", part.place)

    def _name(self, part: Document) -> str:
        """The title as far as the service takes it, and a number that keeps names apart."""
        self._documents += 1
        if self._documents > MAX_DOCUMENTS and "documents.count" not in self._notes.off:
            raise refusal("documents.count", f"more than {MAX_DOCUMENTS} documents", part.place)
        if not self._notes.applies("documents.renamed", part.place):
            return part.title
        title = " ".join(_NOT_IN_TITLE.sub(" ", part.title).split())[:MAX_NAME]
        return f"{title or 'document'} {self._documents}"


def document_text(part: Document) -> str:
    """A plain-text document as part of the message's text."""
    return f"{part.title}\n\n{part.text}" if part.title else part.text


def _essence(media_type: str) -> str:
    """A media type without its parameters."""
    return media_type.partition(";")[0].strip().lower()
