"""Four times the input takes four times the time, not sixteen times (R15, R24)."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kiro_asgi.stages.base import Stage
from kiro_asgi.wire import json
from kiro_asgi.wire.eventstream import FrameDecoder, encode_frame
from kiro_asgi.wire.objects import ObjectScanner
from kiro_asgi.wire.sse import SseDecoder

Work = Callable[[int], Any]

MIB = 1 << 20


def drain(stage: Stage[bytes, Any], data: bytes, size: int) -> int:
    """Feed *data* in reads of *size* bytes, each in its own call as a network would; the number of items found."""
    return sum(1 for start in range(0, len(data), size) for _ in stage.feed([data[start : start + size]]))


def load(data: Iterable[Any]) -> None:
    """Load what may be refused."""
    try:
        json.loads(bytes(data))
    except json.JsonError:
        return


def seconds(work: Work, size: int) -> float:
    """CPU time of one run."""
    start = time.process_time()
    work(size)
    return time.process_time() - start


PROBES = [
    pytest.param(lambda n: drain(FrameDecoder(), encode_frame({}, b"x" * n), 1), MIB // 16, id="frame-by-bytes"),
    pytest.param(lambda n: drain(FrameDecoder(), encode_frame({}) * n, 16 * n), 25_000, id="frames-in-one-read"),
    pytest.param(lambda n: drain(FrameDecoder(), encode_frame({}) * n, 4096), 50_000, id="frames-in-reads"),
    pytest.param(lambda n: drain(ObjectScanner(), b'{"content":"' + b"x" * n, 64), 2 * MIB, id="object-open"),
    pytest.param(lambda n: drain(ObjectScanner(), b'{"content":"' + b'\\"' * n, 64), MIB // 2, id="object-escapes"),
    pytest.param(lambda n: drain(ObjectScanner(), b'{"content":' * n, 16 * n), 25_000, id="object-nested"),
    pytest.param(lambda n: drain(ObjectScanner(), b'{"a":' * n, 64), MIB // 8, id="object-junk"),
    pytest.param(lambda n: drain(ObjectScanner(), b'{"stop":1}' * n, 16 * n), 8_000, id="objects-in-one-read"),
    pytest.param(lambda n: drain(SseDecoder(), b"data: " + b"x" * n, 16), MIB // 2, id="sse-line"),
    pytest.param(lambda n: drain(SseDecoder(), b"data: x\n" * n, 16), 25_000, id="sse-lines"),
    pytest.param(lambda n: drain(SseDecoder(), b"data: x\n\n" * n, 16 * n), 25_000, id="sse-events-in-one-read"),
    pytest.param(lambda n: load(b'"' + b'\\"' * n + b"[" * 200), MIB, id="json-open-string"),
    pytest.param(lambda n: load(b'["' + b"[\\ud800" * n + b'"]'), MIB // 16, id="json-escapes"),
]


@pytest.mark.parametrize(("work", "size"), PROBES)
def test_time_is_linear(work: Work, size: int) -> None:
    """R15, R24: per doubling the CPU time grows by less than 2.8; a busy machine gets two more chances."""
    once = four_times = math.inf
    for _ in range(3):
        once, four_times = min(once, seconds(work, size)), min(four_times, seconds(work, 4 * size))
        if four_times <= 8 * once:
            return
    pytest.fail(f"{four_times / once:.1f} times as long")


def test_memory_of_many_frames_is_constant() -> None:
    """R15: 100 000 empty frames in reads of 4 KiB leave nothing behind."""
    data = encode_frame({}) * 256
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        count = sum(1 for _ in range(400) for _ in decoder.feed([data]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert count == 400 * 256
    assert peak <= 64 * 1024
