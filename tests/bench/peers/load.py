"""Questions one after another, several at once, and many that stay open."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from tests.bench.peers.client import Answer, Asked, Client

__all__ = ["at_once", "held", "in_turn"]

STAGGER = 0.01
"""Seconds between two that open a stream, so that a gateway's backlog is not what is measured."""

OPENING = 60.0
"""Seconds within which all streams have to be open."""


async def in_turn(asked: Asked, scenario: str, count: int, patience: float = 60.0) -> list[Answer]:
    """Ask *count* times by one client."""
    client = Client(asked)
    answers = [await client.ask(scenario, patience) for _ in range(count)]
    await client.close()
    return answers


async def at_once(asked: Asked, scenario: str, clients: int, each: int = 1) -> list[Answer]:
    """Ask *each* times by several clients."""
    found = await asyncio.gather(*(in_turn(asked, scenario, each) for _ in range(clients)))
    return [answer for answers in found for answer in answers]


@contextlib.asynccontextmanager
async def held(asked: Asked, scenario: str, count: int) -> AsyncIterator[int]:
    """Keep *count* streams open until the end of the block; how many of them have begun to answer."""
    clients = [Client(asked) for _ in range(count)]
    tasks = []
    for client in clients:
        tasks.append(asyncio.create_task(client.ask(scenario)))
        await asyncio.sleep(STAGGER)
    end = time.monotonic() + OPENING
    while (begun := _begun(clients)) < count and time.monotonic() < end and not all(task.done() for task in tasks):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    try:
        yield begun
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients:
            await client.close()


def _begun(clients: list[Client]) -> int:
    return sum(bool(client.answer.lines) and client.answer.ended == "waiting" for client in clients)
