"""One WebSocket: its requests are answered one after the other, each as it would be over HTTP.

One task reads what the client sends.  Requests wait for their turn; what is about the answer under way is answered at
once.  The other task answers, and sees to the connection's end: after so much time, when the client leaves, or when
something has happened after which it is unknown what the client has received.

A client that closes the connection ends the answer under way, as one that hangs up over HTTP does.  A client can have
only so many connections at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from attrs import define, field

from kiro_asgi.apis.operations import Gateway
from kiro_asgi.apis.responses.stored import ConnectionResponses
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.protocol import Disconnected, Message, Scope, Send
from kiro_asgi.asgi.scheduling import Tasks
from kiro_asgi.dialects.openai_responses.frames import AnswerFrames, Aside, Create, error_frame, read_frame
from kiro_asgi.errors import KiroAsgiError, LimitReached, RequestError, TooBusy, Unauthorized
from kiro_asgi.limits import WEBSOCKET_BAD_FRAMES, WEBSOCKET_WAITING
from kiro_asgi.observers.base import Outcome

_GOING_AWAY: Final = 1001
_NOT_TEXT: Final = 1003
_GARBAGE: Final = 1007
_POLICY: Final = 1008
_TOO_BIG: Final = 1009
_RESTART: Final = 1012
"""Codes with which a connection is closed.

