"""Images and documents as parts.

Source: https://ai.google.dev/gemini-api/docs/image-understanding and https://ai.google.dev/gemini-api/docs/file-input-methods
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Image
from kiro_asgi.upstreams.errors import refusal
from kiro_asgi.upstreams.headers import essence
from kiro_asgi.upstreams.rendering import document_text, image_type, instead_of_address, is_base64, plain_base64

__all__ = ["Attachments", "is_readable"]

IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")

DOCUMENTS: Final = (
    *("application/pdf", "application/json", "application/xml", "application/rtf"),
    *("text/plain", "text/html", "text/css", "text/csv", "text/markdown", "text/md", "text/xml", "text/rtf"),
)

_READABLE: Final = re.compile(
    r"https://generativelanguage\.googleapis\.com/[\w./-]+|https://(?:www\.youtube\.com/watch\?|youtu\.be/)\S+"
)
"""Addresses that the service reads: files that were uploaded to it, and videos."""


def is_readable(url: str) -> bool:
    """Whether the service reads what is at *url*."""
    return bool(_READABLE.fullmatch(url))


@frozen
class Attachments:
    """Writes the attachments of one request.

    Raises:
        RequestError: An address that the service cannot read (what `fetch.allow` names is fetched before), no base64,
            or an unknown format.
    """

    _notes: Notes

    def image(self, part: Image) -> dict[str, Any]:
        """A part with an image."""
        if part.url:
            return self._by_address("images.address", part)
        kind = essence(part.media_type).replace("image/jpg", "image/jpeg")
        found = image_type(part.data) or kind
        if found not in IMAGES:
            raise refusal("images.format", f"image format {found[:40]!r}; there are {', '.join(IMAGES)}", part.place)
        return self._by_value(found, part)

    def document(self, part: Document) -> Iterator[dict[str, Any]]:
        """Parts with a document, its title before it; one of plain text is text."""
        if part.text and not part.data:
            self._notes.applies("documents.inlined", part.place)
            yield {"text": document_text(part)}
            return
        if part.title:
            self._notes.applies("documents.titled", part.place)
            yield {"text": f"{part.title}:"}
        yield self._file(part)

    def _file(self, part: Document) -> dict[str, Any]:
        if part.url:
            return self._by_address("documents.address", part)
        kind = essence(part.media_type)
        if kind not in DOCUMENTS:
            what = f"document format {kind[:40]!r}; there are {', '.join(DOCUMENTS)}"
            raise refusal("documents.format", what, part.place)
        return self._by_value(kind, part)

    def _by_value(self, kind: str, part: Image | Document) -> dict[str, Any]:
        data = part.data
        if not is_base64(data):
            data = plain_base64(data)
            if not data:
                raise refusal("attachments.base64", "data that is no base64", part.place)
            self._notes.applies("attachments.base64", part.place)
        return {"inlineData": {"mimeType": kind, "data": data}}

    def _by_address(self, rule: str, part: Image | Document) -> dict[str, Any]:
        if not is_readable(part.url):
            what = f"an address other than of a file that was uploaded to the service; {instead_of_address(part.url)}"
            raise refusal(rule, what, part.place)
        kind = essence(part.media_type)
        return {"fileData": {**({"mimeType": kind} if kind else {}), "fileUri": part.url}}
