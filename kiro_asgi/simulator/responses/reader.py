"""Reads a request of the Responses API; forgiving, because the rules judge it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import OfferedTool, as_list, as_map
from kiro_asgi.simulator.question import ChatTurn, Question, Result, conversation_of

SYSTEM = ("system", "developer")

CALLED: Final = ("function", "custom")
"""Types of tools that the client runs."""

TEXT: Final = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""What a tool is given that takes a text."""


def items_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The items of the input; a string is a message of the user's."""
    given = document.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return [{"type": "message", **as_map(item)} for item in as_list(given)]


def parts_of(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a message, or of a result; a string is one of them."""
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return [as_map(part) for part in as_list(content)]


def read(document: Mapping[str, Any]) -> Question:
    """The question in *document*."""
    items, choice = items_of(document), document.get("tool_choice")
    system = [item for item in items if item.get("role") in SYSTEM]
    offered = map(as_map, as_list(document.get("tools")))
    tools = [tool for tool in offered if tool.get("type") in CALLED]
    model, most = str(document.get("model", "")), document.get("max_output_tokens")
    conversation = conversation_of(
        model,
        [turn for item in items if item not in system for turn in _turns(item)],
        system="\n".join([str(document.get("instructions", "")), *(_text(item.get("content")) for item in system)]),
        tools=() if choice == "none" else map(_tool, tools),
        thinks=as_map(document.get("reasoning")).get("effort") not in (None, "none"),
        schema=_schema(as_map(as_map(document.get("text")).get("format"))),
    )
    return Question(
        conversation,
        model,
        stream=document.get("stream") is True,
        max_tokens=most if isinstance(most, int) else None,
        must_call=_must_call(choice),
        fields_wanted=tuple(map(str, as_list(document.get("include")))),
        texts=frozenset(str(tool.get("name")) for tool in tools if tool.get("type") == "custom"),
    )


def _schema(form: Mapping[str, Any]) -> Any:
    return {} if form.get("type") == "json_object" else form.get("schema")


def _must_call(choice: Any) -> str | None:
    if choice == "required":
        return ""
    return str(choice.get("name", "")) if isinstance(choice, Mapping) else None


def _tool(tool: Mapping[str, Any]) -> OfferedTool:
    schema = TEXT if tool.get("type") == "custom" else as_map(tool.get("parameters"))
    return OfferedTool(str(tool.get("name")), str(tool.get("description", "")), schema)


def _turns(item: Mapping[str, Any]) -> Iterator[ChatTurn]:
    match item.get("type"):
        case "message":
            side = "assistant" if item.get("role") == "assistant" else "user"
            parts = parts_of(item.get("content"))
            yield ChatTurn(side, _text(item.get("content")), tuple(_images(parts)))
        case "function_call" | "custom_tool_call":
            yield ChatTurn("assistant")
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            result = Result(str(item.get("call_id")), _text(output))
            yield ChatTurn("user", "", tuple(_images(parts_of(output))), (result,))


def _text(content: Any) -> str:
    return "\n".join(str(part.get("text")) for part in parts_of(content) if "text" in part)


def _images(parts: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if part.get("type") == "input_image":
            head, _, data = str(part.get("image_url", "")).partition(",")
            yield head.removeprefix("data:").partition(";")[0], data