Source: https://www.iana.org/assignments/websocket/websocket.xhtml#close-code-number
"""

_LOST: Final = (Outcome.STALLED, Outcome.DISCONNECTED)
"""Outcomes after which it is unknown what the client has received."""

_RETRY_AFTER: Final = 5.0
"""Seconds after which a client may try whether one of its connections has ended."""

_LIMIT_REACHED: Final = "Create a new websocket connection to continue."


@define(eq=False)
class OpenConnections:
    """The connections that are open, whichever event loop they are in."""

    _most: int
    """Of one client."""

    _open: Counter[str] = field(init=False, factory=Counter)
    """By principal."""

    _guard: threading.Lock = field(init=False, factory=threading.Lock)

    @contextmanager
    def another(self, principal: str) -> Iterator[None]:
        """Count one more as long as the context lasts.

        Raises:
            TooBusy: The client has as many as it may have.
        """
        with self._guard:
            if self._open[principal] >= self._most:
                message = (
                    f"{self._most} WebSockets of this client are open (responses.websockets): use one of them again"
                )
                raise TooBusy(message, code="too_many_websockets", retry_after=_RETRY_AFTER)
            self._open[principal] += 1
        try:
            yield
        finally:
            with self._guard:
                self._open[principal] -= 1
                if not self._open[principal]:
                    del self._open[principal]


@define(eq=False)
class Connection:
    """Answers the requests of one WebSocket."""

    _call: Call
    """The handshake."""

    _gateway: Gateway
    _known: ConnectionResponses
    _answer: Callable[[Create, Call, str], Awaitable[None]]
    """Answers a request by way of a call of its own."""

    _scope: Scope = field(init=False)
    """As a request over HTTP has it."""

    _ends_at: float = field(init=False, default=0.0)
    _patience: anyio.CancelScope = field(init=False, factory=anyio.CancelScope)
    """Around the wait for the next request."""

    _retired: bool = field(init=False, default=False)
    """Whether the gateway is being stopped."""

    _model: Any = field(init=False, default=None)
    """As the latest request named it; one that names none means the same."""

    _bad: int = field(init=False, default=0)
    """Bad frames in a row."""

    _over: anyio.Event = field(init=False, factory=anyio.Event)
    """Set when the client is gone, or we have closed the connection."""

    _closed: bool = field(init=False, default=False)
    """Whether we have."""

    def __attrs_post_init__(self) -> None:
        scope = self._call.scope
        headers = (*(scope.get("headers") or ()), (b"content-type", b"application/json"))
        self._scope = {**scope, "type": "http", "method": "POST", "headers": headers}

    async def run(self) -> None:
        """Accept the connection, and answer until it ends."""
        settings = self._gateway.settings.responses
        await self._call.upgrade()
        self._call.retire = self._retire
        self._ends_at = anyio.current_time() + settings.lifetime
        waiting, requests = anyio.create_memory_object_stream[Create | RequestError](WEBSOCKET_WAITING)
        with waiting, requests:
            async with anyio.create_task_group() as group:
                tasks = Tasks(group)
                tasks.start(partial(self._read, waiting))
                await tasks.run(partial(self._respond, requests))
        if tasks.failure is not None:
            raise tasks.failure

    # Frames from the client.

    async def _read(self, waiting: MemoryObjectSendStream[Create | RequestError]) -> None:
        with waiting:
            try:
                while not self._over.is_set():
                    # What was read is in no name of this loop's: the next message, or a client that takes its reply,
                    # may be an hour away.
                    if reply := await self._take(await self._call.receive(), waiting):
                        await self._send_frame(reply)
            finally:
                self._over.set()

    async def _take(self, message: Message, waiting: MemoryObjectSendStream[Create | RequestError]) -> str:
        """Take a message; what the client is told at once."""
        if message["type"] == "websocket.disconnect":
            self._over.set()
            return ""
        text, data = message.get("text"), message.get("bytes") or b""
        data = data if text is None else text.encode("utf-8", "surrogatepass")
        if len(data) > self._gateway.settings.responses.frame_bytes:
            await self._close(_TOO_BIG, "frame too big")
        elif text is None and not _is_text(data):  # some clients send text as binary
            await self._close(_NOT_TEXT, "expected text")
        else:
            return await self._take_frame(data, waiting)
        return ""

    async def _take_frame(self, data: bytes, waiting: MemoryObjectSendStream[Create | RequestError]) -> str:
        try:
            self._call.hold(len(data))
        except TooBusy as error:
            return error_frame(error)
        frame: Create | Aside | RequestError
        try:
            frame = await self._gateway.offload.run(len(data), partial(read_frame, data))
        except RequestError as error:
            frame = _without_origin(error)  # sent in its turn: clients take it for the end of the answer under way
        if not isinstance(frame, Create):
            self._call.release(len(data))
        if isinstance(frame, Aside):
            return frame.reply
        try:
            waiting.send_nowait(frame)
        except anyio.WouldBlock:
            if isinstance(frame, Create):
                self._call.release(frame.size)
            message = f"{WEBSOCKET_WAITING} requests of this connection wait already; send more when one is answered"
            return error_frame(LimitReached(message, code="too_many_pending_requests"))
        return ""

    # Frames to the client.

    async def _respond(self, requests: MemoryObjectReceiveStream[Create | RequestError]) -> None:
        with suppress(anyio.EndOfStream):
            while not self._over.is_set():
                await self._respond_once(requests)

    async def _respond_once(self, requests: MemoryObjectReceiveStream[Create | RequestError]) -> None:
        frame = await self._next(requests)
        if frame is None:
            await self._expire()
        elif isinstance(frame, RequestError):
            await self._refuse(frame)
        else:
            self._call.release(frame.size)
            await self._respond_to(frame)

    async def _next(self, requests: MemoryObjectReceiveStream[Create | RequestError]) -> Create | RequestError | None:
        """The next frame that is to be answered; ``None`` when none is going to be.

        Raises:
            EndOfStream: The client is gone.
        """
        now = anyio.current_time()
        self._patience = anyio.CancelScope(
            deadline=min(now + self._gateway.settings.responses.idle_timeout, self._ends_at)
        )
        frame = None
        # Until there is a request, no answer reports an interruption; so this is set before one can end the wait.
        self._call.break_off = self._restart
        with self._patience:
            frame = None if self._retired else await requests.receive()
        self._call.break_off = None
        return frame

    def _retire(self) -> None:
        """Take no further request."""
        self._retired = True
        self._patience.cancel()

    async def _respond_to(self, create: Create) -> None:
        self._bad = 0
        self._model = create.value.setdefault("model", self._model) or self._model
        channel = _Channel(self._call.send, self._over)
        handler = partial(self._answer, create)
        call = await self._gateway.answer_within(self._scope, channel.receive, channel.send, handler)
        if call.failure is not None:
            await self._known.let_go(create.previous)
        if call.outcome in _LOST:
            self._over.set()
        elif isinstance(call.failure, Unauthorized):
            await self._close(_POLICY, "unauthorized")
        elif call.work.cancelled_caught:
            await self._restart(None)

    async def _refuse(self, error: RequestError) -> None:
        await self._send_frame(error_frame(error))
        self._bad = self._bad + 1 if error.code == "invalid_json" else 0
        if self._bad == WEBSOCKET_BAD_FRAMES:
            await self._close(_GARBAGE, "no JSON")

    async def _expire(self) -> None:
        if self._retired:
            await self._restart(None)
            return
        if anyio.current_time() < self._ends_at:
            await self._close(_GOING_AWAY, "idle")
            return
        minutes = f"{self._gateway.settings.responses.lifetime / 60:g} minutes"
        message = f"Responses websocket connection limit reached ({minutes}). {_LIMIT_REACHED}"
        await self._send_frame(error_frame(RequestError(message, code="websocket_connection_limit_reached")))
        await self._close(_GOING_AWAY, "connection limit reached")

    async def _restart(self, error: KiroAsgiError | None) -> None:
        """Close the connection because the gateway is being stopped."""
        await self._close(_RESTART, "service restart")

    async def _send_frame(self, text: str) -> None:
        """Send a frame that belongs to no answer, which the client has to take in time; none after the end."""
        if self._closed:  # by the other task: a server takes nothing after that
            return
        await self._send_in_time({"type": "websocket.send", "text": text})

    async def _close(self, code: int, reason: str) -> None:
        if self._closed:  # likewise
            return
        self._closed = True
        self._over.set()
        await self._send_in_time({"type": "websocket.close", "code": code, "reason": reason})

    async def _send_in_time(self, message: Message) -> None:
        await self._call.taken(self._call.send(message))


@define
class _Channel:
    """The two channels of one request over HTTP, whose answer goes out in frames."""

    _send: Send
    _over: anyio.Event
    _frames: AnswerFrames = field(init=False)

    async def receive(self) -> Message:
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._frames = AnswerFrames(message["status"], message["headers"])
            return
        if self._over.is_set():  # a server takes nothing after a close
            raise Disconnected
        for text in self._frames.feed(message["body"]):
            await self._send({"type": "websocket.send", "text": text})
        if not message["more_body"]:
            for text in self._frames.flush():
                await self._send({"type": "websocket.send", "text": text})


def _without_origin(error: RequestError) -> RequestError:
    """*error* without the frames and errors that it came from, which keep what was read."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
