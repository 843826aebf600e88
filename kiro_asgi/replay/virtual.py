"""An event loop whose time passes when nothing is left to do: hours of a recording take as long as their work."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Final, TypeVar

__all__ = ["VirtualLoop", "run_virtual"]

T = TypeVar("T")

_LONGEST: Final = 30.0
"""Seconds of our time in which nothing happens and nothing is going to: a fault of ours, which must not hang."""

_LOOK: Final = 0.05


class _Selector(selectors.DefaultSelector):
    """Waits for no file, but for threads, which wake the loop; time jumps to what is due next."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self.now = 0.0
        self._speed = speed
        self._idle_since: float | None = None

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(0)
        if events or timeout == 0:
            self._idle_since = None
            return list(events)
        if timeout is None:
            self._idle_since = monotonic() if self._idle_since is None else self._idle_since
            if monotonic() - self._idle_since > _LONGEST:
                raise RuntimeError("a replay waits for something that never comes")
            return list(super().select(_LOOK))
        if self._speed:
            events = super().select(timeout / self._speed)
        self.now += timeout
        self._idle_since = None
        return list(events)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Such a loop.

    Args:
        speed: How many times faster than ours its time passes; 0 for as fast as possible.
    """

    def __init__(self, speed: float = 0.0) -> None:
        self._time = _Selector(speed)
        super().__init__(self._time)

    def time(self) -> float:
        """Seconds since it was made."""
        return float(self._time.now)


def run_virtual(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], speed: float = 0.0) -> T:
    """Run *main* in a loop of its own, from whichever thread; blocks."""
    loop = VirtualLoop(speed)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))
