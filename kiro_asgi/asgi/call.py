"""One HTTP request as the server hands it over, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field

from kiro_asgi.asgi.http import Disconnected, Headers, identity_headers, read_body, respond
from kiro_asgi.asgi.typing import Message, Receive, Scope, Send
from kiro_asgi.config import LimitSettings
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Usage

__all__ = ["Call"]


@define
class Call:
    """A scope with its two channels.  Every response goes through `send`, so its status is known afterwards."""

    scope: Scope = field(repr=False)
    """Holds what the client presents as its key."""

    receive: Receive
    _send: Send
    request_id: str
    principal: str = ""
    status: int = field(init=False, default=0)
    """Status of the response; 0 as long as none has begun."""

    model: str = ""
    """The model asked for, where the request got so far."""

    upstream: str = ""
    """The upstream that was asked last, where one was to be asked."""

    outcome: str = ""
    """How a relayed answer ended."""

    failure: KiroAsgiError | None = None
    """What there was instead of an answer, or of its rest."""

    usage: Usage | None = None
    """What an answer took."""

    @property
    def headers(self) -> Headers:
        """What every response carries."""
        return identity_headers(self.request_id)

    async def send(self, message: Message) -> None:
        """Send, and take a failure of the connection for what it is.

        Raises:
            Disconnected: The client is gone.
        """
        if message["type"] == "http.response.start":
            self.status = message["status"]
        try:
            await self._send(message)
        except OSError as error:
            raise Disconnected from error

    async def body(self, limits: LimitSettings) -> bytes:
        """The request body, within the limits."""
        return await read_body(self.scope, self.receive, max_bytes=limits.body_bytes, seconds=limits.body_timeout)

    async def respond(self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send one whole response."""
        await respond(self.send, status, body, [*headers, *self.headers])
