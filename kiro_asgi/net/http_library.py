"""Adapters of the HTTP library: streams and bodies of our own inside it, and its exceptions as ours.

The library is httpcore or httpcore2.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Final

from kiro_asgi.errors import KiroAsgiError, TooBusy, UpstreamProtocolError, UpstreamTimeout, UpstreamUnreachable

if TYPE_CHECKING:
    import httpcore

Translation = Callable[[Exception], KiroAsgiError]

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Error numbers that say that this process, or the machine, can open no other socket."""


def _unconnected(error: Exception) -> KiroAsgiError:
    if _is_exhaustion(error):
        words = "this gateway cannot open another connection: it has no file descriptor or no memory left"
        return TooBusy(words, code="out_of_descriptors", retry_after=1)
    return _unreachable(error)


def _is_exhaustion(error: BaseException | None) -> bool:
    """Whether *error*, or one of its causes, is this machine's own want of descriptors or memory."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in EXHAUSTED:
            return True
        if isinstance(error, BaseExceptionGroup) and any(map(_is_exhaustion, error.exceptions)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _unreachable(error: Exception) -> KiroAsgiError:
    return UpstreamUnreachable(f"Stream connection failed: {_words(error)}", code="connection_failed")


def _silent(error: Exception) -> KiroAsgiError:
    return UpstreamTimeout("the upstream did not answer in time", code="timeout")


def _not_http(error: Exception) -> KiroAsgiError:
    return UpstreamProtocolError(f"Stream connection failed: {_words(error)}", code="connection_broken")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def translations(library: Any) -> dict[type[Exception], Translation]:
    """Map the library's exceptions, most special first, to makers of ours."""
    return {
        library.ConnectTimeout: _unreachable,
        library.TimeoutException: _silent,
        library.ConnectError: _unconnected,
        library.NetworkError: _unreachable,
        library.RemoteProtocolError: _unreachable,
        library.ProtocolError: _not_http,
        library.ProxyError: _unreachable,
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


_TOGETHER: Final = 64 * 1024
"""Bytes of a body that go with the head: more would be copied for nothing."""


class InterleavedStream:
    """A network stream that lets a reader have its turn before every read.

    The head of a request goes out together with the beginning of its body: in one packet instead of two.
    """

    __slots__ = ("_head", "_in_request", "_stream", "process")

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head = b""
        self._in_request = False
        self.process: Callable[[], Awaitable[float | None]] | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the interface
        """The next bytes, after the reader's turn, which also says how long they may take."""
        if self._head:
            await self.write(b"", timeout)
        self._in_request = False
        if self.process is not None:
            timeout = await self.process()
        try:
            return await self._stream.read(max_bytes, timeout)
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
    """The library's anyio backend, which serves both event loops, with our streams over its streams."""

    __slots__ = ("_inner",)

    def __init__(self, inner: httpcore.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> InterleavedStream:
        """A new stream."""
        return InterleavedStream(await self._inner.connect_tcp(*args, **kwargs))

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)


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
