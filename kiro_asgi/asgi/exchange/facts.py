"""One client request, and what is settled about it before an upstream is asked.

There are three kinds of exchange: that of `kiro_asgi.asgi.exchange.translated` renders the request for the upstream and
encodes the answer for the client, that of `kiro_asgi.asgi.exchange.passthrough` hands both on as they are, and that of
`kiro_asgi.asgi.exchange.embeddings` asks for vectors, and not for an answer of a model.  All other code knows
`Exchange` only, and who asks upstreams `kiro_asgi.asgi.exchange.reading.Readable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.exchange.model_routes import Permit, Route
from kiro_asgi.asgi.exchange.output import Output
from kiro_asgi.asgi.protocol import Headers, Send
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import Dialect, ParsedRequest, ResponseMeta
from kiro_asgi.dialects.named_models import NO_MODELS
from kiro_asgi.dialects.passthrough import Passed, TransparentDialect
from kiro_asgi.errors import RequestError
from kiro_asgi.model.events import Usage
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.stages.own import OwnStage
from kiro_asgi.upstreams.base import Credential, Rendered, Upstream


@frozen(kw_only=True)
class PassthroughRequest:
    """A request as it came, for a service of the client's own API."""

    dialect: TransparentDialect
    body: bytes = field(repr=False)
    """As it may go on, with the client's name for the model."""

    named: tuple[tuple[str, str], ...] = NO_MODELS
    """Places and names of the models that it names beside its own."""

    misspelt: bool = False
    """Whether a member has the name of another one but for case."""

    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """The client's, its key among them."""

    @classmethod
    def of(cls, dialect: TransparentDialect, passed: Passed | None, headers: Headers) -> PassthroughRequest | None:
        """The request that is *passed*; ``None`` for none."""
        if passed is None:
            return None
        named, misspelt = passed.named, passed.misspelt
        return cls(dialect=dialect, body=passed.body, named=named, misspelt=misspelt, headers=tuple(headers))


class Request(Protocol):
    """A client's request, whatever it asks for and whichever upstream is going to answer."""

    @property
    def request_id(self) -> str:
        """Identifier in headers to the client and in log lines."""
        ...

    @property
    def dialect(self) -> Dialect:
        """The client API."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the request, with all that it builds on: how long work on it takes."""
        ...

    @property
    def model(self) -> str:
        """As the client wrote it."""
        ...

    @property
    def parameters(self) -> Mapping[str, float]:
        """Numbers that the client asks with, by name, as far as they are known."""
        ...

    @property
    def response_id(self) -> str:
        """Identifier of the answer; empty where it has none of ours."""
        ...

    def without_passthrough(self) -> Self:
        """The same request for upstreams that it is translated for."""
        ...


@define(kw_only=True)
class ClientRequest:
    """A client's request, whichever upstream is going to answer."""

    request_id: str
    """Identifier in headers to the client and in log lines."""

    principal: str
    permit: Permit
    """Check of what the client may ask for, also where another service stands in."""

    dialect: Dialect
    size: int
    """Bytes of the request, with all that it builds on: how long work on it takes."""

    parsed: ParsedRequest
    """All of it; of one that was refused, what has to be known so that it may go on as it came."""

    passthrough: PassthroughRequest | None = None
    """The request as it came, where an upstream may take it like that."""

    refusal: RequestError | None = None
    """Why it cannot be read."""

    stages: tuple[OwnStage, ...] = ()
    """The application's own."""

    _hold: Callable[[int], None]
    _head: Callable[[ParsedRequest], ResponseMeta]
    _meta: ResponseMeta | None = field(init=False, default=None)

    @property
    def model(self) -> str:
        """As the client wrote it."""
        return self.parsed.prompt.model

    @property
    def parameters(self) -> Mapping[str, float]:
        """Numbers that the client asks with, by name."""
        return self.parsed.prompt.sampling.numbers

    @property
    def response_id(self) -> str:
        """Identifier of a translated answer; empty as long as there is to be none."""
        return "" if self._meta is None else self._meta.id

    def hold(self, size: int) -> None:
        """Make room for *size* more bytes until the answer has ended.

        Raises:
            TooBusy: There is none now.
        """
        self._hold(size)
        self.size += size

    def replace_prompt(self, prompt: Prompt) -> None:
        """Go on with *prompt*, which asks the same and needs less."""
        self.parsed = evolve(self.parsed, prompt=prompt)

    def without_passthrough(self) -> ClientRequest:
        """The same request for upstreams that it is translated for."""
        return evolve(self, passthrough=None)

    def new_meta(self) -> ResponseMeta:
        """Make the fields that every part of an answer repeats, with a unique id."""
        return self._head(self.parsed)

    @property
    def meta(self) -> ResponseMeta:
        """Fields that every part of a translated answer repeats."""
        if self._meta is None:
            self._meta = self._head(self.parsed)
        return self._meta


@frozen
class Estimate:
    """How large an exchange is, as far as that is known before the upstream counts."""

    estimator: Estimator
    input_tokens: int = 0
    """The prompt's size."""

    uncalibrated: float = 0.0
    """The same before experience corrected it."""

    output_factor: float = 1.0
    """Factor for estimates of the answer, learnt from counts of earlier answers."""

    credits: float = 0.0
    """Credits for a token, learnt likewise; 0 where the service has not said."""


class Exchange(Protocol):
    """Everything that is settled before an upstream is asked; frozen.

    What a failed attempt makes different about the next one is another exchange.
    """

    @property
    def request(self) -> Request:
        """The client's request."""
        ...

    @property
    def route(self) -> Route:
        """The upstream to ask, and the model."""
        ...

    @property
    def upstream(self) -> Upstream:
        """The route's, or its adapted form after a refusal."""
        ...

    @property
    def credential(self) -> Credential:
        """The credential to ask with."""
        ...

    @property
    def rendered(self) -> Rendered:
        """Request to the upstream."""
        ...

    @property
    def operation(self) -> str:
        """What is asked for, as observers are told it."""
        ...

    @property
    def streamed(self) -> bool:
        """Whether the client wants the answer as it comes."""
        ...

    @property
    def notes(self) -> tuple[Note, ...]:
        """Everything that was adapted."""
        ...

    @property
    def first_event_timeout(self) -> float:
        """Seconds from asking the upstream to its first event."""
        ...

    @property
    def estimate(self) -> Estimate:
        """How large it is, as far as that is known before the upstream counts."""
        ...

    @property
    def expected(self) -> Usage:
        """Tokens that prompt and answer are expected to have."""
        ...

    @property
    def known_answer(self) -> Message | None:
        """The answer, where no upstream need be asked for it."""
        ...

    def sizes(self) -> Mapping[str, int]:
        """Sizes and counts of what the upstream is sent, for a log line: never a word of its text."""
        ...

    def with_credential(self, credential: Credential) -> Self:
        """The same request in the name of *credential*."""
        ...

    def with_route(self, route: Route) -> Self:
        """The same request, with another way to go on if it fails."""
        ...

    def reminded(self, complaint: str) -> Self:
        """The same request with *complaint* as the user's last turn."""
        ...

    def output(
        self, send: Send, headers: Callable[[], Headers], settings: Settings, clock: Callable[[], float]
    ) -> Output[Any]:
        """Where the answer goes.

        Args:
            send: The client's channel.
            headers: Returns those of the response, when they are sent.
            settings: How to serve.
            clock: Monotonic seconds.
        """
        ...


class PromptExchange(Exchange, Protocol):
    """An exchange that asks for an answer to a prompt."""

    @property
    def request(self) -> ClientRequest:
        """The client's request."""
        ...
