"""HTTP/1.1 and WebSocket as ``serve`` speaks them: hypercorn's protocol, with what its settings do not offer.

The law: a connection without a complete request ends within hypercorn's ``keep_alive_timeout``, and what a client can
have the server keep is bounded.  hypercorn keeps it for HTTP/1.1, but for what stands here:

- HTTP/2 is not spoken, neither by its preface nor by ``Upgrade: h2c``, which hypercorn cannot be told.  Its HTTP/2 has
  no time limit for a connection on which no request comes, and takes whatever the application sends while the client's
  window is closed: its ``StreamBuffer`` counts a client that takes nothing as one that has taken all.
- Extensions of WebSocket are not agreed upon, as permessage-deflate would inflate a frame of 260 kB to 256 MiB before
  its size is looked at: https://github.com/pgjones/hypercorn/issues/307
- A handshake that is none gets 400 and ends the connection, which hypercorn would keep open for ever; so does a client
  that does not wait for the answer to its handshake.  Source: https://www.rfc-editor.org/rfc/rfc6455#section-4.1
- A message that is too large is not kept beyond that, and what all connections have sent without the application having
  taken it is bounded, however many they are: an unfinished message, and those that wait.  hypercorn bounds each alone.
- Others get a turn within a read of many small frames.
- What goes wrong on one connection ends that connection.  Under trio it would end the process.
- What cannot be sent since the connection is being closed means that the client is gone: trio has words of its own.

This imports hypercorn, which is an extra: only `kiro_asgi.cli.standalone` imports this, when it serves.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, Final

import h11
import hypercorn.protocol
from anyio.lowlevel import checkpoint
from attrs import define, field, frozen
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.protocol.ws_stream import Handshake, WSStream
from wsproto.events import CloseConnection
from wsproto.frame_protocol import CloseReason

from kiro_asgi.asgi.exchange.call import Bodies, Share
from kiro_asgi.errors import TooBusy

_log = logging.getLogger("kiro_asgi")

_HTTP: Final = (b"1.0", b"1.1")

_OFFERS: Final[tuple[bytes, ...]] = (b"http2-settings", b"sec-websocket-extensions")
"""Headers in which a client offers what is not spoken; without them it gets HTTP/1.1, and frames without extensions."""

_TLS: Final = b"\x16\x03"
"""Beginning of a client that speaks TLS: a handshake record, and the first byte of its version.

