"""Long computations in a thread, so that nobody else waits for them.

To read a request of megabytes, and to render it for a service, takes up to seconds.  A thread does not make that any
faster, but the interpreter takes turns, and the event loop goes on every few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import anyio.to_thread
from attrs import define, field

from kiro_asgi.loops import PerLoop

__all__ = ["Offload"]

T = TypeVar("T")

_LARGE: Final = 64 * 1024
"""Bytes of a request with which work is worth a thread: it takes some 20 ms where they are all small values."""


@define
class Offload:
    """Runs what takes long, one piece at a time for each event loop: several would leave it a smaller share."""

    _threads: PerLoop[anyio.CapacityLimiter] = field(
        init=False, factory=lambda: PerLoop(partial(anyio.CapacityLimiter, 1)), repr=False
    )

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Do *work*, in a thread if the request it is about is of many bytes.

        Args:
            size: Of the request, in bytes.
            work: Does no I/O, and knows nothing of event loops.
        """
        if size < _LARGE:
            return work()
        return await anyio.to_thread.run_sync(work, limiter=self._threads.here())
