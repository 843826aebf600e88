"""Connections to upstreams, and the one loop that reads from them.

httpcore, or httpcore2, makes the connections; its pool is not used, because cancelled requests leave dead slots in it
(https://github.com/encode/httpcore/issues/1093) and its bookkeeping grows with the number of connections.  A stack of
idle connections under a semaphore does the same work here.

Reading is turned inside out.  httpcore hands out a body chunk by chunk, and cannot say whether the next chunk is
already there.  But it reads from the network only when nothing is left, and the network is ours:
`InterleavedStream.read` first lets the reader act upon all that the last read brought (`Reader.process`).  So one
read becomes one pass through the stages and at most one send; nothing is queued; a client that does not read stops
the reading from the upstream; and whatever `process` raises leaves httpcore through a read, the one place where its
generators close cleanly on every event loop.

Below `Transport` the library's exceptions become ours; `kiro_asgi.net.streams` has the streams and bodies inside it.
"""

from __future__ import annotations

import errno
import importlib
import socket
import threading
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar, current_token
from attrs import define, field

from kiro_asgi.errors import KiroAsgiError, TooBusy, UpstreamProtocolError, UpstreamTimeout, UpstreamUnreachable
from kiro_asgi.net.streams import InterleavedBackend, InterleavedStream, RequestContent, TcpBackend

if TYPE_CHECKING:
    import ssl

    import httpcore
    from anyio.lowlevel import RunvarToken

    from kiro_asgi.upstreams.base import UpstreamRequest

Headers = Sequence[tuple[bytes, bytes]]


class StopReading(Exception):
    """A reader needs no more of the body; the connection is closed, since the rest of the body is still to come."""


class Reader(Protocol):
    """Receives a response."""

    def start(self) -> float | None:
        """There is a connection for the request, which goes out now.

        Returns:
            Seconds until the whole head of the answer must be here; ``None`` for ever.
        """
        ...

    def begin(self, status: int, headers: Headers) -> None:
        """The head of the answer."""
        ...

    def take(self, chunk: bytes, /) -> None:
        """A piece of the body.  Must only put it aside: what happens with it happens in `process`."""
        ...

    async def process(self) -> float | None:
        """Act upon what was taken; called before every network read.

        Returns:
            Seconds that the read may take; ``None`` for ever.

        Raises:
            StopReading: Nothing more is wanted.
        """
        ...


_Place = tuple[bytes, bytes, int]
"""Scheme, host, port."""

_Connection: TypeAlias = "httpcore.AsyncConnectionInterface"

_Idle = deque[tuple[float, _Connection]]
"""Idle connections to one place, the last one used last, each with the time when it is too old."""


@define(eq=False)
class _Lane:
    """The connections of one event loop."""

    slots: anyio.Semaphore
    factory: httpcore.AsyncConnectionPool
    loop: Any
    """The loop's own object; asyncio's knows whether it is closed."""

    idle: defaultdict[_Place, _Idle] = field(factory=lambda: defaultdict(deque))
    under_way: dict[int, _Connection] = field(factory=dict)
    """Connections in use, by the identity of their readers."""

    waiting: int = 0
    """Requests that wait for a slot."""

    end: AsyncGenerator[None] = field(init=False)
    """Suspended until the loop ends, which closes what is idle."""

    async def close(self) -> None:
        """Close the idle connections."""
        stale = [connection for idle in self.idle.values() for _, connection in idle]
        self.forget()
        for connection in stale:
            await _close(connection)

    def forget(self) -> None:
        """Let go of the idle connections; without a loop only the garbage collector can close them."""
        for idle in self.idle.values():
            idle.clear()  # the deques stay: requests that are under way put their connections back into them

    def is_over(self) -> bool:
        """Whether the loop has ended without closing what was suspended in it, as only a closed asyncio loop can."""
        return bool(getattr(self.loop, "is_closed", bool)())


