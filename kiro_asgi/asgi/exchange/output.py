"""Where an answer goes: out as it comes, as a stream when it is complete, or into one body at the end.

All take the items of an answer: events, or bytes where an answer goes through as it is.  All know whether the head has
been sent (the commit), because that decides whether a failure may still be reported as an HTTP status, and whether
anything of an answer has, because that decides whether it may still be tried again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

import anyio
from attrs import define, field

from kiro_asgi.asgi.protocol import (
    Disconnected,
    Headers,
    Send,
    respond_in_pieces,
    response_body,
    response_start,
    send_most,
)
from kiro_asgi.dialects.base import Apart, Writer
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.loops import give_way
from kiro_asgi.model.events import Event
from kiro_asgi.model.message import Message, MessageBuilder, replay, unsplit

_STREAM_HEADERS = (
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)

PART: Final = 0.003
"""Seconds of work after which others are served: a short request takes some ten turns of the event loop, and each must
wait for one part."""

_APART: Final = 0.1
"""Seconds before a piece that a client must read by itself: proxies and clients join what comes closer together."""

Item = TypeVar("Item")
In = TypeVar("In", contravariant=True)


class Output(Protocol[In]):
    """Takes the items of one answer."""

    committed: bool
    """Whether the client has been sent the head, be it with signs of life only."""

    begun: bool
    """Whether the client has been sent anything of an answer: another one would repeat it."""

    opened: bool
    """Whether the client has been shown the start of a message of ours: only the rest of it may follow."""

    closing: bool
    """Whether the last message is on its way, or sent: then there is nothing left to break off."""

    last_sent: float
    """When something was last sent; before the commit, when the output was made."""

    def restart(self) -> None:
        """Forget what was put: the answer is tried again."""
        ...

    def put(self, items: Iterable[In], /) -> KiroAsgiError | None:
        """Take what *items* yields until it ends or fails; what came before a failure counts."""
        ...

    async def push(self) -> bool:
        """Send what was put, if this output sends as it goes; whether there was anything to send."""
        ...

    async def open(self, items: Iterable[In], /) -> None:
        """Commit without waiting for the model: *items* is the start of the message."""
        ...

    async def beat(self) -> None:
        """Show a sign of life, if the client can be shown one."""
        ...

    async def finish(self) -> None:
        """Send the rest; the answer is complete."""
        ...

    async def fail(self, error: KiroAsgiError) -> None:
        """End an answer that has been committed and cannot go on."""
        ...


@define
class Sending(Generic[Item]):
    """Sends every item as it comes: what one `push` finds goes out in one body message, unless it is long."""

    _send: Send
    _headers: Callable[[], Headers]
    _clock: Callable[[], float]
    _encoder: Writer[Item] = field(init=False)
    """Of this try."""

    committed: bool = field(init=False, default=False)
    begun: bool = field(init=False, default=False)
    opened: bool = field(init=False, default=False)
    closing: bool = field(init=False, default=False)
    last_sent: float = field(init=False)
    _pending: list[bytes] = field(init=False, factory=list)
    _encoding: bool = field(init=False, default=False)
    _beats: int = field(init=False, default=0)
    """Heartbeats that the client has been sent."""

    _lock: anyio.Lock = field(init=False, factory=anyio.Lock)

    def __attrs_post_init__(self) -> None:
        self.last_sent = self._clock()

    def take_over(self, other: Sending[Any]) -> None:
        """Go on where *other* has sent no more than the head and signs of life."""
        self.committed, self._lock = other.committed, other._lock

    def restart(self) -> None:
        """Forget what was put, be it encoded already: two tries must never come out mixed."""
        assert not self.begun, "an answer of which the client has something cannot begin anew"
        self._pending.clear()

    def put(self, items: Iterable[Item], /) -> KiroAsgiError | None:
        """Encode."""
        self._encoding = True  # perhaps in a thread
        try:
            self._pending.extend(self._encoder.feed(items))
        except KiroAsgiError as error:
            return error
        finally:
            self._encoding = False
        return None

    async def push(self) -> bool:
        """Send what was encoded; the first time, the head goes before it."""
        if not self._pending:
            return False
        self.begun = True
        await self._write(self._take(), more=True)
        return True

    async def open(self, items: Iterable[Item], /) -> None:
        """Send the head, what the start of the message gives, and a heartbeat."""
        self.put(items)
        await self._write([*self._take(), self._heartbeat()], more=True)

    async def beat(self) -> None:
        """Send a heartbeat, unless something is on its way: then the client is slow, or about to receive it."""
        self.last_sent = self._clock()
        if self.committed and not (self._lock.locked() or self._encoding or self._pending):
            await self._write([self._heartbeat()], more=True)

    def _heartbeat(self) -> bytes:
        self._beats += 1
        return self._encoder.heartbeat

    async def finish(self) -> None:
        """Send the rest and close the body."""
        self._pending.extend(self._encoder.flush())
        self.begun = True
        await self._write(self._take(), more=False)

    async def fail(self, error: KiroAsgiError) -> None:
        """Send the in-band error and close the body."""
        self._pending += self._encoder.error(error)
        if self._pending and isinstance(self._pending[-1], Apart):
            *pieces, apart = self._take()
            self._pending = [apart]  # which keeps heartbeats from coming between
            await self._write(pieces, more=True)
            await anyio.sleep(_APART)
        await self._write(self._take(), more=False)

    def _take(self) -> list[bytes]:
        pieces, self._pending = self._pending, []
        return pieces

    async def _write(self, pieces: list[bytes], *, more: bool) -> None:
        """Send whole events, in however many pieces they are: nothing else is sent before the last one."""
        try:
            self._lock.acquire_nowait()  # as a rule no other task sends, and this runs for every event
        except anyio.WouldBlock:
            await self._lock.acquire()
        try:
            if not self.committed:
                _require_bytes(pieces)
                self.committed = True
                await self._send(response_start(200, [*_STREAM_HEADERS, *self._headers()]))
            data = await send_most(self._send, pieces)
            self.closing = not more
            try:
                await self._send(response_body(data, more=more))
            except Disconnected:
                raise
            except Exception:
                self.closing = False  # what keeps the answer has failed before it went out: the client can be told
                raise
            self.last_sent = self._clock()
        finally:
            self._lock.release()


def _require_bytes(pieces: Iterable[bytes]) -> None:
    """Check what a client API has written before any of it is sent, while a failure can still be a status.

    Raises:
        TypeError: It is something else, a mistake of a dialect from outside.
    """
    if wrong := [type(piece).__name__ for piece in pieces if not isinstance(piece, bytes | memoryview)]:
        raise TypeError(f"the client API wrote a {wrong[0]}; encoder and render must give bytes")


@define
class Streamed(Sending[Event]):
    """Encodes events, for each try anew."""

    _new_encoder: Callable[[], Writer[Event]]
    _opening: tuple[Event, ...] = field(init=False, default=())
    """Events that `open` has sent to the client."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._encoder = self._new_encoder()

    def restart(self) -> None:
        """Forget what was put, but for what the client has been shown by `open`."""
        super().restart()
        self._encoder = self._new_encoder()
        deque(self._encoder.feed(self._opening), maxlen=0)
        for _ in range(self._beats):
            self._encoder.heartbeat  # noqa: B018  the client has seen their numbers

    async def open(self, items: Iterable[Event], /) -> None:
        """Send the head, what the start of the message gives, and a heartbeat."""
        self._opening, self.opened = tuple(items), True
        await super().open(self._opening)


