"""Telling linear from quadratic time on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def assert_linear(make: Callable[[int], Callable[[], object]], size: int) -> None:
    """Four times the input takes about four times as long; sixteen times would be quadratic.

    *make* prepares a run over an input of a given size; only the run itself is timed, the best of three.
    """
    small, large = (min(_seconds(make(n)) for _ in range(3)) for n in (size, 4 * size))

    assert large < 8 * small + 0.01, f"{size} take {small:.4f} s, {4 * size} take {large:.4f} s"


def _seconds(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun
