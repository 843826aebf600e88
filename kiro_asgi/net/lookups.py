"""Names of hosts that a request brings, looked up in threads of their own, of which each client has a share.

The system's resolver blocks a thread for as long as it takes, 30 s for a name whose server is silent, and cannot be
told to stop.  The event loop's own threads look up the names of services: a client must not be able to fill them.  So a
place is taken before the thread starts, and given back when the thread has ended, not when its request is given up.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

import anyio
import anyio.from_thread
import anyio.to_thread
from attrs import define, field

from kiro_asgi.limits import FETCHES_AT_ONCE, LOOKUP_THREADS
from kiro_asgi.loops import PerLoop

OWNER: Final[ContextVar[str]] = ContextVar("kiro_asgi.net.lookups", default="")
"""The client for whose call the running task works, set when it is known."""


@define(eq=False)
class Shares:
    """Places in one event loop, of which one owner can have a few."""

    most: int
    each: int
    """For one owner."""

    _all: anyio.CapacityLimiter = field(init=False)
    _own: dict[str, anyio.CapacityLimiter] = field(init=False, factory=dict)
    """Of owners that have places, or wait for one."""

    def __attrs_post_init__(self) -> None:
        self._all = anyio.CapacityLimiter(self.most)

    async def take(self, owner: str, holder: object) -> None:
        """Wait for a place; *holder* is what has it until `give_back`."""
        own = self._own.setdefault(owner, anyio.CapacityLimiter(self.each))
        try:
            await own.acquire_on_behalf_of(holder)
            await self._all.acquire_on_behalf_of(holder)
        except BaseException:
            self.give_back(owner, holder)
            raise

    def give_back(self, owner: str, holder: object) -> None:
        """Let others have what *holder* has, if it has anything."""
        own = self._own.get(owner)
        if own is None:
            return
        for limiter in (self._all, own):
            with suppress(RuntimeError):  # it has none of this one
                limiter.release_on_behalf_of(holder)
        found = own.statistics()
        if not found.borrowed_tokens and not found.tasks_waiting:
            self._own.pop(owner, None)

    @asynccontextmanager
    async def place(self, owner: str) -> AsyncIterator[None]:
        """A place within the block."""
        holder = object()
        await self.take(owner, holder)
        try:
            yield
        finally:
            self.give_back(owner, holder)


@define(eq=False)
class Lookups:
    """Looks up addresses for `OWNER`."""

    _look_up: Callable[..., Sequence[tuple[Any, ...]]] = socket.getaddrinfo
    _shares: PerLoop[Shares] = field(
        init=False, factory=lambda: PerLoop(lambda: Shares(LOOKUP_THREADS, FETCHES_AT_ONCE)), repr=False
    )

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """All addresses of *host*, as the system knows them.

        Raises:
            OSError: There is none.
        """
        shares, owner, thread = self._shares.here(), OWNER.get(), _Thread()
        await shares.take(owner, thread)

        def look_up() -> Sequence[tuple[Any, ...]]:
            if not thread.begin():
                return ()
            try:
                return self._look_up(host, port, type=socket.SOCK_STREAM)
            finally:
                with suppress(RuntimeError):  # the event loop has ended meanwhile
                    anyio.from_thread.run_sync(shares.give_back, owner, thread)

        try:
            found = await anyio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        finally:
            if thread.give_up():
                shares.give_back(owner, thread)
        return [*dict.fromkeys(str(place[0]) for *_, place in found)]


@define(eq=False)
class _Thread:
    """Has a place, until it ends, or is given up before it has begun: which of the two comes first is decided here."""

    _decided: threading.Lock = field(init=False, factory=threading.Lock)
    """Taken by whichever comes first."""

    def begin(self) -> bool:
        """Whether the thread may work; called in it."""
        return self._decided.acquire(blocking=False)

    give_up = begin
    """Whether it never will, and its place is free; called by who waits for it."""
