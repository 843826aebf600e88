"""Signals of the serving process: new settings at SIGHUP, and an end step by step at SIGTERM and SIGINT.

At SIGTERM the gateway is not ready any more, and serves on for a while, so that load balancers can notice.  Then
nothing new is accepted, and open answers have their time.  SIGINT comes from somebody who waits: it skips the while.
Each further one of them skips a step.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup
from attrs import frozen

from kiro_asgi.cli.standalone import LINGER

__all__ = ["ORDERS", "DrainTimes", "Drainable", "until_signalled"]

ORDERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that mean something."""

Stopped = Callable[[], Awaitable[None]]
"""Returns when nothing new is to be accepted."""


class Drainable(Protocol):
    """What signals are for."""

    def drain(self) -> None:
        """Be unready from now on."""
        ...

    async def reload(self) -> None:
        """Read the settings anew, and return when nobody is served with the old ones."""
        ...


@frozen
class DrainTimes:
    """Seconds for each step of the end."""

    drain_delay: float
    """Unready, and serving."""

    graceful_timeout: float
    """For open answers, with nothing new."""


async def until_signalled(
    orders: AsyncIterator[signal.Signals],
    gateway: Drainable,
    ending: DrainTimes,
    serve: Callable[[Stopped], Awaitable[None]],
) -> None:
    """Run *serve*, which is handed something to wait for, and do meanwhile as *orders* say."""
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_obey, orders, gateway, ending, stop, tasks)
        await serve(stop.wait)
        tasks.cancel_scope.cancel()


async def _obey(
    orders: AsyncIterator[signal.Signals], gateway: Drainable, ending: DrainTimes, stop: anyio.Event, tasks: TaskGroup
) -> None:
    first = await _next_end(orders, gateway, tasks)
    gateway.drain()
    if first is not signal.SIGINT:
        with anyio.move_on_after(ending.drain_delay):
            await _next_end(orders, gateway, tasks)
    stop.set()
    with anyio.move_on_after(ending.graceful_timeout + 2 * LINGER):
        await _next_end(orders, gateway, tasks)
    tasks.cancel_scope.cancel()


async def _next_end(orders: AsyncIterator[signal.Signals], gateway: Drainable, tasks: TaskGroup) -> signal.Signals:
    """The next order that means the end; settings are read anew meanwhile."""
    while (order := await anext(orders)) is signal.SIGHUP:
        tasks.start_soon(gateway.reload)
    return order
