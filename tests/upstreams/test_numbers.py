"""Numbers that a service cannot mean: so large that arithmetic with them fails, or that they cannot be written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.failures.waits import retry_after
from kiro_asgi.limits import LARGEST_COUNT
from kiro_asgi.model.events import MessageEnd, UsageSource
from kiro_asgi.model.message import Message, MessageBuilder
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.stages.estimate import Calibration
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.kiro.account import parse_limits
from kiro_asgi.upstreams.kiro.mcp import LAST_SECOND, _date
from kiro_asgi.upstreams.kiro.tokens import expiry, lifetime
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from kiro_asgi.wire.eventstream import encode_frame
from kiro_asgi.wire.sse import encode_sse

ABSURD = [10**400 - 1, 10**4_300 - 1, 2**53 + 1, -1, -(10**400)]
"""As integers of JSON."""

TOO_LONG = "9" * 4_301
"""Python refuses to read so many digits at all."""


def kiro(number: str) -> list[bytes]:
    def event(kind: str, payload: str) -> bytes:
        headers = {":message-type": "event", ":event-type": kind, ":content-type": "application/json"}
        return encode_frame(headers, payload.encode())

    return [
        event("assistantResponseEvent", '{"content":"hi"}'),
        event("meteringEvent", f'{{"usage":{number},"unit":"credit"}}'),
        event("contextUsageEvent", f'{{"contextUsagePercentage":{number}}}'),
        *[
            event("metadataEvent", f'{{"tokenUsage":{{"uncachedInputTokens":{number},"outputTokens":{number}}}}}')
            for _ in range(3)
        ],
    ]


def anthropic(number: str) -> list[bytes]:
    usage = f'{{"input_tokens":{number},"output_tokens":{number},"cache_read_input_tokens":{number}}}'
    return [
        encode_sse("message_start", f'{{"type":"message_start","message":{{"model":"m","usage":{usage}}}}}'),
        encode_sse(
            "content_block_start",
            f'{{"type":"content_block_start","index":{number},"content_block":{{"type":"text","text":"hi"}}}}',
        ),
        encode_sse("message_delta", f'{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{usage}}}'),
        encode_sse("message_stop", '{"type":"message_stop"}'),
    ]


def openai(number: str) -> list[bytes]:
    counts = f'"prompt_tokens":{number},"completion_tokens":{number}'
    usage = f'{{{counts},"prompt_tokens_details":{{"cached_tokens":{number}}}}}'
    choice = '{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}'
    return [encode_sse("", f'{{"choices":[{choice}],"usage":{usage}}}'), encode_sse("", "[DONE]")]


def gemini(number: str) -> list[bytes]:
    counts = ",".join(f'"{name}TokenCount":{number}' for name in ("prompt", "candidates", "thoughts", "total"))
    candidate = '{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}'
    return [encode_sse("", f'{{"candidates":[{candidate}],"usageMetadata":{{{counts}}}}}')]


UPSTREAMS: dict[str, tuple[Any, str, Callable[[str], list[bytes]]]] = {
    "kiro": (KiroUpstream(), "application/vnd.amazon.eventstream", kiro),
    "anthropic": (AnthropicUpstream(), "text/event-stream", anthropic),
    "openai": (OpenAIUpstream(new_id=lambda: "c"), "text/event-stream", openai),
    "gemini": (GeminiUpstream(new_id=lambda: "c"), "text/event-stream", gemini),
}

DIALECTS: list[tuple[Dialect, Any]] = [
    (AnthropicMessages(), None),
    (OpenAIChat(), ChatOptions(include_usage=True)),
    (OpenAIResponses(), ResponsesOptions(store=False)),
]


def message_of(name: str, number: str) -> Message:
    upstream, media_type, chunks = UPSTREAMS[name]
    answer = build_pipeline(upstream.decoder(media_type), Plan(input_tokens=7, context_window=1_000))
    builder = MessageBuilder()
    builder.feed(answer.feed(chunks(number)))
    builder.feed(answer.flush())
    assert builder.message is not None
    assert isinstance(answer.end, MessageEnd)
    return builder.message


@pytest.mark.parametrize(
    "number", ABSURD, ids=lambda number: f"{number:.0e}" if abs(number) < 2**60 else len(str(number))
)
@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_count_that_nobody_means_is_none(name: str, number: int) -> None:
    """R20: the answer is whole, its counts are estimates, and every API can write them down."""
    message = message_of(name, str(number))

    assert message.text == "hi"
    assert message.usage.input_source is UsageSource.ESTIMATE
    assert message.usage.input_tokens == 7
    assert message.usage.output_tokens <= LARGEST_COUNT
    Calibration().observe("m", 1_000.0, message.usage)
    for dialect, options in DIALECTS:
        assert b"hi" in b"".join(dialect.render(message, ResponseMeta("id", "m", 0, options)))


@pytest.mark.parametrize("name", UPSTREAMS)
def test_the_largest_count_is_believed(name: str) -> None:
    """2**53 is the last number that every reader of JSON has exactly."""
    usage = message_of(name, str(LARGEST_COUNT)).usage

    assert usage.output_source is UsageSource.UPSTREAM
    assert usage.output_tokens % LARGEST_COUNT == 0
    assert usage.output_tokens


@pytest.mark.parametrize("digits", [10**400, -(10**400), 10**4_299, 1e308, -1e308, 2**63, LAST_SECOND * 1000 + 1])
def test_times_that_nobody_means_are_none(digits: float) -> None:
    """Of a token's end, of a quota's next, of a page's publication."""
    assert _date(digits) == ""
    assert expiry(digits) is None
    assert lifetime({"expiresIn": digits}) is None
    document = {"usageBreakdown": {"resourceType": "CREDIT", "usageLimit": digits, "nextDateReset": digits}}
    limits = parse_limits(json.dumps(document).encode())
    assert limits.resets_at is None


@pytest.mark.parametrize(
    "value", [TOO_LONG, "1" * 400, f"Tue, 01 Jan {TOO_LONG} 00:00:00 GMT", f"Tue, 01 Jan 2030 00:00:00 +{TOO_LONG}"]
)
def test_absurd_waits_are_none(value: str) -> None:
    """A header may hold any number of digits."""
    assert not retry_after({"retry-after": value, "date": "Tue, 01 Jan 2030 00:00:00 GMT"})