class Transport:
    """Sends requests to upstreams over HTTP/1.1.

    HTTP/2 is not offered: the library does not reset a stream that is closed half-read, so an upstream would go on
    generating for a client that has left.

    One transport may be used from several event loops; each has connections of its own, which go with it.

    Args:
        library: ``httpcore`` or ``httpcore2``.
        connections: Upstream connections at once.
        queue: Requests that may wait for one of them.
        keep_alive: Seconds an idle connection is kept.
        connect_timeout: Seconds for connecting, and for each write.
        proxy: URL of a proxy, with user and password where it wants them; empty for none.  The environment is not read.
        tls: Trusted authorities and further TLS options; ``None`` for the library's own.
        network: Wraps the library's network backend; by default it stays as it is.
    """

    def __init__(
        self,
        *,
        library: str = "httpcore",
        connections: int = 512,
        queue: int = 1024,
        keep_alive: float = 55.0,
        connect_timeout: float = 10.0,
        proxy: str = "",
        tls: ssl.SSLContext | None = None,
        network: Callable[[Any], Any] = lambda backend: backend,
    ) -> None:
        self._library: ModuleType = importlib.import_module(library)
        self._connections = connections
        self._queue = queue
        self._keep_alive = keep_alive
        self._connect_timeout = connect_timeout
        self._proxy = proxy
        self._network = network
        self._faults = translations(self._library)
        # Reads files, so it is done here and not while an event loop waits.
        self._tls: ssl.SSLContext = self._library.default_ssl_context() if tls is None else tls
        self._lanes: RunVar[_Lane] = RunVar(f"kiro_asgi.net.transport.{id(self)}")
        self._open: set[_Lane] = set()
        self._guard = threading.Lock()

    async def fetch(self, request: UpstreamRequest, reader: Reader, *, patience: float | None) -> None:
        """Send *request* and let *reader* take the answer.

        Args:
            request: What to send.
            reader: Receives the head and every chunk; its caller processes the chunks after the last call of `process`.
            patience: Seconds that the request may wait for a connection, if all are taken; ``None`` for ever.

        Raises:
            UpstreamUnreachable: No connection, or it broke.
            UpstreamTimeout: The upstream was silent for too long.
            UpstreamProtocolError: Not HTTP.
            KiroAsgiError: The request's `finish` failed.
            TooBusy: Too many requests wait for a connection already, none became free in time, or this process has no
                file descriptor left for one.
        """
        lane = self._lanes.get(None) or await self._new_lane()
        await self._enter(lane, patience)
        try:
            if request.finish is not None:  # only now that there is a slot: a signature expires
                request = await anyio.to_thread.run_sync(request.finish, request, abandon_on_cancel=True)
            wire = self._wire(request)
            connection, idle = await self._connection(lane, wire.url.origin)
        except BaseException:
            lane.slots.release()
            raise
        # From here on the slot is released by the one that pops the connection: this call, or `hang_up`; never both.
        lane.under_way[id(reader)] = connection
        try:
            await self._exchange(connection, wire, reader)
        finally:
            if lane.under_way.pop(id(reader), None) is not None:
                try:
                    await self._release(connection, idle)
                finally:
                    lane.slots.release()

    ends_reads: bool = True
    """Whether `hang_up` ends a read: then whoever looks at the time can do so, and no timer is armed for each."""

    @property
    def is_crowded(self) -> bool:
        """Whether requests wait for a connection in this event loop."""
        lane = self._lanes.get(None)
        return lane is not None and lane.waiting > 0

    async def hang_up(self, reader: Reader) -> None:
        """Close the connection of a call whose reader does not return from `process`, and free its slot.

        As a rule a call is ended by cancelling it.  This is for a reader that waits where no cancellation reaches it,
        as in the ``send`` of some servers, and for a service that is silent: its reader is not around the read alone.
        """
        lane = self._lanes.get(None)
        connection = None if lane is None else lane.under_way.pop(id(reader), None)
        if lane is not None and connection is not None:
            lane.slots.release()
            await _close(connection)

    async def reset(self) -> None:
        """Close the idle connections of this event loop."""
        if (lane := self._lanes.get(None)) is not None:
            await lane.close()

    aclose = reset

    async def _new_lane(self) -> _Lane:
        slots = anyio.Semaphore(self._connections, max_value=self._connections, fast_acquire=True)
        token: Any = current_token()
        lane = _Lane(slots, self._factory(), getattr(token, "native_token", token))
        set_token = self._lanes.set(lane)
        with self._guard:
            over = {other for other in self._open if other.is_over()}
            self._open = self._open - over | {lane}
        for other in over:
            other.forget()
        lane.end = self._until_the_end(lane, set_token)
        await anext(lane.end)
        return lane

    async def _until_the_end(self, lane: _Lane, token: RunvarToken[_Lane]) -> AsyncGenerator[None]:
        """Wait for the end of the event loop, which closes the generators that are suspended in it.

        Idle connections would outlive it: anyio finds a loop's variables by the loop, weakly, but they hold the loop.
        """
        try:
            yield
        finally:
            with self._guard:
                self._open.discard(lane)
            self._lanes.reset(token)
            await lane.close()

    def _factory(self) -> httpcore.AsyncConnectionPool:
        library: Any = self._library
        pool: httpcore.AsyncConnectionPool = library.AsyncConnectionPool(
            ssl_context=self._tls,
            proxy=self._library_proxy(),
            keepalive_expiry=self._keep_alive,
            network_backend=InterleavedBackend(self._network(TcpBackend(library))),
        )
        return pool

    def _library_proxy(self) -> httpcore.Proxy | None:
        if not self._proxy:
            return None
        parts = urlsplit(self._proxy)
        auth = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        proxy: httpcore.Proxy = self._library.Proxy(self._proxy, auth=auth)
        return proxy

    def _wire(self, request: UpstreamRequest) -> httpcore.Request:
        url = self._library.URL(request.url)
        headers = [(b"Host", authority(url)), (b"Content-Length", b"%d" % len(request.body)), *request.headers]
        limit = self._connect_timeout
        wire: httpcore.Request = self._library.Request(
            request.method,
            url,
            headers=headers,
            content=RequestContent(request.body),
            extensions={"timeout": {"connect": limit, "write": limit}},
        )
        return wire

    async def _enter(self, lane: _Lane, patience: float | None) -> None:
        try:
            lane.slots.acquire_nowait()
        except anyio.WouldBlock:
            if lane.waiting >= self._queue:
                raise TooBusy(
                    "too many requests wait for an upstream connection", code="queue_full", retry_after=1
                ) from None
        else:
            return
        lane.waiting += 1
        try:
            with anyio.fail_after(patience):
                await lane.slots.acquire()
        except TimeoutError:
            message = f"no upstream connection became free within {patience:g} s"
            raise TooBusy(message, code="queue_timeout", retry_after=1) from None
        finally:
            lane.waiting -= 1

    async def _connection(self, lane: _Lane, origin: httpcore.Origin) -> tuple[_Connection, _Idle]:
        idle = lane.idle[origin.scheme, origin.host, origin.port]
        while idle:
            # The one used last: it is the least likely to have been closed by the peer, and the others grow old and go.
            _, connection = idle.pop()
            if not connection.has_expired():
                return connection, idle
            await _close(connection)
        return lane.factory.create_connection(origin), idle

    async def _exchange(self, connection: _Connection, wire: httpcore.Request, reader: Reader) -> None:
        with translated(self._faults):
            # One limit for all of it: one for each read would never be met by a head that comes byte by byte.
            with anyio.move_on_after(reader.start()) as limit:
                response = await connection.handle_async_request(wire)
            if limit.cancelled_caught:
                raise UpstreamTimeout("the upstream did not answer in time", code="timeout")
            reader.begin(response.status, response.headers)
            stream: InterleavedStream = response.extensions["network_stream"]
            take, stream.process = reader.take, reader.process
            try:
                async for chunk in response.stream:  # type: ignore[union-attr]  # typed for the other kind as well
                    take(chunk)
                await response.aclose()
            except StopReading:
                return
            finally:
                # The stream stays with a connection that is kept: the next answer has a reader of its own.
                stream.process = None

    async def _release(self, connection: _Connection, idle: _Idle) -> None:
        """Keep the connection if its answer was read to the end, else close it, which stops the upstream at once."""
        if not connection.is_idle():
            await _close(connection)
            return
        now = monotonic()
        idle.append((now + self._keep_alive, connection))
        while idle and idle[0][0] < now:
            _, old = idle.popleft()
            await _close(old)


