"""Parts of messages that Chat Completions and Responses have alike: their shapes, and how they are read."""

from __future__ import annotations

from attrs import frozen

from kiro_asgi.dialects.errors import invalid, unsupported
from kiro_asgi.dialects.structure import Raw
from kiro_asgi.model.prompt import Text

__all__ = [
    "AudioPart",
    "ImageUrl",
    "RefusalPart",
    "TextPart",
    "read_refusal",
    "read_text",
    "refuse_audio",
    "refuse_unknown",
]


@frozen
class TextPart:
    """``text`` in the words of Chat Completions, ``input_text`` and ``output_text`` in those of Responses."""

    text: str


@frozen
class RefusalPart:
    """``refusal``."""

    refusal: str


@frozen
class ImageUrl:
    """Address of an image, in the form of Chat Completions, which Responses takes, too."""

    url: str


@frozen
class AudioPart:
    """``input_audio``."""


def read_text(part: TextPart, _: str) -> Text:
    """A text."""
    return Text(part.text)


def read_refusal(part: RefusalPart, _: str) -> Text:
    """A refusal, which a model is told like any text of its own."""
    return Text(part.refusal, is_refusal=True)


def refuse_audio(_: AudioPart, place: str) -> Text:
    """Refuse audio.

    Raises:
        RequestError: Always; ``param`` is *place*.
    """
    raise unsupported(place, "audio input is not supported")


def refuse_unknown(part: Raw, place: str) -> Text:
    """Refuse a part of an unknown kind.

    Raises:
        RequestError: Always; ``param`` is the kind at *place*.
    """
    raise invalid(f"{place}.type", f"unknown kind of content: {str(part.value.get('type'))[:60]}")
