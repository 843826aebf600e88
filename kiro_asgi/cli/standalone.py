"""The process that serves: hypercorn, its socket and its memory.

hypercorn is an extra: nothing here is imported by a mounted gateway.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import importlib
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from math import ceil, inf
from time import monotonic
from types import MappingProxyType
from typing import Any, Final, Protocol

import anyio
from attrs import field, frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.net.transport import EXHAUSTED

_log = logging.getLogger("kiro_asgi")

LOOPS: Final = ("asyncio", "trio")

MAX_PORT: Final = 65_535

_HOSTS: Final = "--host 127.0.0.1 is for this machine alone, 0.0.0.0 is for others as well"

BACKLOG: Final = 4096
"""Connections that may wait to be accepted: a burst of clients should queue, not be refused."""

ACCEPT_PAUSE: Final = 0.9
"""Seconds without another try after a connection could not be accepted; asyncio tries again after one."""

UNSENT: Final = 128 * 1024
"""Unsent bytes that the system holds for a client, without those that the network carries already."""

LINGER: Final = 1.0
"""Seconds that an ended call, and then the server, may take to clean up after the graceful timeout."""


class Application(Protocol):
    """An ASGI application whose calls can be ended."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection scope."""
        ...

    def interrupt(self) -> None:
        """End every call under way, with an error of its API."""
        ...


@frozen
class Server:
    """Serves applications with hypercorn."""

    loop: str = "asyncio"
    root_path: str = ""
    graceful_timeout: float = 30.0
    """Seconds that open streams may still take after the stop."""

    head_timeout: float = 20.0
    """Seconds that a connection may be open without a complete head of a request, in whatever protocol it begins."""

    frame_bytes: int = 32 * 1024 * 1024
    """Largest message of a client's over WebSocket."""

    frames_bytes: int = 128 * 1024 * 1024
    """All messages of clients over WebSocket that the application has not taken."""

    async def serve(
        self, app: Application, listener: socket.socket, stopped: Callable[[], Awaitable[None]], *more: socket.socket
    ) -> None:
        """Serve *app* on *listener*, and *more* of them, until *stopped* returns and the open streams have ended or run
        out of time.

        Those that run out of time are sent an error, and then ended.

        Raises:
            ConfigError: hypercorn, or its part for this event loop, is not installed.
        """
        ports = frozenset(each.getsockname()[1] for each in (listener, *more))
        calls, config, server = _EndableCalls(app), self._config(listener, *more), self._worker()
        failure: Exception | None = None

        async def expire() -> None:
            await anyio.sleep(self.graceful_timeout)
            app.interrupt()
            await anyio.sleep(LINGER / 2)
            calls.end()
            await anyio.sleep(LINGER / 4)
            _sever(ports)

        async def sever_on_cancel() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                _sever(ports)

        async def stop() -> None:
            await stopped()
            tasks.start_soon(expire)

        async def run() -> None:
            nonlocal failure
            try:
                await server.serve(calls, config, shutdown_trigger=stop, mode="asgi")
            except Exception as error:  # noqa: BLE001 - raised below: leaving the group it would be wrapped
                failure = error
            tasks.cancel_scope.cancel()

        # A task of its own for hypercorn: on Python 3.11 its asyncio.TaskGroup leaves the task that runs it marked as
        # being cancelled, which no cancel scope around it would survive.
        _accept_patiently(self.loop)
        with import_extra("kiro_asgi.cli.http1", "standalone").spoken(self.frames_bytes):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sever_on_cancel)
                tasks.start_soon(run)
        if failure is not None:
            raise failure

    def ready(self) -> None:
        """Check that what `serve` needs is installed.

        Raises:
            ConfigError: It is not.
        """
        self._worker()

    def _worker(self) -> Any:
        import_extra("hypercorn.config", "standalone")
        return import_extra(f"hypercorn.{self.loop}", "trio" if self.loop == "trio" else "standalone")

    def _config(self, *listeners: socket.socket) -> Any:
        config = import_extra("hypercorn.config", "standalone").Config()
        # The sockets are ours, so that their ports are known, and connections wait, before the server runs.
        config.bind = [f"fd://{each.detach()}" for each in listeners]
        if self.loop == "asyncio":
            create_sockets = config.create_sockets
            config.create_sockets = lambda: _pausing(create_sockets())
        config.root_path = self.root_path
        config.backlog = BACKLOG
        config.graceful_timeout = self.graceful_timeout + LINGER
        config.keep_alive_timeout = self.head_timeout
        config.keep_alive_max_requests = 1_000_000
        config.websocket_max_message_size = self.frame_bytes
        config.accesslog = None  # the application writes its own line, and only if the logger takes it
        config.errorlog = logging.getLogger("hypercorn.error")  # else it has a handler of its own
        return config


