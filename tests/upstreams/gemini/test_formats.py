"""One stream of the service as each client API tells it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Event
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.testing.grammar import messages as anthropic_grammar
from kiro_asgi.upstreams.gemini.answer import stages
from tests.dialects.openai_chat import grammar as chat_grammar
from tests.dialects.openai_responses import grammar as responses_grammar
from tests.helpers import byte_by_byte

USAGE = {"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 3, "thoughtsTokenCount": 7}
PARTS: list[dict[str, Any]] = [
    {"text": "hm", "thought": True},
    {"text": "Hello"},
    {"functionCall": {"id": "x1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "QUJD"},
    {"functionCall": {"id": "x2", "name": "g"}},
    {"text": "", "thoughtSignature": "REVG"},
]


def event(*parts: Any, finish: str = "", **also: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [*parts]}, **({"finishReason": finish} if finish else {})}
    return {"candidates": [candidate], **also}


WHOLE = [*(event(part, usageMetadata=USAGE) for part in PARTS), event(finish="STOP"), event(finish="STOP")]


def told(dialect: Dialect, options: Any, *events: Any) -> bytes:
    """The stream that a client is sent; of a failure, its in-band end."""
    encoder = dialect.encoder(ResponseMeta("resp_1", "m", 12, options))
    answer = build_pipeline(stages("text/event-stream", lambda: "call_1"), Plan())
    data = b"".join(b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in events)
    sent: list[bytes] = []

    def take(some: Any) -> None:
        batch: list[Event] = list(some)
        sent.extend(encoder.feed(batch))

    try:
        for chunk in byte_by_byte(data):
            take(answer.feed([chunk]))
        take(answer.flush())
    except KiroAsgiError as error:
        return b"".join([*sent, b"".join(encoder.error(error))])
    return b"".join([*sent, *encoder.flush()])


def test_chat() -> None:
    """F325, F418, §2.2: parts in their order, both calls, one finish, and counts in which thoughts are output."""
    chunks = chat_grammar.check(told(OpenAIChat(), ChatOptions(include_usage=True), *WHOLE))
    signed = {"extra_content": {"google": {"thought_signature": "QUJD"}}}

    assert [choice["delta"] for chunk in chunks for choice in chunk["choices"]] == [
        {"role": "assistant", "content": None},
        {"reasoning_content": "hm"},
        {"content": "Hello"},
        {"tool_calls": [{"index": 0, "id": "x1", "type": "function", "function": call("f"), **signed}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]},
        {"tool_calls": [{"index": 1, "id": "x2", "type": "function", "function": call("g")}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    usage = chunks[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (10, 10, 20)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 4
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 7


def call(name: str) -> dict[str, str]:
    return {"name": name, "arguments": ""}


def test_messages() -> None:
    """F326, §2.3: blocks that do not overlap, each with its end, signatures in blocks of thinking, one message end."""
    body = anthropic_grammar.check(told(AnthropicMessages(), None, *WHOLE))

    assert body["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "nobody.thought:"},
        {"type": "text", "text": "Hello"},
        {"type": "thinking", "thinking": "", "signature": "gemini.call:QUJD"},
        {"type": "tool_use", "id": "x1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "x2", "name": "g", "input": {}},
        {"type": "thinking", "thinking": "", "signature": "gemini.text:REVG"},
    ]
    assert body["stop_reason"] == "tool_use"
    usage = body["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (6, 4, 10)


def test_responses() -> None:
    """§2.4: thinking as reasoning, text in its place, every call an item."""
    response = responses_grammar.check(told(OpenAIResponses(), ResponsesOptions(), *WHOLE))[-1]["response"]

    assert [item["type"] for item in response["output"]] == [
        "reasoning",
        "message",
        "reasoning",
        "function_call",
        "function_call",
        "reasoning",
    ]
    assert [item["arguments"] for item in response["output"] if "arguments" in item] == ['{"a":1}', "{}"]
    assert response["usage"]["total_tokens"] == 20
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 7}


@pytest.mark.parametrize(
    ("events", "chat", "messages", "responses"),
    [
        pytest.param(
            [event({"text": "a"}, finish="MAX_TOKENS")], "length", "max_tokens", "max_output_tokens", id="limit"
        ),
        pytest.param(
            [event({"text": "a"}, finish="SAFETY")], "content_filter", "refusal", "content_filter", id="filter"
        ),
        pytest.param(
            [{"promptFeedback": {"blockReason": "SAFETY"}}],
            "content_filter",
            "refusal",
            "content_filter",
            id="F339-prompt",
        ),
    ],
)
def test_ends(events: list[Any], chat: str, messages: str, responses: str) -> None:
    """§1.3: neither a limit nor a filter looks like success, and no word of the service's own gets out."""
    chunks = chat_grammar.check(told(OpenAIChat(), ChatOptions(), *events))
    assert chunks[-1]["choices"][0]["finish_reason"] == chat
    assert anthropic_grammar.check(told(AnthropicMessages(), None, *events))["stop_reason"] == messages
    response = responses_grammar.check(told(OpenAIResponses(), ResponsesOptions(), *events))[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": responses})


@pytest.mark.parametrize(
    "last",
    [
        pytest.param([], id="cut"),
        pytest.param([event(finish="MALFORMED_FUNCTION_CALL")], id="broken"),
        pytest.param([{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}], id="F339-error"),
        pytest.param([event(finish="STOP"), {"error": {"code": 500, "message": "late"}}], id="error-behind-the-end"),
    ],
)
def test_failures(last: list[Any]) -> None:
    """§1.5, §2.3, §2.4: an answer that failed ends as a failure in every API, never as a success or in silence."""
    events = [event({"text": "a"}), *last]

    assert b'"error":' in told(OpenAIChat(), ChatOptions(), *events).splitlines()[-4]
    assert b"event: error\n" in told(AnthropicMessages(), None, *events)
    assert b"message_stop" not in told(AnthropicMessages(), None, *events)
    assert b"event: response.failed\n" in told(OpenAIResponses(), ResponsesOptions(), *events)
