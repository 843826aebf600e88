"""Work that goes on when nobody waits for it any more: in a thread with an event loop of its own, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from logging import getLogger

import anyio
import anyio.to_thread
from attrs import define, field

from kiro_asgi.net.transport import Transport

__all__ = ["Flights"]

_log = getLogger("kiro_asgi")

_Work = Callable[[], Awaitable[None]]


@define(eq=False)
class Flights:
    """What is under way for one purpose; at most one flight, whichever event loops ask for one."""

    _purpose: str
    """In words for a log line."""

    _transport: Transport
    _last: Future[None] | None = field(init=False, default=None)
    _guard: threading.Lock = field(init=False, factory=threading.Lock)

    async def fly(self, work: _Work) -> None:
        """Do *work*, or wait for what is under way already, and raise what that raises."""
        flight = self.take_off(work)
        await _ended(flight)
        flight.result()

    def take_off(self, work: _Work) -> Future[None]:
        """Begin *work*, unless something is under way already."""
        with self._guard:
            if self._last is None or self._last.done():
                flight = Future[None]()
                threading.Thread(target=self._run, args=(flight, work), name=f"kiro-asgi {self._purpose}").start()
                self._last = flight  # not before there is a thread: a machine may have none left
            return self._last

    async def landed(self) -> None:
        """Wait until nothing is under way, however it ends."""
        if self._last is not None:
            await _ended(self._last)

    def _run(self, flight: Future[None], work: _Work) -> None:
        async def run() -> None:
            try:
                await work()
            finally:
                await self._transport.aclose()  # what this event loop has opened

        try:
            flight.set_result(anyio.run(run))
        except BaseException as error:  # noqa: BLE001 - raised where the flight is waited for, if it is
            _log.error("%s failed: %s", self._purpose, type(error).__name__)
            flight.set_exception(error)


async def _ended(flight: Future[None]) -> None:
    """Wait for *flight* without holding it; with a limiter of its own, since a host may have used up the common one."""
    if not flight.done():
        await anyio.to_thread.run_sync(wait, (flight,), abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
