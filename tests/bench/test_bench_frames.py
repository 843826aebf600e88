"""Decoding of frames, beside botocore's decoder: ``pytest tests/bench/test_bench_frames.py --benchmark-enable -s``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer

from kiro_asgi.wire.eventstream import FrameDecoder
from tests.helpers import kiro_event

COUNT = 5000
READ_SIZE = 4096

STREAM = b"".join(kiro_event("assistantResponseEvent", {"content": f" word{i % 100}"}) for i in range(COUNT))
READS = [STREAM[start : start + READ_SIZE] for start in range(0, len(STREAM), READ_SIZE)]


def with_frame_decoder() -> int:
    """The number of frames that our decoder finds, both checksums checked."""
    decoder = FrameDecoder()
    return sum(1 for read in READS for _ in decoder.feed([read]))


def with_botocore() -> int:
    """The number of frames that botocore finds, both checksums checked."""
    buffer = EventStreamBuffer()
    count = 0
    for read in READS:
        buffer.add_data(read)
        count += sum(1 for _ in buffer)
    return count


@pytest.mark.parametrize("decode", [with_frame_decoder, with_botocore])
def test_decoding(benchmark: Any, decode: Callable[[], int]) -> None:
    """Text events of one word, in reads of 4 KiB."""
    benchmark.group = f"{COUNT} frames"

    assert benchmark(decode) == COUNT


def test_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints µs a frame for both and their ratio; the target is 5, and it is not asserted, as timings are not facts."""
    ours, theirs = (
        min(_timed(decode) for _ in range(5)) / COUNT * 1e6 for decode in (with_frame_decoder, with_botocore)
    )

    with capsys.disabled():
        print(f"\nFrameDecoder {ours:.2f} µs a frame, botocore {theirs:.2f} µs, ratio {theirs / ours:.1f}")
    assert ours > 0


def _timed(decode: Callable[[], int]) -> float:
    start = time.process_time()
    assert decode() == COUNT
    return time.process_time() - start
