"""What a dialect must be able to do; pure, so that a whole API can be tested without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from attrs import frozen

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Event
from kiro_asgi.model.message import Message
from kiro_asgi.model.prompt import Prompt

__all__ = ["Dialect", "Encoder", "ErrorReply", "Heading", "Inquiry"]


@frozen
class Inquiry:
    """A parsed request: the neutral part, and what only the dialect understands."""

    prompt: Prompt
    stream: bool
    options: Any
    """A frozen class of the dialect's own; handed back to it with the answer."""


@frozen
class Heading:
    """The facts that every part of one answer repeats."""

    id: str
    model: str
    """As the client wrote it."""

    created: int
    """Seconds since the epoch."""

    options: Any = None


@frozen
class ErrorReply:
    """An error before anything was sent."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Those that the error calls for: ``retry-after``, ``x-should-retry``, ``allow``.  Not the content type."""


class Encoder(Protocol):
    """A stage from events to the bytes of one streamed answer."""

    heartbeat: bytes
    """What keeps the client patient; legal anywhere after the first event, until the end."""

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """Server-sent events; every item is whole, so a stream may be joined at will."""
        ...

    def flush(self) -> Iterator[bytes]:
        """What follows the last event."""
        ...

    def error(self, error: KiroAsgiError) -> bytes:
        """The in-band ending of a stream that has begun and cannot go on; nothing may follow it."""
        ...


class Dialect(Protocol):
    """One client API."""

    name: str

    def parse(self, body: bytes) -> Inquiry:
        """Read a request.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        ...

    def heading(self, inquiry: Inquiry, token: Callable[[], str], created: int) -> Heading:
        """Facts for one answer; *token* makes 24 random characters that are legal in ids."""
        ...

    def encoder(self, heading: Heading) -> Encoder:
        """A fresh encoder for one streamed answer."""
        ...

    def render(self, message: Message, heading: Heading) -> bytes:
        """The JSON body of a collected answer."""
        ...

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte."""
        ...