@frozen
class _EndableCalls:
    """An application whose open calls can be ended.

    The server's own limit is not enough: on asyncio, from Python 3.12 on, it begins to count when the last connection
    has closed (https://github.com/pgjones/hypercorn/pull/374).
    """

    _app: Application
    _open: set[anyio.CancelScope] = field(init=False, factory=set)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        with anyio.CancelScope() as call:
            self._open.add(call)
            try:
                await self._app(scope, receive, send)
            finally:
                self._open.discard(call)

    def end(self) -> None:
        """Cancel open calls; the server then breaks their connections off, so no client takes the answer for whole."""
        for call in tuple(self._open):
            call.cancel()


class _PausingListener(socket.socket):
    """A listener that fails once and then seems idle for a while, where there is no descriptor for a connection.

    asyncio then stops accepting for a second.  But up to Python 3.12 it first goes on after a failure, as often as the
    backlog is long, with a traceback each time.  Source: https://github.com/python/cpython/issues/127529
    """

    _failed = -inf

    def accept(self) -> tuple[socket.socket, Any]:
        if monotonic() - self._failed < ACCEPT_PAUSE:
            raise BlockingIOError
        try:
            return super().accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._failed = monotonic()
            raise


def _pausing(sockets: Any) -> Any:
    sockets.insecure_sockets[:] = [_PausingListener(fileno=sock.detach()) for sock in sockets.insecure_sockets]
    return sockets


class _OncePerSecond(logging.Filter):
    """Lets one record a second through, without its traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -inf

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info, now = None, monotonic()
        if now - self._last < 1:
            return False
        self._last = now
        return True


def _accept_patiently(loop: str) -> None:
    """Log at most once a second, and in one line, that no connection can be accepted."""
    if loop == "trio":
        logging.getLogger("trio.serve_listeners").addFilter(_OncePerSecond())
    else:
        asyncio.get_running_loop().set_exception_handler(_report)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors of the event loop itself, without a traceback where the network or the system is the cause."""
    error = context.get("exception")
    if isinstance(error, asyncio.CancelledError):
        pass  # asyncio of Python 3.11 reports a connection's task that was cancelled by Ctrl-C
    elif not isinstance(error, OSError):
        loop.default_exception_handler(context)
    elif error.errno in EXHAUSTED:
        _log.error("no connection can be accepted for a second: %s", error.strerror)
    else:
        _log.debug("a connection broke: %s", error)  # hypercorn does not expect that while it closes one


def bind(host: str, port: int) -> socket.socket:
    """A listening TCP socket; port 0 takes a free one.

    Raises:
        ConfigError: The address cannot be bound.
    """
    if not 0 <= port <= MAX_PORT:
        raise ConfigError(f"cannot listen on port {port}: it must be from 0 to {MAX_PORT}", code="config.address")
    family, kind, *_, address = resolve(host, port)
    try:
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "--port 0 takes a free one")
        words = f"cannot listen on {host} port {port}: {error.strerror}; {advice}"
        raise ConfigError(words, code="config.address") from error
    return listener


_ADVICE: Final[Mapping[int, str]] = MappingProxyType(
    {
        errno.EADDRINUSE: "another program listens there: end it, or choose another --port; 0 takes a free one",
        errno.EADDRNOTAVAIL: f"this machine has no such address; {_HOSTS}",
        errno.EACCES: "the system keeps ports below 1024 for root; choose another --port",
    }
)
"""By the number of the system's error."""