class OfflineTransport(Transport):
    """Connects to nothing; each class of it has a `fetch` of its own."""

    ends_reads = False

    def __init__(self) -> None:
        pass

    @property
    def is_crowded(self) -> bool:
        """No request waits for a connection."""
        return False

    async def hang_up(self, reader: Reader) -> None:
        """There is no connection."""

    async def reset(self) -> None:
        """There is no connection."""

    aclose = reset


async def _close(connection: _Connection) -> None:
    """Close it even if the caller is cancelled: nothing else refers to it any more."""
    with anyio.CancelScope(shield=True):
        await connection.aclose()


def authority(url: httpcore.URL) -> bytes:
    """The value of the ``Host`` header: IPv6 in brackets, the port where it is named."""
    host = b"[%s]" % url.host if b":" in url.host else url.host
    return host if url.port is None else b"%s:%d" % (host, url.port)


if TYPE_CHECKING:
    import httpcore

Translation = Callable[[Exception], KiroAsgiError]

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Error numbers for a process, or a machine, that can open no other socket."""


def _unconnected(error: Exception) -> KiroAsgiError:
    if any(map(_is_exhaustion, _causes(error))):
        message = "this gateway cannot open another connection: it has no file descriptor or no memory left"
        return TooBusy(message, code="out_of_descriptors", retry_after=1)
    nobody = (code for cause in _causes(error) for kind, code in _NOBODY.items() if isinstance(cause, kind))
    return _unreachable(error, next(nobody, "connection_failed"))


_NOBODY: Final[Mapping[type[OSError], str]] = MappingProxyType(
    {socket.gaierror: "host_unknown", ConnectionRefusedError: "connection_refused"}
)
"""Failures which say that nobody is at the address, to their codes."""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """*error* and everything that it was raised from."""
    rest: list[BaseException | None] = [error]
    while rest:
        cause = rest.pop()
        if cause is not None:
            yield cause
            rest.append(cause.__cause__ or cause.__context__)
            rest += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()


def _is_exhaustion(error: BaseException) -> bool:
    """Whether *error* is this machine's own lack of descriptors or memory."""
    return isinstance(error, OSError) and error.errno in EXHAUSTED


