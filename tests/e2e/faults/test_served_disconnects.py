"""R01, R02, R03, R31 under hypercorn, which lets `send` succeed when nobody is there any more."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kiro_asgi.simulator import Simulator
from tests.e2e.faults.bench import ROUTES
from tests.e2e.faults.served import LOOPS, Served, reset, within
from tests.e2e.faults.test_endings import ASKED, SHAPES, ended
from tests.e2e.faults.verdicts import broken, lost, whole

LOOP = pytest.mark.parametrize("loop", LOOPS)
TIMES = 50


def read_chunks(connection: Any, count: int) -> None:
    """Read until *count* events have come."""
    response = connection.getresponse()
    assert response.status == 200
    seen = 0
    while seen < count:
        seen += response.readline().startswith(b"data: ")


def seen_closed(simulator: Simulator, since: float) -> float:
    """Seconds from *since* until the service saw that the connection of the last request was closed."""
    asked = simulator.requests[-1]
    assert within(5, lambda: asked.finished_at), "the upstream goes on for a client that has left"
    assert asked.peer_closed_at is not None and not asked.complete
    return asked.peer_closed_at - since


@LOOP
@pytest.mark.parametrize("rst", [False, True], ids=["fin", "rst"])
def test_a_client_that_leaves_in_the_middle(served, loop, rst):
    """R01: fifty times, after five of a hundred events: the service sees it within a second, one line is logged, none
    of it an error, and no descriptor stays open."""
    gateway: Served = served(loop)
    gateway.warm_up()
    files, lines = gateway.files(), len(gateway.errors().splitlines())
    delays = []
    for number in range(TIMES):
        connection = gateway.request(ROUTES[number % 2], "sim:count=100 sim:slow=0.004", stream=True)
        read_chunks(connection, 5)
        if rst:
            reset(connection)
        left = time.monotonic()
        connection.close()
        delays.append(seen_closed(gateway.simulator, left))

    assert max(delays) <= 1.0, sorted(delays)[-5:]
    assert gateway.ask("openai", "sim:count=3", stream=True).status == 200
    assert gateway.files() == files
    logged = gateway.errors().splitlines()[lines:]
    assert len([line for line in logged if " disconnected " in line]) == TIMES
    assert gateway.trouble() == []


@LOOP
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])
@pytest.mark.parametrize("marker", ["stall", "stall-headers"])
def test_a_client_that_leaves_before_the_first_token(served, loop, stream, marker):
    """R02: nothing was sent yet, streaming or not: the service sees it within a second all the same."""
    gateway: Served = served(loop)
    for number in range(4):
        asked = len(gateway.simulator.requests)
        connection = gateway.request(ROUTES[number % 2], f"sim:{marker}", stream=stream)
        assert within(5, lambda: len(gateway.simulator.requests) > asked)  # noqa: B023 - called at once
        time.sleep(0.05)
        if number // 2:
            reset(connection)
        left = time.monotonic()
        connection.close()

        assert seen_closed(gateway.simulator, left) <= 1.0
        assert len(gateway.simulator.requests) == asked + 1
    assert gateway.trouble() == []


@LOOP
@pytest.mark.parametrize("route", ROUTES)
def test_every_shape_of_an_answer(served, loop, route):
    """R31: the same answers are legal behind a real server."""
    gateway: Served = served(loop)
    for name, (steps, said, thought, calls, stops) in SHAPES.items():
        for stream in (True, False):
            gateway.simulator.enqueue(ended(steps))
            given = whole(route, gateway.ask(route, "x", stream=stream, **ASKED[route]), stream=stream)
            assert (given.text, given.thinking, given.stop) == (said, thought, stops[ROUTES.index(route)]), name
            assert [name for _, name, _ in given.calls] == calls


@LOOP
@pytest.mark.parametrize("route", ROUTES)
def test_an_upstream_that_breaks(served, loop, route):
    """R03/R04: streams end in one error, and properly as HTTP; what was never begun has a status."""
    gateway: Served = served(loop)
    for marker in ("fin", "half-close", "torn", "bad-crc", "bad-crc=prelude", "exception"):
        exchange = gateway.ask(route, f"sim:{marker}", stream=True)
        assert "This is a simulated answer, ".startswith(broken(route, exchange)), marker
        assert lost(route, gateway.ask(route, f"sim:{marker}", stream=False))
    for marker in ("reset-first", "reset-headers", "hang-up", "empty", "html", "exception-first"):
        for stream in (True, False):
            assert lost(route, gateway.ask(route, f"sim:{marker}", stream=stream)), marker
