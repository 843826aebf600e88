"""Connections through a proxy, with both HTTP libraries on both event loops."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager

import pytest
from anyio.abc import SocketStream

from kiro_asgi.errors import UpstreamUnreachable
from kiro_asgi.net.requests import fetch_whole
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.base import UpstreamRequest
from tests.listening import listening

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@asynccontextmanager
async def answering(answer: bytes):
    """A proxy that answers every request head with *answer*; yields its port and the heads."""
    heads: list[bytes] = []

    async def serve(client: SocketStream) -> None:
        async with client:
            heads.append(await client.receive())
            await client.send(answer)

    async with listening(serve) as port:
        yield port, heads


async def test_everything_goes_through_the_proxy(library):
    """The host is never connected to; the proxy is told the whole address, and who we are if it wants that."""
    async with answering(ANSWER) as (port, heads):
        transport = Transport(library=library, proxy=f"http://us%20er:p%40ss@127.0.0.1:{port}")
        request = UpstreamRequest("POST", "http://service.invalid/path", ((b"x-number", b"1"),), b"body")
        answer = await fetch_whole(transport, request, patience=5.0)
        await transport.aclose()
    known = base64.b64encode(b"us er:p@ss")

    assert answer.body == b"hello"
    assert heads[0].startswith(b"POST http://service.invalid/path HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic " + known in heads[0]
    assert b"Host: service.invalid\r\n" in heads[0]


async def test_what_is_encrypted_is_tunnelled(library):
    """The proxy of an https service is asked for a tunnel and shown nothing else; what it refuses is unreachable."""
    async with answering(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as (port, heads):
        transport = Transport(library=library, proxy=f"http://127.0.0.1:{port}")
        request = UpstreamRequest("POST", "https://service.invalid/path", ((b"authorization", b"Bearer canary"),))
        with pytest.raises(UpstreamUnreachable, match="403"):
            await fetch_whole(transport, request, patience=5.0)
        await transport.aclose()

    assert heads[0].startswith(b"CONNECT service.invalid:443 HTTP/1.1\r\n")
    assert b"canary" not in b"".join(heads)
