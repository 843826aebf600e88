"""The request body, field by field, as far as we read it.

What becomes of each is in `kiro_asgi.dialects.openai_responses.fields`.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.openai_responses.shapes import ITEMS, PARTS, Item
from kiro_asgi.dialects.openai_responses.tool_shapes import MEMBERS, TOOLS, ToolBody
from kiro_asgi.dialects.structure import Raw, Tagged, make_converter

__all__ = [
    "CONVERTER",
    "FORMATS",
    "Body",
    "Format",
    "JsonObjectFormat",
    "JsonSchemaFormat",
    "Reasoning",
    "TextConfig",
    "TextFormat",
]


@frozen
class TextFormat:
    """``text``."""


@frozen
class JsonObjectFormat:
    """``json_object``."""


@frozen
class JsonSchemaFormat:
    """``json_schema``."""

    schema: Mapping[str, Any]


Format = TextFormat | JsonObjectFormat | JsonSchemaFormat | Raw

FORMATS: Final = Tagged(
    Format, MappingProxyType({"text": TextFormat, "json_object": JsonObjectFormat, "json_schema": JsonSchemaFormat})
)


@frozen
class TextConfig:
    """The form of the answer's text."""

    format: Format | None = None
    verbosity: str | None = None


@frozen
class Reasoning:
    """How much to think, and whether to show it."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    """What ``summary`` was called before."""

    @property
    def shown(self) -> str | None:
        """The summary that is asked for, under whichever name; ``None`` for none."""
        word = self.summary or self.generate_summary
        return None if word == "none" else word


@frozen
class Body:
    """The whole request."""

    model: str
    input: str | tuple[Item, ...] | None = None
    instructions: str | None = None
    stream: bool | None = None

    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None

    tools: tuple[ToolBody, ...] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None

    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    include: tuple[str, ...] | None = None

    store: bool | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    conversation: Any = None
    prompt: Any = None

    truncation: str | None = None
    metadata: Mapping[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    messages: Any = None
    """Not of this API; whoever sends it means the Chat Completions API."""


CONVERTER: Final = make_converter(PARTS, ITEMS, TOOLS, MEMBERS, FORMATS)
