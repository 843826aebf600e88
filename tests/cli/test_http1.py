"""What ``serve`` speaks, with the real hypercorn on loopback, on both event loops."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio
import hypercorn.protocol
import pytest
from anyio.lowlevel import checkpoint
from attrs import define, field
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.protocol.http_stream import HTTPStream

from kiro_asgi.cli.http1 import Http1, spoken
from kiro_asgi.cli.standalone import Server, bind
from tests.attack.shapes import BEGINNINGS, PREFACE, UPGRADE_TO_HTTP2, WEBSOCKET, frame

LIMIT: Final = 1.0
"""Seconds for a head."""

PATIENCE: Final = 15.0
"""Seconds that a busy machine may take."""

LARGEST: Final = 64 * 1024
"""Bytes of a message."""

DEFLATE: Final = b"sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n"


@define(eq=False)
class Recorder:
    """An application that keeps what it is given: over HTTP the version, over WebSocket the messages to their end."""

    versions: list[str] = field(factory=list)
    messages: list[Any] = field(factory=list)
    over: anyio.Event = field(factory=anyio.Event)
    """Set when a WebSocket has ended."""

    accepts: bool = True
    listens: bool = True

    async def __call__(self, scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        if scope["type"] == "http":
            self.versions.append(scope["http_version"])
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})
        elif scope["type"] == "websocket":
            await self._listen(receive, send)
        else:
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})

    async def _listen(self, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        await receive()
        if self.accepts:
            await send({"type": "websocket.accept"})
        if not self.listens:
            await self.over.wait()
        while (message := await receive())["type"] != "websocket.disconnect":
            self.messages.append(message["text"])
        self.over.set()

    def interrupt(self) -> None:
        """Nothing: there is nothing to end."""


@asynccontextmanager
async def served(loop: str, app: Recorder, messages: int = 16 * LARGEST) -> AsyncIterator[int]:
    """The port where *app* is served meanwhile, with *messages* bytes of those that it has not taken."""
    listener, stop = bind("127.0.0.1", 0), anyio.Event()
    port = listener.getsockname()[1]
    server = Server(loop=loop, graceful_timeout=0.1, head_timeout=LIMIT, frame_bytes=LARGEST, frames_bytes=messages)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, app, listener, stop.wait)
        yield port
        stop.set()


async def answer_to(port: int, data: bytes) -> bytes:
    """All that is sent for *data*, up to the end of the connection."""
    pieces = []
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(data)
        with anyio.fail_after(PATIENCE):
            try:
                while True:
                    pieces.append(await stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return b"".join(pieces)


@asynccontextmanager
async def websocket(port: int, more: bytes = b"") -> AsyncIterator[tuple[anyio.abc.SocketStream, bytes]]:
    """A connection whose handshake was accepted, and the head of that."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(WEBSOCKET + more + b"\r\n")
        head = b""
        with anyio.fail_after(PATIENCE):
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
        yield stream, head


