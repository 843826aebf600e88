"""R02, R11, R12: the client leaves, or its connection breaks under `send`; the upstream must hear of it at once."""

from __future__ import annotations

import time

import anyio
import pytest

from kiro_asgi.simulator import CloseEarly, Head, Layout, Pause, Reset, Stall, Step, TornFrame, answer, text
from kiro_asgi.simulator.pieces import Words
from tests.asgi.driver import ask
from tests.e2e.faults.bench import ROUTES, WATCHDOG, closed_upstream, no_leak, until
from tests.e2e.faults.verdicts import whole

pytestmark = pytest.mark.anyio

STREAM = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])
ROUTE = pytest.mark.parametrize("route", ROUTES)


async def leave_after(door, exchange, seconds):
    """Run *exchange* with a client that leaves; seconds until the service saw the connection close."""
    with anyio.fail_after(WATCHDOG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(exchange.run, door.app)
            assert await until(lambda: door.simulator.requests)
            await anyio.sleep(seconds)
            left = time.monotonic()
            exchange.leave.set()
        assert await until(lambda: door.simulator.requests[-1].peer_closed_at)
    return door.simulator.requests[-1].peer_closed_at - left


@ROUTE
@STREAM
async def test_a_client_that_leaves_stops_the_upstream(gateway, route, stream):
    """R01/R02: before the head, before the first token, or later; streaming or not: closed within a second."""
    door = gateway()
    async with no_leak(door, idle=0):
        for marker in ("stall", "stall-headers", "stall-mid"):
            door.simulator.forget()
            exchange = ask(route, f"sim:{marker}", stream=stream)
            delay = await leave_after(door, exchange, 0.05)

            assert delay <= 1.0
            begun = stream and marker == "stall-mid"
            assert (exchange.status == 200) if begun else exchange.unanswered
            assert len(door.simulator.requests) == 1, "asked again for a client that left"
    await door.works(route)


@ROUTE
@STREAM
async def test_an_answer_that_is_long_enough_stops_the_upstream(gateway, route, stream):
    """R01: a stop text that we look for ourselves ends the answer, and with it the upstream's work."""
    door = gateway()
    async with no_leak(door, idle=0):
        stop = {"stop_sequences" if route == "anthropic" else "stop": ["4"]}
        exchange = await door.ask(route, "sim:count=100 sim:slow=0.02", stream=stream, **stop)

        assert whole(route, exchange, stream=stream).text == "1 2 3 "
        assert await until(lambda: door.simulator.requests[0].peer_closed_at, 1.0)
    await door.works(route)


@ROUTE
async def test_a_client_that_leaves_during_back_off_is_not_asked_for_again(gateway, route):
    """R02: between two tries nothing is open, and the next try is not made."""
    door = gateway(retry={"base": 0.3})
    door.simulator.enqueue((Reset(),))
    exchange = ask(route, "x", stream=True)
    with anyio.fail_after(WATCHDOG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(exchange.run, door.app)
            assert await until(lambda: door.simulator.requests and door.simulator.connections_open == 0)
            exchange.leave.set()
        await anyio.sleep(0.4)
    assert len(door.simulator.requests) == 1
    assert exchange.unanswered


class Broken:
    """A `send` that fails from its n-th call on, and counts."""

    def __init__(self, at: int, error: Exception) -> None:
        self.at, self.error, self.calls = at, error, 0

    async def __call__(self, message: object) -> None:
        self.calls += 1
        if self.calls > self.at:
            raise self.error


SAID = [part for piece in text(*"abcdef") for part in (piece, Pause(0.01))]


async def sends(door, route, stream):
    """How many messages the undisturbed answer takes."""
    door.simulator.enqueue(answer(*SAID))
    return len((await door.ask(route, "x", stream=stream)).messages)


@ROUTE
@STREAM
async def test_a_send_that_fails_with_oserror_is_a_disconnect(gateway, route, stream):
    """R02/R11: whichever call it is, nothing is raised, nothing more is sent, and the upstream is closed."""
    door = gateway()
    async with no_leak(door):
        total = await sends(door, route, stream)
        assert total >= (6 if stream else 2)
        for at in range(total):
            broken = Broken(at, BrokenPipeError("gone"))
            door.simulator.enqueue(answer(*SAID))
            exchange = ask(route, "x", stream=stream)
            exchange.on_send = broken
            await door.run(exchange)

            assert broken.calls == at + 1, "sent after the failure"
            assert exchange.starts == min(at, 1)
            assert await closed_upstream(door.simulator)
        await door.works(route)


@ROUTE
@STREAM
@pytest.mark.unexpected("RuntimeError")
async def test_a_send_that_fails_otherwise_is_the_servers_failure(gateway, route, stream, caplog):
    """R11: an error that is no OSError is logged and goes no further; nothing more is sent, the upstream is closed."""
    door = gateway()
    async with no_leak(door):
        total = await sends(door, route, stream)
        for at in range(total):
            broken = Broken(at, RuntimeError("a state of the server's own"))
            door.simulator.enqueue(answer(*SAID))
            exchange = ask(route, "x", stream=stream)
            exchange.on_send = broken
            await door.run(exchange)

            assert "a state of the server's own" in caplog.text
            caplog.clear()
            assert broken.calls == at + 1, "sent after the failure"
            assert exchange.starts == min(at, 1)
            assert await closed_upstream(door.simulator)
        await door.works(route)


@ROUTE
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ConnectionResetError("gone"), id="oserror"),
        pytest.param(RuntimeError("gone"), id="runtime", marks=pytest.mark.unexpected("RuntimeError")),
    ],
)
@pytest.mark.parametrize("marker", ["stall", "stall-mid"])
async def test_a_heartbeat_that_fails_is_no_different(gateway, route, error, marker):
    """R11: the same where the failing `send` is a heartbeat's, with or without an event before it."""
    door = gateway(stream={"heartbeat": 0.05, "early_commit_after": 0.05})
    async with no_leak(door, idle=0):
        for at in (0, 1, 3):
            broken = Broken(at, error)
            exchange = ask(route, f"sim:{marker}", stream=True)
            exchange.on_send = broken
            await door.run(exchange)

            assert broken.calls == at + 1, "sent after the failure"
            assert await closed_upstream(door.simulator, 0)


