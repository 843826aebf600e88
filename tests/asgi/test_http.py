"""Reading a request body within its limits."""

from __future__ import annotations

import gzip
import tracemalloc

import anyio
import pytest

from kiro_asgi.asgi.protocol import Disconnected, read_body
from kiro_asgi.errors import BodyTimeout, BodyTooLarge, RequestError, UnsupportedEncoding
from tests.asgi.driver import Exchange, http_scope

pytestmark = pytest.mark.anyio


async def read(*chunks: bytes, headers=(), max_bytes=100, seconds=5.0, hold=lambda size: None):
    exchange = Exchange(http_scope("POST", "/", headers), list(chunks))
    return await read_body(
        exchange.scope, exchange.receive, max_bytes=max_bytes, seconds=seconds, hold=hold, release=print
    )


@pytest.mark.parametrize(
    "chunks", [[b""], [b"abc"], [b"a", b"b", b"c"], [b"", b"abc", b""]], ids=["empty", "one", "three", "with-empty"]
)
async def test_the_body_is_joined(chunks):
    """A body may come in any number of messages."""
    assert await read(*chunks) == b"".join(chunks)


@pytest.mark.parametrize(
    ("chunks", "headers"),
    [
        pytest.param([b"x" * 101], [], id="one-message"),
        pytest.param([b"x"] * 101, [], id="many-messages"),
        pytest.param([b""], [("content-length", "101")], id="announced"),
        pytest.param([b"x" * 101], [("content-length", "5")], id="lying"),
        pytest.param([b""], [("content-length", "9" * 4000)], id="absurd"),
    ],
)
async def test_a_body_over_the_cap_is_refused(chunks, headers):
    """More than the cap is refused as soon as it is announced or seen (C15, R17)."""
    with pytest.raises(BodyTooLarge):
        await read(*chunks, headers=headers)


async def test_a_body_at_the_cap_is_read():
    """The cap itself is allowed."""
    assert await read(b"x" * 100, headers=[("content-length", "100")]) == b"x" * 100


async def test_what_is_refused_is_not_kept():
    """Of a body that is far too large no more than the cap is held (R17)."""
    chunk = bytes(64 * 1024)
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            await read(*[chunk] * 1000, max_bytes=1024 * 1024)
        assert tracemalloc.get_traced_memory()[1] < 3 * 1024 * 1024
    finally:
        tracemalloc.stop()


async def test_a_body_that_stalls_is_given_up():
    """A body that does not arrive in time is a 408 (R43)."""

    async def receive():
        await anyio.sleep_forever()

    with pytest.raises(BodyTimeout):
        await read_body(http_scope("POST", "/"), receive, max_bytes=10, seconds=0.05, hold=print, release=print)


async def test_a_client_that_leaves_is_noticed():
    """A disconnect in the middle of a body ends the reading (C15)."""
    exchange = Exchange(http_scope("POST", "/"), [])
    exchange.leave.set()

    with pytest.raises(Disconnected):
        await read_body(exchange.scope, exchange.receive, max_bytes=10, seconds=1, hold=print, release=print)


@pytest.mark.parametrize("encoding", ["compress", "gzip, gzip", "zstd2", "gzip;q=1"])
async def test_a_body_that_is_packed_in_another_way_is_refused(encoding):
    """With the ways that there are (R22)."""
    with pytest.raises(UnsupportedEncoding) as caught:
        await read(b"x", headers=[("content-encoding", encoding)])
    assert caught.value.accepted[:2] == ("gzip", "deflate")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "gzip, identity", " x-gzip "])
async def test_a_packed_body_is_read(encoding):
    """Held as what it unpacks to, and as what unpacking takes while it does."""
    held, data = [], gzip.compress(b"a" * 90)

    assert await read(data[:7], data[7:], headers=[("content-encoding", encoding)], hold=held.append) == b"a" * 90
    assert sum(held) == 100 + 90  # at most as much as a body may have, while it is unpacked


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "1 2"])
async def test_a_length_that_is_no_number_is_refused(length):
    """Content-Length must be digits."""
    with pytest.raises(RequestError):
        await read(b"x", headers=[("content-length", length)])
