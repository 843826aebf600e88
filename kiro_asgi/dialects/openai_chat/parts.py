"""Parts of a message: what the client sent to what the prompt holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.dialects.openai_chat.shapes import (
    AudioPart,
    FilePart,
    ImagePart,
    Part,
    RefusalPart,
    TextPart,
    ThinkingContent,
)
from kiro_asgi.dialects.refusals import invalid, unsupported
from kiro_asgi.dialects.structure import Raw
from kiro_asgi.model.prompt import Document, Image, Text, ThinkingPart

__all__ = ["Content", "Given", "assistant_content", "texts", "user_content"]

Given = str | tuple[Part, ...] | None
"""The content of a message as the client sent it."""

Content = Text | Image | Document | ThinkingPart

Reader = Callable[[Any, str], Content]


def texts(content: Given, place: str) -> tuple[str, ...]:
    """The texts of content that may hold nothing else; empty ones are left out."""
    return tuple(part.text for part in _content(content, place, _TEXT) if isinstance(part, Text) and part.text)


def user_content(content: Given, place: str) -> tuple[Text | Image | Document, ...]:
    """What a user or a tool may say; *place* is where it stands in the request.

    Raises:
        RequestError: A part that is unknown, unsupported or malformed; ``param`` names it.
    """
    return tuple(part for part in _content(content, place, _USER) if not isinstance(part, ThinkingPart))


def assistant_content(content: Given, place: str) -> tuple[Content, ...]:
    """What an answer may have said; empty texts are left out.

    Raises:
        RequestError: Like `user_content`.
    """
    return tuple(part for part in _content(content, place, _ASSISTANT) if part != Text(""))


def _content(content: Given, place: str, readers: MappingProxyType[type, Reader]) -> Iterator[Content]:
    if content is None:
        return
    if isinstance(content, str):
        yield Text(content)
        return
    for index, part in enumerate(content):
        yield readers.get(type(part), _misplaced)(part, f"{place}[{index}]")


def _text(part: TextPart, place: str) -> Content:
    return Text(part.text)


def _refusal(part: RefusalPart, place: str) -> Content:
    return Text(part.refusal, is_refusal=True)


def _thinking(part: ThinkingContent, place: str) -> Content:
    return ThinkingPart(part.thinking, part.signature or "")


def _image(part: ImagePart, place: str) -> Content:
    if isinstance(part.image_url, str):
        return read_image(part.image_url, f"{place}.image_url")
    return read_image(part.image_url.url, f"{place}.image_url.url")


def _file(part: FilePart, place: str) -> Content:
    if part.file.file_data is None:
        raise unsupported(f"{place}.file", "there is no file store here; send file_data, a data: URL")
    return read_file(part.file.file_data, part.file.filename or "", f"{place}.file.file_data")


def _audio(part: AudioPart, place: str) -> Content:
    raise unsupported(place, "audio input is not supported")


def _misplaced(part: object, place: str) -> Content:
    if isinstance(part, Raw):
        raise invalid(f"{place}.type", f"unknown kind of content: {str(part.value.get('type'))[:60]}")
    raise invalid(f"{place}.type", "this kind of content has no place in a message of this role")


_TEXT: Final = MappingProxyType[type, Reader]({TextPart: _text})

_USER: Final = MappingProxyType[type, Reader]({TextPart: _text, ImagePart: _image, FilePart: _file, AudioPart: _audio})

_ASSISTANT: Final = MappingProxyType[type, Reader](
    {
        TextPart: _text,
        RefusalPart: _refusal,
        ThinkingContent: _thinking,
        ImagePart: _image,
        FilePart: _file,
        AudioPart: _audio,
    }
)
