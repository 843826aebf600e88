"""Reads a ``generateContent`` request; forgiving, because the rules judge it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kiro_asgi.simulator.conversation import OfferedTool, as_list, as_map
from kiro_asgi.simulator.question import ChatTurn, Question, Result, conversation_of


def either(value: Mapping[str, Any], name: str) -> Any:
    """The member *name* of *value*, or the one that has the same name in snake_case: the service takes both."""
    if name in value:
        return value[name]
    return value.get("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name))


def contents_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The contents."""
    return [as_map(content) for content in as_list(document.get("contents"))]


def parts_of(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a content."""
    return [as_map(part) for part in as_list(as_map(content).get("parts"))]


def read(document: Mapping[str, Any], model: str, *, stream: bool) -> Question:
    """The question in *document*, which a path asks of *model*."""
    tools = [as_map(tool) for tool in as_list(document.get("tools"))]
    calling = as_map(either(as_map(either(document, "toolConfig")), "functionCallingConfig"))
    options = as_map(either(document, "generationConfig"))
    conversation = conversation_of(
        model,
        map(_turn, contents_of(document)),
        system=_text(parts_of(either(document, "systemInstruction"))),
        tools=() if calling.get("mode") == "NONE" else _declared(tools),
        thinks=either(as_map(either(options, "thinkingConfig")), "includeThoughts") is True,
        schema=_schema(options),
    )
    allowed = as_list(either(calling, "allowedFunctionNames"))
    most = either(options, "maxOutputTokens")
    return Question(
        conversation,
        model,
        stream=stream,
        max_tokens=most if isinstance(most, int) else None,
        stops=tuple(map(str, as_list(either(options, "stopSequences")))),
        must_call=str(next(iter(allowed), "")) if calling.get("mode") == "ANY" else None,
        searches=any(either(tool, "googleSearch") is not None for tool in tools),
    )


def _schema(options: Mapping[str, Any]) -> Any:
    if either(options, "responseMimeType") != "application/json":
        return None
    return either(options, "responseJsonSchema") or _lower(either(options, "responseSchema")) or {}


def _text(parts: list[Mapping[str, Any]]) -> str:
    return "\n".join(str(part["text"]) for part in parts if part.get("text") and not part.get("thought"))


def _declared(tools: list[Mapping[str, Any]]) -> Iterator[OfferedTool]:
    for tool in tools:
        for declared in map(as_map, as_list(either(tool, "functionDeclarations"))):
            schema = either(declared, "parametersJsonSchema") or declared.get("parameters")
            yield OfferedTool(str(declared.get("name")), str(declared.get("description", "")), as_map(_lower(schema)))


def _lower(schema: Any) -> Any:
    """*schema* with types as JSON Schema spells them."""
    if isinstance(schema, Mapping):
        return {
            key: value.lower() if key == "type" and isinstance(value, str) else _lower(value)
            for key, value in schema.items()
        }
    return [_lower(value) for value in schema] if isinstance(schema, list) else schema


def _turn(content: Mapping[str, Any]) -> ChatTurn:
    parts = parts_of(content)
    pictures = (as_map(either(part, "inlineData")) for part in parts)
    results = (as_map(either(part, "functionResponse")) for part in parts)
    return ChatTurn(
        "assistant" if content.get("role") == "model" else "user",
        _text(parts),
        tuple((str(either(one, "mimeType")), str(one.get("data", ""))) for one in pictures if one),
        tuple(_result(one) for one in results if one),
    )


def _result(result: Mapping[str, Any]) -> Result:
    response = as_map(result.get("response"))
    value = next((response[key] for key in ("result", "output", "error") if key in response), response)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Result(str(result.get("id", result.get("name"))), text, "error" in response)
