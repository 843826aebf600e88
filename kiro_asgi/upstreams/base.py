"""Protocol of an upstream; pure, so that everything about a vendor can be tested without a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from attrs import field, frozen

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.failures.remedies import Remedy
from kiro_asgi.model.embeddings import EmbeddingPrompt, Embeddings
from kiro_asgi.model.events import Delta
from kiro_asgi.model.handling import NO_WORDS, Words
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Attachment, Prompt
from kiro_asgi.redaction import Redactor
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.estimate import Estimator


class CredentialKind(Enum):
    """How a credential is presented."""

    API_KEY = "api_key"
    ACCESS_TOKEN = "access_token"
    EXTERNAL_IDP = "external_idp"


@frozen
class Credential:
    """Secret that authenticates the gateway to an upstream."""

    kind: CredentialKind
    secret: str = field(repr=False)
    profile_arn: str = ""
    """AWS profile; empty where the kind has none."""

    region: str = ""
    """Region of the service for it, unless the profile names one; empty for the upstream's own."""

    source: str = ""
    """Where it comes from, for a log line: a setting's name, a file's path."""

    endpoint: str = ""
    """Base URL of the service for it; empty for the upstream's own."""

    host: str = ""
    """Name of the service's hosts that take it, of a service that has several; empty where that is not known."""

    management_host: str = ""
    """The same for lists and other small questions, where these have hosts of their own."""

    account: str = ""
    """Account at the service that each request names; empty where none is named."""

    def hidden_in(self, data: bytes) -> bytes:
        """*data* without the secret, for services that quote what they refuse."""
        return Redactor.of((self.secret,)).hide_in(data)


PLACEHOLDER: Final = Credential(CredentialKind.API_KEY, "placeholder")
"""Stands in where a request is made and not sent."""


class TokenKind(Enum):
    """How a user signed in, and therefore who renews the token."""

    SOCIAL = "social"
    """The vendor itself, by another service's account (Google, GitHub)."""

    OIDC = "oidc"
    """AWS: Builder ID or IAM Identity Center."""

    EXTERNAL_IDP = "external_idp"
    """A company's own identity provider."""


@frozen
class Token:
    """Tokens of a sign-in, and what renews them."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at: float | None = None
    """Seconds since the epoch; ``None`` where it is not known."""

    kind: TokenKind = TokenKind.SOCIAL
    region: str = ""
    """Of the sign-in, not of the service; empty where it is not known."""

    profile_arn: str = ""
    client_id: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    token_endpoint: str = ""
    """Where the company's provider renews tokens."""

    scopes: tuple[str, ...] = ()
    place: tuple[str, str] | None = None
    """Table and key in a store; ``None`` for a file of its own."""

    endpoint: str = ""
    """Base URL of the service for it; empty where it is not known."""

    account: str = ""
    """Account at the service that each request names; empty where none is named."""

    beside: tuple[str, ...] = field(default=(), repr=False)
    """Further secrets of the place where it was found, which are not used."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secret values, which must appear in no message or log."""
        return tuple(filter(None, (self.access_token, self.refresh_token, self.client_secret, *self.beside)))


@frozen
class UpstreamRequest:
    """One HTTP request, complete but for the connection."""

    method: str
    url: str
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """Without ``Host`` and ``Content-Length``, which the transport adds."""

    body: bytes = field(default=b"", repr=False)
    finish: Callable[[UpstreamRequest], UpstreamRequest] | None = field(default=None, eq=False, repr=False)
    """Makes the request that is sent of this one: adds a signature, for example, that is good for minutes.  Called for
    each try, in a worker thread, so it may block; may raise a `KiroAsgiError`.  ``None``: it is sent as it is."""


Sign = Callable[[UpstreamRequest], UpstreamRequest]
"""A request to the same with its signature, as `UpstreamRequest.finish`."""


class PausingTurn(Protocol):
    """Reads one answer that may come in parts, each of which has to be asked for."""

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Stages for the next part, as of `Upstream.decoder`."""
        ...

    @property
    def paused(self) -> bool:
        """Whether another part follows the one that was read."""
        ...

    def following(self) -> UpstreamRequest:
        """Ask for the next part."""
        ...


@frozen
class Rendered:
    """A prompt as a request to the upstream, and how its answer is read."""

    request: UpstreamRequest
    tool_names: Mapping[str, str] = field(factory=dict)
    """Name on the wire to the client's name, for every name that had to change."""

    argument_names: Mapping[str, str] = field(factory=dict, kw_only=True)
    """The same of arguments, of whatever tool."""

    thinking_tags: bool = False
    """Whether the prompt asks for thinking in tags, so that the answer must be searched for them."""

    stop: tuple[str, ...] = ()
    """Texts that end the answer and are not sent to the service: the gateway has to stop there."""

    max_tokens: int | None = None
    """Longest answer in tokens, where the service does not enforce it: the gateway has to."""

    notes: tuple[Note, ...] = ()
    """Adaptations, a note for every rule, in the order in which rules were applied."""

    document: Mapping[str, Any] = field(factory=dict, repr=False)
    """The body before it was serialised."""

    formed: bool = False
    """Whether the service guarantees that the answer has the form that was asked for."""

    unread: frozenset[str] = frozenset()
    """Names of members, and kinds of parts, that are sent as the client sent them, as nobody here understands them."""

    crossed: frozenset[str] = frozenset()
    """Names of members that say in the service's words what the client has said in those of another API."""

    turn: Callable[[], PausingTurn] | None = field(default=None, eq=False, repr=False)
    """How the answer is read where the service may stop before its end; ``None`` where it does not."""


