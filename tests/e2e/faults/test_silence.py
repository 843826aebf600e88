"""R05, R06: the upstream says nothing, before its first event or after it; and a client that is merely slow."""

from __future__ import annotations

import time
from itertools import pairwise

import anyio
import pytest

from kiro_asgi.simulator import Head, Pause, Stall, answer, text
from tests.asgi.driver import ask
from tests.e2e.faults.bench import ROUTES, no_leak, until
from tests.e2e.faults.verdicts import broken, refused, whole

pytestmark = pytest.mark.anyio

LIMIT = 0.3
NOISE = 0.6
"""Seconds that a busy machine may add; the rule itself allows a fifth and 0.1 s."""

ROUTE = pytest.mark.parametrize("route", ROUTES)


def in_time(seconds: float) -> bool:
    return LIMIT <= seconds <= LIMIT * 1.2 + 0.1 + NOISE


@ROUTE
@pytest.mark.parametrize(
    "script",
    [
        pytest.param((Stall(),), id="no-head"),
        pytest.param((Head(), Stall()), id="head-only"),
        pytest.param((Pause(0.2), Head(), Stall()), id="head-late"),
    ],
)
async def test_no_first_event(gateway, route, script):
    """R05: before the first event the limit counts from the request; 504, one attempt, the connection closed."""
    door = gateway(kiro={"first_token_timeout": LIMIT}, limits={"connections": 2})
    door.simulator.enqueue(script, script)

    async def is_refused(stream: bool) -> None:
        started = time.monotonic()
        assert refused(route, await door.ask(route, "x", stream=stream), 504)
        assert in_time(time.monotonic() - started)

    async with no_leak(door, idle=0):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(is_refused, True)
            tasks.start_soon(is_refused, False)

        assert len(door.simulator.requests) == 2, "a slow model was asked again"
        assert await until(lambda: all(request.peer_closed_at for request in door.simulator.requests))
    await door.works(route)


@ROUTE
async def test_no_first_event_after_an_early_commit(gateway, route):
    """R05: where the head went out to keep the client patient, the failure is told in the stream."""
    door = gateway(kiro={"first_token_timeout": LIMIT}, stream={"early_commit_after": 0.1, "heartbeat": 0.05})
    async with no_leak(door, idle=0):
        started = time.monotonic()
        exchange = await door.ask(route, "sim:stall", stream=True)

        assert in_time(time.monotonic() - started)
        assert broken(route, exchange) == ""
        assert len(door.simulator.requests) == 1


class Watched:
    """A `send` that remembers when it was called with a body."""

    def __init__(self) -> None:
        self.times: list[float] = []

    async def __call__(self, message: dict[str, object]) -> None:
        if message["type"] == "http.response.body":
            self.times.append(time.monotonic())


@ROUTE
async def test_heartbeats_until_the_idle_limit(gateway, route):
    """R06: during silence heartbeats flow; the idle limit ends the stream with an error, on time."""
    beat = 0.1
    door = gateway(stream={"heartbeat": beat, "idle_timeout": LIMIT})
    exchange = ask(route, "x", stream=True)
    exchange.on_send = watched = Watched()
    door.simulator.enqueue((Head(), *text("a", "b"), Stall()))
    async with no_leak(door, idle=0):
        await door.run(exchange)

        assert broken(route, exchange) == "ab"
        gaps = [after - before for before, after in pairwise(watched.times)]
        assert in_time(watched.times[-1] - watched.times[0])
        assert len(gaps) >= 3
        assert max(gaps) <= beat * 1.5 + NOISE, gaps
    await door.works(route)


@ROUTE
async def test_an_idle_limit_of_nothing_is_none(gateway, route):
    """R06: 0 switches the limit off."""
    door = gateway(stream={"idle_timeout": 0})
    door.simulator.enqueue(answer(*text("a"), Pause(LIMIT), *text("b")))
    assert whole(route, await door.ask(route, "x", stream=True), stream=True).text == "ab"


@ROUTE
async def test_a_slow_client_is_no_silent_upstream(gateway, route):
    """R06: while `send` waits for the client no limit runs, nor does a heartbeat pile up."""
    door = gateway(stream={"idle_timeout": LIMIT, "heartbeat": 0.05})
    exchange = ask(route, "x", stream=True)
    sent = 0

    async def wait_once(message: object) -> None:
        nonlocal sent
        sent += 1
        if sent == 3:
            await anyio.sleep(2 * LIMIT)

    exchange.on_send = wait_once
    door.simulator.enqueue(answer(*(part for piece in text(*"abcdef") for part in (piece, Pause(0.05)))))
    await door.run(exchange)

    assert whole(route, exchange, stream=True).text == "abcdef"
