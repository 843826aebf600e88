"""What goes over the network, in how many pieces, with both HTTP libraries on both event loops."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream

from kiro_asgi.net.requests import fetch_whole
from kiro_asgi.net.transport import InterleavedBackend, Transport
from kiro_asgi.upstreams.base import UpstreamRequest
from tests.listening import listening

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def service(ready: Callable[[bytes], bool]) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Answers when what has come is all that it waits for; yields its port, and what came at a time."""
    pieces: list[bytes] = []

    async def serve(client: SocketStream) -> None:
        async with client:
            while not ready(b"".join(pieces)):
                pieces.append(await client.receive())
            await client.send(ANSWER)

    async with listening(serve) as port:
        yield port, pieces


@pytest.mark.parametrize("size", [0, 1, 1000, 65_536, 65_537, 1_000_000])
async def test_the_head_of_a_request_goes_out_with_its_body(library, size):
    """In one piece, where a body is not so large that this would copy it; nothing is lost where they are joined."""
    body = bytes(n % 251 for n in range(size))

    def complete(data: bytes) -> bool:
        _, blank, rest = data.partition(b"\r\n\r\n")
        return bool(blank) and len(rest) == size

    async with service(complete) as (port, pieces):
        transport = Transport(library=library)
        request = UpstreamRequest("POST" if size else "GET", f"http://127.0.0.1:{port}/some/path", (), body)
        with anyio.fail_after(5):
            answer = await fetch_whole(transport, request, patience=5.0)
        await transport.aclose()

    assert answer.body == b"ok"
    head, _, rest = b"".join(pieces).partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"/some/path"
    assert rest == body
    assert size > 1000 or len(pieces) == 1


async def test_what_was_written_goes_out_before_a_read(library):
    """A proxy is greeted with one message, and then waited for; of each request only the first message waits."""
    async with service(bool) as (port, pieces):
        backend = InterleavedBackend(importlib.import_module(library).AnyIOBackend())
        stream = await backend.connect_tcp("127.0.0.1", port)
        with anyio.fail_after(5):
            await stream.write(b"hello", 5.0)
            assert pieces == []
            assert await stream.read(1024, 5.0) == ANSWER
        await stream.aclose()

    assert pieces == [b"hello"]
