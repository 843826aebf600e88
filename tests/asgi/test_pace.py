"""Answers that have much to do at the same time do not keep everybody else waiting for all of them."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kiro_asgi.asgi.scheduling import MANY, TURN, Pace
from kiro_asgi.simulator import answer, text
from tests.asgi.driver import ask

pytestmark = pytest.mark.anyio

PARTS = 4


class Clock:
    """Seconds that go by only where somebody works."""

    now = 1.0

    def __call__(self) -> float:
        return self.now


async def most_in_one_turn(seconds: float) -> int:
    """How many parts, of so many *seconds*, of many answers fall between two turns of somebody else at most."""
    clock = Clock()
    pace, parts, most = Pace(clock), 0, 0

    async def work() -> None:
        nonlocal parts
        for _ in range(PARTS):
            await pace.wait()
            clock.now += seconds
            parts += 1
            await checkpoint()

    async def beside() -> None:
        nonlocal most
        seen = parts
        while True:
            await checkpoint()
            most, seen = max(most, parts - seen), parts

    async with anyio.create_task_group() as group:
        group.start_soon(beside)
        async with anyio.create_task_group() as answers:
            for _ in range(MANY):
                answers.start_soon(work)
        group.cancel_scope.cancel()
    assert parts == MANY * PARTS
    return most


async def test_long_parts_are_done_in_turns_of_their_own():
    """Somebody else has a turn after very few, however many there are to do.

    On trio, what is ready runs in any order, so two turns may lie between two of somebody else.
    """
    assert await most_in_one_turn(TURN) <= 4


async def test_short_parts_share_a_turn():
    """As many as there is time for, and as look at the clock at once."""
    assert 4 <= await most_in_one_turn(TURN / 100) < MANY


async def test_one_that_is_cancelled_holds_nobody_up():
    """Be it in line or at its head."""
    pace = Pace(Clock())
    with anyio.CancelScope() as scope:
        scope.cancel()
        await pace.wait()

    with anyio.fail_after(10):
        for _ in range(10):
            await pace.wait()


async def test_an_app_says_when_it_is_busy(gateway, sim):
    """While many answers are under way, and no longer; an answer to which others give way is complete."""
    app = gateway()
    seen = []

    async def look(message) -> None:
        seen.append(app.is_busy)

    async with anyio.create_task_group() as group:
        for _ in range(MANY):
            sim.enqueue(answer(*text("a" * 5_000, "b" * 5_000)))
            exchange = ask("openai", "x", stream=True)
            exchange.on_send = look
            group.start_soon(exchange.run, app)

    assert any(seen)
    assert not app.is_busy
