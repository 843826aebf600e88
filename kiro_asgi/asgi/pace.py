"""How much the answers of one event loop do in one of its turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
from anyio.lowlevel import checkpoint
from attrs import define, field

__all__ = ["MANY", "SHORT", "TURN", "Pace"]

MANY: Final = 32
"""Answers under way from which on they share the turns of the event loop.  Fewer hold nobody up for long, and are not
slowed down by looking at each other."""

TURN: Final = 0.001
"""Seconds of one turn in which parts of answers are begun: a short request takes some ten turns."""

SHORT: Final = 0.0003
"""Seconds of a part that does not wait for a turn with time left."""

_ALIKE: Final = 4
"""Answers that look at the clock in one turn.  Others stand in line behind them, which costs nothing."""


@define(eq=False)
class Pace:
    """Spreads the work of many answers over many turns of their event loop, so that short requests come between."""

    _clock: Callable[[], float]
    _under_way: int = field(init=False, default=0)
    _began: float = field(init=False, default=0.0)
    """When the first part was begun of the latest turn that had to be waited for."""

    _line: anyio.Semaphore = field(init=False, factory=lambda: anyio.Semaphore(_ALIKE, fast_acquire=True))

    def __enter__(self) -> None:
        """Another answer is under way."""
        self._under_way += 1

    def __exit__(self, *_: object) -> None:
        """It has ended."""
        self._under_way -= 1

    @property
    def is_busy(self) -> bool:
        """Whether so many answers are under way that one with much to do waits for its turn."""
        return self._under_way >= MANY

    async def wait(self) -> None:
        """Wait for a turn of the event loop that has time left."""
        async with self._line:
            while self._clock() - self._began >= TURN:
                began = self._began
                await checkpoint()
                if self._began == began:  # nobody has begun anything since: this turn is a new one
                    self._began = self._clock()
                    return