class ThinkingForm(Enum):
    """How a model is asked to think."""

    BUDGET = "budget"
    """Within a number of tokens."""

    EFFORT = "effort"
    """By a level of effort; the model decides how many tokens that takes."""


@frozen
class ModelCard:
    """One model that an upstream offers."""

    id: str
    name: str = ""
    context_window: int = 200_000
    """Tokens, prompt and answer together."""

    max_output_tokens: int = 64_000
    images: bool = True
    efforts: tuple[str, ...] = ()
    """Effort levels that the model accepts, weakest first; empty when it has none."""

    options_schema: Mapping[str, Any] = field(factory=dict)
    """JSON Schema of the upstream's free request fields for this model."""

    schemas: bool | None = None
    """Whether the service can hold the model's answers to a JSON Schema; ``None`` where it is not known."""

    thinking: frozenset[ThinkingForm] | None = None
    """How it can be asked to think; empty: not at all.  ``None`` where only its name shows it."""

    embeds: bool | None = None
    """Whether it makes embeddings of texts, and no answers; ``None`` where that is not known."""

    created: int | None = None
    """Seconds since the epoch at which it came out, as the service lists it; ``None`` where it does not."""

    @property
    def thinks(self) -> bool:
        """Whether it is known to think when it is asked to."""
        return bool(self.efforts if self.thinking is None else self.thinking)


@frozen
class ModelPage:
    """A part of an upstream's list of models."""

    cards: tuple[ModelCard, ...]
    following: str = ""
    """Cursor of the next page; empty where there is none."""


@frozen(kw_only=True)
class Traits:
    """Properties of an upstream that the plan of an answer depends on."""

    runs: frozenset[str] = frozenset()
    """Kinds of hosted tools that the service runs itself, e.g. ``web_search``."""

    grounds: bool = False
    """Whether answers may hold `kiro_asgi.model.events.Grounding`."""

    cites: bool = False
    """Whether answers may cite the places of the request's documents on which they rest."""

    verbose: bool = False
    """Whether requests can set how long answers shall be (`kiro_asgi.model.prompt.Prompt.verbosity`)."""

    strict: bool = False
    """Whether calls can be held to the schema of their tool (`kiro_asgi.model.prompt.Tool.strict`)."""

    phases: bool = False
    """Whether requests can mark earlier texts as commentary (`kiro_asgi.model.prompt.Text.phase`)."""

    learns: bool = False
    """Whether what `Upstream.adapt_after_error` found out holds for every request to the same model."""

    meters: bool = False
    """Whether the service says how many credits an answer took."""

    signs_calls: bool = False
    """Whether tool calls come with signatures that the service wants back."""

    thinking_owner: str = ""
    """Name of the service that wants thinking back with the calls that came of it, without a signature; empty for
    none."""

    demands_thinking: bool = False
    """Whether it refuses a history in which it is missing."""

    unlisted: tuple[str, ...] = ()
    """Beginnings of names that are asked for although the service does not list them, e.g. ``arn:``."""

    api: str = ""
    """Name of the client API that the service speaks, whose requests it gets whole; empty for none."""

    words: Words = NO_WORDS
    """What it calls what requests say of how they are handled (`kiro_asgi.model.prompt.Prompt.handling`)."""

    provider: str = ""
    """Whose service it is, as OpenTelemetry calls it (``gen_ai.provider.name``); empty for the upstream's own name."""


class Forwarding(Protocol):
    """How requests go to a service that speaks a client's own API."""

    @property
    def dialect(self) -> str:
        """Name of the dialect."""
        ...

    @property
    def tagged(self) -> bool:
        """Whether models of the service write their thinking between tags in the text."""
        ...

    @property
    def withheld(self) -> tuple[str, ...]:
        """Names of members that the operator lets nobody pass on."""
        ...

    def takes(self, body: bytes) -> bool:
        """Whether the service, which may have a part of its API only, takes a request with this *body*."""
        ...

    def request(
        self,
        body: bytes,
        credential: Credential,
        headers: Iterable[tuple[bytes, bytes]],
        model: ModelCard,
        stream: bool,
    ) -> UpstreamRequest:
        """The same request to the service.

        Args:
            body: The client's, with the service's name for the model where it names one.
            credential: The credential to present.
            headers: The client's; those that belong to the API are passed on, secrets are not.
            model: The model that is asked.
            stream: Whether the client wants the answer as it comes.
        """
        ...


