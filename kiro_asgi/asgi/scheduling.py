"""Sharing of one event loop by the work of many answers, and work that goes on when its request has ended.

To read a request of megabytes, and to render it for a service, takes up to seconds.  A thread does not make that any
faster, but the interpreter takes turns, and the event loop goes on every few milliseconds.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from logging import getLogger
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from attrs import define, field

from kiro_asgi.asgi.protocol import Disconnected
from kiro_asgi.errors import LimitReached, TooBusy
from kiro_asgi.loops import PerLoop, on_asyncio

MANY: Final = 32
"""Answers under way from which on they share the turns of the event loop.  Fewer hold up no other for long, and are not
slowed down by looking at each other."""

TURN: Final = 0.001
"""Seconds of one turn in which parts of answers are begun: a short request takes some ten turns."""

SHORT: Final = 0.0003
"""Seconds of a part that does not wait for a turn with time left."""

_ALIKE: Final = 4
"""Answers that look at the clock in one turn.  Others wait in line, which costs nothing."""


@define(eq=False)
class Pace:
    """Spreads the work of many answers over many turns of their event loop, so that short requests come between."""

    _clock: Callable[[], float]
    _under_way: int = field(init=False, default=0)
    _began: float = field(init=False, default=0.0)
    """When the first part was begun of the latest turn that had to be waited for."""

    _line: anyio.Semaphore = field(init=False, factory=lambda: anyio.Semaphore(_ALIKE, fast_acquire=True))

    def __enter__(self) -> None:
        """Another answer is under way."""
        self._under_way += 1

    def __exit__(self, *_: object) -> None:
        """It has ended."""
        self._under_way -= 1

    @property
    def is_busy(self) -> bool:
        """Whether so many answers are under way that one with much to do waits for its turn."""
        return self._under_way >= MANY

    async def wait(self) -> None:
        """Wait for a turn of the event loop that has time left."""
        async with self._line:
            while self._clock() - self._began >= TURN:
                began = self._began
                await checkpoint()
                if self._began == began:  # no other has begun anything since: this turn is a new one
                    self._began = self._clock()
                    return

    def turns(self) -> Turns:
        """For one piece of work that is done in steps."""
        return Turns(self, self._clock)


@define(eq=False)
class Turns:
    """Spreads the steps of one piece of work over as many turns of the event loop as they take time."""

    _pace: Pace
    _clock: Callable[[], float]
    _began: float = field(init=False, default=-math.inf)
    """When the latest of these turns began."""

    async def next(self) -> None:
        """Wait for another turn before the next step, where the steps since the last one took long."""
        if self._clock() - self._began >= TURN:
            await self._pace.wait()
            self._began = self._clock()


T = TypeVar("T")

_LARGE: Final = 64 * 1024
"""Bytes of a request with which work is worth a thread: it takes some 20 ms where they are all small values."""


@define
class Offload:
    """Runs long work, one piece at a time for each event loop: several would leave it a smaller share."""

    _threads: PerLoop[anyio.CapacityLimiter] = field(
        init=False, factory=lambda: PerLoop(partial(anyio.CapacityLimiter, 1)), repr=False
    )

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Do *work*, in a thread if the request it is about is of many bytes.

        Args:
            size: Of the request, in bytes.
            work: Does no I/O, and knows nothing of event loops.
        """
        if size < _LARGE:
            return work()
        return await anyio.to_thread.run_sync(work, limiter=self._threads.here())

    def apart(self) -> Offload:
        """Another of the same kind: its work does not wait for that of this one."""
        return type(self)()


