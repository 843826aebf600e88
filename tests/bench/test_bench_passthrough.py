"""Bytes that only go through, beside a copy of them and beside the least gateway there can be.

``pytest tests/bench/test_bench_passthrough.py -s`` prints ratios of two measurements of the same run; none is asserted,
as timings are not facts.  What is asserted is that the work was done.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import anyio
import httpcore
import pytest

from kiro_asgi import Settings, create_app
from kiro_asgi.asgi.protocol import ASGIApp, Receive, Scope, Send
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.passthrough import TransparentDialect
from kiro_asgi.errors import KiroAsgiError, UpstreamFault
from tests.asgi.driver import Exchange, post
from tests.bench.test_bench_pipeline import best, show
from tests.dialects.test_passthrough import DONE, HEADING, HELLO, PIECE, START, STOP

DIALECTS: dict[str, TransparentDialect] = {"anthropic": AnthropicMessages(), "openai": OpenAIChat()}
STREAMS = {"anthropic": [START, *[HELLO] * 998, STOP], "openai": [*[PIECE] * 999, DONE]}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PAUSE = 0.002
"""Seconds between two events: long enough for each to be read by itself."""

EVENTS = 200


def fault(event: bytes) -> KiroAsgiError:
    """Never called here."""
    return UpstreamFault(repr(event))


def passing(dialect: str, name: str, chunks: list[bytes]) -> int:
    """Bytes that come out, one event a read."""
    stage = DIALECTS[dialect].passthrough(fault, HEADING, name)
    size = 0
    for chunk in chunks:
        for data in stage.feed([chunk]):
            size += len(data)
    return size + sum(map(len, stage.flush()))


def copying(chunks: list[bytes]) -> int:
    """The same without looking."""
    size = 0
    for chunk in chunks:
        size += len(bytes(bytearray(chunk)))
    return size


@pytest.mark.parametrize("name", ["", "mine"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_watching(dialect: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints µs an event for watching the bytes, with and without another name for the model, and for a copy."""
    stream = STREAMS[dialect]
    ours, theirs = best(partial(passing, dialect, name, stream)), best(partial(copying, stream))

    show(capsys, f"{dialect}{' renamed' * bool(name)}: {ours:.2f} µs an event, a copy {theirs:.2f} µs")
    assert passing(dialect, "", stream) == copying(stream)


async def least(url: str, scope: Scope, receive: Receive, send: Send) -> None:
    """The least gateway: a request's body to the service, every piece of the answer to the client."""
    body = (await receive())["body"]
    connection = httpcore.AsyncHTTPConnection(httpcore.URL(url).origin)
    headers = [(b"Host", b"localhost"), (b"Content-Length", b"%d" % len(body))]
    response = await connection.handle_async_request(httpcore.Request("POST", url, headers=headers, content=body))
    await send({"type": "http.response.start", "status": response.status, "headers": []})
    async for piece in response.stream:  # type: ignore[union-attr]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await response.aclose()
    await connection.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def serve(stream: list[bytes], client: anyio.abc.SocketStream) -> None:
    """Answer requests with *stream*, one event a write; there is no list of models."""
    async with client:
        received = b""
        while b'"stream"' not in received:
            received += await client.receive()
            if received.startswith(b"GET "):
                await client.send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                return
        await client.send(HEAD)
        for event in stream:
            await client.send(b"%x\r\n%b\r\n" % (len(event), event))
            await anyio.sleep(PAUSE)
        await client.send(b"0\r\n\r\n")


async def spent(app: ASGIApp, exchange: Exchange) -> float:
    """CPU time in µs that an answer took, an event."""
    started = time.process_time()
    await exchange.run(app)
    return (time.process_time() - started) / EVENTS * 1e6


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_gateway_beside_the_least_one(
    anyio_backend: str, dialect: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prints µs an event for an app that passes answers on, and for one that does nothing else, in turn.

    The service's own work is in both.
    """
    stream = [*STREAMS[dialect][:EVENTS], STREAMS[dialect][-1]]
    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(await anyio.create_tcp_listener(local_host="127.0.0.1"))
        group = await stack.enter_async_context(anyio.create_task_group())
        group.start_soon(listener.serve, partial(serve, stream))
        url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        app = create_app(settings(url))
        apps: dict[str, Callable[..., Awaitable[None]]] = {"ours": app, "least": partial(least, url)}
        times: dict[str, list[float]] = {name: [] for name in apps}
        for _ in range(3):
            for name, each in apps.items():
                exchange = question(dialect)
                times[name].append(await spent(each, exchange))
                assert exchange.content == b"".join(stream)
        await app.aclose()
        group.cancel_scope.cancel()
    ours, theirs = min(times["ours"]), min(times["least"])
    show(capsys, f"{dialect}: {ours:.0f} µs an event, the least {theirs:.0f} µs, ratio {ours / theirs:.2f}")


def settings(url: str) -> Settings:
    """Both services at *url*."""
    rows = ["claude-haiku-4-5-20251001=anthropic/claude-haiku-4-5-20251001", "gpt-4o=openai/gpt-4o"]
    return Settings.from_mapping(
        {
            "client": {"api_keys": ["k"]},
            "anthropic": {"api_key": "a", "endpoint": url},
            "openai": {"api_key": "o", "endpoint": url},
            "kiro": {"api_key": "ksk_none", "endpoint": url},
            "routing": {"models": rows},
        }
    )


def question(dialect: str) -> Exchange:
    """A request in the words that both apps send on."""
    path, model = {
        "anthropic": ("/v1/messages", "claude-haiku-4-5-20251001"),
        "openai": ("/v1/chat/completions", "gpt-4o"),
    }[dialect]
    length = "max_tokens" if dialect == "anthropic" else "max_completion_tokens"
    return post(path, {"model": model, length: 9, "stream": True, "messages": [{"role": "user", "content": "x"}]})
