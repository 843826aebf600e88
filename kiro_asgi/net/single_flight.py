"""Work that goes on when no request waits for it any more: in a thread with its own event loop, once at a time."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from logging import getLogger

import anyio
from attrs import define, field

from kiro_asgi.loops import way_into
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
    _cancel: Callable[[], object] = field(init=False, default=lambda: None)

    @property
    def is_under_way(self) -> bool:
        """Whether a run has begun and not ended."""
        return self._last is not None and not self._last.done()

    async def run(self, work: Work) -> None:
        """Run *work*, or wait for the run that is under way already, and raise what it raises."""
        flight = self.start(work)
        await _wait(flight)
        flight.result()

    def start(self, work: Work) -> Future[None]:
        """Start *work*, unless a run is under way already."""
        with self._guard:
            if self._last is not None and not self._last.done():
                return self._last
            flight = Future[None]()
            threading.Thread(target=self._run, args=(flight, work), name=f"kiro-asgi {self._purpose}").start()
            self._last = flight  # only after the thread was started: a machine may have none left
            return flight

    async def join(self) -> None:
        """Wait until no run is under way, however it ends."""
        if self._last is not None:
            await _wait(self._last)

    def cancel(self) -> None:
        """Have the run that is under way end, if there is one; `join` waits until it has."""
        with suppress(RuntimeError):  # it has ended, and its event loop with it
            self._cancel()

    def _run(self, flight: Future[None], work: Work) -> None:
        async def run() -> None:
            try:
                with anyio.CancelScope() as scope:
                    self._cancel = partial(way_into(), scope.cancel)
                    await work()
            finally:
                await self._transport.aclose()  # what this event loop has opened

        try:
            flight.set_result(anyio.run(run))
        except BaseException as error:  # noqa: BLE001 - raised where the flight is waited for, if it is
            _log.error("%s failed: %s", self._purpose, type(error).__name__)
            flight.set_exception(error)


async def _wait(flight: Future[None]) -> None:
    """Wait for *flight*; a waiter that is cancelled does not stop it.

    No thread waits: clients that come and go while a service hangs would leave one behind each.
    """
    landed, soon = anyio.Event(), way_into()

    def wake(_: Future[None]) -> None:
        with suppress(RuntimeError):  # nobody waits in a loop that has ended
            soon(landed.set)

    flight.add_done_callback(wake)
    await landed.wait()
