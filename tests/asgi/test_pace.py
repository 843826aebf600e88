"""Answers that have much to do at the same time do not keep everybody else waiting for all of them."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kiro_asgi.asgi.pace import PART, Pace

pytestmark = pytest.mark.anyio

MANY = 50
PARTS = 4


async def most_in_one_turn(seconds: float) -> int:
    """How many parts, of so many *seconds*, of many answers fall between two turns of somebody else at most."""
    pace, parts, most = Pace(), 0, 0

    async def answer() -> None:
        nonlocal parts
        for _ in range(PARTS):
            await pace.wait(seconds)
            pace.worked(seconds)
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
                answers.start_soon(answer)
        group.cancel_scope.cancel()
    assert parts == MANY * PARTS
    return most


async def test_long_parts_are_done_one_after_the_other():
    """Somebody else has a turn after very few, however many there are to do."""
    assert await most_in_one_turn(PART) <= 3


async def test_short_parts_wait_for_nobody():
    """An answer with little to do is not held up by those with much, nor by its like."""
    assert await most_in_one_turn(PART / 100) > MANY / 2


async def test_a_short_part_does_not_stand_in_the_line():
    """However much others have worked."""
    pace = Pace()
    pace.worked(100 * PART)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await pace.wait(0.0)  # which would be cancelled if it waited
    assert not scope.cancelled_caught
