"""Blocks and fields of the Messages API in Chat Completions, where some clients send them.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.dialects.errors import invalid
from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.dialects.openai_chat.shapes import DocumentBlock, PictureBlock, SealedThinking, UseBlock
from kiro_asgi.model.notes import UNHEARD, Notes
from kiro_asgi.model.prompt import Document, Image, ThinkingPart, ToolCallPart
from kiro_asgi.wire.json import objects_of, text_of

SHAPES: Final = "shapes.messages"
"""The rule by which what has a form of the Messages API is read as what it is."""

_DATA: Final = MappingProxyType({"url": "url", "base64": "data"})
"""Type of a source to its member with the address, or with the bytes."""


def texts_beside(system: Any, notes: Notes = UNHEARD) -> list[str]:
    """The texts of ``system``, which the API has beside the messages: one, or blocks; what is neither has none."""
    blocks = objects_of(system)
    given = [system] if type(system) is str else [text_of(block, "text") for block in blocks]
    if system:
        notes.applies(SHAPES if any(given) else "fields.ignored", "system")
    for at, block in enumerate(blocks):
        for name in block:
            if name not in ("type", "text"):
                notes.applies("fields.ignored", f"system[{at}].{name}")
    return [text for text in given if text]


def stops_beside(stop_sequences: Any) -> tuple[str, ...]:
    """The texts of ``stop_sequences``; none where it is anything but texts."""
    given = tuple(stop_sequences) if type(stop_sequences) is list else ()
    return given if all(type(each) is str for each in given) else ()


def read_sealed(part: SealedThinking, _: str) -> ThinkingPart:
    """Sealed thinking of an earlier answer."""
    return ThinkingPart(redacted=part.data)


def read_use(part: UseBlock, _: str) -> ToolCallPart:
    """A call of an earlier answer."""
    return ToolCallPart(part.id, part.name, part.input or {})


def read_picture(part: PictureBlock, place: str) -> Image:
    """An image.

    Raises:
        RequestError: It has no source that can be read.
    """
    return evolve(read_image(*_address(part.source, f"{place}.source")), place=place)


def read_document(part: DocumentBlock, place: str) -> Document:
    """A document.

    Raises:
        RequestError: It has no source that can be read.
    """
    title = part.title or ""
    if part.source.get("type") == "text":
        media_type = text_of(part.source, "media_type") or "text/plain"
        return Document(media_type, text=text_of(part.source, "data"), title=title, place=place)
    address, at = _address(part.source, f"{place}.source")
    return evolve(read_file(address, title, at), place=place)


def _address(source: Mapping[str, Any], place: str) -> tuple[str, str]:
    """The address, or the ``data:`` URL, of what a block holds, and where it stands."""
    kind = text_of(source, "type")
    if kind not in _DATA:
        raise invalid(f"{place}.type", f"expected base64 or url, got {kind[:60]!r}; send the bytes, or an address")
    given, at = text_of(source, _DATA[kind]), f"{place}.{_DATA[kind]}"
    if not given:
        raise invalid(at, "is empty")
    if kind == "url" or given[:5].lower() == "data:":
        return given, at
    return f"data:{text_of(source, 'media_type')};base64,{given}", at
