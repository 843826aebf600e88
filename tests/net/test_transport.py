"""Connections and the loop over them, against a real socket, with both HTTP libraries on both event loops."""

from __future__ import annotations

import importlib
import os
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import httpcore
import pytest
from anyio.abc import SocketStream
from anyio.lowlevel import checkpoint

from kiro_asgi.errors import TooBusy, UpstreamTimeout, UpstreamUnreachable
from kiro_asgi.net.requests import fetch_whole
from kiro_asgi.net.streams import InterleavedBackend, InterleavedStream, TcpBackend
from kiro_asgi.net.transport import Transport, authority
from kiro_asgi.simulator import (
    CloseEarly,
    Event,
    Head,
    Layout,
    Pause,
    RawBytes,
    Reset,
    Stall,
)
from kiro_asgi.upstreams.base import UpstreamRequest
from tests.listening import listening
from tests.net.readers import Noting, request_to

pytestmark = pytest.mark.anyio


def say(text: str) -> Event:
    return Event("assistantResponseEvent", {"content": text})


async def quiet(upstream, opened=None):
    """Wait until the upstream has seen its connections close."""
    with anyio.fail_after(3):
        while upstream.connections_open:  # noqa: ASYNC110 - the simulator's record is plain numbers
            await anyio.sleep(0.01)


async def test_an_answer_arrives_whole(transport, upstream):
    """Status, headers and body come through, and the connection is used again (F053, F057)."""
    for number in range(3):
        upstream.enqueue((Head(headers=(("x-number", str(number)),)), say("a"), say("b")))
        reader = Noting()
        await transport.fetch(request_to(upstream.url), reader, patience=5)

        assert reader.status == 200
        assert (b"x-number", str(number).encode()) in [(name.lower(), value) for name, value in reader.headers]
        assert reader.body.count(b'"content"') == 2
    assert upstream.connections_opened == 1


async def test_the_reader_acts_once_a_read(transport, upstream):
    """However many chunks one network read brings, there is one turn before the next read."""

    async def dawdle(reader: Noting) -> None:
        await anyio.sleep(0.1)

    upstream.enqueue(tuple(say(str(number)) for number in range(200)))
    reader = Noting(on_turn=dawdle)

    await transport.fetch(request_to(upstream.url), reader, patience=5)

    assert len(reader.chunks) == 200
    assert len(reader.turns) <= 3


async def test_nothing_is_read_while_the_reader_is_busy(library):
    """A reader that does not return from its turn stops the upstream: nothing is queued in between (F021, R07)."""
    from kiro_asgi import simulator

    blob = bytes(1024 * 1024)
    go_on = anyio.Event()
    transport = Transport(library=library)

    async def wait(reader: Noting) -> None:
        if reader.chunks:
            await go_on.wait()

    async with simulator.serve(strict=False, send_buffer=16384) as upstream:
        upstream.enqueue((Head(layout=Layout(chunk=16384)), *[RawBytes(blob)] * 30))
        reader = Noting(on_turn=wait)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: transport.fetch(request_to(upstream.url), reader, patience=5))
            await anyio.sleep(0.5)
            first = upstream.requests[-1].bytes_accepted
            await anyio.sleep(0.5)
            second = upstream.requests[-1].bytes_accepted
            held = len(reader.body)
            go_on.set()
        await transport.aclose()

    assert first == second < 16 * len(blob)
    assert held <= 128 * 1024
    assert len(reader.body) == 30 * len(blob)


async def test_enough_closes_the_connection(transport, upstream):
    """A reader that has seen enough ends the call, and the upstream notices at once (F022)."""
    upstream.enqueue((say("a"), Pause(0.05), say("b"), Stall()))
    reader = Noting(enough_after=1)

    await transport.fetch(request_to(upstream.url), reader, patience=5)

    await quiet(upstream)
    assert len(reader.chunks) == 1


class Broken(Exception):
    """Something that a reader's own work raises."""


