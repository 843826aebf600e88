"""Images and documents as parts of a message.

Source: https://platform.openai.com/docs/guides/pdf-files?api-mode=chat
"""

from __future__ import annotations

from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Image
from kiro_asgi.upstreams.errors import refusal
from kiro_asgi.upstreams.headers import essence
from kiro_asgi.upstreams.rendering import document_text, image_type, instead_of_address, plain_base64

__all__ = ["Attachments"]


FORMATS: Final = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Of images, as OpenAI knows them."""


def _is_known(part: Image) -> bool:
    """Whether OpenAI can read an image: its bytes count, or what it is said to be."""
    kind = essence(part.media_type or FORMATS[0]).replace("image/jpg", "image/jpeg")
    return kind in FORMATS or bool(image_type(part.data))


@frozen
class Attachments:
    """Writes the attachments of one request."""

    notes: Notes
    images: bool
    """Whether the model takes any."""

    custom: bool = False
    """Whether the server is another than OpenAI's, and may know any format."""

    def image(self, part: Image) -> dict[str, Any]:
        """An image, by value or by address: the service fetches it.

        Raises:
            RequestError: The model takes none, or it is no base64, or in a format that OpenAI does not know.
        """
        if not self.images:
            raise refusal("images.model", "images, by this model", part.place)
        if not (part.url or self.custom or _is_known(part)):
            what = f"image format {part.media_type[:40]!r}; there are {', '.join(FORMATS)}"
            raise refusal("images.format", what, part.place)
        url = part.url or self._data_url(image_type(part.data) or part.media_type or FORMATS[0], part)
        return {"type": "image_url", "image_url": {"url": url}}

    def document(self, part: Document) -> dict[str, Any]:
        """A document: one of plain text as text, any other as a file.

        Raises:
            RequestError: It is only known by its address, or it is no base64.
        """
        if part.url:
            what = f"a document by address; {instead_of_address(part.url)}"
            raise refusal("documents.address", what, part.place)
        if not part.data:
            self.notes.applies("documents.inlined", part.place)
            return {"type": "text", "text": document_text(part)}
        data = self._data_url(part.media_type, part)
        return {"type": "file", "file": {"filename": part.title or "document", "file_data": data}}

    def _data_url(self, media_type: str, part: Image | Document) -> str:
        plain = plain_base64(part.data)
        if not plain:
            raise refusal("attachments.base64", "data that is no base64", part.place)
        if plain != part.data:
            self.notes.applies("attachments.base64", part.place)
        return f"data:{media_type};base64,{plain}"
