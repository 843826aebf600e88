"""Clocks and random numbers as they are injected, and the validity of a token by two clocks."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import inf

from attrs import frozen


@frozen
class Clocks:
    """Clocks and a source of random numbers."""

    steady: Callable[[], float] = time.monotonic
    """Seconds of a monotonic clock."""

    wall: Callable[[], float] = time.time
    """Seconds since the epoch."""

    draw: Callable[[], float] = random.random
    """Numbers from 0 to 1."""


@frozen
class Validity:
    """The validity of a token by both clocks: one of them may be set, the other stops while a machine sleeps."""

    ends: float = inf
    ends_wall: float = inf
    ahead: float = 0.0
    """Seconds before the end at which it is refreshed."""

    def left(self, clocks: Clocks) -> float:
        """Seconds until the end; not positive when it has come."""
        return min(self.ends - clocks.steady(), self.ends_wall - clocks.wall())
