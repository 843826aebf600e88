"""Time and chance, and how long a token is good."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import inf

from attrs import frozen

__all__ = ["Clocks", "Lease"]


@frozen
class Clocks:
    """Time and chance."""

    steady: Callable[[], float] = time.monotonic
    """Seconds of a clock that nobody sets."""

    wall: Callable[[], float] = time.time
    """Seconds since the epoch."""

    draw: Callable[[], float] = random.random
    """Numbers from 0 to 1."""


@frozen
class Lease:
    """How long a token is good, by both clocks: one of them may be set, the other stands while a machine sleeps."""

    ends: float = inf
    ends_wall: float = inf
    ahead: float = 0.0
    """Seconds before the end at which it is renewed."""

    def left(self, clocks: Clocks) -> float:
        """Seconds until the end; not positive when it has come."""
        return min(self.ends - clocks.steady(), self.ends_wall - clocks.wall())