async def left_alone(door, route, number):
    """A request that ends badly, one way or another; what it would have said has a marker of its own."""
    pieces: tuple[Step, ...] = (*text(f"FOREIGN-{number}"), Pause(0.02))
    endings: list[tuple[Step, ...]] = [
        (*text("FOREIGN") * 200, Stall()),
        (TornFrame(Words("FOREIGN" * 50), 99), Stall()),
        (*text("FOREIGN") * 50, Reset()),
        (TornFrame(Words("FOREIGN" * 50), 60), CloseEarly()),
        (*text("FOREIGN") * 50,),
    ]
    ending = endings[number % len(endings)]
    door.simulator.enqueue((Head(layout=Layout(chunk=[0, 7, 500][number % 3])), *pieces, *ending))
    exchange, asked = ask(route, "x", stream=True), len(door.simulator.requests)
    with anyio.fail_after(WATCHDOG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(door.app, exchange.scope, exchange.receive, exchange.send)
            assert await until(lambda: len(door.simulator.requests) > asked)
            await anyio.sleep(0.03)
            tasks.cancel_scope.cancel()


@ROUTE
async def test_nothing_of_an_abandoned_answer_leaks_into_the_next(gateway, route):
    """R12: 50 requests, every fifth after an answer that was left in the middle, hold their own words and no others."""
    door = gateway()
    async with no_leak(door):
        for number in range(50):
            if number % 5 == 0:
                await left_alone(door, route, number // 5)
            stream = number % 2 == 0
            exchange = await door.ask(route, f"Repeat: MARKER-{number}.", stream=stream)

            assert whole(route, exchange, stream=stream).text == f"You said: Repeat: MARKER-{number}."
            assert b"FOREIGN" not in exchange.content
