"""Count the work that an input causes, so that growth is asserted of steps and not of the clock.

`steps` counts what Python itself does: each line run, each function entered.  What runs in C is one step, however long
it takes: a search in a list, a copy, a regular expression (`tests.backtracking` counts the steps of those).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["assert_linear", "steps"]


def steps(work: Callable[[], object]) -> int:
    """Lines run and functions entered while *work* runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def assert_linear(
    make: Callable[[int], Callable[[], object]],
    size: int,
    *,
    count: Callable[[Callable[[], object]], int] = steps,
    slack: float = 1.25,
) -> None:
    """Assert that work grows with its input at n, 2n and 4n, and no faster.

    Args:
        make: Makes the work for a size; what it does itself is not counted.
        size: The smallest n; large enough for the work to outweigh what is constant.
        count: Counts one run.
        slack: How far the growth from 2n to 4n may exceed twice the growth from n to 2n; quadratic work is at 2.
    """
    once, twice, four_times = (count(make(size * factor)) for factor in (1, 2, 4))

    assert four_times - twice <= 2 * slack * max(twice - once, 1) + 64, f"steps: {once}, {twice}, {four_times}"
