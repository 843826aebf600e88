"""Who reads what is stored: a client pays for it like for a request, and waits for itself alone.

A record's size is unknown until it is read.  So each client reads one at a time, in each process: before it reads
another, the room for the first is taken, or refused.  Reads of other clients do not wait for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final

import anyio
from attrs import define, field, frozen

from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.errors import StoreUnavailable, TooBusy
from kiro_asgi.limits import STORED_READS_WAITING
from kiro_asgi.state.base import Locks

_LONGEST: Final = 5.0
"""Seconds that a read waits for others of the same client."""

_RETRY_AFTER: Final = 1.0


def _nothing(size: int) -> None:
    """Hold nothing: for records that are held already, or small."""


@frozen
class Owner:
    """A client, and how the bytes that it takes up are counted."""

    principal: str
    hold: Callable[[int], None] = _nothing
    """Holds so many bytes; raises `TooBusy`."""

    @classmethod
    def of(cls, call: Call) -> Owner:
        """The client of *call*, which pays until its answer has ended."""
        return cls(call.principal, call.hold_stored)


@define(eq=False)
class Turns:
    """Turns to read, one client's in their order; any number of clients read at the same time."""

    _locks: Locks = field(init=False, factory=Locks)
    _waiting: Counter[str] = field(init=False, factory=Counter)
    """Reads by principal, those under way included."""

    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)

    @asynccontextmanager
    async def turn(self, principal: str) -> AsyncIterator[None]:
        """Wait for the turn of *principal*, which lasts as long as the context.

        Raises:
            TooBusy: Too many reads of this client wait.
            StoreUnavailable: Its turn does not come in time: an earlier read of this client takes too long.
        """
        async with AsyncExitStack() as stack:
            stack.enter_context(self._in_line(principal))
            try:
                with anyio.fail_after(_LONGEST):
                    await stack.enter_async_context(self._locks.hold(principal))
            except TimeoutError:
                raise StoreUnavailable(
                    "earlier reads of what this client has stored take too long; try again later",
                    code="state.slow",
                    retry_after=_RETRY_AFTER,
                ) from None
            yield

    @contextmanager
    def _in_line(self, principal: str) -> Iterator[None]:
        with self._guard:
            if self._waiting[principal] > STORED_READS_WAITING:
                raise TooBusy(
                    f"{STORED_READS_WAITING} reads of what this client has stored wait already; try again later",
                    code="stored_reads_full",
                    retry_after=_RETRY_AFTER,
                )
            self._waiting[principal] += 1
        try:
            yield
        finally:
            with self._guard:
                self._waiting[principal] -= 1
                if not self._waiting[principal]:
                    del self._waiting[principal]
