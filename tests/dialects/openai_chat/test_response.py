"""Collected answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.model.events import Event, SearchHit, ServerCall, ServerResult, StopReason, ToolOutput, Usage
from kiro_asgi.model.message import (
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    fold,
)
from tests.dialects.openai_chat import grammar
from tests.dialects.strategies import answers

CALL = ToolCallBlock("call_1", "f", '{"x":1}')
FUNCTION = {"name": "f", "arguments": '{"x":1}'}


def render(message: Message, *, legacy: bool = False) -> dict[str, Any]:
    body = b"".join(
        OpenAIChat().render(message, ResponseMeta("chatcmpl-1", "m", 12, ChatOptions(legacy_functions=legacy)))
    )
    grammar.COMPLETION.validate_json(body, strict=True)
    return json.loads(body)


def test_a_whole_body() -> None:
    """F435, F440, F265: every member that clients look for, and a total that is the sum."""
    assert render(Message((TextBlock("a"), TextBlock("b")), usage=Usage(7, 5, 2, 1, 3))) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 12,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "ab", "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 3,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": None,
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(Message(), {"content": ""}, id="nothing"),
        pytest.param(
            Message((CALL,)),
            {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": FUNCTION}]},
            id="F439 only a call: content is null",
        ),
        pytest.param(
            Message((TextBlock("a"), CALL)),
            {"content": "a", "tool_calls": [{"id": "call_1", "type": "function", "function": FUNCTION}]},
            id="text and a call",
        ),
        pytest.param(
            Message((ThinkingBlock("t", "sig"), ThinkingBlock("u"), TextBlock("a"))),
            {"content": "a", "reasoning_content": "tu"},
            id="F178 thinking stands apart",
        ),
        pytest.param(Message((RedactedThinkingBlock("x"),)), {"content": ""}, id="sealed thinking is left out"),
    ],
)
def test_message(message: Message, expected: dict[str, Any]) -> None:
    """The assistant's turn; what is empty is absent."""
    assert render(message)["choices"][0]["message"] == {"role": "assistant", "refusal": None, **expected}


def test_the_deprecated_form() -> None:
    """A request with ``functions`` gets ``function_call`` and its own finish reason."""
    choice = render(Message((CALL, CALL), StopReason.TOOL_CALL), legacy=True)["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": None, "function_call": FUNCTION}
    assert choice["finish_reason"] == "function_call"


@given(answers(), st.booleans())
def test_every_answer_satisfies_the_official_types(events: list[Event], legacy: bool) -> None:
    """F435: whatever was answered, the body is what the SDK expects, strictly."""
    whole = render(fold(events), legacy=legacy)
    assert whole["usage"]["total_tokens"] == whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"]


def test_what_was_found_is_cited() -> None:
    """F215: the text stands apart from the model's own, and citations say where; there are none without a search."""
    call = ServerCall("c", "web_search", "web_search")
    output = ToolOutput((SearchHit("t", "https://a/"), SearchHit("u", "https://b/")))
    message = Message((TextBlock("Look:"), call, ServerResult(call, output), TextBlock(output.told)))
    told = render(message)["choices"][0]["message"]

    assert told["content"] == "Look:\n\nt\nhttps://a/\n\nu\nhttps://b/"
    assert told["annotations"] == [
        {
            "type": "url_citation",
            "url_citation": {"start_index": start, "end_index": end, "url": url, "title": title},
        }
        for start, end, url, title in ((7, 19, "https://a/", "t"), (21, 33, "https://b/", "u"))
    ]