def resolve(host: str, port: int = 0) -> Any:
    """The first address of *host*, as `socket.getaddrinfo` has it.

    Raises:
        ConfigError: It is no host, or none that is known.
    """
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        if "/" in host:
            words = "give the host alone, without http:// and without a path"
        else:
            words = f"there is no host of this name; {_HOSTS}"
        raise ConfigError(f"cannot listen on {host[:80]!r}: {words}", code="config.address") from error


def _sever(ports: frozenset[int]) -> None:
    """Break off the connections of this process that were made to one of *ports*.

    A server that waits for a client to read the rest would wait beyond its own end: hypercorn cannot be cancelled there
    on trio, and keeps no list of its connections on either loop.
    """
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # most are no sockets
            sock = socket.socket(fileno=int(name))
            try:
                if ports.intersection(sock.getsockname()[1:2]) and sock.getpeername():
                    sock.shutdown(socket.SHUT_RDWR)
            finally:
                sock.detach()


def limit_send_time(listener: socket.socket, seconds: float) -> None:
    """Let the system break off a connection whose peer has read nothing for so long, where it can (Linux).

    This ends the connection of a client that the application has dropped: servers first wait until all is sent.
    Connections that *listener* accepts inherit it.  Source: tcp(7), ``TCP_USER_TIMEOUT``.
    """
    if (option := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, ceil(seconds * 1000))


def limit_unsent(listener: socket.socket) -> None:
    """Let the system hold only `UNSENT` bytes for a client that does not read, where it can (Linux, macOS).

    By default it holds megabytes for each connection, also for many clients that never read.
    Connections that *listener* accepts inherit it.  Source: tcp(7) of FreeBSD, ``TCP_NOTSENT_LOWAT``;
    https://lwn.net/Articles/560082/
    """
    if (option := getattr(socket, "TCP_NOTSENT_LOWAT", None)) is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, UNSENT)


def import_extra(name: str, extra: str) -> Any:
    """Import a module that an *extra* of this package brings, or that needs what it brings.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"{error.name or name} is not installed; it comes with: pip install 'kiro-asgi[{extra}]'",
            code="config.extra",
        ) from error


_LARGE_BLOCK: Final = 1024 * 1024
"""Bytes of a block of memory that goes back to the system as soon as it is free."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Parameters of glibc's ``mallopt``."""

_FULL_PASS: Final = 60
"""Collections of young objects, of 7,000 each, between two of all objects; Python's own 10 are 70,000, as many as some
hundred requests hold."""


def _c_library(function: str, *arguments: int) -> None:
    """Call a function of glibc, which other C libraries do not have."""
    if sys.platform == "linux":
        with suppress(AttributeError):
            getattr(ctypes.CDLL(None), function)(*arguments)


def return_large_blocks() -> None:
    """Have large blocks of memory given back to the system when they are free, where the C library is glibc.

    By default it keeps blocks up to the size of the largest that was ever freed, at most 32 MiB: after a few large
    requests, 200 MiB would stay.  Source: mallopt(3), on the dynamic threshold.
    """
    _c_library("mallopt", _M_MMAP_THRESHOLD, _LARGE_BLOCK)
    _c_library("mallopt", _M_TRIM_THRESHOLD, 2 * _LARGE_BLOCK)


def freeze_objects() -> None:
    """Exclude the objects that exist now from garbage collection, and collect all others less often.

    70,000 objects stay to the end, and to scan them takes 20 to 50 ms each time; so it does for the objects of 500
    requests.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _FULL_PASS)


async def collect_after_load(is_busy: Callable[[], bool], *, every: float = 1.0) -> None:
    """Collect garbage and give back free memory after each busy time, until this is cancelled.

    Then there is little to scan.  By default the C library gives back only what is free at the end of its memory: after
    500 clients that stayed for a while, 40 MiB would stay.  Source: malloc_trim(3).

    Args:
        is_busy: Whether many answers are under way.
        every: Seconds between two calls of that.
    """
    was_busy = False
    await anyio.sleep(every)
    _c_library("malloc_trim", 0)  # to import all of it takes 3 MiB more than is kept
    while True:
        await anyio.sleep(every)
        if is_busy():
            was_busy = True
        elif was_busy:
            was_busy = False
            gc.collect()
            _c_library("malloc_trim", 0)