Source: https://www.rfc-editor.org/rfc/rfc8446#section-5.1
"""

_LEAST, _MOST = 256, 4096
"""Bytes of frames that are read without a turn for others: 42 to 680 of the smallest ones."""

_TURN: Final = 0.001
"""Seconds that this should take: a ping takes as long as 5,000 bytes of a large frame."""


class _Heads(h11.Connection):
    """Reads requests: of a head that is for another protocol, what is HTTP/1.1 in it."""

    def next_event(self) -> Any:
        """As of the base class.

        Raises:
            RemoteProtocolError: Also for another version of HTTP, and for a handshake of WebSocket that is none.
        """
        event = super().next_event()
        return self._understood(event) if isinstance(event, h11.Request) else event

    def _understood(self, request: h11.Request) -> h11.Request:
        if request.http_version not in _HTTP:
            raise h11.RemoteProtocolError("only HTTP/1.1 is spoken", error_status_hint=505)
        # RFC 9112, section 6.1: such framing is faulty, since a proxy of HTTP/1.0 would pass it on without reading it.
        if request.http_version == b"1.0" and any(name == b"transfer-encoding" for name, _ in request.headers):
            raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")
        unwanted = _OFFERS if self._is_handshake(request) else (*_OFFERS, b"upgrade")
        if not any(name in unwanted for name, _ in request.headers):
            return request
        headers = [each for each in request.headers.raw_items() if each[0].lower() not in unwanted]
        return h11.Request(
            method=request.method, target=request.target, headers=headers, http_version=request.http_version
        )

    def _is_handshake(self, request: h11.Request) -> bool:
        wanted = {value.strip().lower() for name, value in request.headers if name == b"upgrade"}
        handshake = Handshake(list(request.headers), request.http_version.decode())
        asks = "upgrade" in map(str.lower, handshake.connection_tokens or ())
        if wanted != {b"websocket"} or request.method != b"GET" or not asks:
            return False
        if not handshake.is_valid():
            raise h11.RemoteProtocolError("not a handshake of WebSocket")
        if self.trailing_data[0]:
            raise h11.RemoteProtocolError("frames in front of the answer to the handshake")
        return True


_Receive = Callable[[], Awaitable[Any]]
_Put = Callable[[Any], Awaitable[None]]


@define
class _Messages:
    """Messages over one WebSocket that the application has not taken, counted while they are there."""

    _share: Share
    _waiting: int = field(init=False, default=0)
    """Characters, or bytes, of those that are complete."""

    _unfinished: int = field(init=False, default=0)
    """The same of one that is not."""

    def have_room(self, unfinished: int) -> bool:
        """Whether those that wait, and as much of one that is not complete, fit beside the messages of others; they are
        counted if so."""
        self._unfinished = unfinished
        try:
            self._share.hold(self._waiting + unfinished)
        except TooBusy:
            return False
        return True

    def free(self) -> None:
        """Count none any more: nobody takes them."""
        self._waiting = self._unfinished = 0
        self._share.free()

    def counted(self, put: _Put) -> _Put:
        """*put* of a queue, after which what was put waits there."""

        async def counting(message: Any) -> None:
            self._waiting += _size(message)
            await put(message)

        return counting

    def taken(self, receive: _Receive) -> _Receive:
        """*receive* of an application, after which a message waits no longer."""

        async def taking() -> Any:
            message = await receive()
            self._waiting = max(self._waiting - _size(message), 0)
            self._share.hold(self._waiting + self._unfinished)
            return message

        return taking


def _size(message: Any) -> int:
    return len(message.get("text") or message.get("bytes") or "")


@frozen
class _Calls:
    """Runs applications in the tasks of hypercorn, which are not to see what the end of a call raises."""

    _tasks: Any
    _failed: Callable[[Exception], Awaitable[None]]
    _is_closing: Callable[[], bool]
    _messages: _Messages

    async def spawn_app(self, app: Any, config: Any, scope: Any, send: Callable[[Any], Awaitable[None]]) -> Any:
        """As of the task group; *send* is called with ``None`` when the application has ended."""
        if scope["type"] != "websocket":
            return await self._spawn(app, config, scope, send)

        async def taking(scope: Any, receive: _Receive, *rest: Any) -> None:
            await app(scope, self._messages.taken(receive), *rest)

        return self._messages.counted(await self._spawn(taking, config, scope, send))

    async def _spawn(self, app: Any, config: Any, scope: Any, send: Callable[[Any], Awaitable[None]]) -> Any:

        async def guarded(message: Any) -> None:
            try:
                await send(message)
            except Exception as error:
                if message is None:
                    await self._failed(error)
                elif self._is_closing():
                    raise ConnectionResetError("the client is gone") from error
                else:
                    raise  # the application's to see

        return await self._tasks.spawn_app(app, config, scope, guarded)

    def spawn(self, function: Callable[..., Any], *arguments: Any) -> None:
        """As of the task group."""
        self._tasks.spawn(function, *arguments)


class Http1(H11Protocol):
    """One connection; *bodies* counts what all of them hold for the application."""

    def __init__(self, bodies: Bodies, *args: Any) -> None:
        super().__init__(*args)
        self.connection = _Heads(h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size)
        self._messages = _Messages(Share(bodies))
        calls: Any = _Calls(self.task_group, self._failed, lambda: self._closing, self._messages)
        self.task_group = calls
        self._closing = self._begun = False
        self._to_client, self.send = self.send, self._send
        self._turn = _LEAST

    async def handle(self, event: Event) -> None:
        """Take what the client has sent, or that it is gone."""
        self._closing = self._closing or isinstance(event, Closed)
        if isinstance(event, Closed) and isinstance(self.stream, WSStream):
            self._drop(self.stream)
        try:
            await self._take(event)
        except Exception as error:  # noqa: BLE001 - the server has others to serve
            await self._failed(error)

    async def _failed(self, error: Exception) -> None:
        if not self._closing:
            _log.error("a connection is broken off: %s: %s", type(error).__name__, error)
            await self.send(Closed())

    async def _send(self, event: Event) -> None:
        # asyncio would log each write to a connection that is lost.
        if not (self._closing and isinstance(event, RawData)):
            self._closing = self._closing or isinstance(event, Closed)
            await self._to_client(event)

    async def _take(self, event: Event) -> None:
        if not self._begun and isinstance(event, RawData):
            self._begun = True
            if event.data.startswith(_TLS):
                _log.warning(
                    "a client speaks TLS to a port that serves plain HTTP; let it use http:// instead of https://, or "
                    "have a proxy end TLS in front of this port"
                )
        if not isinstance(event, RawData) or not isinstance(self.stream, WSStream):
            await super().handle(event)
        elif not self.stream.handshake.accepted:
            await self.send(Closed())
            await super().handle(Closed())  # tells the application
        else:
            await self._take_frames(event.data)

    async def _take_frames(self, data: bytes) -> None:
        while data:
            began, piece, data = perf_counter(), data[: self._turn], data[self._turn :]
            await super().handle(RawData(piece))
            if isinstance(self.stream, WSStream):
                await self._look_at(self.stream)
            is_dear = perf_counter() - began > _TURN
            self._turn = max(self._turn // 2, _LEAST) if is_dear else min(self._turn * 2, _MOST)
            await checkpoint()

    async def _look_at(self, stream: WSStream) -> None:
        """End a connection that has sent a message that is too large, or for which there is no room."""
        is_too_large = stream.buffer.length > stream.buffer.max_length  # then hypercorn has told the client
        if not is_too_large and self._messages.have_room(stream.buffer.length):
            return
        self._drop(stream)  # before anything is awaited, or others are refused for want of the room that it gives back
        if not is_too_large:
            await self.send(RawData(stream.connection.send(CloseConnection(CloseReason.TRY_AGAIN_LATER))))
        await self._close_stream()  # what else it sends is dropped
        await self.send(Updated(idle=True))  # and the time runs in which it has to go

    def _drop(self, stream: WSStream) -> None:
        stream.buffer.clear()  # or a cycle of references keeps what is in it until the next collection of everything
        self._messages.free()


@contextmanager
def spoken(bodies: int) -> Iterator[None]:
    """Have hypercorn speak `Http1` and nothing else on connections that are made within the block.

    Args:
        bodies: Bytes of messages over WebSocket that the application has not taken, of all connections together.

    It has no setting for that, so the name by which it makes the protocol of a connection is bound to ours.  HTTP/2
    begins in hypercorn's own protocol only, or in TLS, which is not served.
    """
    given = hypercorn.protocol.H11Protocol  # type: ignore[attr-defined]
    hypercorn.protocol.H11Protocol = partial(Http1, Bodies(bodies))  # type: ignore[attr-defined,assignment]
    try:
        yield
    finally:
        hypercorn.protocol.H11Protocol = given  # type: ignore[attr-defined]
