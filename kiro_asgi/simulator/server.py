"""The simulator's server: sockets, HTTP/1.1 by h11, asyncio or trio by anyio.

Plain non-blocking sockets instead of a server library: resets, half-closes, single-byte writes and counting what
the peer has taken need nothing between the script and the socket.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from http import HTTPStatus
from itertools import count
from typing import Any, Final

import anyio
import anyio.from_thread
import anyio.lowlevel
import h11
from attrs import define, field

from kiro_asgi.simulator.kiro.hosts import CHAT
from kiro_asgi.simulator.kiro.models import MODELS
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import CloseEarly, HalfClose, Head, Pause, Reset, Script, Stall, lay_out
from kiro_asgi.simulator.service import Answerer, SimulatedService

BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOO_LARGE: Final = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
REQUEST_ID: Final = (b"x-amzn-requestid", b"00000000-0000-4000-8000-000000000000")
BACKLOG: Final = 1024
READ: Final = 65_536
MAX_HEAD: Final = 65_536
MAX_BODY: Final = 256 << 20
MAX_AHEAD: Final = 1 << 20
"""Bytes a peer may send while it is being answered."""

FOREVER: Final = 86_400.0


POLL: Final = 0.002
"""Seconds between two checks of `Journal.wait_until`."""


class Journal:
    """A bounded, thread-safe list of requests, and connection counts.

    Args:
        keep: How many requests are kept; older ones are dropped.
    """

    def __init__(self, keep: int = 1000) -> None:
        self._lock = threading.Lock()
        self._requests: deque[RecordedRequest] = deque(maxlen=keep)
        self.connections_opened = 0
        self.connections_closed = 0

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """The requests, in order of arrival."""
        with self._lock:
            return tuple(self._requests)

    @property
    def last_request(self) -> RecordedRequest:
        """The latest request.

        Raises:
            IndexError: There was none.
        """
        return self.requests[-1]

    @property
    def connections_open(self) -> int:
        """Connections at this moment."""
        return self.connections_opened - self.connections_closed

    def add(self, request: RecordedRequest) -> None:
        """Remember *request*."""
        with self._lock:
            self._requests.append(request)

    def forget(self) -> None:
        """Drop all requests; connections keep being counted."""
        with self._lock:
            self._requests.clear()

    def wait_until(self, condition: Callable[[], object], timeout: float = 5.0) -> bool:
        """Block this thread until *condition* holds; return whether it does.

        For code outside the simulator's event loop; inside, await ``anyio.to_thread.run_sync`` of it.
        """
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() >= end:
                return False
            time.sleep(POLL)
        return True


class Simulator(Journal):
    """A running simulator: its address, the requests that came, and the answers to come.

    Every method may be called from any thread.
    """

    def __init__(self, url: str, service: SimulatedService, keep: int) -> None:
        super().__init__(keep)
        self.url = url
        """Base URL, without a slash at the end."""

        self.service = service
        self.accounts = service.accounts
        self.calls = service.calls
        """Operation to the number of its requests, e.g. ``calls["RefreshToken"]``."""

    def enqueue(self, *scripts: Script, operation: str = CHAT) -> None:
        """Answer the next requests for *operation* with *scripts*, one each, whatever they ask."""
        self.service.enqueue(*scripts, operation=operation)

    def reset(self) -> None:
        """Be ready for another test: drop all requests, the scripts that none has come for, and the answerer."""
        self.forget()
        self.service.reset()

    def answer_with(self, answerer: Answerer | None) -> None:
        """Ask *answerer* first about every request; where it returns ``None``, go on as usual."""
        self.service.answer_with(answerer)

    def revoke(self, token: str) -> None:
        """Refuse this access token with 403 from now on."""
        self.accounts.revoked.add(token)


class _PeerGone(Exception):
    """The peer has closed or reset the connection."""


@define(eq=False)
class _Connection:
    """One accepted connection."""

    sock: socket.socket
    number: int
    simulator: Simulator
    _wire: h11.Connection = field(init=False)

    async def serve(self) -> None:
        """Answer requests until either side is done with the connection."""
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        with contextlib.suppress(_PeerGone):
            while (request := await self._request()) is not None:
                self.simulator.add(request)
                if not await self._play(self.simulator.service.script_for(request), request):
                    return
                if self._wire.states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
                    return
                self._wire.start_next_cycle()

    async def _request(self) -> RecordedRequest | None:
        """The next request, whole; ``None`` at the end of the connection, or after a request that is not HTTP."""
        request: RecordedRequest | None = None
        body = bytearray()
        while True:
            try:
                event = self._wire.next_event()
            except h11.RemoteProtocolError:
                await self._send(BAD_REQUEST)
                return None
            if event is h11.NEED_DATA:
                if self._wire.they_are_waiting_for_100_continue:
                    await self._send(self._wire.send(h11.InformationalResponse(status_code=100, headers=[])))
                self._wire.receive_data(await self._receive())
            elif isinstance(event, h11.Request):
                request = _recorded(event, self.number)
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MAX_BODY:
                    await self._send(TOO_LARGE)
                    return None
            else:
                if isinstance(event, h11.EndOfMessage) and request is not None:
                    request.body = bytes(body)
                    return request
                return None

    async def _play(self, script: Script, request: RecordedRequest) -> bool:
        """Follow *script*; return whether the response is complete."""
        try:
            request.complete = await self._follow(script, request)
        except _PeerGone:
            request.peer_closed_at = time.monotonic()
        finally:
            request.finished_at = time.monotonic()
        return request.complete

    async def _follow(self, script: Script, request: RecordedRequest) -> bool:
        write = 0
        for action in lay_out(script):
            match action:
                case bytes():
                    await self._ensure_head(request)
                    await self._send(self._wire.send(h11.Data(action)), write, request)
                case Head():
                    write = action.layout.write
                    await self._send_head(action, request)
                case Pause(seconds):
                    await self._wait(seconds)
                case Stall():
                    await self._wait(FOREVER)
                case HalfClose():
                    self.sock.shutdown(socket.SHUT_WR)
                    await self._wait(FOREVER)
                case Reset():
                    _reset_on_close(self.sock)
                    return False
                case CloseEarly():
                    return False
        await self._ensure_head(request)
        await self._send(self._wire.send(h11.EndOfMessage()), write, request)
        return True

    async def _ensure_head(self, request: RecordedRequest) -> None:
        if not request.status:
            await self._send_head(Head(), request)

    async def _send_head(self, head: Head, request: RecordedRequest) -> None:
        request.status = head.status
        await self._send(self._wire.send(_response(head)), request=request)

    async def _receive(self) -> bytes:
        while True:
            try:
                return self.sock.recv(READ)
            except BlockingIOError:
                await anyio.wait_readable(self.sock)
            except OSError as exc:
                raise _PeerGone from exc

    async def _wait(self, seconds: float) -> None:
        """Send nothing for *seconds*, but listen: pipelined requests are kept, a peer that leaves ends it.

        Raises:
            _PeerGone: The peer closed, or sent far ahead.
        """
        ahead = 0
        with anyio.move_on_after(seconds):
            while data := await self._receive():
                self._wire.receive_data(data)
                ahead += len(data)
                if ahead > MAX_AHEAD:
                    break
            raise _PeerGone

    async def _send(self, data: bytes | None, size: int = 0, request: RecordedRequest | None = None) -> None:
        """Send *data*, *size* bytes a write (0: as many as the peer takes), giving other tasks a turn after each."""
        rest = memoryview(data or b"")
        while rest:
            try:
                sent = self.sock.send(rest[:size] if size else rest)
            except BlockingIOError:
                await anyio.wait_writable(self.sock)
                continue
            except OSError as exc:
                raise _PeerGone from exc
            if request is not None:
                request.bytes_accepted += sent
            rest = rest[sent:]
            await anyio.lowlevel.checkpoint()


async def _accept(listener: socket.socket, simulator: Simulator, send_buffer: int | None) -> None:
    async def serve_connection(sock: socket.socket, number: int) -> None:
        try:
            await _Connection(sock, number, simulator).serve()
        finally:
            sock.close()
            simulator.connections_closed += 1

    numbers = count(1)
    async with anyio.create_task_group() as connections:
        while True:
            await anyio.wait_readable(listener)
            try:
                sock, _ = listener.accept()
            except OSError:  # the peer is gone already, or there are no descriptors left
                await anyio.sleep(0.01)
                continue
            _prepare(sock, send_buffer)
            simulator.connections_opened += 1
            connections.start_soon(serve_connection, sock, next(numbers))


@contextlib.asynccontextmanager
async def serve(
    port: int = 0,
    *,
    pace: float = 0.0,
    models: tuple[Model, ...] | None = MODELS,
    strict: bool = True,
    keep: int = 1000,
    send_buffer: int | None = None,
) -> AsyncIterator[Simulator]:
    """Run a simulator in this event loop, on 127.0.0.1.

    Args:
        port: 0 takes a free one; see `Simulator.url`.
        pace: Seconds of pause after every event of an answer.
        models: What is on offer; ``None`` makes the model list a 404 and any model name acceptable.
        strict: Check requests as the service does, and refuse them as it does.
        keep: How many requests are remembered, bodies included.
        send_buffer: Bytes of socket buffer, so that back-pressure shows early; ``None``: the system's default.
    """
    with _listen(port) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        failure: Exception | None = None
        simulator = Simulator(address, SimulatedService(pace=pace, models=models, strict=strict), keep)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_accept, listener, simulator, send_buffer)
            try:
                yield simulator
            except Exception as exc:  # noqa: BLE001 - raised again below, outside the task group, which would wrap it
                failure = exc
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure


@contextlib.contextmanager
def running(port: int = 0, *, backend: str = "asyncio", **options: Any) -> Iterator[Simulator]:
    """Run a simulator in a thread of its own, with its own event loop; for synchronous code and for other loops.

    Args:
        port: 0 takes a free one; see `Simulator.url`.
        backend: ``asyncio`` or ``trio``.
        options: As for `serve`.
    """
    settings: Mapping[str, Any] = options
    with (
        anyio.from_thread.start_blocking_portal(backend) as portal,
        portal.wrap_async_context_manager(serve(port, **settings)) as simulator,
    ):
        yield simulator


def _recorded(event: h11.Request, connection: int) -> RecordedRequest:
    """The request that *event* opens, still without its body."""
    path, _, query = event.target.decode("ascii", "replace").partition("?")
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}
    return RecordedRequest(event.method.decode("ascii"), path, query, headers, connection=connection)


def response_headers(head: Head) -> list[tuple[bytes, bytes]]:
    """The headers of an answer that begins with *head*; those of its framing come on top, unless it has a length."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in head.headers]
    if head.content_type:
        headers.append((b"content-type", head.content_type.encode()))
    headers.append(REQUEST_ID)
    return headers if head.length is None else [*headers, (b"content-length", b"%d" % head.length)]


def _response(head: Head) -> h11.Response:
    """*head* as h11 sends it."""
    headers, reason = response_headers(head), _phrase(head.status).encode()
    return h11.Response(status_code=head.status, headers=headers, reason=reason)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _listen(port: int) -> socket.socket:
    """A listening, non-blocking socket on 127.0.0.1; *port* 0 takes a free one.

    Raises:
        OSError: The port is taken.
    """
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _prepare(sock: socket.socket, send_buffer: int | None) -> None:
    """Make an accepted socket non-blocking and prompt."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if send_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)


def _reset_on_close(sock: socket.socket) -> None:
    """Let closing *sock* send RST instead of FIN."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