class _Gathering:
    """Base of the outputs that build one message before they send anything of it."""

    _builder: MessageBuilder

    def restart(self) -> None:
        """Begin a new message."""
        self._builder = MessageBuilder()

    def put(self, events: Iterable[Event], /) -> KiroAsgiError | None:
        """Add to the message."""
        try:
            self._builder.feed(events)
        except KiroAsgiError as error:
            return error
        return None

    def _message(self) -> Message:
        """The message, of which nothing is kept here any more."""
        message = self._builder.message
        assert message is not None, "the stages ended without a MessageEnd"
        self._builder = MessageBuilder()
        return message


def _slices(parts: Iterable[Iterable[bytes]], clock: Callable[[], float]) -> Iterator[list[bytes]]:
    """The pieces of *parts*, whole parts at a time: as many as are to be made at once; the last with the last part."""
    pieces: list[bytes] = []
    due = clock() + PART
    for part in parts:
        if pieces and clock() >= due:
            yield pieces
            pieces, due = [], clock() + PART
        pieces += part
    yield pieces


@define
class Synthetic(_Gathering, Streamed):
    """Waits for the whole answer, then sends it as a stream; so nothing is sent of an answer that fails."""

    _cut: Callable[[str], Iterable[str]] = unsplit
    """Cuts the text of a block into the pieces that are sent."""

    _builder: MessageBuilder = field(init=False, factory=MessageBuilder)

    async def open(self, events: Iterable[Event], /) -> None:
        """Send nothing: once a status was sent, a failure cannot be reported by one any more."""

    async def finish(self) -> None:
        """Send the message, a slice at a time: cut into sentences it takes many times its own size."""
        parts = (self._encoder.feed((event,)) for event in replay(self._message(), self._cut))
        for pieces in _slices(parts, self._clock):
            if self._pending:
                await self.push()
                await give_way()
            self._pending += pieces
        await super().finish()


@define
class Whole(Generic[Item]):
    """Sends one body at the end, and nothing before it."""

    _send: Send
    _headers: Callable[[], Headers]
    committed: bool = field(init=False, default=False)
    begun: bool = field(init=False, default=False)
    opened: bool = field(init=False, default=False)
    closing: bool = field(init=False, default=False)
    last_sent: float = field(init=False, default=0.0)

    async def push(self) -> bool:
        """Send nothing before the end."""
        return False

    async def open(self, items: Iterable[Item], /) -> None:
        """Send nothing: once a status was sent, a failure cannot be reported by one any more."""

    async def beat(self) -> None:
        """Send nothing: a body of known length has no room for a sign of life."""

    async def fail(self, error: KiroAsgiError) -> None:
        """Never called: a collected answer is committed only when it is complete."""
        raise AssertionError("a collected answer failed after it was sent")

    async def _respond_in_slices(self, pieces: Iterable[bytes], clock: Callable[[], float]) -> None:
        """Send *pieces*, a slice of which is made at a time."""
        body: list[bytes] = []
        for made in _slices(zip(pieces, strict=True), clock):
            if body:
                await give_way()
            body += made
        await self._respond(*body)

    async def _respond(self, *pieces: bytes) -> None:
        _require_bytes(pieces)
        self.committed = self.begun = self.closing = True
        await respond_in_pieces(self._send, 200, pieces, self._headers())


@define
class Collected(_Gathering, Whole[Event]):
    """Builds one message and sends it whole."""

    _clock: Callable[[], float]
    _render: Callable[[Message], Iterable[bytes]]
    _builder: MessageBuilder = field(init=False, factory=MessageBuilder)

    async def finish(self) -> None:
        """Send the message."""
        await self._respond_in_slices(self._render(self._message()), self._clock)
