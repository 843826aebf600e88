"""What an upstream must be able to do; pure, so that everything about a vendor can be tested without a socket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

from attrs import field, frozen

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Delta
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.estimate import Estimator

__all__ = [
    "Credential",
    "CredentialKind",
    "ModelCard",
    "ModelPage",
    "Note",
    "Rendered",
    "Token",
    "TokenKind",
    "Upstream",
    "UpstreamRequest",
]


class CredentialKind(Enum):
    """How a credential is presented."""

    API_KEY = "api_key"
    ACCESS_TOKEN = "access_token"
    EXTERNAL_IDP = "external_idp"


@frozen
class Credential:
    """What we present to an upstream."""

    kind: CredentialKind
    secret: str = field(repr=False)
    profile_arn: str = ""
    """AWS profile; empty where the kind has none."""

    region: str = ""
    """Where the service is asked with it, if the profile does not say; empty for the upstream's own."""

    source: str = ""
    """Where it comes from, in words for a log line: a setting's name, a file's path."""


class TokenKind(Enum):
    """Who signed somebody in, and therefore who renews the token."""

    SOCIAL = "social"
    """The vendor itself, by an account elsewhere (Google, GitHub)."""

    OIDC = "oidc"
    """AWS: Builder ID or IAM Identity Center."""

    EXTERNAL_IDP = "external_idp"
    """A company's own identity provider."""


@frozen
class Token:
    """What a sign-in leaves behind."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at: float | None = None
    """Seconds since the epoch; ``None`` where nobody said."""

    kind: TokenKind = TokenKind.SOCIAL
    region: str = ""
    """Of the sign-in, not of the service; empty where nobody said."""

    profile_arn: str = ""
    client_id: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    token_endpoint: str = ""
    """Where the company's provider renews tokens."""

    scopes: tuple[str, ...] = ()
    place: tuple[str, str] | None = None
    """Table and key in a store; ``None`` for a file of its own."""


@frozen
class UpstreamRequest:
    """One HTTP request, complete but for the connection."""

    method: str
    url: str
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """Without ``Host`` and ``Content-Length``, which the transport adds."""

    body: bytes = field(default=b"", repr=False)


@frozen
class Note:
    """One rule that had something to adapt."""

    rule: str
    """Its name, e.g. ``calls.unanswered``."""

    times: int = 1
    place: str = ""
    """Where in the client's request it was first met, e.g. ``messages[3].content[0]``; empty where it is no place."""


@frozen
class Rendered:
    """A prompt in the upstream's own words."""

    request: UpstreamRequest
    tool_names: Mapping[str, str] = field(factory=dict)
    """Name on the wire to the client's name, for every name that had to change."""

    thinking_tags: bool = False
    """Whether the prompt asks for thinking in tags, so that the answer must be searched for them."""

    notes: tuple[Note, ...] = ()
    """What was adapted, a note for every rule, in the order in which rules were met."""

    document: Mapping[str, Any] = field(factory=dict, repr=False)
    """The body as it was before it was written down."""


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


@frozen
class ModelPage:
    """A part of an upstream's list of models."""

    cards: tuple[ModelCard, ...]
    following: str = ""
    """What to ask for the part behind it; empty where there is none."""


class Upstream(Protocol):
    """One service."""

    name: str

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Put *prompt* into the service's words.

        Args:
            prompt: What is asked.
            model: Of whom.
            credential: In whose name.
            conversation: A UUID that the same conversation had before; empty for a new one.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place.
        """
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

    def healed(self, error: KiroAsgiError, rendered: Rendered) -> Upstream | None:
        """This upstream as it has to ask again after *error* was the answer to *rendered*; ``None`` where asking
        differently is no remedy, or was tried already."""
        ...

    def weigh(self, rendered: Rendered, estimator: Estimator) -> float:
        """Tokens that the model will read for what was rendered."""
        ...

    def statistics(self, rendered: Rendered) -> Mapping[str, int]:
        """Sizes and counts of what was rendered, for a log line: never a word of its text."""
        ...


Decoder = Stage[bytes, Delta]
