"""Work that goes on when no request waits for it any more: in a thread with its own event loop, once at a time."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from logging import getLogger

import anyio
import anyio.to_thread
from attrs import define, field

from kiro_asgi.net.transport import Transport

_log = getLogger("kiro_asgi")

Work = Callable[[], Awaitable[None]]


@define(eq=False)
class SingleFlight:
    """Runs work for one purpose, at most once at a time, whichever event loops ask for it."""

    _purpose: str
    """Its name in log lines."""

    _transport: Transport
    _last: Future[None] | None = field(init=False, default=None)
    _guard: threading.Lock = field(init=False, factory=threading.Lock)

    async def run(self, work: Work) -> None:
        """Run *work*, or wait for the run that is under way already, and raise what it raises."""
        flight = self.start(work)
        await _wait(flight)
        flight.result()

    def start(self, work: Work) -> Future[None]:
        """Start *work*, unless a run is under way already."""
        with self._guard:
            if self._last is None or self._last.done():
                flight = Future[None]()
                threading.Thread(target=self._run, args=(flight, work), name=f"kiro-asgi {self._purpose}").start()
                self._last = flight  # only after the thread was started: a machine may have none left
            return self._last

    async def join(self) -> None:
        """Wait until no run is under way, however it ends."""
        if self._last is not None:
            await _wait(self._last)

    def _run(self, flight: Future[None], work: Work) -> None:
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


async def _wait(flight: Future[None]) -> None:
    """Wait for *flight*; a waiter that is cancelled does not stop it."""
    # A limiter of its own, since the host may have used up the threads of the common one.
    if not flight.done():
        await anyio.to_thread.run_sync(wait, (flight,), abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
