"""Clocks and random numbers, to be injected."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

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
