"""Images and documents as the service takes them: by value, in a handful of formats."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Image
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.errors import refusal
from kiro_asgi.upstreams.headers import essence
from kiro_asgi.upstreams.rendering import image_type, instead_of_address, is_base64, plain_base64

__all__ = ["Attachments", "require_images"]

IMAGE_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
)

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
"""Bytes; the number that the service's own open-source client stops at."""

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
        RequestError: An address instead of bytes (what `fetch.allow` names is fetched before), no base64, an unknown
            format, or an image that is too large.
    """

    _notes: Notes
    _documents: int = field(init=False, default=0)

    def image(self, part: Image) -> dict[str, Any]:
        """One entry of ``images``.  The service refuses one whose bytes are not what its format says."""
        if part.url and "images.address" not in self._notes.off:
            what = f"images by address are not fetched; {instead_of_address(part.url)}"
            raise refusal("images.address", what, part.place)
        data = self._base64(part, part.data)
        self._require_size(part, data)
        told = IMAGE_FORMATS.get(essence(part.media_type), "")
        found = IMAGE_FORMATS.get(image_type(data), told)
        if told and found != told and not self._notes.applies("images.mismatch", part.place):
            found = told
        if not found and "images.format" not in self._notes.off:
            known = ", ".join(dict.fromkeys(IMAGE_FORMATS.values()))
            raise refusal("images.format", f"image format {part.media_type[:40]!r}; there are {known}", part.place)
        return {"format": found or essence(part.media_type), "source": {"bytes": data}}

    def document(self, part: Document) -> dict[str, Any]:
        """One entry of ``documents``."""
        if part.url and "documents.address" not in self._notes.off:
            what = f"documents by address are not fetched; {instead_of_address(part.url)}"
            raise refusal("documents.address", what, part.place)
        data = part.data or b64encode(part.text.encode("utf-8", "replace")).decode()
        kind = DOCUMENT_FORMATS.get(essence(part.media_type), "")
        if not kind and "documents.format" not in self._notes.off:
            known = ", ".join(DOCUMENT_FORMATS.values())
            raise refusal(
                "documents.format", f"document format {part.media_type[:40]!r}; there are {known}", part.place
            )
        return {
            "name": self._name(part),
            "format": kind or essence(part.media_type),
            "source": {"bytes": self._base64(part, data)},
        }

    def _base64(self, part: Image | Document, data: str) -> str:
        """*data* in the one form that every decoder reads."""
        rule = "attachments.base64"
        if part.url or is_base64(data) or rule in self._notes.off:
            return data
        plain = plain_base64(data)
        if not plain:
            raise refusal(rule, "data that is no base64", part.place)
        self._notes.applies(rule, part.place)
        return plain

    def _require_size(self, part: Image, data: str) -> None:
        size = len(data) * 3 // 4
        if size > MAX_IMAGE and "images.size" not in self._notes.off:
            raise refusal("images.size", f"{size:,} bytes where {MAX_IMAGE:,} are taken", part.place)

    def _name(self, part: Document) -> str:
        """The title as far as the service takes it, and a number that keeps names apart."""
        self._documents += 1
        if not self._notes.applies("documents.renamed", part.place):
            return part.title
        title = " ".join(_NOT_IN_TITLE.sub(" ", part.title).split())[:MAX_NAME]
        return f"{title or 'document'} {self._documents}"
