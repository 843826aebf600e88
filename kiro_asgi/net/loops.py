"""Locks for whatever event loop comes along."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import anyio
from anyio.lowlevel import RunVar
from attrs import define, field

__all__ = ["LoopLock"]


@define(eq=False)
class LoopLock:
    """A lock in each event loop: one belongs to the first loop that uses it.  Loops do not exclude one another."""

    _locks: RunVar[anyio.Lock] = field(init=False)

    def __attrs_post_init__(self) -> None:
        # Older anyio finds a variable by its name: with one for all, the locks would be one lock.
        self._locks = RunVar(f"kiro_asgi.net.loops.{id(self)}")

    def held(self) -> AbstractAsyncContextManager[None]:
        """The running event loop's lock, to be held."""
        lock = self._locks.get(None)
        if lock is None:
            lock = anyio.Lock()
            self._locks.set(lock)
        return lock
