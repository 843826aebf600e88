"""One HTTP request as the server hands it over, with its response; and all those that are under way.

The bytes of request bodies that an application holds at once are limited.  A body may grow as long as it is no larger
than what is then still free.  So a client that sends many large bodies gets a smaller share the more there are, and an
ordinary request finds room next to them: ten bodies that never end leave a tenth of the limit free.  Only what has
arrived counts; to announce a length reserves nothing.

What a client has stored earlier and takes up again costs it no more than a line of its request, so here the client is
what gets a share: all that its calls hold of it at once may be as much as is then still free.

Source: dynamic thresholds of switches, https://doi.org/10.1109/90.664262 (Choudhury and Hahne), with a factor of 1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Lock
from types import TracebackType
from typing import Final

import anyio
from attrs import define, field

from kiro_asgi.asgi.exchange.observation import Observation
from kiro_asgi.asgi.exchange.record import CallRecord
from kiro_asgi.asgi.protocol import (
    CLIENT_GONE,
    Disconnected,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
    Stalled,
    identity_headers,
    read_body,
    respond,
    response_start,
)
from kiro_asgi.config import LimitSettings
from kiro_asgi.errors import KiroAsgiError, TooBusy
from kiro_asgi.loops import PerLoop
from kiro_asgi.quota.base import Counters
from kiro_asgi.quota.claims import Lease

_ROOM_AFTER = 1.0
"""Seconds: most bodies arrive, and are answered, within a few."""


@define
class Bodies:
    """All bodies of one application, whichever event loops it serves."""

    _limit: int
    held: int = field(init=False, default=0)
    """Bytes."""

    _stored: dict[str, int] = field(init=False, factory=dict, repr=False)
    """Principal to those of them that it had stored earlier."""

    _lock: Lock = field(init=False, factory=Lock)
    """Event loops may run in threads of their own."""

    def add(self, size: int, largest: int) -> bool:
        """Hold *size* more bytes, unless that leaves less than *largest* free; whether they are held."""
        with self._lock:
            if self.held + size + largest > self._limit:
                return False
            self.held += size
            return True

    def free(self, size: int) -> None:
        """Hold *size* bytes less."""
        with self._lock:
            self.held -= size

    def add_stored(self, size: int, principal: str) -> bool:
        """Hold *size* more bytes that *principal* has stored, unless it then has more than is left; whether they are
        held.  Its first ones need no more than room: what could be stored can be read."""
        with self._lock:
            before = self._stored.get(principal, 0)
            if self.held + size + (before + size if before else 0) > self._limit:
                return False
            self.held += size
            self._stored[principal] = before + size
            return True

    def free_stored(self, size: int, principal: str) -> None:
        """Hold *size* bytes of these less."""
        with self._lock:
            self.held -= size
            left = self._stored.pop(principal, 0) - size
            if left > 0:
                self._stored[principal] = left


@define
class Share:
    """One request's part, from its first byte to the end of its answer: until then, it may have to be sent again."""

    _bodies: Bodies
    _size: int = field(init=False, default=0)
    _stored: int = field(init=False, default=0)
    _principal: str = field(init=False, default="")
    """Whose stored bytes these are."""

    def grow(self, size: int) -> None:
        """Hold *size* more bytes.

        Raises:
            TooBusy: There is no room for that next to the others.
        """
        if not self._bodies.add(size, self._size + size):
            raise TooBusy(
                "too many bytes of requests and embeddings are held at present; try again later",
                code="bodies_full",
                retry_after=_ROOM_AFTER,
            )
        self._size += size

    def shrink(self, size: int) -> None:
        """Hold *size* bytes less."""
        self._bodies.free(size)
        self._size -= size

    def hold(self, size: int) -> None:
        """Hold *size* bytes in all.

        Raises:
            TooBusy: There is no room for that next to the others.
        """
        if size > self._size:
            self.grow(size - self._size)
        else:
            self.shrink(self._size - size)

    def grow_stored(self, size: int, principal: str) -> None:
        """Hold *size* more bytes, which *principal* has stored earlier.

        Raises:
            TooBusy: They would be more than its share.
        """
        if not self._bodies.add_stored(size, principal):
            raise TooBusy(
                "too many bytes that this client has stored are being read or built on; try again later",
                code="stored_full",
                retry_after=_ROOM_AFTER,
            )
        self._principal = principal
        self._stored += size

    def shrink_stored(self, size: int) -> None:
        """Hold *size* bytes of these less."""
        self._bodies.free_stored(size, self._principal)
        self._stored -= size

    def free(self) -> None:
        """Hold none any more."""
        self.shrink(self._size)
        if self._stored:
            self.shrink_stored(self._stored)

    def __enter__(self) -> Share:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.free()


