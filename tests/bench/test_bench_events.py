"""Reading of answers, Bedrock's beside Kiro's: ``pytest tests/bench/test_bench_events.py --benchmark-enable -s``."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from kiro_asgi.stages.base import Pipeline
from kiro_asgi.upstreams.bedrock.upstream import BedrockUpstream
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.wire.eventstream import encode_frame
from kiro_asgi.wire.json import dumps
from tests.helpers import kiro_event

COUNT: Final = 5000
READ_SIZE: Final = 4096
FRAMES: Final = "application/vnd.amazon.eventstream"
PADDING: Final = "abcdefghijklmnopqrstuvwx"


def _bedrock(name: str, payload: Mapping[str, Any]) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, dumps({**payload, "p": PADDING}))


def _converse(word: str) -> bytes:
    return _bedrock("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}})


def _invoke(word: str) -> bytes:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
    return _bedrock("chunk", {"bytes": b64encode(dumps(event)).decode()})


def _reads(event: Callable[[str], bytes]) -> list[bytes]:
    stream = b"".join(event(f" word{i % 100}") for i in range(COUNT))
    return [stream[start : start + READ_SIZE] for start in range(0, len(stream), READ_SIZE)]


ANSWERS: Final = {
    "kiro": (KiroUpstream(), _reads(lambda word: kiro_event("assistantResponseEvent", {"content": word}))),
    "converse": (BedrockUpstream(), _reads(_converse)),
    "invoke": (BedrockUpstream(), _reads(_invoke)),
}
"""Name to who reads an answer of one word an event, and its bytes in reads of 4 KiB."""


def deltas(name: str) -> int:
    """How many deltas the answer has."""
    upstream, reads = ANSWERS[name]
    pipeline: Pipeline[bytes, Any] = Pipeline(*upstream.decoder(FRAMES))
    return sum(1 for read in reads for _ in pipeline.feed([read]))


@pytest.mark.parametrize("name", ANSWERS)
def test_reading(benchmark: Any, name: str) -> None:
    """Text of one word an event, from bytes to deltas."""
    benchmark.group = f"{COUNT} events"

    assert benchmark(deltas, name) >= COUNT


def test_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints µs of CPU an event for each; nothing of it is asserted, as timings are not facts."""
    spent = {name: min(_timed(name) for _ in range(5)) / COUNT * 1e6 for name in ANSWERS}

    with capsys.disabled():
        print("\n" + ", ".join(f"{name} {each:.2f} µs an event" for name, each in spent.items()))
    assert all(spent.values())


def _timed(name: str) -> float:
    start = time.process_time()
    deltas(name)
    return time.process_time() - start
