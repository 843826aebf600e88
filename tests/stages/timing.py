"""Telling linear from quadratic time on a busy machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest


def assert_linear(make: Callable[[int], Callable[[], object]], size: int) -> None:
    """Four times the input takes about four times as long; sixteen times would be quadratic.

    *make* prepares a run over an input of a given size; only the run itself is timed.  A busy machine gets two more
    chances, as it can only make a run slower.
    """
    small = large = math.inf
    for _ in range(3):
        small, large = min(small, _seconds(make(size))), min(large, _seconds(make(4 * size)))
        if large < 8 * small + 0.01:
            return
    pytest.fail(f"{size} take {small:.4f} s, {4 * size} take {large:.4f} s")


def _seconds(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun
