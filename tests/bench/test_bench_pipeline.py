"""The whole pipeline, beside ``json.loads``: ``pytest tests/bench/test_bench_pipeline.py --benchmark-enable -s``.

Every figure is a ratio of two measurements taken in the same run; none is asserted, as timings are not facts.  What is
asserted is that the work was done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, ResponseMeta
from kiro_asgi.dialects.gemini.dialect import GeminiStream
from kiro_asgi.dialects.gemini.parsing import GeminiOptions
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.helpers import kiro_event

FRAMES = "application/vnd.amazon.eventstream"
DIALECTS: dict[str, tuple[Dialect, Any]] = {
    "openai": (OpenAIChat(), ChatOptions()),
    "anthropic": (AnthropicMessages(), None),
    "gemini": (GeminiStream("m"), GeminiOptions()),
}
PIECES = [f'p{i:05d}\n"q" \\ end ' if i % 10 == 5 else f"p{i:05d} lorem ipsum" for i in range(1000)]
PAYLOADS = [json.dumps({"content": piece}, separators=(",", ":")).encode() for piece in PIECES]
STREAM = [kiro_event("assistantResponseEvent", {"content": piece}) for piece in PIECES]
PLANS = {"bare": Plan(), "max_tokens": Plan(max_tokens=10**9), "tags": Plan(thinking="as_reasoning_content")}


def translate(dialect: str, plan: Plan, frames: list[bytes]) -> int:
    """Bytes of server-sent events that *frames* become, one frame a read."""
    speaker, options = DIALECTS[dialect]
    answer = build_pipeline(KiroUpstream().decoder(FRAMES), plan)
    encoder = speaker.encoder(ResponseMeta("id", "claude-sonnet-4.5", 1_700_000_000, options))
    size = 0
    for frame in frames:
        for data in encoder.feed(answer.feed([frame])):
            size += len(data)
    return size + sum(map(len, encoder.feed(answer.flush()))) + sum(map(len, encoder.flush()))


def load(payloads: list[bytes]) -> int:
    """Characters of text in *payloads*, by the standard library."""
    return sum(len(json.loads(payload)["content"]) for payload in payloads)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_translating(benchmark: Any, dialect: str) -> None:
    """A thousand text events, one a read."""
    assert benchmark(translate, dialect, PLANS["bare"], STREAM) > len(b"".join(PAYLOADS))


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_ratio_to_json(dialect: str, plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints µs an event and the ratio to ``json.loads`` of the same payloads; the target is at most 6."""
    ours, theirs = best(partial(translate, dialect, PLANS[plan], STREAM)), best(partial(load, PAYLOADS))

    show(capsys, f"{dialect}, {plan}: {ours:.2f} µs an event, json.loads {theirs:.2f} µs, ratio {ours / theirs:.1f}")
    assert load(PAYLOADS) == sum(map(len, PIECES))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_ratio_of_long_to_short(dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the cost of an event in an answer of 100,000 events over that in one of 1,000; the target is 1."""
    short = best(partial(translate, dialect, PLANS["bare"], STREAM), runs=5)
    size = translate(dialect, PLANS["bare"], STREAM * 100)
    long = best(partial(translate, dialect, PLANS["bare"], STREAM * 100), runs=1, events=100_000)

    show(capsys, f"{dialect}: {short:.2f} µs an event of 1,000, {long:.2f} of 100,000, ratio {long / short:.2f}")
    assert size > 90 * translate(dialect, PLANS["bare"], STREAM)


def best(work: Callable[[], int], *, runs: int = 7, events: int = 1000) -> float:
    """The least CPU time of several runs, in µs an event."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        assert work() > 0
        times.append(time.process_time() - start)
    return min(times) / events * 1e6


def show(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n{line}")
