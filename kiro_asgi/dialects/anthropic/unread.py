"""Parts of a Messages request that no service receives, whichever it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.anthropic.content import RESULT_BLOCKS, is_result_block
from kiro_asgi.dialects.anthropic.request import ATTRIBUTION, EFFORTS, MODES
from kiro_asgi.dialects.anthropic.shapes import (
    BLOCKS,
    MESSAGES,
    SOURCES,
    TEXTS,
    TEXTS_AND_IMAGES,
    DocumentBlock,
    ImageBlock,
    MessagesRequestBody,
    MessagesTextBlock,
    SearchResultBlock,
    ToolResultBlock,
)
from kiro_asgi.dialects.anthropic.tools import CHOICES, known_tool
from kiro_asgi.dialects.structure import Raw, Tagged
from kiro_asgi.dialects.unread import Finding, Reading, unread, unread_tools, words
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.wire.members import object_of, objects_of, text_of

__all__ = ["unread_fields"]

_TEXTS: Final = frozenset({"text", "search_result"})
"""Blocks that are read as text."""

_DISPLAYS: Final = ("omitted", "summarized")


@frozen
class _Metadata:
    """Members of ``metadata`` that are read."""

    user_id: Any = None


_ResultBlock = MessagesTextBlock | ImageBlock | DocumentBlock | SearchResultBlock | Raw

_RESULTS: Final = Tagged(_ResultBlock, RESULT_BLOCKS)


def _result(content: Any) -> Any:
    """JSON without a block is told as it is."""
    blocks = isinstance(content, list) and any(map(is_result_block, content))
    return tuple[_ResultBlock, ...] if blocks else None


_READING: Final = Reading(
    body=MessagesRequestBody,
    unions=(
        (MESSAGES, "turns.unknown"),
        (BLOCKS, "blocks.unknown"),
        (TEXTS, "blocks.unknown"),
        (TEXTS_AND_IMAGES, "blocks.unknown"),
        (_RESULTS, "blocks.unknown"),
        (SOURCES, ""),
    ),
    views=MappingProxyType(
        {(MessagesRequestBody, "metadata"): lambda _: _Metadata, (ToolResultBlock, "content"): _result},
    ),
)


def unread_fields(value: Mapping[str, Any], prompt: Prompt) -> Iterator[Finding]:
    """Rules and places of a request's body, which became *prompt*."""
    yield from unread(value, _READING)
    yield from _attribution(value.get("system"))
    for index, message in enumerate(objects_of(value.get("messages"))):
        if message.get("role") == "system":
            yield from _no_texts(message.get("content"), f"messages[{index}].content")
    yield from unread_tools(value.get("tools"), prompt.tools)
    for index, tool in enumerate(objects_of(value.get("tools"))):
        if known_tool(text_of(tool, "type")) is not None:
            for name in tool.keys() & {"description", "input_schema"}:
                yield "fields.ignored", f"tools[{index}].{name}"
    thinking, choice = object_of(value.get("thinking")), object_of(value.get("tool_choice"))
    yield from words(thinking.get("type"), "thinking.type", MODES)
    yield from words(thinking.get("display"), "thinking.display", _DISPLAYS)
    if thinking.get("budget_tokens") is not None and thinking.get("type") != "enabled":
        yield "fields.ignored", "thinking.budget_tokens"
    yield from words(object_of(value.get("output_config")).get("effort"), "output_config.effort", EFFORTS)
    yield from words(choice.get("type"), "tool_choice.type", CHOICES)


def _attribution(system: Any) -> Iterator[Finding]:
    first, place = (system[:1], "system[0].text") if isinstance(system, list) else ([{"text": system}], "system")
    for block in objects_of(first):
        if str(block.get("text")).startswith(ATTRIBUTION):
            yield "system.attribution", place


def _no_texts(content: Any, place: str) -> Iterator[Finding]:
    """Blocks that system text in mid-conversation cannot hold."""
    for index, block in enumerate(objects_of(content)):
        if block.get("type") in BLOCKS.classes.keys() - _TEXTS:
            yield "blocks.unreadable", f"{place}[{index}]"