_CLIENT_LEFT: Final = 499
"""Status for a client that left before there was an answer.  Only the host's middlewares and the log see it;
the number is nginx's: https://nginx.org/en/docs/dev/development_guide.html#http_request"""

_UPGRADED: Final = 101
"""Status of a WebSocket that was accepted."""

_SOONER: Final = 12
"""How many times sooner a client that takes nothing is dropped where others wait for its connection to the service; at
least half as many, by chance: a crowd that came together is not to be dropped in the same moment."""


@define(eq=False)
class Call(CallRecord):
    """A scope with its two channels.  Every response goes through `send`, so its status is known afterwards."""

    scope: Scope = field(repr=False)
    """Holds what the client presents as its key."""

    _receive: Receive
    _send: Send
    request_id: str
    _id_headers: tuple[bytes, ...]
    """Names of the response headers that hold it."""

    _share: Share
    _write_timeout: float
    _clock: Callable[[], float]
    _draw: Callable[[], float]
    observation: Observation | None = None
    """Facts gathered for observers; ``None`` where there is no observer."""

    sending_since: float | None = field(init=False, default=None)
    """When the message was handed over that the server has not taken yet."""

    work: anyio.CancelScope = field(init=False, factory=anyio.CancelScope)
    """Around all that is done for this call."""

    break_off: Callable[[KiroAsgiError], Awaitable[None]] | None = field(init=False, default=None)
    """How to end a response that has begun; ``None`` where it can only be completed."""

    retire: Callable[[], None] | None = field(init=False, default=None)
    """How to have a connection end after the answer under way; ``None`` where there is only that one."""

    meanwhile: Callable[[], Awaitable[None]] | None = field(init=False, default=None)
    """Work that runs for as long as the answer takes."""

    leases: dict[Lease, Counters] = field(init=False, factory=dict)
    """Leases that are held for it now, and where."""

    parting_headers: Headers = ()
    """Headers that have the client connect anew, where this gateway is being stopped."""

    quota_headers: Headers = ()
    """Headers that report what the client's quotas still allow."""

    _sooner: float = field(init=False)
    """Seconds after which the client counts as stalled where others wait."""

    _interrupted: bool = field(init=False, default=False)
    _cannot_send: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._sooner = self._write_timeout / _SOONER * (1 + self._draw())

    def let_go(self) -> None:
        """Let go of what holds the call, and with it prompt and answer."""
        super().let_go()
        self.break_off = self.observation = None

    @property
    def headers(self) -> Headers:
        """Headers of every response."""
        return (*identity_headers(self.request_id, self._id_headers), *self.parting_headers, *self.quota_headers)

    async def send(self, message: Message) -> None:
        """Send; a failure of the connection means that the client is gone.

        Raises:
            Disconnected: The client is gone, or an earlier message could not be sent.
            Exception: The host's own; how much of the message has gone out is unknown, so no other one is sent.
        """
        if self._cannot_send:
            raise Disconnected
        if message["type"] == "http.response.start":
            self.status = message["status"]
        began = self.sending_since = self._clock()
        try:
            await self._send(message)
        except CLIENT_GONE as error:
            raise Disconnected from error
        except Exception:
            self._cannot_send = True
            raise
        finally:
            self.sending_since = None
        if self.observation is not None:
            self.observation.take_sent(message, began)
        if self._interrupted and message.get("more_body", True):
            self.work.cancel()

    async def receive(self) -> Message:
        """Receive; a failure of the connection means that the client is gone.

        Raises:
            Disconnected: The client is gone.
        """
        try:
            return await self._receive()
        except CLIENT_GONE as error:
            raise Disconnected from error

    async def until_left(self) -> None:
        """Wait until the client has left."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def interrupt(self) -> None:
        """Cancel the work, but not within a send: half a message could not be followed by an error."""
        if self.status and self.break_off is None:
            return
        if self.sending_since is None:
            self.work.cancel()
        else:
            self._interrupted = True

    def patience(self, *, others_wait: bool) -> float:
        """Seconds until the client has taken nothing for too long, which is sooner where others wait for its place.

        No limit surrounds a single send, as there is one for every event; so this is to be looked at now and then.
        """
        limit = self._sooner if others_wait else self._write_timeout
        return limit if self.sending_since is None else self.sending_since + limit - self._clock()

    @property
    def look(self) -> float:
        """Seconds between two looks at `patience`."""
        return self._sooner / 2

    async def body(self, limits: LimitSettings) -> bytes:
        """The request body, within the limits."""
        most, seconds = limits.body_bytes, limits.body_timeout
        hold, release = self._share.grow, self._share.shrink
        body = await read_body(self.scope, self.receive, max_bytes=most, seconds=seconds, hold=hold, release=release)
        if self.observation is not None:
            self.observation.take_request(body)
        return body

    def hold(self, size: int) -> None:
        """Hold *size* more bytes until the answer has ended, as those of the body are held.

        Raises:
            TooBusy: There is no room for that now.
        """
        self._share.grow(size)

    def release(self, size: int) -> None:
        """Hold *size* of these bytes no longer."""
        self._share.shrink(size)

    def release_all(self) -> None:
        """Hold none of these bytes any longer, nor any that the client has stored."""
        self._share.free()

    def hold_stored(self, size: int) -> None:
        """Hold *size* bytes that the client has stored earlier, until the answer has ended.

        Raises:
            TooBusy: They would be more than the share of this client.
        """
        self._share.grow_stored(size, self.principal)

    def release_stored(self, size: int) -> None:
        """Hold *size* of these bytes no longer."""
        self._share.shrink_stored(size)

    async def upgrade(self) -> None:
        """Accept a WebSocket; what goes through `send` and `receive` from here on are its messages.

        Observers see the call end here: each request of the connection is a call of its own.
        """
        await self.in_time(self.send)({"type": "websocket.accept", "headers": [*self.headers]})
        self.status = _UPGRADED
        if self.observation is not None:
            self.observation.end(self)
            self.observation = None

    async def respond(self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send one whole response.

        Raises:
            Stalled: The client does not take it.
        """
        await respond(self.in_time(self.send), status, body, [*headers, *self.headers])

    def in_time(self, send: Send) -> Send:
        """*send*, with a limit for each message, for what is sent whole; it raises `Stalled`."""

        async def limited(message: Message) -> None:
            await self.taken(send(message))

        return limited

    async def taken(self, sending: Awaitable[None]) -> None:
        """Wait for *sending*, which the client is to take in time.

        Raises:
            Stalled: It does not.
        """
        with anyio.move_on_after(self._write_timeout) as limit:
            await sending
        if limit.cancelled_caught:
            raise Stalled

    async def leave_unanswered(self) -> None:
        """Begin an answer to a client that is gone, for the host's middlewares, which take silence for a fault of ours.

        It stays without an end: a server would keep the connection of a complete one open for another request.
        """
        with suppress(Disconnected):
            await self.in_time(self.send)(response_start(_CLIENT_LEFT, [*self.headers]))