async def test_what_a_turn_raises_comes_out_and_closes(transport, upstream):
    """A failure of the reader's own is not taken for one of the network's."""

    async def fail(reader: Noting) -> None:
        if reader.chunks:
            raise Broken

    upstream.enqueue((say("a"), Stall()))
    with pytest.raises(Broken):
        await transport.fetch(request_to(upstream.url), Noting(on_turn=fail), patience=5)

    await quiet(upstream)


@pytest.mark.parametrize(
    ("script", "patience", "error"),
    [
        pytest.param((Stall(),), 5.0, UpstreamTimeout, id="no-head"),
        pytest.param((Head(), Stall()), 0.2, UpstreamTimeout, id="no-body"),
        pytest.param((say("a"), Stall()), 0.2, UpstreamTimeout, id="no-more-body"),
        pytest.param((Reset(),), 5.0, UpstreamUnreachable, id="reset-before-the-head"),
        pytest.param((Head(), Reset()), 5.0, UpstreamUnreachable, id="reset-after-the-head"),
        pytest.param((say("a"), Pause(0.05), Reset()), 5.0, UpstreamUnreachable, id="reset-within"),
        pytest.param((say("a"), CloseEarly()), 5.0, UpstreamUnreachable, id="end-without-an-end"),
    ],
)
async def test_every_failure_has_its_error(transport, upstream, script, patience, error):
    """Foreign exceptions come out as ours, and nothing stays open (R03, R04, R05)."""
    upstream.enqueue(script)

    with pytest.raises(error):
        await transport.fetch(request_to(upstream.url), Noting(patience=patience, head_patience=0.2), patience=1)

    await quiet(upstream)


@asynccontextmanager
async def dripping(begin: bytes, again: bytes) -> AsyncIterator[str]:
    """The URL of a service that answers with *begin*, and then with *again* every few milliseconds, for ever."""

    async def drip(stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                await stream.receive()
                await stream.send(begin)
                while True:
                    await stream.send(again)
                    await anyio.sleep(0.01)

    async with listening(drip) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x", id="a-head-byte-by-byte"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"X-Line: x\r\n", id="a-head-line-by-line"),
        pytest.param(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", id="103-for-ever"),
    ],
)
async def test_the_limit_on_the_head_is_absolute(library, begin, again):
    """However lively the upstream is: what counts is when the head is complete, not when the last byte came."""
    transport = Transport(library=library)
    async with dripping(begin, again) as url:
        began = anyio.current_time()
        with anyio.fail_after(5), pytest.raises(UpstreamTimeout):
            await transport.fetch(request_to(url), Noting(head_patience=0.3), patience=5)
        took = anyio.current_time() - began
    await transport.aclose()

    assert 0.3 <= took < 2


async def test_the_wait_for_a_connection_is_bounded(transport, upstream):
    """Where all connections are taken for long, a request is refused with 503 after its patience, and leaves no trace:
    as many as before may wait, and the next one gets the connection that becomes free."""
    upstream.answer_with(lambda request: (say("a"), Stall()))
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(lambda: transport.fetch(request_to(upstream.url), Noting(), patience=5))
        await anyio.sleep(0.2)
        for _ in range(4):
            with anyio.fail_after(2), pytest.raises(TooBusy, match=r"within 0\.1 s") as caught:
                await transport.fetch(request_to(upstream.url), Noting(), patience=0.1)
            assert (caught.value.code, caught.value.status, caught.value.retry_after) == ("queue_timeout", 503, 1)
        group.cancel_scope.cancel()

    upstream.answer_with(lambda request: (say("b"),))
    reader = Noting()
    await transport.fetch(request_to(upstream.url), reader, patience=0.1)
    assert b'"b"' in reader.body


