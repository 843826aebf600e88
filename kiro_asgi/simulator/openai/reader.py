"""Reads a Chat Completions request; forgiving, because the rules judge it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kiro_asgi.simulator.conversation import OfferedTool, as_list, as_map
from kiro_asgi.simulator.question import ChatTurn, Question, Result, conversation_of

SYSTEM = ("system", "developer")


def messages_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages."""
    return [as_map(message) for message in as_list(document.get("messages"))]


def parts_of(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a message's content; a string is one of them."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_map(part) for part in as_list(content)]


def text_of(content: Any) -> str:
    """The text in *content*, a part a line."""
    return "\n".join(str(part.get("text")) for part in parts_of(content) if part.get("type") == "text")


def read(document: Mapping[str, Any]) -> Question:
    """The question in *document*."""
    messages = messages_of(document)
    choice = document.get("tool_choice")
    model = str(document.get("model", ""))
    conversation = conversation_of(
        model,
        [_turn(message) for message in messages if message.get("role") not in SYSTEM],
        system="\n".join(text_of(message.get("content")) for message in messages if message.get("role") in SYSTEM),
        tools=() if choice == "none" else map(_tool, as_list(document.get("tools"))),
        thinks=document.get("reasoning_effort") not in (None, "none"),
        schema=_schema(as_map(document.get("response_format"))),
    )
    most = document.get("max_completion_tokens", document.get("max_tokens"))
    stops = document.get("stop")
    return Question(
        conversation,
        model,
        stream=document.get("stream") is True,
        max_tokens=most if isinstance(most, int) else None,
        stops=(stops,) if isinstance(stops, str) else tuple(map(str, as_list(stops))),
        must_call=_must_call(choice),
        searches="web_search_options" in document,
        with_usage=as_map(document.get("stream_options")).get("include_usage") is True,
    )


def _schema(wanted: Mapping[str, Any]) -> Any:
    if wanted.get("type") == "json_object":
        return {}
    return as_map(wanted.get("json_schema")).get("schema")


def _must_call(choice: Any) -> str | None:
    if choice == "required":
        return ""
    return str(as_map(as_map(choice).get("function")).get("name", "")) if isinstance(choice, Mapping) else None


def _tool(tool: Any) -> OfferedTool:
    function = as_map(as_map(tool).get("function"))
    return OfferedTool(
        str(function.get("name")), str(function.get("description", "")), as_map(function.get("parameters"))
    )


def _turn(message: Mapping[str, Any]) -> ChatTurn:
    text = text_of(message.get("content"))
    if message.get("role") == "tool":
        return ChatTurn("user", results=(Result(str(message.get("tool_call_id")), text),))
    side = "assistant" if message.get("role") == "assistant" else "user"
    return ChatTurn(side, text, tuple(_images(parts_of(message.get("content")))))


def _images(parts: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if part.get("type") == "image_url":
            head, _, data = str(as_map(part.get("image_url")).get("url", "")).partition(",")
            yield head.removeprefix("data:").partition(";")[0], data
