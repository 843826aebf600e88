"""An event of the Responses API over WebSocket, beside the same as a server-sent event.

``pytest tests/bench/test_bench_websocket.py -s`` prints the ratio of two measurements of the same run; none is
asserted, as timings are not facts.  What is asserted is that the work was done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable

import anyio
import pytest

from kiro_asgi import create_app, simulator
from kiro_asgi.asgi.protocol import ASGIApp, Message
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask
from tests.asgi.test_websocket import create, socket_scope
from tests.bench.test_bench_pipeline import show

QUESTION = "sim:count=300 sim:slow=0.001"
"""Slow enough for each event of the service to be read, and sent, by itself."""

ROUNDS = 3


async def over_http(app: ASGIApp) -> int:
    """Events of an answer."""
    count = 0

    async def send(message: Message) -> None:
        nonlocal count
        count += message.get("body", b"").count(b"\ndata: ")

    exchange = ask("responses", QUESTION, stream=True)
    await app(exchange.scope, exchange.receive, send)
    return count


async def over_websocket(app: ASGIApp) -> int:
    """Frames of an answer."""
    count, complete = 0, anyio.Event()
    messages = iter(
        [
            {"type": "websocket.connect"},
            {"type": "websocket.receive", "text": json.dumps(create(QUESTION))},
        ]
    )

    async def receive() -> Message:
        if (message := next(messages, None)) is not None:
            return message
        await complete.wait()
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Message) -> None:
        nonlocal count
        if message["type"] == "websocket.send":
            count += 1
            if message["text"].startswith('{"type":"response.completed"'):
                complete.set()

    await app(socket_scope(), receive, send)
    return count


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_event_over_websocket(anyio_backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints µs an event, each way in turn; the server's work is in neither, the service's in another thread."""
    ways: dict[str, Callable[[ASGIApp], Awaitable[int]]] = {"HTTP": over_http, "WebSocket": over_websocket}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    counts = set()
    with simulator.running() as service:
        app = create_app(settings_for(service.url, {}))
        for _ in range(ROUNDS):
            for name, way in ways.items():
                started = time.thread_time()
                counts.add(count := await way(app))
                spent[name].append((time.thread_time() - started) / count * 1e6)
        await app.aclose()
    http, websocket = min(spent["HTTP"]), min(spent["WebSocket"])
    ratio = websocket / http
    show(capsys, f"{anyio_backend}: {websocket:.0f} µs a frame, {http:.0f} µs a server-sent event, ratio {ratio:.2f}")
    assert len(counts) == 1
