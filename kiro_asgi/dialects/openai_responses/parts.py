"""Content of messages and of what tools gave: what the client sent to what the prompt holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.errors import invalid, missing, unsupported
from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.dialects.openai_parts import (
    AudioPart,
    ImageUrl,
    RefusalPart,
    TextPart,
    read_refusal,
    read_text,
    refuse_audio,
    refuse_unknown,
)
from kiro_asgi.dialects.openai_responses.shapes import (
    Content,
    InputFile,
    InputImage,
)
from kiro_asgi.dialects.structure import Raw
from kiro_asgi.model.prompt import Document, Image, Text

__all__ = ["read_content", "read_texts"]

ContentPart = Text | Image | Document


def read_content(content: Content, place: str) -> tuple[ContentPart, ...]:
    """Texts, images and files in order.

    Raises:
        RequestError: A part that is unknown, unsupported or malformed; ``param`` names it.
    """
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_READERS[type(part)](part, f"{place}[{index}]") for index, part in enumerate(content))


def read_texts(content: Content, place: str) -> Iterator[str]:
    """The texts of content that may hold nothing else; empty ones are left out.

    Raises:
        RequestError: Like `read_content`, and at any part that is no text.
    """
    for index, part in enumerate(read_content(content, place)):
        if not isinstance(part, Text):
            raise invalid(f"{place}[{index}].type", "only text has a place in a message of this role")
        if part.text:
            yield part.text


def _image(part: InputImage, place: str) -> ContentPart:
    match part.image_url:
        case str(url):
            return read_image(url, f"{place}.image_url")
        case ImageUrl(url):
            return read_image(url, f"{place}.image_url.url")
    if part.file_id is not None:
        raise unsupported(f"{place}.file_id", "there is no file store here; send image_url, an address or a data: URL")
    raise missing(f"{place}.image_url", "required field missing")


def _file(part: InputFile, place: str) -> ContentPart:
    title = part.filename or ""
    if part.file_data is not None:
        return read_file(part.file_data, title, f"{place}.file_data")
    if part.file_url is not None:
        return read_file(part.file_url, title, f"{place}.file_url")
    if part.file_id is not None:
        raise unsupported(f"{place}.file_id", "there is no file store here; send file_data, a data: URL")
    raise missing(f"{place}.file_data", "required field missing")


_READERS: Final = MappingProxyType[type, Callable[[Any, str], ContentPart]](
    {
        TextPart: read_text,
        RefusalPart: read_refusal,
        InputImage: _image,
        InputFile: _file,
        AudioPart: refuse_audio,
        Raw: refuse_unknown,
    }
)
