"""A store in this process's memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from time import monotonic

from attrs import define, field, frozen

from kiro_asgi.state.locks import Locks
from kiro_asgi.state.shelf import Room, Shelf

__all__ = ["MemoryStore"]


@frozen
class _Entry:
    value: bytes
    expires_at: float


@define
class MemoryStore:
    """Keeps the values used last; see `kiro_asgi.state.base.Store`.

    Every operation takes at most logarithmic time.  The store may serve several event loops, also of several threads; a
    lock holds across them.
    """

    entries: int = 1_000
    """Values kept at once."""

    max_bytes: int = 16 * 1024 * 1024
    """Memory for all of them."""

    _clock: Callable[[], float] = monotonic
    _kept: Shelf[_Entry] = field(init=False, repr=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    """Held for the moment of one operation, never across an ``await``."""

    _locks: Locks = field(init=False, factory=Locks, repr=False)

    def __attrs_post_init__(self) -> None:
        self._kept = Shelf(Room(self.entries, self.max_bytes))

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """Memory in use, by the same count as *max_bytes*."""
        return self._kept.size_bytes

    async def get(self, key: str) -> bytes | None:
        """The value; reading it counts as using it."""
        with self._guard:
            value = self._living(key)
            if value is not None:
                self._kept.use(key)
            return value

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value*; who has most makes room for it, with what it used longest ago."""
        entry = _Entry(value, self._clock() + ttl)
        with self._guard:
            self._kept.put(key, entry, len(value))

    async def take(self, key: str) -> bytes | None:
        """The value, and forget it."""
        with self._guard:
            value = self._living(key)
            self._kept.remove(key)
            return value

    async def delete(self, key: str) -> None:
        """Forget the value."""
        with self._guard:
            self._kept.remove(key)

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Exclude others: tasks of one event loop get their turn in order, those of different ones in any."""
        return self._locks.hold(key)

    async def aclose(self) -> None:
        """Nothing: there is nothing to let go of."""

    def _living(self, key: str) -> bytes | None:
        entry = self._kept.get(key)
        if entry is not None and entry.expires_at <= self._clock():
            self._kept.remove(key)
            return None
        return None if entry is None else entry.value
