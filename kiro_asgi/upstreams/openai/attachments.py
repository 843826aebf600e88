"""Images and documents as parts of a message.

Source: https://platform.openai.com/docs/guides/pdf-files?api-mode=chat
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from kiro_asgi.model.prompt import Document, Image
from kiro_asgi.upstreams.attached import document_text, plain_base64
from kiro_asgi.upstreams.notes import Notes, refusal

__all__ = ["Attachments"]


@frozen
class Attachments:
    """Writes the attachments of one request."""

    notes: Notes
    images: bool
    """Whether the model takes any."""

    def image(self, part: Image) -> dict[str, Any]:
        """An image, by value or by address: the service fetches it.

        Raises:
            RequestError: The model takes none, or it is no base64.
        """
        if not self.images:
            raise refusal("images.model", "images, by this model", part.place)
        url = part.url or _data_url(part.media_type or "image/png", part.data, part.place)
        return {"type": "image_url", "image_url": {"url": url}}

    def document(self, part: Document) -> dict[str, Any]:
        """A document: one of plain text as text, any other as a file.

        Raises:
            RequestError: It is only known by its address, or it is no base64.
        """
        if part.url:
            raise refusal("documents.address", "a document by address", part.place)
        if not part.data:
            self.notes.applies("documents.inlined", part.place)
            return {"type": "text", "text": document_text(part)}
        data = _data_url(part.media_type, part.data, part.place)
        return {"type": "file", "file": {"filename": part.title or "document", "file_data": data}}


def _data_url(media_type: str, data: str, place: str) -> str:
    plain = plain_base64(data)
    if not plain:
        raise refusal("attachments.base64", "data that is no base64", place)
    return f"data:{media_type};base64,{plain}"
