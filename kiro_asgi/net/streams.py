"""Streams of bytes below the HTTP library: ours, over anyio, on both event loops.

The library's own streams put a limit around each read and write, even where there is none to be kept, which is a good
part of what a read of one event costs.  They raise the library's exceptions, as these do: it handles some of them.
"""

from __future__ import annotations

import math
import select
from collections.abc import Awaitable, Callable, Iterable
from time import perf_counter
from traceback import clear_frames
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

from kiro_asgi.loops import Portion, give_way

if TYPE_CHECKING:
    import ssl

    import httpcore

_TOGETHER: Final = 64 * 1024
"""Bytes of a body that go with the head: more would be copied for nothing."""

_LEAST: Final = 8 * 1024
_MOST: Final = 64 * 1024
"""Bytes of one read, at least and at most."""

_DEAR: Final = 0.005
"""Seconds in which the library may take a read apart; then the next one is of fewer bytes.  A service that sends each
event in a chunk of its own has hundreds of them in one read, and other answers wait meanwhile."""


class InterleavedStream:
    """A network stream that lets a reader process what it has before every read.

    The head of a request goes out together with the beginning of its body: in one packet instead of two.
    """

    __slots__ = ("_came", "_head", "_in_request", "_portion", "_stream", "process")

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head = b""
        self._in_request = False
        self._came = math.inf
        self._portion = Portion(_LEAST, _MOST, _DEAR, _MOST)
        self.process: Callable[[], Awaitable[float | None]] | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the interface
        """The next bytes, after `process`, which also returns how long they may take."""
        if self._head:
            await self.write(b"", timeout)
        self._in_request = False
        took = perf_counter() - self._came
        self._portion.took(took)
        if took > _DEAR:
            await give_way()
        if self.process is not None:
            timeout = await self.process()
        try:
            data = await self._stream.read(min(max_bytes, self._portion.size), timeout)
            self._came = perf_counter()
            return data
        except BaseException as error:
            # Below anyio on trio one of the frames holds the error, in a circle with the whole answer.
            clear_frames(error.__traceback__)
            raise

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the interface
        """Send *buffer*; the first since a read waits for the second, or for the next read."""
        if not self._in_request:
            self._in_request, self._head = True, buffer
            return
        if self._head:
            buffer, rest = self._head + buffer[:_TOGETHER], buffer[_TOGETHER:]
            self._head = b""
            await self._stream.write(buffer, timeout)
            buffer = rest
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def start_tls(self, *args: Any, **kwargs: Any) -> InterleavedStream:
        """The same with TLS over it."""
        return InterleavedStream(await self._stream.start_tls(*args, **kwargs))

    def get_extra_info(self, info: str) -> Any:
        """Extra information of the library's stream."""
        return self._stream.get_extra_info(info)


class InterleavedBackend:
    """A network backend with our streams over its streams."""

    __slots__ = ("_inner",)

    def __init__(self, inner: httpcore.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> InterleavedStream:
        """A new stream."""
        return InterleavedStream(await self._inner.connect_tcp(*args, **kwargs))

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)


_LOST: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class TcpBackend:
    """The library's network backend over anyio, but that what has no limit of time arms none.

    Args:
        library: ``httpcore`` or ``httpcore2``.
    """

    __slots__ = ("_library",)

    def __init__(self, library: ModuleType) -> None:
        self._library = library

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> TcpStream:
        """A new stream."""
        try:
            with anyio.fail_after(timeout):
                stream = await anyio.connect_tcp(host, port, local_host=local_address)
        except TimeoutError as error:
            raise self._library.ConnectTimeout(error) from error
        except (OSError, *_LOST) as error:
            raise self._library.ConnectError(error) from error
        for option in socket_options or ():
            stream.extra(SocketAttribute.raw_socket).setsockopt(*option)
        return TcpStream(stream, self._library)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(seconds)


class TcpStream:
    """A connection, perhaps with TLS over it."""

    __slots__ = ("_library", "_socket", "_stream")

    def __init__(self, stream: ByteStream, library: ModuleType) -> None:
        self._stream = stream
        self._library = library
        self._socket = stream.extra(SocketAttribute.raw_socket)  # asked for once: anyio gathers all attributes for that

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the interface
        """The next bytes; none at the end."""
        try:
            if timeout is None:
                return await self._stream.receive(max_bytes)
            with anyio.move_on_after(timeout):
                return await self._stream.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        except _LOST as error:
            raise self._library.ReadError(error) from error
        raise self._library.ReadTimeout

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the interface
        """Send all of *buffer*."""
        if not buffer:
            return
        try:
            with anyio.move_on_after(math.inf if timeout is None else timeout) as limit:
                await self._stream.send(buffer)
        except _LOST as error:
            raise self._library.WriteError(error) from error
        if limit.cancelled_caught:
            raise self._library.WriteTimeout

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface
    ) -> TcpStream:
        """The same with TLS over it; closed where that fails."""
        try:
            with anyio.fail_after(timeout):
                wrapped = await TLSStream.wrap(
                    self._stream,
                    server_side=False,
                    hostname=server_hostname,
                    ssl_context=ssl_context,
                    standard_compatible=False,
                )
        except Exception as error:
            await self.aclose()
            if isinstance(error, TimeoutError):
                raise self._library.ConnectTimeout(error) from error
            if isinstance(error, (OSError, anyio.EndOfStream, *_LOST)):  # an error of TLS is one of the system's
                raise self._library.ConnectError(error) from error
            raise
        return TcpStream(wrapped, self._library)

    def get_extra_info(self, info: str) -> Any:
        """What the library asks for: ``is_readable`` and ``ssl_object``; ``None`` for anything else."""
        if info == "is_readable":
            return _has_input(self._socket)
        return self._stream.extra(TLSAttribute.ssl_object, None) if info == "ssl_object" else None


def _has_input(connection: Any) -> bool:
    """Whether a read would return at once: as bytes have come, or the end has, or the socket is closed."""
    if connection.fileno() < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([connection], [], [], 0)[0])
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    return bool(poller.poll(0))


class RequestContent:
    """A request's body, in one piece.

    The library's own is an async generator, and one that a cancellation leaves suspended is reported on trio.
    """

    __slots__ = ("_rest",)

    def __init__(self, body: bytes) -> None:
        self._rest = [body]

    def __aiter__(self) -> RequestContent:
        return self

    async def __anext__(self) -> bytes:
        if self._rest:
            return self._rest.pop()
        raise StopAsyncIteration
