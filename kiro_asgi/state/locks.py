"""Locks by name within one process, for tasks of any of its event loops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

import anyio
from attrs import define, field

from kiro_asgi.loops import PerLoop

__all__ = ["Locks"]

_POLL: Final = 0.005
"""Seconds between two looks at a lock that another event loop holds."""

_Turns = WeakValueDictionary[str, anyio.Lock]


@define
class Locks:
    """Any number of locks; a name that nobody holds or waits for takes no memory."""

    _holders: dict[str, object] = field(init=False, factory=dict, repr=False)
    """Locked names, to whoever holds them."""

    _turns: PerLoop[_Turns] = field(init=False, factory=lambda: PerLoop(_Turns), repr=False)
    """Queues in front of locks, for each event loop: they belong to the first that uses them."""

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Exclude others: tasks of one event loop get their turn in order, those of different ones in any."""
        me = object()
        async with self._turn(name):
            while self._holders.setdefault(name, me) is not me:  # noqa: ASYNC110 - no event spans two loops
                await anyio.sleep(_POLL)
            try:
                yield
            finally:
                del self._holders[name]

    def _turn(self, name: str) -> anyio.Lock:
        return self._turns.here().setdefault(name, anyio.Lock())
