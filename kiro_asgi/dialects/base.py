"""The interface of a dialect; pure, so that a whole API can be tested without a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from attrs import frozen

from kiro_asgi.dialects.known import Recalled
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.embeddings import EmbeddingPrompt, Embeddings
from kiro_asgi.model.events import Event
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt

if TYPE_CHECKING:
    from kiro_asgi.dialects.model_list import Listing
    from kiro_asgi.dialects.schema import BodyShape

Item = TypeVar("Item", contravariant=True)

RequestHeaders = Iterable[tuple[bytes, bytes]]
"""Names and values, as the client sent them; a name may come several times, and in any case."""


JSON: Final = b"application/json"


class Apart(bytes):
    """The last piece of a stream, where clients must read it by itself: it is sent a moment after all others."""


@frozen
class ParsedRequest:
    """A parsed request: the neutral part, and what only the dialect understands."""

    prompt: Prompt
    stream: bool
    options: Any
    """A frozen class of the dialect's own; handed back to it with the answer."""

    notes: tuple[Note, ...] = ()
    """Parts of it that no service receives; collected where notes are wanted."""

    choices: int = 1
    """Answers that it asks for at once."""

    foreign: bool = False
    """Whether it has forms of another API, which services of its own do not know."""


@frozen
class ParsedEmbeddings:
    """A parsed request for embeddings."""

    prompt: EmbeddingPrompt
    options: Any = None
    """What only the dialect understands; handed back to it with the vectors."""


@frozen
class ResponseMeta:
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

    content_type: bytes = JSON


class Writer(Protocol[Item]):
    """A stage to the bytes of one streamed answer."""

    @property
    def heartbeat(self) -> bytes:
        """Bytes that keep the connection alive; legal anywhere after the first event, until the end.

        In an API that numbers its events each read of it makes another event, which has to be sent at once.
        """
        ...

    def feed(self, items: Iterable[Item], /) -> Iterator[bytes]:
        """Server-sent events; a long one comes in several pieces."""
        ...

    def flush(self) -> Iterator[bytes]:
        """Bytes after the last event."""
        ...

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """The in-band ending of a stream that has begun and cannot go on; nothing may follow it.

        The last piece may be `Apart`.
        """
        ...


Encoder = Writer[Event]
"""From events."""


@frozen(kw_only=True)
class DialectTraits:
    """Properties of a client API's answers that the gateway depends on; the defaults fit most APIs."""

    stream_type: bytes = b"text/event-stream"
    """Content type of a streamed answer."""

    body_type: bytes = JSON
    """Content type of a collected one."""

    repeats_answers: bool = False
    """Whether a stream repeats the whole answer at its end, so that its encoder keeps it until then."""

    cites_pages_only: bool = False
    """Whether a source without an address has no place in an answer."""

    transparent: bool = False
    """Whether it is a `kiro_asgi.dialects.passthrough.TransparentDialect`."""

    recalls: bool = False
    """Whether it is a `RecallingDialect`."""

    runs_tools: bool = False
    """Whether its services run tools of further kinds than the web search."""

    self_contained: bool = False
    """Whether its services send thinking apart, and run or call tools of their own kinds as the client does: neither
    needs the gateway."""

    too_long: bytes = b""
    """What of a refusal tells clients that the context window is exceeded, so that they send less; empty for nothing.
    A service's own refusal that lacks it is told in the words of the API."""

    alters_streams: bool = False
    """Whether streams have to differ from those of a service of this API, so that those cannot go through."""


class Dialect(Protocol):
    """One client API."""

    @property
    def name(self) -> str:
        """That of its manifest."""
        ...

    @property
    def traits(self) -> DialectTraits:
        """Properties of its answers."""
        ...

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """Read a request.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        ...

    def notes(self, body: bytes, parsed: ParsedRequest) -> tuple[Note, ...]:
        """Parts of a request that no service receives, whichever it is; *parsed* is what `parse` made of *body*.

        The rules are those of `kiro_asgi.dialects.unread`.  Takes longer than reading it did.
        """
        ...

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        """Facts for one answer; *token* makes 24 random characters that are legal in ids."""
        ...

    def encoder(self, meta: ResponseMeta) -> Encoder:
        """A fresh encoder for one streamed answer."""
        ...

    def render(self, message: Message, meta: ResponseMeta) -> Iterator[bytes]:
        """The JSON body of a collected answer, in pieces none of which takes long; some may be empty."""
        ...

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte."""
        ...


class RecallingDialect(Dialect, Protocol):
    """A client API whose requests can be read faster where earlier ones are known."""

    def parse_recalled(self, body: bytes, headers: RequestHeaders, recalled: Recalled, /) -> ParsedRequest:
        """As `parse`, with the same result and the same errors.

        Args:
            body: All of it.
            headers: The client's.
            recalled: What is known of the client's requests; learns this one.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        ...


class CountingDialect(Dialect, Protocol):
    """A client API that counts the tokens of a prompt."""

    def parse_count(self, body: bytes, /) -> Prompt:
        """Read a request for a token count.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        ...

    def render_count(self, tokens: int, /) -> bytes:
        """The body of the answer."""
        ...


class EmbeddingDialect(Dialect, Protocol):
    """A client API that asks for embeddings of texts, too."""

    def parse_embeddings(self, body: bytes, /) -> ParsedEmbeddings:
        """Read a request for embeddings.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        ...

    def render_embeddings(self, embeddings: Embeddings, asked: ParsedEmbeddings, /) -> Iterator[bytes]:
        """The body of the answer to *asked*, in pieces none of which takes long; *embeddings* has one vector for each
        input, and a count of tokens."""
        ...


class ListingDialect(Dialect, Protocol):
    """A client API with a list of models of its own, apart from the one at ``/v1/models``."""

    def render_models(self, listings: Iterable[Listing], /) -> bytes:
        """The body of an answer with all models."""
        ...

    def render_model(self, listing: Listing, /) -> bytes:
        """The body of an answer about one model."""
        ...


@frozen(kw_only=True, eq=False)
class ApiRequest:
    """A request for an operation of an API's own."""

    body: bytes
    """All of it; the gateway's limits hold for it."""

    headers: tuple[tuple[bytes, bytes], ...]
    """The client's; **its key is among them**."""

    argument: str
    """Name in the path; empty where the path names nothing."""

    principal: str
    """Name of the client."""

    models: Callable[[], Awaitable[Iterable[Listing]]]
    """Gives the models that the client may ask for; may wait for a service's list."""


@frozen
class ApiReply:
    """The whole answer to it."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Further ones; not the content type."""


ApiOperation = Callable[[ApiRequest], Awaitable[ApiReply]]
"""An operation of an API's own, an ``async def``.  What it raises of `kiro_asgi.errors` is answered by the API's own
`Dialect.error`, anything else is a 500.  It runs on asyncio and on trio, in the event loop that serves the call."""


@runtime_checkable
class DescribedDialect(Protocol):
    """A client API that knows how its requests are read, for the description at ``/openapi.json``."""

    @property
    def bodies(self) -> Mapping[str, BodyShape]:
        """The bodies of requests, by the endpoint's operation, or by the verb of an endpoint that has several."""
        ...


@runtime_checkable
class OperatingDialect(Protocol):
    """A client API that has operations of its own beside those of the gateway."""

    @property
    def operations(self) -> Mapping[str, ApiOperation]:
        """By the names that the endpoints have for them; one may stand in the place of the gateway's."""
        ...
