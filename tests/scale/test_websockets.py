"""Two hundred WebSockets at once, a third of whose answers their clients cut, while services fail: nothing is left.

The gateway runs in this process, below its own server, so that its tasks and what it holds can be counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections import Counter
from typing import Any, Final

import anyio
import anyio.to_thread
import pytest
import trio
from websockets.asyncio.client import connect

from kiro_asgi import App, create_app, simulator
from kiro_asgi.apis.responses.connection import Connection
from kiro_asgi.apis.responses.operations import ResponsesOperations
from kiro_asgi.asgi.door.mount import wrapped_in
from kiro_asgi.asgi.exchange.call import Bodies, Call
from kiro_asgi.cli.standalone import Server, bind
from kiro_asgi.simulator import Simulator
from tests.asgi.conftest import settings_for
from tests.parts import part_of
from tests.websocket import ENDS

pytestmark = pytest.mark.anyio

CONNECTIONS: Final = 200
ANSWERS: Final = 5
QUESTIONS: Final = (
    "sim:count=20",
    "sim:reset",
    "sim:thinking",
    "sim:torn",
    "sim:tool",
    "sim:exception",
    "sim:overloaded",
    "sim:bad-crc",
    "sim:fin",
)
"""What is asked in turn; most of it has a service that fails, at once or in the middle."""

LONG: Final = "sim:count=400 sim:slow=0.05"
"""What is asked where the client cuts the answer."""

PATIENCE: Final = 120.0
"""Seconds for anything: all share one core with the gateway."""


async def converse(base: str, together: asyncio.Barrier, number: int) -> Counter[str]:
    """How the answers to one client ended."""
    return await (cut if number % 3 == 0 else listen)(base, together, number)


async def listen(base: str, together: asyncio.Barrier, number: int) -> Counter[str]:
    """Take five answers, half of which are stored, the others held by the connection."""
    ends = Counter[str]()
    async with connected(base) as connection:
        await together.wait()
        for place in range(ANSWERS):
            question = f"{QUESTIONS[(number + place) % len(QUESTIONS)]} {'words ' * 1000}"
            await connection.send(request(question, store=bool(number % 2)))
            while (kind := json.loads(await connection.recv())["type"]) not in ENDS:
                pass
            ends[kind] += 1
    return ends


async def cut(base: str, together: asyncio.Barrier, number: int) -> Counter[str]:
    """Leave five answers after their first words: with a farewell, or by breaking the connection."""
    for place in range(ANSWERS):
        async with connected(base) as connection:
            if not place:
                await together.wait()
            await connection.send(request(LONG))
            while "output_text.delta" not in str(await connection.recv()):
                pass
            if (number + place) % 2:
                connection.transport.abort()
    return Counter(cut=ANSWERS)


def connected(base: str) -> Any:
    headers = {"authorization": "Bearer k"}
    url = base.replace("http", "ws", 1) + "/v1/responses"
    return connect(url, additional_headers=headers, proxy=None, open_timeout=PATIENCE, ping_interval=None)


def request(content: str, **more: Any) -> str:
    return json.dumps({"type": "response.create", "model": "claude-sonnet-4.5", "input": content, **more})


def crowd(base: str, count: int) -> Counter[str]:
    """So many clients, in an event loop of their own; they begin when all are connected."""

    async def run() -> list[Counter[str]]:
        together = asyncio.Barrier(count)
        async with asyncio.timeout(PATIENCE):
            return await asyncio.gather(*(converse(base, together, number) for number in range(1, count + 1)))

    return sum(asyncio.run(run()), Counter[str]())


def tasks() -> int:
    """Tasks of the running event loop."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


def left(app: App, service: Simulator) -> dict[str, int]:
    """What there is to be got rid of."""
    gc.collect()
    operations = {id(found): found for found in wrapped_in(app, ResponsesOperations)}
    return {
        "tasks": tasks(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "bytes of requests": part_of(app, Bodies).held,
        "held responses": sum(len(found._held) for found in operations.values()),
        "requests at the service": sum(request.finished_at is None for request in service.requests),
        "calls": sum(isinstance(found, Call | Connection) for found in gc.get_objects()),
    }


async def settled(app: App, service: Simulator, wanted: dict[str, int]) -> dict[str, int]:
    """What is left when it is what is *wanted*, or has not become that within seconds."""
    found = left(app, service)
    for _ in range(100):
        if found == wanted:
            break
        await anyio.sleep(0.1)
        found = left(app, service)
    return found


async def test_nothing_is_left_of_a_crowd(
    anyio_backend_name: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """No task, descriptor, byte of a request, response, call or connection, and nothing under way at the service."""
    caplog.set_level("CRITICAL", "kiro_asgi")  # records of pytest's hold errors, and with them calls
    with simulator.running(keep=10_000) as service:
        app, listener, stop = create_app(settings_for(service.url, {})), bind("127.0.0.1", 0), anyio.Event()
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = Server(loop=anyio_backend_name, graceful_timeout=5)
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, app, listener, stop.wait)
            await anyio.to_thread.run_sync(crowd, base, 1)
            await app.aclose()  # which closes idle connections to the service
            await anyio.sleep(0.5)
            before = left(app, service)
            ends = await anyio.to_thread.run_sync(crowd, base, CONNECTIONS)
            await app.aclose()
            after = await settled(app, service, before)
            stop.set()
    with capsys.disabled():
        print(f"\n{anyio_backend_name}: {dict(ends)}; left before and after: {before}, {after}")

    assert sum(ends.values()) == CONNECTIONS * ANSWERS and ends["cut"] == CONNECTIONS // 3 * ANSWERS
    assert ends["response.completed"] and ends["response.failed"] and ends["error"]
    assert after == before