async def test_no_descriptor_is_left_for_a_connection(transport, upstream):
    """An upstream that cannot be asked because this process can open no socket is 503, not the upstream's fault."""
    with no_more_descriptors(), pytest.raises(TooBusy) as caught:
        await transport.fetch(request_to(upstream.url), Noting(), patience=1)

    assert (caught.value.code, caught.value.retry_after) == ("out_of_descriptors", 1)
    await transport.fetch(request_to(upstream.url), Noting(), patience=1)


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """Take every descriptor that this process may have."""
    before, taken = resource.getrlimit(resource.RLIMIT_NOFILE), []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, before[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_client_that_has_left_closes_all_that_is_idle(transport, upstream):
    """Closing goes on where it has been cancelled: nobody knows of those connections any more."""
    upstream.answer_with(lambda request: (Pause(0.1), say("a")))
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(lambda: transport.fetch(request_to(upstream.url), Noting(), patience=5))
    assert upstream.connections_open == 3

    with anyio.CancelScope() as scope:
        scope.cancel()
        await transport.reset()

    await quiet(upstream)


async def test_nobody_listens(transport):
    """A refused connection is an unreachable upstream, with the phrase that operators search for (F065)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(UpstreamUnreachable, match="Stream connection failed") as caught:
        await transport.fetch(request_to(f"http://127.0.0.1:{port}"), Noting(), patience=1)

    assert caught.value.__cause__ is not None


async def test_cancelled_calls_leave_no_slot_behind(transport, upstream):
    """After many calls that were cancelled anywhere, every slot is free and the next calls work (R10).

    This is what the library's own pool does not survive: https://github.com/encode/httpcore/issues/1093
    """
    upstream.answer_with(lambda request: (say("a"), Pause(0.01), say("b"), Pause(0.01), say("c")))
    for number in range(120):
        with anyio.move_on_after(number % 30 / 1000):
            await transport.fetch(request_to(upstream.url), Noting(), patience=5)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(lambda: transport.fetch(request_to(upstream.url), Noting(), patience=5))
    assert upstream.connections_open <= 4


async def test_an_aborted_answer_never_leaks_into_the_next(transport, upstream):
    """A connection whose answer was not read to its end is not used again (R12)."""
    for number in range(50):
        upstream.enqueue((say("old"), Pause(0.01), *[say("old")] * 50), (say(f"new-{number}"),))
        await transport.fetch(request_to(upstream.url), Noting(enough_after=1), patience=5)
        reader = Noting()
        await transport.fetch(request_to(upstream.url), reader, patience=5)

        assert b"old" not in reader.body
        assert f"new-{number}".encode() in reader.body


async def test_requests_beyond_the_queue_are_refused_at_once(transport, upstream):
    """Slots and queue are bounded; what does not fit is refused without waiting (R44)."""
    upstream.answer_with(lambda request: (say("a"), Stall()))
    refused = []

    async def call() -> None:
        try:
            await transport.fetch(request_to(upstream.url), Noting(), patience=5)
        except TooBusy as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(4 + 2 + 3):
            group.start_soon(call)
        await anyio.sleep(0.2)
        assert len(refused) == 3
        assert all(error.status == 503 and error.retry_after for error in refused)
        group.cancel_scope.cancel()


async def test_a_connection_that_the_upstream_closed_is_not_used(transport, upstream):
    """An idle connection that has been closed from the other side is replaced, not tried."""
    upstream.enqueue((Head(headers=(("connection", "close"),)), say("a")), (say("b"),))
    await transport.fetch(request_to(upstream.url), Noting(), patience=5)
    await quiet(upstream)

    reader = Noting()
    await transport.fetch(request_to(upstream.url), reader, patience=5)

    assert upstream.connections_opened == 2
    assert b'"b"' in reader.body


async def test_an_idle_connection_that_is_too_old_is_closed(library, upstream):
    """When one to the same place is wanted: it is replaced, and does not stay open."""
    transport = Transport(library=library, keep_alive=0.2)
    upstream.answer_with(lambda request: (say("a"),))
    for _ in range(2):
        await transport.fetch(request_to(upstream.url), Noting(), patience=5)
        await anyio.sleep(0.4)

    assert upstream.connections_opened == 2
    await open_at(upstream, 1)
    await transport.aclose()


async def test_idle_connections_that_are_too_old_go_when_another_becomes_idle(library, upstream):
    """Else each crowd would leave its connections for as long as the one used last suffices."""
    transport = Transport(library=library, keep_alive=0.2)
    upstream.enqueue((Pause(0.8), say("a")), (say("b"),))
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(lambda: transport.fetch(request_to(upstream.url), Noting(), patience=5))

    assert upstream.connections_opened == 2
    await open_at(upstream, 1)
    await transport.aclose()


async def open_at(upstream, count):
    """Wait until so many connections are open there."""
    with anyio.fail_after(5):
        while upstream.connections_open != count:  # noqa: ASYNC110 - the simulator's record is plain numbers
            await anyio.sleep(0.01)


async def test_hanging_up_ends_a_call_that_cannot_be_cancelled(library, upstream):
    """Its connection is closed and its slot is free, though its reader does not return; and free only once."""
    transport = Transport(library=library, connections=1, queue=2)
    upstream.answer_with(lambda request: (say("a"), Pause(0.05), say("b")))
    reached, may_return, ended = anyio.Event(), anyio.Event(), anyio.Event()

    async def block(reader: Noting) -> None:
        reached.set()
        with anyio.CancelScope(shield=True):
            await may_return.wait()

    stuck = Noting(on_turn=block)

    async def call() -> None:
        with suppress(UpstreamUnreachable):
            await transport.fetch(request_to(upstream.url), stuck, patience=5)
        ended.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await reached.wait()
            try:
                await transport.hang_up(stuck)
                await quiet(upstream)
                await transport.hang_up(stuck)  # another time changes nothing
                for _ in range(2):
                    await transport.fetch(request_to(upstream.url), Noting(), patience=1)
                assert not ended.is_set()
            finally:
                may_return.set()  # else a test that fails here would never end
            await ended.wait()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(lambda: transport.fetch(request_to(upstream.url), Noting(), patience=5))
    assert upstream.connections_open == 1
    await transport.aclose()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("https://q.us-east-1.amazonaws.com/x", b"q.us-east-1.amazonaws.com", id="name"),
        pytest.param("http://127.0.0.1:9999/x", b"127.0.0.1:9999", id="port"),
        pytest.param("http://[::1]:9999/x", b"[::1]:9999", id="ipv6"),
        pytest.param("http://[::1]/x", b"[::1]", id="ipv6-without-port"),
    ],
)
def test_the_host_is_named_as_http_wants_it(url, expected):
    """Source: RFC 9110 section 7.2, RFC 3986 section 3.2.2."""
    assert authority(httpcore.URL(url)) == expected


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
        backend = InterleavedBackend(TcpBackend(importlib.import_module(library)))
        stream = await backend.connect_tcp("127.0.0.1", port)
        with anyio.fail_after(5):
            await stream.write(b"hello", 5.0)
            assert pieces == []
            assert await stream.read(1024, 5.0) == ANSWER
        await stream.aclose()

    assert pieces == [b"hello"]


class Plenty:
    """A stream that has as many bytes as are asked for."""

    asked = 0

    async def read(self, max_bytes: int, timeout: float | None) -> bytes:  # noqa: ASYNC109 - the library's interface
        self.asked = max_bytes
        return b"x" * max_bytes


async def test_reads_that_take_long_to_be_taken_apart_become_shorter():
    """To a bound, and others have some turns meanwhile; they become longer again."""
    there, turns = Plenty(), 0
    stream: Any = InterleavedStream(there)  # type: ignore[arg-type]

    async def beside() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beside)
        sizes = []
        for _ in range(6):
            await stream.read(64 * 1024)
            sizes.append(there.asked)
            time.sleep(0.01)  # noqa: ASYNC251 - work that takes as long
        tasks.cancel_scope.cancel()
    with anyio.fail_after(5):
        while there.asked < 64 * 1024:
            await stream.read(64 * 1024)

    assert sizes == [64 * 1024, 32 * 1024, 16 * 1024, *[8 * 1024] * 3]
    assert turns > 3 * 5
