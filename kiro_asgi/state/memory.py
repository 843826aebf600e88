"""A store in this process's memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.state.locks import Locks

__all__ = ["MemoryStore"]

_ENTRY_BYTES: Final = 400
"""What an entry costs besides its value: key, record, and their places in the table, rounded up."""


@frozen
class _Entry:
    value: bytes
    expires_at: float

    @property
    def cost(self) -> int:
        return len(self.value) + _ENTRY_BYTES


@define
class MemoryStore:
    """Keeps the values used last; see `kiro_asgi.state.base.Store`.

    Every operation takes constant time.  The store may serve several event loops, also of several threads; a lock holds
    across them.
    """

    entries: int = 1_000
    """Values kept at once."""

    max_bytes: int = 16 * 1024 * 1024
    """Memory for all of them."""

    _clock: Callable[[], float] = monotonic
    _kept: OrderedDict[str, _Entry] = field(init=False, factory=OrderedDict, repr=False)
    """The value used last is at the end."""

    _bytes: int = field(init=False, default=0)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    """Held for the moment of one operation, never across an ``await``."""

    _locks: Locks = field(init=False, factory=Locks, repr=False)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """Memory in use, by the same count as *max_bytes*."""
        return self._bytes

    async def get(self, key: str) -> bytes | None:
        """The value; reading it counts as using it."""
        with self._guard:
            entry = self._living(key)
            if entry is None:
                return None
            self._kept.move_to_end(key)
            return entry.value

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value*; those used longest ago make room for it."""
        entry = _Entry(value, self._clock() + ttl)
        with self._guard:
            self._forget(key)
            if entry.cost > self.max_bytes:
                return
            self._kept[key] = entry
            self._bytes += entry.cost
            while len(self._kept) > self.entries or self._bytes > self.max_bytes:
                self._bytes -= self._kept.popitem(last=False)[1].cost

    async def take(self, key: str) -> bytes | None:
        """The value, and forget it."""
        with self._guard:
            entry = self._living(key)
            self._forget(key)
            return entry.value if entry else None

    async def delete(self, key: str) -> None:
        """Forget the value."""
        with self._guard:
            self._forget(key)

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Exclude others: tasks of one event loop get their turn in order, those of different ones in any."""
        return self._locks.hold(key)

    async def aclose(self) -> None:
        """Nothing: there is nothing to let go of."""

    def _living(self, key: str) -> _Entry | None:
        entry = self._kept.get(key)
        if entry is not None and entry.expires_at <= self._clock():
            self._forget(key)
            return None
        return entry

    def _forget(self, key: str) -> None:
        entry = self._kept.pop(key, None)
        if entry is not None:
            self._bytes -= entry.cost
