"""An event loop's connections go with it, whether or not somebody closes the application before."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from kiro_asgi import App, create_app, simulator
from tests.asgi.driver import ask
from tests.e2e.faults.bench import open_files, settings_for
from tests.e2e.faults.served import within

TIMES = 30


def by_asyncio(work: Callable[[], Awaitable[Any]]) -> None:
    async def run() -> None:
        await work()

    asyncio.run(run())


def by_hand(work: Callable[[], Awaitable[Any]]) -> None:
    """As code does that knows no runner: what is suspended in the loop is never told of its end."""

    async def run() -> None:
        await work()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(run())
    loop.close()


def asked_again_and_again(app: App, run: Callable[[Callable[[], Awaitable[Any]]], Any]) -> None:
    for _ in range(TIMES):
        exchange = ask("openai", "sim:count=3", stream=True)
        run(partial(exchange.run, app))
        assert exchange.complete


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(by_asyncio, id="asyncio.run"),
        pytest.param(partial(anyio.run, backend="asyncio"), id="anyio.run-asyncio"),
        pytest.param(partial(anyio.run, backend="trio"), id="trio.run"),
    ],
)
def test_a_loop_that_ends_leaves_no_connection(run):
    """One app, asked in a loop of its own each time and never closed: no socket stays, and nobody warns of one."""
    with simulator.running() as service:
        app = create_app(settings_for(service, {}))
        before = open_files()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            asked_again_and_again(app, run)
            gc.collect()

        assert service.connections_opened == TIMES
        assert within(2, lambda: service.connections_open == 0)
        assert len(open_files()) <= len(before)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # Python's own, of the loop's maker
def test_a_loop_that_is_closed_by_hand_leaves_no_more_than_the_last_connection():
    """Where a loop ends without notice, its connections are let go of when the next one needs some."""
    with simulator.running() as service:
        app = create_app(settings_for(service, {}))
        before = open_files()
        asked_again_and_again(app, by_hand)
        gc.collect()

        assert within(2, lambda: service.connections_open <= 1)
        assert len(open_files()) <= len(before) + 6  # of the simulator's side, and of the last loop
        asked_again_and_again(app, by_asyncio)
        gc.collect()
        assert within(2, lambda: service.connections_open == 0)
