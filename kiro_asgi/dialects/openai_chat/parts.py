"""Parts of a message: what the client sent to what the prompt holds.

Source of the ``data:`` URL: https://www.rfc-editor.org/rfc/rfc2397
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from kiro_asgi.dialects.openai_chat.refusals import invalid, unsupported
from kiro_asgi.dialects.openai_chat.shapes import (
    AudioPart,
    FilePart,
    ImagePart,
    Part,
    RefusalPart,
    TextPart,
    ThinkingContent,
)
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
    return Text(part.refusal)


def _thinking(part: ThinkingContent, place: str) -> Content:
    return ThinkingPart(part.thinking, part.signature or "")


def _image(part: ImagePart, place: str) -> Content:
    if isinstance(part.image_url, str):
        url, place = part.image_url, f"{place}.image_url"
    else:
        url, place = part.image_url.url, f"{place}.image_url.url"
    if url.startswith(("https://", "http://")):
        return Image(url=url, place=place)
    media_type, data = _data_url(url, place)
    if not media_type.startswith("image/"):
        raise invalid(place, f"not an image: {media_type[:60]}")
    return Image("image/jpeg" if media_type == "image/jpg" else media_type, _base64(data, place)[0], place=place)


def _file(part: FilePart, place: str) -> Content:
    if part.file.file_data is None:
        raise unsupported(f"{place}.file", "there is no file store here; send file_data, a data: URL")
    place = f"{place}.file.file_data"
    media_type, data = _data_url(part.file.file_data, place)
    encoded, content = _base64(data, place)
    title = part.file.filename or ""
    if media_type.startswith("text/"):
        return Document(media_type, text=content.decode(errors="replace"), title=title, place=place)
    return Document(media_type, encoded, title=title, place=place)


def _audio(part: AudioPart, place: str) -> Content:
    raise unsupported(place, "audio input is not supported")


def _misplaced(part: object, place: str) -> Content:
    if isinstance(part, Raw):
        raise invalid(f"{place}.type", f"unknown kind of content: {str(part.value.get('type'))[:60]}")
    raise invalid(f"{place}.type", "this kind of content has no place in a message of this role")


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