_RETRY_AFTER: Final = 1.0
"""Seconds until another process may serve what this one could not."""


def stopping() -> TooBusy:
    """The error for a request that would have to be served for longer than this process goes on."""
    return TooBusy("this gateway is being stopped", code="shutting_down", retry_after=_RETRY_AFTER)


@define(eq=False)
class _Presence:
    """Calls of one event loop, each from its first moment to the end of its response."""

    _calls: int = field(init=False, default=0)
    _gone: anyio.Event | None = field(init=False, default=None)
    """Set when the last has gone; there is one while a task waits for that."""

    def __enter__(self) -> None:
        self._calls += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._calls -= 1
        if not self._calls and self._gone is not None:
            self._gone.set()
            self._gone = None

    async def all_gone(self) -> None:
        """Wait until there is none."""
        while self._calls:
            if self._gone is None:
                self._gone = anyio.Event()
            await self._gone.wait()


@define(eq=False)
class CallsUnderWay:
    """Calls that one application is answering now."""

    _under_way: PerLoop[set[Call]] = field(init=False, factory=lambda: PerLoop(set))
    _present: PerLoop[_Presence] = field(init=False, factory=lambda: PerLoop(_Presence))

    def counting(self) -> AbstractContextManager[None]:
        """Count a call within the block: from its first moment to the end of its response."""
        return self._present.here()

    async def all_gone(self) -> None:
        """Wait until none is under way in the running event loop."""
        await self._present.here().all_gone()

    @contextmanager
    def doing(self, call: Call) -> Iterator[None]:
        """Do the work of *call* within the block; ``call.work.cancelled_caught`` is whether it was interrupted."""
        calls = self._under_way.here()
        calls.add(call)
        try:
            with call.work:
                yield
        finally:
            calls.discard(call)

    async def end(self, call: Call) -> None:
        """Report an interruption to the client of *call*.

        Raises:
            TooBusy: It had nothing of an answer; code ``shutting_down``.
        """
        error = stopping()
        if call.break_off is None or not call.status:
            raise error
        await call.break_off(error)

    def retire(self) -> None:
        """Have the connections of the running event loop end, each after the answer under way."""
        for call in tuple(self._under_way.here()):
            if call.retire is not None:
                call.retire()

    def interrupt(self) -> None:
        """End the calls of the running event loop, each as soon as nothing is being sent to its client."""
        for call in tuple(self._under_way.here()):
            call.interrupt()
