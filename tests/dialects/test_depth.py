"""How deep what a client sends may be: the same in every API, and the place is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.errors import RequestError
from kiro_asgi.limits import JSON_DEPTH
from kiro_asgi.model.depth import require_depth

SAID = {"role": "user", "content": "Hi."}


def nested(depth: int) -> dict[str, Any]:
    """An object with so many levels, and something beside each of them."""
    value: Any = {}
    for _ in range(depth - 1):
        value = {"beside": [], "not": value}
    return value  # type: ignore[no-any-return]


def messages(**more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [SAID], **more}


def anthropic_schema(value: Any) -> Any:
    return messages(tools=[{"name": "t", "input_schema": value}])


def anthropic_input(value: Any) -> Any:
    call = {"type": "tool_use", "id": "c", "name": "t", "input": value}
    return messages(messages=[SAID, {"role": "assistant", "content": [call]}])


def anthropic_answer(value: Any) -> Any:
    return messages(output_config={"format": {"type": "json_schema", "schema": value}})


def chat_schema(value: Any) -> Any:
    return messages(tools=[{"type": "function", "function": {"name": "t", "parameters": value}}])


def chat_arguments(value: Any) -> Any:
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": json.dumps(value)}}
    return messages(messages=[SAID, {"role": "assistant", "tool_calls": [call]}])


def chat_answer(value: Any) -> Any:
    return messages(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": value}})


def responses_schema(value: Any) -> Any:
    return {"model": "m", "input": "Hi.", "tools": [{"type": "function", "name": "t", "parameters": value}]}


def responses_arguments(value: Any) -> Any:
    call = {"type": "function_call", "call_id": "c", "name": "t", "arguments": json.dumps(value)}
    return {"model": "m", "input": [SAID, call]}


def responses_answer(value: Any) -> Any:
    return {"model": "m", "input": "Hi.", "text": {"format": {"type": "json_schema", "name": "n", "schema": value}}}


@pytest.mark.parametrize(
    ("dialect", "body", "place"),
    [
        (AnthropicMessages(), anthropic_schema, "tools[0]"),
        (AnthropicMessages(), anthropic_input, "messages[1]"),
        (AnthropicMessages(), anthropic_answer, "schema"),
        (OpenAIChat(), chat_schema, "tools[0].function"),
        (OpenAIChat(), chat_arguments, "messages[1].tool_calls[0].function.arguments"),
        (OpenAIChat(), chat_answer, "schema"),
        (OpenAIResponses(), responses_schema, "tools[0]"),
        (OpenAIResponses(), responses_arguments, "input[1].arguments"),
        (OpenAIResponses(), responses_answer, "schema"),
    ],
)
def test_depth_is_the_same_everywhere(dialect: Dialect, body: Callable[[Any], Any], place: str) -> None:
    """A tool's schema, the input of a call, arguments and the schema of the answer may have `JSON_DEPTH` levels each,
    wherever they stand; one more is refused, and the place is named."""
    dialect.parse(json.dumps(body(nested(JSON_DEPTH))).encode())

    with pytest.raises(RequestError, match=f"deeper than {JSON_DEPTH} levels") as caught:
        dialect.parse(json.dumps(body(nested(JSON_DEPTH + 1))).encode())
    assert (caught.value.status, caught.value.param) == (400, place)


def test_the_path_to_what_is_too_deep_is_shown() -> None:
    """Past members that are not, and in a few steps."""
    value = {"a": [1, {"b": 2}], "x" * 99: [[], nested(JSON_DEPTH)]}

    with pytest.raises(RequestError) as caught:
        require_depth(value, "tools[0]", "schema")

    path = f".{'x' * 40}[1]" + ".not" * 6
    assert caught.value.message == f"tools[0]: schema nested deeper than {JSON_DEPTH} levels, at {path}…"


def test_parts_that_stand_in_many_places_are_looked_at_once_a_level() -> None:
    """A structure of a caller's own that doubles, or holds itself, costs what it has."""
    value: list[Any] = []
    for _ in range(JSON_DEPTH - 1):
        value = [value, value]
    require_depth(value, "here")

    value = [value, value]
    with pytest.raises(RequestError):
        require_depth(value, "here")
    value.append(value)
    with pytest.raises(RequestError):
        require_depth(value, "here")