@pytest.mark.parametrize("beginning", BEGINNINGS)
async def test_a_connection_without_a_request_ends(anyio_backend_name: str, beginning: str) -> None:
    """Whatever protocol it begins: within the limit for a head.  The server goes on."""
    app = Recorder()
    async with served(anyio_backend_name, app) as port:
        await answer_to(port, BEGINNINGS[beginning])
        assert (await answer_to(port, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).endswith(b"ok")


async def test_http_1_0_has_no_chunks(anyio_backend_name: str) -> None:
    """A proxy of that version would hand on chunks that it has not read; a length it knows."""
    body = b"5\r\nhello\r\n0\r\n\r\n"
    chunked = b"POST / HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + body
    sized = b"POST / HTTP/1.0\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
    app = Recorder()
    async with served(anyio_backend_name, app) as port:
        refused, answered = await answer_to(port, chunked), await answer_to(port, sized)

    assert refused.startswith(b"HTTP/1.1 400 ")
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert len(app.versions) == 1


async def test_http_2_is_not_spoken(anyio_backend_name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its preface is refused in HTTP/1.1; a request that offers it, in whatever way, is answered in HTTP/1.1."""
    app = Recorder()
    both = UPGRADE_TO_HTTP2.replace(b"upgrade: h2c", b"upgrade: websocket\r\nupgrade: h2c")
    async with served(anyio_backend_name, app) as port:
        refused = await answer_to(port, PREFACE)
        answers = [await answer_to(port, request) for request in (UPGRADE_TO_HTTP2, both)]

    assert refused.startswith(b"HTTP/1.1 505 ")
    assert [answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"ok") for answer in answers] == [True, True]
    assert app.versions == ["1.1", "1.1"]
    assert not caplog.records


async def test_no_frame_is_inflated(anyio_backend_name: str) -> None:
    """Compression is not agreed upon; a frame that is compressed nevertheless is an error of the protocol."""
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packed.compress(b"\0" * LARGEST * 64) + packed.flush(zlib.Z_SYNC_FLUSH)
    app = Recorder()
    async with served(anyio_backend_name, app) as port, websocket(port, DEFLATE) as (stream, head):
        await stream.send(frame(1, data[:-4], reserved=0x40))
        with anyio.fail_after(PATIENCE):
            await app.over.wait()

    assert b"sec-websocket-extensions" not in head.lower()
    assert app.messages == []


async def test_a_message_that_is_too_large_ends_the_connection(anyio_backend_name: str) -> None:
    """The client is told; the application learns that it is gone; and what it sends further is dropped for as long as
    the limit for a head."""
    app = Recorder()
    async with served(anyio_backend_name, app) as port, websocket(port) as (stream, _):
        await stream.send(b"\x81\xff" + (1 << 40).to_bytes(8, "big") + bytes(4))
        told = b""
        with anyio.fail_after(PATIENCE), pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            while True:
                await stream.send(b"x" * LARGEST)
                with anyio.move_on_after(0.01):
                    told += await stream.receive()
        with anyio.fail_after(PATIENCE):
            await app.over.wait()

    assert told == b"\x88\x02" + (1009).to_bytes(2, "big")
    assert app.messages == []


BUSY: Final = b"\x88\x02" + (1013).to_bytes(2, "big")


@pytest.mark.parametrize("way", ["unfinished", "waiting"])
async def test_messages_that_nobody_takes_are_bounded(anyio_backend_name: str, way: str) -> None:
    """Of all connections together: those that want more are told to come again, as many stay as there is room for, and
    a short message has room.  What was left is forgotten."""
    app = Recorder(listens=way == "unfinished")
    data = frame(1, b"x" * LARGEST)
    data = data[:-9] if way == "unfinished" else data
    async with served(anyio_backend_name, app, 4 * LARGEST) as port:
        for _ in range(3):
            told = [b""] * 60
            async with AsyncExitStack() as stack:
                opened = [(await stack.enter_async_context(websocket(port)))[0] for _ in told]
                async with anyio.create_task_group() as tasks:
                    for stream in opened:
                        tasks.start_soon(stream.send, data)
                with anyio.fail_after(PATIENCE):
                    while told.count(b"") > 4:
                        for number, stream in enumerate(opened):
                            with anyio.move_on_after(0 if told[number] else 0.05):
                                told[number] = told[number] or await stream.receive()
                short, _ = await stack.enter_async_context(websocket(port))
                await short.send(frame(1, b"short") + frame(9))
                with anyio.fail_after(PATIENCE):
                    assert await short.receive() == b"\x8a\x00", "no pong"

            assert {*told} == {b"", BUSY}, told
        app.over.set()


async def test_the_largest_message_arrives_whole(anyio_backend_name: str) -> None:
    """At the limit, in one frame or in fragments with pings between."""
    app = Recorder()
    text = b"x" * LARGEST
    pieces = [frame(1, text[:9], final=False), *(frame(0, text[:7], final=False) + frame(9) for _ in range(9_360))]
    async with served(anyio_backend_name, app) as port, websocket(port) as (stream, _):
        await stream.send(frame(1, text))
        await stream.send(b"".join(pieces) + frame(0, text[:7]) + frame(8))
        with anyio.fail_after(PATIENCE):
            await app.over.wait()

    assert [len(message) for message in app.messages] == [LARGEST, LARGEST]


async def test_a_client_that_does_not_wait_for_the_answer_is_gone(anyio_backend_name: str) -> None:
    """Frames in front of the answer to the handshake end the connection, and the application is told."""
    app = Recorder(accepts=False)
    async with served(anyio_backend_name, app) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(WEBSOCKET + b"\r\n")
        await anyio.sleep(0.3)
        await stream.send(frame(1, b"{}"))
        with anyio.fail_after(PATIENCE):
            await app.over.wait()
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()


async def test_small_frames_leave_others_their_turns(anyio_backend_name: str) -> None:
    """Ten thousand fragments that come in one read are not read in one turn of the event loop."""
    app, turns = Recorder(), 0

    async def count() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with served(anyio_backend_name, app) as port, websocket(port) as (stream, _):
        await stream.send(frame(1, b"{", final=False))
        await anyio.sleep(0.3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            await checkpoint()
            before = turns
            await stream.send(frame(0, final=False) * 10_000 + frame(8))
            with anyio.fail_after(PATIENCE):
                await app.over.wait()
            tasks.cancel_scope.cancel()

    assert turns - before >= 10_000 * 6 // 4096


async def test_what_fails_on_one_connection_ends_that_one(
    anyio_backend_name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of the server's own is one line in the log; others are served."""
    handle = HTTPStream.handle

    async def failing(self: HTTPStream, event: Any) -> None:
        if getattr(event, "raw_path", b"") == b"/broken":
            raise RuntimeError("a fault")
        await handle(self, event)

    monkeypatch.setattr(HTTPStream, "handle", failing)
    async with served(anyio_backend_name, Recorder()) as port:
        assert await answer_to(port, b"GET /broken HTTP/1.1\r\nhost: x\r\n\r\n") == b""
        assert (await answer_to(port, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).endswith(b"ok")

    assert [record.getMessage() for record in caplog.records] == ["a connection is broken off: RuntimeError: a fault"]


def protocols() -> Iterator[Any]:
    yield hypercorn.protocol.H11Protocol  # type: ignore[attr-defined]
    with spoken(LARGEST):
        yield hypercorn.protocol.H11Protocol  # type: ignore[attr-defined]
    yield hypercorn.protocol.H11Protocol  # type: ignore[attr-defined]


def test_hypercorn_is_as_before_when_the_gateway_has_ended() -> None:
    """Other applications in the process have the hypercorn that they know."""
    before, meanwhile, after = protocols()

    assert (before, meanwhile.func, after) == (H11Protocol, Http1, H11Protocol)