def _unreachable(error: Exception, code: str = "connection_failed") -> KiroAsgiError:
    return UpstreamUnreachable(f"Stream connection failed: {_describe(error)}", code=code)


def _broke(error: Exception) -> KiroAsgiError:
    """The end of a connection that there was, before an answer or within it."""
    words = f"the connection broke off ({error})" if str(error) else "the connection broke off"
    return UpstreamUnreachable(f"Stream connection failed: {words}", code="connection_broken")


def _beyond_proxy(error: Exception) -> KiroAsgiError:
    """What a proxy says: that it does not let us through, or that it finds nobody at the address."""
    return _unreachable(error, "proxy_failed" if "407" in str(error)[:4] else "proxy_unreachable")


def _silent(error: Exception) -> KiroAsgiError:
    return UpstreamTimeout("the upstream did not answer in time", code="timeout")


def _not_http(error: Exception) -> KiroAsgiError:
    return UpstreamProtocolError(f"Stream connection failed: {_describe(error)}", code="connection_broken")


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__


def translations(library: Any) -> dict[type[Exception], Translation]:
    """Map the library's exceptions, most specific first, to makers of ours."""
    return {
        library.ConnectTimeout: _unreachable,
        library.TimeoutException: _silent,
        library.ConnectError: _unconnected,
        library.NetworkError: _broke,
        library.RemoteProtocolError: _broke,
        library.ProtocolError: _not_http,
        library.ProxyError: _beyond_proxy,
        library.UnsupportedProtocol: _not_http,
    }


@contextmanager
def translated(table: dict[type[Exception], Translation]) -> Iterator[None]:
    """Raise the library's exceptions as the table translates them; any other passes."""
    try:
        yield
    except tuple(table) as error:
        translate = next(make for kind, make in table.items() if isinstance(error, kind))
        raise translate(error) from error