@define(eq=False)
class Tasks:
    """A main task and others next to it: the first that fails, or the end of the main one, ends all.

    A scope for each task: were the group cancelled, the exception that ends a task would hold its frames, and they the
    task.  Such a circle, with prompt and answer in it, stays until the garbage collector comes by.
    """

    _group: TaskGroup
    failure: Exception | None = field(init=False, default=None)
    """First failure other than a client that left; kept here, as an exception that leaves the group is wrapped."""

    _running: set[anyio.CancelScope] = field(init=False, factory=set)

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do *work* concurrently with the main task."""
        self._group.start_soon(self._guarded, work, self._new_scope())

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the main task's *work*, then end the others."""
        await self._guarded(work, self._new_scope())
        self._end()

    def _new_scope(self) -> anyio.CancelScope:
        scope = anyio.CancelScope()
        self._running.add(scope)
        return scope

    async def _guarded(self, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await work()
            except Disconnected:
                pass
            except Exception as error:  # noqa: BLE001 - kept for the caller of `run`
                self.failure = error
            else:
                self._running.discard(scope)
                return
            # Not where an exception is handled: what cancels other tasks would hold it, and its frames them.
            self._running.discard(scope)
            self._end()

    def _end(self) -> None:
        for scope in self._running:
            scope.cancel()


Work = Callable[[], Awaitable[None]]


async def with_companion(work: Work, beside: Work) -> Exception | None:
    """Do *work*, and *beside* concurrently until it ends: the first that fails, or the end of *work*, ends both.

    As `Tasks`, for a companion that holds nothing which a cancellation could leave half done.  On asyncio it is a task
    of the loop's own: one in a group, whose scope is cancelled in several turns, costs three times as much.

    Returns:
        The last failure other than a client that left.
    """
    if not on_asyncio():
        async with anyio.create_task_group() as group:
            tasks = Tasks(group)
            tasks.start(beside)
            await tasks.run(work)
        return tasks.failure
    failure: Exception | None = None
    scope = anyio.CancelScope()

    async def ends_well(each: Work) -> bool:
        nonlocal failure
        try:
            await each()
        except Disconnected:
            return False
        except Exception as error:  # noqa: BLE001 - returned to the caller
            failure = error
            return False
        return True

    async def accompany() -> None:
        if not await ends_well(beside):
            scope.cancel()

    companion = asyncio.get_running_loop().create_task(accompany())
    try:
        with scope:
            await ends_well(work)
    finally:
        companion.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((companion,))
    return failure


_log = getLogger("kiro_asgi")

_LOOK: Final = 0.1
"""Seconds between two looks at whether work is to end, and whether all has ended."""

_PARTING: Final = 5.0
"""Seconds that work has to report that it was interrupted."""

_RETRY_AFTER: Final = 5.0


@define(eq=False)
class Background:
    """Work of one application that goes on when its request has ended; from several event loops, if need be.

    Each piece has a thread with an event loop of its own.  So it needs nothing of the host: no lifespan, no task
    group that outlives a request, and no particular event loop.
    """

    _limit: int
    """Pieces at once.  One client has at most as many of them as are then still free, or one."""

    _interrupt: Callable[[], None]
    """Ends the calls under way in the running event loop."""

    _close: Callable[[], Awaitable[None]]
    """Closes what was opened in the running event loop."""

    _running: dict[threading.Event, str] = field(init=False, factory=dict)
    """For each piece of work, the event that makes it end, and whose it is."""

    _guard: threading.Lock = field(init=False, factory=threading.Lock)

    def start(self, work: Callable[[], Awaitable[None]], principal: str) -> None:
        """Start *work* for *principal*.

        Raises:
            LimitReached: The limit is reached, or the share of this client.
            TooBusy: There is no thread left.
        """
        end = threading.Event()
        with self._guard:
            own, left = 1 + [*self._running.values()].count(principal), self._limit - len(self._running) - 1
            if left < 0 or own > max(left, 1):
                whose = "" if left < 0 else " of this client"
                message = f"{self._limit if left < 0 else own - 1} responses{whose} are made in the background already"
                raise LimitReached(f"{message}; try again later", code="background_full", retry_after=_RETRY_AFTER)
            self._running[end] = principal
        try:
            threading.Thread(target=self._run, args=(work, end), name="kiro-asgi background").start()
        except RuntimeError as error:
            self._running.pop(end, None)
            _log.warning("a background response could not be begun: %s", error)
            raise TooBusy(
                "no thread is left for a background response; try again later",
                code="threads",
                retry_after=_RETRY_AFTER,
            ) from None

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
        except BaseException as error:  # noqa: BLE001 - there is no caller
            _log.error("work in the background failed: %r", error)
        finally:
            with self._guard:
                self._running.pop(end, None)

    async def _watch(self, end: threading.Event) -> None:
        """Interrupt the work where that is asked for, or the interpreter ends: it waits for this thread."""
        while True:
            await anyio.sleep(_LOOK)
            if end.is_set() or not threading.main_thread().is_alive():
                self._interrupt()
