"""R10: the task that runs the application is cancelled at every await point."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import anyio
import pytest

from kiro_asgi.simulator import Head, Layout, answer, text
from tests.asgi.driver import Exchange, ask
from tests.e2e.faults.bench import ROUTES, WATCHDOG, closed_upstream, no_leak

pytestmark = pytest.mark.anyio

SAID = answer(*text("one ", "two ", "three"), head=Head(layout=Layout(chunk=150)))


class Interrupted:
    """Awaits a coroutine and interrupts it when it has been suspended *at* times.

    Every suspension of the task goes through here, whichever library caused it.
    """

    def __init__(self, work: Any, at: int, interrupt: Callable[[], object]) -> None:
        self.work, self.at, self.interrupt, self.suspensions = work, at, interrupt, 0

    def __await__(self) -> Generator[Any, Any, None]:
        step, argument = self.work.send, None
        while True:
            try:
                waiting_for = step(argument)
            except StopIteration:
                return
            self.suspensions += 1
            if self.suspensions == self.at:
                self.interrupt()
            try:
                step, argument = self.work.send, (yield waiting_for)
            except BaseException as error:  # noqa: BLE001 - handed on
                step, argument = self.work.throw, error


async def by_scope(exchange: Exchange, app: Any, at: int) -> tuple[bool, bool]:
    """Cancel a scope around the application: whether that point was reached, and whether the cancellation came out."""
    with anyio.CancelScope() as scope:
        run = Interrupted(app(exchange.scope, exchange.receive, exchange.send), at, scope.cancel)
        await run
    return run.suspensions >= at, scope.cancelled_caught


async def by_task(exchange: Exchange, app: Any, at: int) -> tuple[bool, bool]:
    """The same with asyncio's own `Task.cancel`, as servers use it."""

    async def work() -> None:
        await run

    run = Interrupted(app(exchange.scope, exchange.receive, exchange.send), at, lambda: task.cancel())
    task = asyncio.ensure_future(work())
    await asyncio.wait([task])
    return run.suspensions >= at, task.cancelled()


async def cancelled_everywhere(gateway, interrupted, route, stream):
    door = gateway()
    async with no_leak(door, idle=1):
        for at in range(1, 1000):
            door.simulator.answer_with(lambda _: SAID)
            exchange = ask(route, "x", stream=stream)
            with anyio.fail_after(WATCHDOG):
                reached, cancelled = await interrupted(exchange, door.app, at)
            if not reached:
                break
            assert cancelled or exchange.complete, f"swallowed at {at}"
            assert await closed_upstream(door.simulator), f"left open at {at}"
            door.simulator.answer_with(None)
            await door.works(route)
        assert exchange.complete and not cancelled
        assert at > 8


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_cancelled_scope(gateway, route, stream):
    """R10: after a cancellation at any point nothing stays open, it is not swallowed, and the next request works."""
    await cancelled_everywhere(gateway, by_scope, route, stream)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])
async def test_a_cancelled_asyncio_task(gateway, anyio_backend, stream):
    """R10: the same for a task that is cancelled without any scope."""
    await cancelled_everywhere(gateway, by_task, "anthropic", stream)
