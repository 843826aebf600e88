"""Work that goes on when its request has ended: each piece in a thread with an event loop of its own.

So it needs nothing of the host: no lifespan, no task group that outlives a request, and no particular event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from logging import getLogger
from typing import Final

import anyio
from attrs import define, field

from kiro_asgi.errors import LimitReached, TooBusy

__all__ = ["Background"]

_log = getLogger("kiro_asgi")

_LOOK: Final = 0.1
"""Seconds between two looks at whether work is to end, and whether all has ended."""

_PARTING: Final = 5.0
"""Seconds that work has to say that it was interrupted."""

_RETRY_AFTER: Final = 5.0


@define(eq=False)
class Background:
    """The work of one application; from several event loops, if need be."""

    _limit: int
    """Pieces at once."""

    _interrupt: Callable[[], None]
    """Ends the calls under way in the running event loop."""

    _close: Callable[[], Awaitable[None]]
    """Closes what was opened in the running event loop."""

    _running: set[threading.Event] = field(init=False, factory=set)
    """What each piece of work looks at to see whether it is to end."""

    _guard: threading.Lock = field(init=False, factory=threading.Lock)

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start *work*.

        Raises:
            LimitReached: There is so much already.
            TooBusy: There is no thread left.
        """
        end = threading.Event()
        with self._guard:
            if len(self._running) >= self._limit:
                message = f"{self._limit} responses are made in the background already; try again later"
                raise LimitReached(message, code="background_full", retry_after=_RETRY_AFTER)
            self._running.add(end)
        try:
            threading.Thread(target=self._run, args=(work, end), name="kiro-asgi background").start()
        except RuntimeError as error:
            self._running.discard(end)
            raise TooBusy(f"no thread is left for it: {error}", code="threads", retry_after=_RETRY_AFTER) from None

    def interrupt(self) -> None:
        """Have all of it end: returns at once."""
        with self._guard:
            for end in self._running:
                end.set()

    async def idle(self) -> None:
        """Wait until none is under way."""
        while self._running:  # noqa: ASYNC110 - no event spans two loops
            await anyio.sleep(_LOOK)

    async def aclose(self) -> None:
        """Have all of it end, and wait for that, for a few seconds at most."""
        self.interrupt()
        with anyio.move_on_after(_PARTING, shield=True):
            await self.idle()

    def _run(self, work: Callable[[], Awaitable[None]], end: threading.Event) -> None:
        async def run() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, end)
                try:
                    await work()
                finally:
                    group.cancel_scope.cancel()
            await self._close()

        try:
            anyio.run(run)
        except BaseException as error:  # noqa: BLE001 - nobody is there to be told
            _log.error("work in the background failed: %r", error)
        finally:
            with self._guard:
                self._running.discard(end)

    async def _watch(self, end: threading.Event) -> None:
        """Interrupt the work where that is asked for, or the interpreter ends: it waits for this thread."""
        while True:
            await anyio.sleep(_LOOK)
            if end.is_set() or not threading.main_thread().is_alive():
                self._interrupt()
