"""Reads a request of Anthropic's Messages API; forgiving, because the rules judge it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kiro_asgi.simulator.conversation import OfferedTool, as_list, as_map
from kiro_asgi.simulator.question import ChatTurn, Question, Result, conversation_of


def blocks_of(content: Any) -> list[Mapping[str, Any]]:
    """The blocks of a message's content; a string is one of them."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_map(block) for block in as_list(content)]


def text_of(content: Any) -> str:
    """The text in *content*, a block a line."""
    return "\n".join(str(block.get("text")) for block in blocks_of(content) if block.get("type") == "text")


def read(document: Mapping[str, Any]) -> Question:
    """The question in *document*."""
    tools = [as_map(tool) for tool in as_list(document.get("tools"))]
    choice = as_map(document.get("tool_choice"))
    model = str(document.get("model", ""))
    conversation = conversation_of(
        model,
        [_turn(as_map(message)) for message in as_list(document.get("messages"))],
        system=text_of(document.get("system")),
        tools=() if choice.get("type") == "none" else map(_tool, filter(_is_client_tool, tools)),
        thinks=as_map(document.get("thinking")).get("type") in ("enabled", "adaptive"),
        schema=as_map(as_map(document.get("output_config")).get("format")).get("schema"),
    )
    most = document.get("max_tokens")
    return Question(
        conversation,
        model,
        stream=document.get("stream") is True,
        max_tokens=most if isinstance(most, int) else None,
        stops=tuple(map(str, as_list(document.get("stop_sequences")))),
        must_call=str(choice.get("name", "")) if choice.get("type") in ("any", "tool") else None,
        searches=any(str(tool.get("type")).startswith("web_search_") for tool in tools),
    )


def _is_client_tool(tool: Mapping[str, Any]) -> bool:
    return tool.get("type") in (None, "custom")


def _tool(tool: Mapping[str, Any]) -> OfferedTool:
    return OfferedTool(str(tool.get("name")), str(tool.get("description", "")), as_map(tool.get("input_schema")))


def _turn(message: Mapping[str, Any]) -> ChatTurn:
    blocks = blocks_of(message.get("content"))
    return ChatTurn(
        "assistant" if message.get("role") == "assistant" else "user",
        text_of(message.get("content")),
        tuple(_images(blocks)),
        tuple(_result(block) for block in blocks if block.get("type") == "tool_result"),
    )


def _images(blocks: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for block in blocks:
        if block.get("type") == "image":
            source = as_map(block.get("source"))
            yield str(source.get("media_type", "")), str(source.get("data", ""))
        elif block.get("type") == "tool_result":
            yield from _images(blocks_of(block.get("content")))


def _result(block: Mapping[str, Any]) -> Result:
    return Result(str(block.get("tool_use_id")), text_of(block.get("content")), block.get("is_error") is True)
