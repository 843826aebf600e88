"""A report of tokens says the same whether the answer is translated or relayed, in each API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.gemini.dialect import GeminiStream
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.passthrough import TransparentDialect
from kiro_asgi.errors import UpstreamFault
from kiro_asgi.model.events import Notice, SideRun, TokenUsage, Usage, UsageSource
from kiro_asgi.stages.usage import UsageMeter
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Upstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.openai.responses_answer import stages as responses_stages
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from kiro_asgi.wire.sse import encode_sse
from tests.helpers import run

Json = dict[str, Any]
SSE = "text/event-stream"


def messages(*reports: Json) -> list[Json]:
    first, *later = reports
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}
    end = {"delta": {"stop_reason": "end_turn"}}
    return [
        {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": first}},
        block,
        {"type": "content_block_stop", "index": 0},
        *({"type": "message_delta", **end, "usage": report} for report in later),
        {"type": "message_stop"},
    ]


def chat(*reports: Json) -> list[Json]:
    said = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    return [said, *({"choices": [], "usage": report} for report in reports)]


def responses(*reports: Json) -> list[Json]:
    part = {"type": "output_text", "text": "Hi", "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    response = {"object": "response", "status": "completed", "output": [item], "usage": reports[-1]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    return [done, {"type": "response.completed", "response": response}]


def gemini(*reports: Json) -> list[Json]:
    said = {"content": {"parts": [{"text": "Hi"}]}}
    return [
        *({"candidates": [said], "usageMetadata": report} for report in reports[:-1]),
        {"candidates": [{**said, "finishReason": "STOP"}], "usageMetadata": reports[-1]},
    ]


APIS: Mapping[str, tuple[Callable[..., list[Json]], Callable[[], Upstream], TransparentDialect]] = {
    "messages": (messages, AnthropicUpstream, AnthropicMessages()),
    "chat": (chat, OpenAIUpstream, OpenAIChat()),
    "responses": (responses, OpenAIUpstream, OpenAIResponses()),
    "gemini": (gemini, GeminiUpstream, GeminiStream()),
}


def written(events: list[Json], api: str) -> list[bytes]:
    named = (encode_sse(event.get("type", ""), json.dumps(event).encode()) for event in events)
    return [*named, *([b"data: [DONE]\n\n"] if api == "chat" else [])]


def translated(api: str, data: list[bytes]) -> tuple[Usage, list[Notice]]:
    """What the service counts of a translated answer, and what is noticed of it."""
    _, upstream, _ = APIS[api]
    stages = responses_stages(SSE, lambda: "new", "openai") if api == "responses" else upstream().decoder(SSE)
    items: list[Any] = list(data)
    for stage in stages:
        items = run(stage, items)
    usage = run(UsageMeter(input_tokens=0), items)[-1]
    assert isinstance(usage, Usage)
    estimated = usage.output_source is UsageSource.ESTIMATE
    usage = evolve(usage, output_tokens=0) if estimated else usage
    return usage, [item for item in items if isinstance(item, Notice)]


def relayed(api: str, data: list[bytes]) -> Usage:
    """What a relayed answer counts; nothing where the service does not."""
    stage = APIS[api][2].passthrough(lambda *_: UpstreamFault("no"), ResponseMeta("id", "m", 0))
    run(stage, data)
    return stage.usage or Usage()


COUNTS = {"input_tokens": 11, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 7}
SUMMARY = {
    "type": "compaction", "input_tokens": 900, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 40,
    "output_tokens": 70,
}  # fmt: skip
ADVICE = {"type": "advisor_message", "model": "claude-opus-4-8", "input_tokens": 100, "output_tokens": 50}
HOLOGRAM = {"type": "hologram", "input_tokens": 1, "output_tokens": 1}
RUNS = (
    SideRun("compaction", "", 900, 70, 40, 5),
    SideRun("advisor_message", "claude-opus-4-8", 100, 50),
    SideRun("hologram", "", 1, 1),
)
NOUGHT = dict.fromkeys(COUNTS, 0)


def told(*counts: int | None, runs: tuple[SideRun, ...] | None = None, images: int | None = None) -> Usage:
    """The counts that the gateway makes of a report: uncached, output, read, written, thinking."""
    report = TokenUsage(*counts, image_tokens=images, side_runs=runs)
    return run(UsageMeter(input_tokens=0), [report])[-1]  # type: ignore[return-value]


REPORTS = [
    pytest.param("messages", [COUNTS, {"output_tokens": 9}], told(11, 9, 2, 3), id="cumulative"),
    pytest.param("messages", [COUNTS, {**NOUGHT, "output_tokens": 9}], told(11, 9, 2, 3), id="0-is-as-before"),
    pytest.param("messages", [NOUGHT, NOUGHT], Usage(), id="messages-that-nobody-counts"),
    pytest.param(
        "messages",
        [{**COUNTS, "iterations": None}, {**COUNTS, "iterations": [SUMMARY, {"type": "message", **COUNTS}]}],
        told(11, 7, 2, 3, runs=RUNS[:1]),
        id="a-summary-is-beside-the-message",
    ),
    pytest.param(
        "messages",
        [COUNTS, {**COUNTS, "iterations": [ADVICE, {"type": "fallback_message", **COUNTS}]}],
        told(11, 7, 2, 3, runs=RUNS[1:2]),
        id="an-advisor-is-beside-it-and-a-fallback-is-not",
    ),
    pytest.param(
        "messages",
        [COUNTS, {**COUNTS, "iterations": [HOLOGRAM, 7]}],
        told(11, 7, 2, 3, runs=RUNS[2:]),
        id="an-unknown-run-is-beside-it",
    ),
    pytest.param(
        "messages",
        [COUNTS, {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}],
        told(11, 9, 2, 3, 4),
        id="thinking-of-messages",
    ),
    pytest.param(
        "chat",
        [{"prompt_tokens": 20, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 8}}],
        told(12, 12, 8),
        id="cached",
    ),
    pytest.param(
        "chat",
        [{"prompt_tokens": 20, "completion_tokens": 12, "prompt_tokens_details": {"cache_write_tokens": 8}}],
        told(12, 12, None, 8),
        id="written",
    ),
    pytest.param(
        "chat",
        [{"prompt_tokens": 20, "completion_tokens": 12, "prompt_cache_hit_tokens": 8}],
        told(12, 12, 8),
        id="deepseek",
    ),
    pytest.param(
        "chat", [{"prompt_tokens": 20, "completion_tokens": 12, "cached_tokens": 8}], told(12, 12, 8), id="moonshot"
    ),
    pytest.param(
        "chat",
        [
            {
                "prompt_tokens": 32,
                "completion_tokens": 9,
                "total_tokens": 135,
                "completion_tokens_details": {"reasoning_tokens": 94},
            }
        ],
        told(32, 103, None, None, 94),
        id="thinking-that-only-the-total-has",
    ),
    pytest.param(
        "chat",
        [
            {
                "prompt_tokens": 32,
                "completion_tokens": 103,
                "total_tokens": 135,
                "completion_tokens_details": {"reasoning_tokens": 94, "rejected_prediction_tokens": 5},
            }
        ],
        told(32, 103, None, None, 94),
        id="thinking-and-predictions-are-of-the-answer",
    ),
    pytest.param(
        "chat",
        [{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}],
        Usage(),
        id="chat-that-nobody-counts",
    ),
    pytest.param(
        "responses",
        [
            {
                "input_tokens": 20,
                "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2},
                "output_tokens": 12,
                "output_tokens_details": {"reasoning_tokens": 7},
            }
        ],
        told(10, 12, 8, 2, 7),
        id="responses",
    ),
    pytest.param("responses", [{"input_tokens": 0, "output_tokens": 0}], Usage(), id="a-response-that-nobody-counts"),
    pytest.param("responses", [{"output_tokens": 12}], told(None, 12), id="a-response-half-counted"),
    pytest.param(
        "gemini",
        [
            {"promptTokenCount": 20, "totalTokenCount": 20},
            {
                "promptTokenCount": 20,
                "cachedContentTokenCount": 8,
                "toolUsePromptTokenCount": 30,
                "candidatesTokenCount": 5,
                "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 4}],
                "thoughtsTokenCount": 7,
                "totalTokenCount": 62,
            },
        ],
        told(42, 12, 8, None, 7, images=4),
        id="what-tools-added-and-thoughts",
    ),
    pytest.param(
        "gemini",
        [{"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}],
        Usage(),
        id="gemini-that-nobody-counts",
    ),
]


@pytest.mark.parametrize(("api", "reports", "expected"), REPORTS)
def test_a_report_is_read_alike_on_both_ways(api: str, reports: list[Json], expected: Usage) -> None:
    """Whatever a service adds up, or leaves beside the sum, is charged once, and on each way the same."""
    data = written(APIS[api][0](*reports), api)
    usage, _ = translated(api, data)

    assert usage == relayed(api, data) == expected


def test_the_runs_beside_an_answer_are_in_its_counts() -> None:
    """What is charged is all of it; the answer itself is what is left without them."""
    usage = told(11, 7, 2, 3, runs=RUNS)

    assert (usage.prompt_tokens, usage.output_tokens) == (11 + 2 + 3 + 945 + 100 + 1, 7 + 70 + 50 + 1)
    assert usage.of_answer == told(11, 7, 2, 3)
    assert usage.input_source is usage.output_source is UsageSource.UPSTREAM


def test_the_runs_of_several_answers_add_up() -> None:
    """A turn of several messages is charged for each of them."""
    report = TokenUsage(1, 1, side_runs=RUNS[:1])
    usage = run(UsageMeter(input_tokens=0), [report, TokenUsage(1, 1), report])[-1]

    assert isinstance(usage, Usage)
    assert usage.side_runs == RUNS[:1] * 2
    assert usage.input_tokens == 3 + 2 * 900


def test_a_run_of_an_unknown_kind_is_noticed() -> None:
    """It is not known whether the message's counts hold it."""
    known = [COUNTS, {**COUNTS, "iterations": [SUMMARY, ADVICE]}]
    unknown = [COUNTS, {**COUNTS, "iterations": [SUMMARY, HOLOGRAM]}]

    assert translated("messages", written(messages(*known), "messages"))[1] == []
    assert translated("messages", written(messages(*unknown), "messages"))[1] == [Notice("usage.unknown", "hologram")]
