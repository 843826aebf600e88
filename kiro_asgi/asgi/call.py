"""One HTTP request as the server hands it over, and what becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

import anyio
from attrs import define, field

from kiro_asgi.asgi.bodies import Share
from kiro_asgi.asgi.http import Disconnected, Headers, Stalled, identity_headers, read_body, respond, response_start
from kiro_asgi.asgi.typing import Message, Receive, Scope, Send
from kiro_asgi.config import LimitSettings
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Usage
from kiro_asgi.model.notes import Note

__all__ = ["Call"]

_BROKEN: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
"""What hosts and their middlewares raise where the client is gone."""

_CLIENT_LEFT: Final = 499
"""Status for a client that left before there was an answer.  Nobody reads it but the host's middlewares and the log;
the number is nginx's: https://nginx.org/en/docs/dev/development_guide.html#http_request"""

_SOONER: Final = 12
"""How many times sooner a client that takes nothing is dropped where others wait for its connection to the service; at
least half as many, by chance: a crowd that came together is not to be dropped in the same moment."""


@define(eq=False)
class Call:
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
    principal: str = ""
    status: int = field(init=False, default=0)
    """Status of the response; 0 as long as none has begun."""

    model: str = ""
    """The model asked for, where the request got so far."""

    upstream: str = ""
    """The upstream that was asked last, where one was to be asked."""

    notes: tuple[Note, ...] = ()
    """What was adapted of the request for the upstream that was asked last."""

    outcome: str = ""
    """How a relayed answer ended."""

    failure: KiroAsgiError | None = None
    """What there was instead of an answer, or of its rest."""

    usage: Usage | None = None
    """What an answer took."""

    span: tuple[float, float] | None = None
    """When the first content came from the service, and its last event, by the clock."""

    sending_since: float | None = field(init=False, default=None)
    """When the message was handed over that the server has not taken yet."""

    work: anyio.CancelScope = field(init=False, factory=anyio.CancelScope)
    """Around all that is done for this call."""

    tell: Callable[[KiroAsgiError], Awaitable[None]] | None = field(init=False, default=None)
    """How to end a response that has begun; ``None`` where it can only be completed."""

    _sooner: float = field(init=False)
    """Seconds after which the client counts as stalled where others wait."""

    _interrupted: bool = field(init=False, default=False)
    _cannot_send: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._sooner = self._write_timeout / _SOONER * (1 + self._draw())

    @property
    def headers(self) -> Headers:
        """What every response carries."""
        return identity_headers(self.request_id, self._id_headers)

    async def send(self, message: Message) -> None:
        """Send, and take a failure of the connection for what it is.

        Raises:
            Disconnected: The client is gone, or an earlier message could not be sent.
            Exception: The host's own; what of the message has gone out is not known, so no other one is sent.
        """
        if self._cannot_send:
            raise Disconnected
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.sending_since = self._clock()
        try:
            await self._send(message)
        except _BROKEN as error:
            raise Disconnected from error
        except Exception:
            self._cannot_send = True
            raise
        finally:
            self.sending_since = None
        if self._interrupted and message.get("more_body", True):
            self.work.cancel()

    async def receive(self) -> Message:
        """Receive, and take a failure of the connection for what it is.

        Raises:
            Disconnected: The client is gone.
        """
        try:
            return await self._receive()
        except _BROKEN as error:
            raise Disconnected from error

    def interrupt(self) -> None:
        """Cancel the work, but not within a send: half a message could not be followed by an error."""
        if self.status and self.tell is None:
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
        return await read_body(self.scope, self.receive, max_bytes=most, seconds=seconds, hold=self._share.grow)

    def hold(self, size: int) -> None:
        """Hold *size* more bytes until the answer has ended, as those of the body are held.

        Raises:
            TooBusy: There is no room for that now.
        """
        self._share.grow(size)

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
