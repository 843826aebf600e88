"""The response object: everything that clients require, and what it repeats of the request."""

from __future__ import annotations

import json
from typing import Any

from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.model.events import StopReason, Usage
from kiro_asgi.model.message import Message, TextBlock, ToolCallBlock
from tests.dialects.openai_responses.grammar import RESPONSE

USAGE = Usage(7, 5, 2, 1, 3)
MESSAGE = Message((TextBlock("Hi."), ToolCallBlock("call_1", "f", "{}")), StopReason.TOOL_CALL, usage=USAGE)


def rendered(message: Message = MESSAGE, **request: Any) -> dict[str, Any]:
    """The answer *message* to a request."""
    dialect = OpenAIResponses()
    parsed = dialect.parse(json.dumps({"model": "m", "input": "hi", **request}).encode())
    body = b"".join(dialect.render(message, dialect.meta(parsed, lambda: "x" * 24, 12)))
    RESPONSE.validate_json(body, strict=True)
    response: dict[str, Any] = json.loads(body)
    return response


def test_the_whole_object() -> None:
    """F309, F312: every field, also those that the request did not speak of."""
    assert rendered() == {
        "id": "resp_" + "x" * 24,
        "object": "response",
        "created_at": 12,
        "completed_at": None,
        "model": "m",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": [
            {
                "id": f"msg_{'x' * 24}_0",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hi.", "annotations": [], "logprobs": []}],
            },
            {
                "id": f"fc_{'x' * 24}_1",
                "type": "function_call",
                "status": "completed",
                "call_id": "call_1",
                "name": "f",
                "arguments": "{}",
            },
        ],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 15,
        },
        "background": False,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": None,
        "truncation": "disabled",
        "user": None,
    }


def test_what_the_request_said_is_repeated() -> None:
    """F309: as it came."""
    request: dict[str, Any] = {
        "instructions": "Be brief.",
        "max_output_tokens": 99,
        "max_tool_calls": 3,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "previous_response_id": "resp_0",
        "prompt_cache_key": "thread",
        "reasoning": {"effort": "low", "summary": "auto"},
        "safety_identifier": "s",
        "store": False,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "tool_choice": {"type": "function", "name": "f"},
        "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}],
        "top_logprobs": 2,
        "top_p": 0.9,
        "truncation": "auto",
        "user": "u",
    }
    response = rendered(**request)

    assert {name: response[name] for name in request} == request


def test_the_service_tier_is_one_that_clients_know() -> None:
    """Whatever was asked for, there is one only."""
    assert rendered(service_tier="priority")["service_tier"] == "default"