@runtime_checkable
class NamingUpstream(Protocol):
    """One whose servers have several names for thinking."""

    def naming_thinking(self, member: str) -> Upstream:
        """This upstream, for a model that has sent thinking as *member*, and wants it back as that."""
        ...


class EmbeddingReader(Protocol):
    """Reads one answer with embeddings while it comes: an answer with many has tens of megabytes."""

    @property
    def size(self) -> int:
        """Bytes of the vectors that have come."""
        ...

    @property
    def length(self) -> int:
        """Bytes of the first vector; 0 before it has come."""
        ...

    @property
    def rest_size(self) -> int:
        """Bytes that `finish` reads."""
        ...

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body.

        Raises:
            UpstreamProtocolError: It is no answer with embeddings.
        """
        ...

    def finish(self) -> Embeddings:
        """One vector for each input in their order; the body is whole.

        Raises:
            UpstreamProtocolError: It is no answer with embeddings.
        """
        ...


class Embedder(Protocol):
    """How a service is asked for embeddings; pure, as `Upstream` is."""

    def size(self, model: ModelCard) -> int:
        """Most inputs of one request to *model*."""
        ...

    def check(self, prompt: EmbeddingPrompt, model: ModelCard) -> None:
        """Look whether *model* can be asked this, however many inputs there are.

        Raises:
            RequestError: The service lacks something that is asked for; ``param`` names the place.
        """
        ...

    def request(self, prompt: EmbeddingPrompt, model: ModelCard, credential: Credential) -> UpstreamRequest:
        """Render *prompt*, which was checked, and has no more inputs than *size* allows."""
        ...

    def reader(self, headers: Iterable[tuple[bytes, bytes]]) -> EmbeddingReader:
        """Reads one answer, which has these *headers*."""
        ...


@runtime_checkable
class AdaptableEmbedder(Protocol):
    """One that can ask in another form."""

    def adapt_after_error(self, error: KiroAsgiError, document: Mapping[str, Any]) -> Embedder | None:
        """This embedder with the change that answers *error*, the answer to *document*; ``None`` where none does."""
        ...


class Upstream(Protocol):
    """One service."""

    @property
    def name(self) -> str:
        """Name in the settings."""
        ...

    @property
    def traits(self) -> Traits:
        """Properties that differ between upstreams."""
        ...

    @property
    def builtin(self) -> tuple[ModelCard, ...]:
        """Models known without asking."""
        ...

    @property
    def forwarding(self) -> Forwarding | None:
        """How a client's own bytes go to it; ``None`` where it speaks no client's API."""
        ...

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Render *prompt* as a request.

        Args:
            prompt: The conversation and its options.
            model: The model that is asked.
            credential: The credential to present.
            conversation: A UUID that the same conversation had before; empty for a new one.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place.
        """
        ...

    def fetches(self, part: Attachment) -> bool:
        """Whether the service itself fetches *part*, which is known by its address."""
        ...

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            UpstreamProtocolError: The service does not answer in this media type.
        """
        ...

    def fault(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
        """The error that an answer with a *status* other than 200 means; *body* may be cut at 64 KiB."""
        ...

    def adapt_after_error(self, error: KiroAsgiError, rendered: Rendered) -> Upstream | None:
        """This upstream, adapted to ask again after *error* was the answer to *rendered*; ``None`` where no adaptation
        helps, or it was tried already."""
        ...

    def estimate_tokens(self, rendered: Rendered, estimator: Estimator) -> float:
        """Tokens that the model will read for what was rendered."""
        ...

    def statistics(self, rendered: Rendered) -> Mapping[str, int]:
        """Sizes and counts of what was rendered, for a log line: none of its texts."""
        ...

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models, or for the part of it that `ModelPage.following` names."""
        ...

    def parse_models(self, body: bytes) -> ModelPage:
        """Read a part of the list of models.

        Raises:
            UpstreamProtocolError: It is not a list of models.
        """
        ...

    def normalise(self, model: str) -> str:
        """One spelling for every known way to write a model's name."""
        ...


Asking = TypeVar("Asking")


def remedies_of(upstream: Any) -> tuple[Remedy, ...]:
    """What *upstream* does otherwise since a refusal; one from outside the package is a change as a whole."""
    known: tuple[Remedy, ...] | None = getattr(upstream, "remedies", None)
    if known is None:
        return (Remedy(FORM, "", lasting=upstream.traits.learns, upstream=upstream),) if upstream.traits.learns else ()
    return known


def remembering(upstream: Asking, remedies: tuple[Remedy, ...]) -> Asking:
    """*upstream* with what is known of refusals."""
    with_remedies: Callable[[tuple[Remedy, ...]], Asking] | None = getattr(upstream, "with_remedies", None)
    return upstream if with_remedies is None else with_remedies(remedies)


FORM: Final = "form"
"""Feature of a remedy by which an upstream from outside the package asks in another form."""

Decoder = Stage[bytes, Delta]
