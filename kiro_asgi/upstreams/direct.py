"""Services that take a key: what they share, and how they are set up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self, TypedDict, TypeVar, cast
from urllib.parse import urlsplit

from attrs import define, evolve, field, setters

from kiro_asgi.errors import ConfigError, KiroAsgiError
from kiro_asgi.failures.meanings import ADDRESS, COMMON, Own, error_of
from kiro_asgi.failures.remedies import Lesson, Remedy, mended, remedy_for
from kiro_asgi.failures.report import refusal
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Attachment
from kiro_asgi.model.rules import Rule
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.stages.thinking import TAGS
from kiro_asgi.upstreams.access import WITHOUT_KEY, KeyExchange, Keys
from kiro_asgi.upstreams.aws import REGIONS, region_in
from kiro_asgi.upstreams.base import (
    Credential,
    Forwarding,
    ModelCard,
    Rendered,
    Sign,
    Traits,
    Upstream,
    UpstreamRequest,
    remembering,
)
from kiro_asgi.upstreams.headers import Headers, check_header, overridden
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.settings import AnswerOptions, DirectSettings, Setup, SignedSettings, user_agent

D = TypeVar("D", bound=DirectSettings)
G = TypeVar("G", bound=SignedSettings)

WITH_SIGNATURE: Final = "requests are signed with the credentials that AWS's own tools find"
"""Behaviour without a key where requests are signed, as ``doctor`` reports it."""


@define(kw_only=True, on_setattr=setters.frozen)
class DirectUpstream:
    """The fields that each of these services has, and the methods that most of them share.

    A subclass has `render`, `decoder`, `models_request` and `parse_models` of `kiro_asgi.upstreams.base.Upstream`, and
    overrides what is different.

    Raises:
        ConfigError: A setting that cannot work.
    """

    name: str
    endpoint: str = ""
    """Base URL; empty for the public one."""

    user_agent: str = field(default="kiro-asgi", validator=check_header)
    """The ``User-Agent`` that is sent."""

    headers: Headers = field(default=(), repr=False)
    """Added to every request, in place of those of ours that have the same name."""

    replay_thinking: bool = True
    """Hand thinking of earlier answers back."""

    sign: Sign | None = field(default=None, repr=False)
    """Signs requests whose credential has no key."""

    withheld: tuple[str, ...] = ()
    """Names of members that are never sent as the client sent them."""

    remedies: tuple[Remedy, ...] = ()
    """Changes that answer what the service has refused."""

    meanings: ClassVar[Own] = COMMON
    """What words mean at this service alone."""

    lessons: ClassVar[tuple[Lesson, ...]] = ()
    """Rules that its refusals put in force."""

    @property
    def traits(self) -> Traits:
        """Properties that differ between upstreams: the defaults."""
        return Traits()

    @property
    def builtin(self) -> tuple[ModelCard, ...]:
        """Models known without asking: none."""
        return ()

    @property
    def forwarding(self) -> Forwarding | None:
        """Forwarding of a client's own bytes: none."""
        return None

    def fetches(self, part: Attachment) -> bool:
        """Whether the service itself fetches *part*: it does not."""
        return False

    def fault(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
        """The error that an answer with a *status* other than 200 means."""
        error = error_of(refusal(status, headers, body), self.meanings)
        if error.code == ADDRESS:
            error.message = f"{error.message}: check the endpoint in the settings of {self.name}"
        return error

    def adapt_after_error(self, error: KiroAsgiError, rendered: Rendered) -> Upstream | None:
        """This upstream with the change that answers *error*, or the one for another API; ``None`` where none does, or
        it was made already."""
        found = remedy_for(error, rendered.document, self.remedies, self.lessons, self.other_upstream, rendered.crossed)
        if found is None:
            return None
        who: Upstream = cast(Upstream, found.upstream or self)
        return remembering(who, (*self.remedies, found))

    @property
    def other_upstream(self) -> Upstream | None:
        """Who asks the same service by the Responses API; ``None`` where that is not to be asked."""
        return None

    def with_remedies(self, remedies: tuple[Remedy, ...]) -> Self:
        """This upstream with these *remedies*."""
        return evolve(self, remedies=remedies)

    @property
    def learnt(self) -> tuple[str, ...]:
        """Names of the rules that refusals have put in force."""
        return tuple(each.feature for each in self.remedies if each.place is None and each.rule)

    def mended(self, document: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
        """*document* with what the remedies change in its members, which *notes* gets."""
        body, applied = mended(document, self.remedies)
        for remedy in applied:
            notes.applies(remedy.rule)
        return body

    def content_of(self, document: Mapping[str, Any]) -> BodyContent | None:
        """What the body of a request holds; ``None`` where it is not looked into."""
        return None

    def estimate_tokens(self, rendered: Rendered, estimator: Estimator) -> float:
        """Tokens that the model will read: of what the body holds, or of the whole body."""
        found = self.content_of(rendered.document)
        if found is None:
            return estimator.estimate_tokens(rendered.request.body.decode("utf-8", "replace"))
        return found.estimate(estimator)

    def statistics(self, rendered: Rendered) -> Mapping[str, int]:
        """``bytes``, and the counts of what the body holds."""
        size, found = len(rendered.request.body), self.content_of(rendered.document)
        return {"bytes": size} if found is None else found.statistics(size)

    def normalise(self, model: str) -> str:
        """One spelling for every way to write a model's name: lower case."""
        return model.strip().lower()

    def url(self, credential: Credential, path: str, public: str = "") -> str:
        """URL of *path* for *credential*; *public* is the base URL of the vendor's own service."""
        return (credential.endpoint or self.endpoint or public).rstrip("/") + path

    def get(self, url: str, credential: Credential) -> UpstreamRequest:
        """Ask for a JSON document."""
        headers = self.request_headers(credential, (b"accept", b"application/json"))
        return UpstreamRequest("GET", url, headers, finish=self.signing(credential))

    def post(self, url: str, credential: Credential, body: bytes, accept: str) -> UpstreamRequest:
        """Send JSON, and ask for an answer of the media type *accept*."""
        kinds = (b"accept", accept.encode()), (b"content-type", b"application/json")
        return UpstreamRequest("POST", url, self.request_headers(credential, *kinds), body, self.signing(credential))

    def request_headers(self, credential: Credential, *kinds: tuple[bytes, bytes]) -> Headers:
        """All headers of a request: *kinds*, those of each request, and in place of them the operator's."""
        ours = (
            *kinds,
            *self.authorization(credential),
            (b"accept-encoding", b"identity"),
            (b"user-agent", self.user_agent.encode()),
        )
        return overridden(ours, self.headers)

    def signing(self, credential: Credential) -> Sign | None:
        """The signer of requests with *credential*; ``None`` where that has a key."""
        return None if credential.secret else self.sign

    def authorization(self, credential: Credential) -> Headers:
        """How *credential* is presented: as a bearer token; not at all where it is empty."""
        secret = credential.secret.encode("ascii")
        return ((b"authorization", b"Bearer " + secret),) if secret else ()


class Common(TypedDict):
    """Fields of `DirectUpstream`."""

    name: str
    endpoint: str
    user_agent: str
    headers: Headers
    replay_thinking: bool
    withheld: tuple[str, ...]


def without_tail(endpoint: str, tails: Iterable[str]) -> str:
    """*endpoint* without the first of *tails* that it ends with: what the service's own path begins with."""
    base = endpoint.rstrip("/")
    tail = next((each for each in tails if base.endswith(each)), "")
    return base.removesuffix(tail) if tail else endpoint


def common(configured: Configured[D], *tails: str) -> Common:
    """The fields as the settings have them; *tails* are paths that are added to the endpoint, longest first."""
    settings = configured.settings
    return Common(
        name=configured.name,
        endpoint=without_tail(settings.endpoint, tails),
        user_agent=user_agent(settings.user_agent),
        headers=settings.sent_headers,
        replay_thinking=settings.replay_thinking,
        withheld=settings.withheld,
    )


def signer(configured: Configured[G]) -> Sign | None:
    """Make the signer for AWS credentials; ``None`` where the settings have a key, or want no signature.

    Raises:
        ConfigError: There is no region, no such profile, or no botocore.
    """
    settings, path = configured.settings, configured.path
    if not settings.aws_service or settings.keys(path)[0][1]:
        return None
    region = settings.aws_region or region_in(configured.machine.environ)
    made = configured.machine.signer(settings.aws_profile, region, settings.aws_service, path, "aws_profile")
    if not made.region:
        message = f"{path}.aws_region: must be set where {' and '.join(REGIONS)} are not"
        raise ConfigError(message, code="aws.region")
    return made.sign


def direct_setup(
    configured: Configured[D],
    upstream: Upstream,
    rules: Iterable[Rule],
    public: str,
    *,
    thinking_tags: tuple[str, ...] = (),
    exchange: KeyExchange | None = None,
    sign: Sign | None = None,
) -> Setup:
    """Everything that it takes to ask *upstream* with the keys that are configured.

    Args:
        configured: Its settings.
        upstream: The upstream itself.
        rules: The rules that it applies to prompts.
        public: Base URL of the vendor's own service.
        thinking_tags: Names of tags that hold thinking; none for the usual ones.
        exchange: How a key becomes a token, where the service wants that instead.
        sign: Signs requests where there is no key.
    """
    settings = configured.settings
    return Setup(
        upstream=upstream,
        access=Keys(settings.keys(configured.path), exchange, WITHOUT_KEY if sign is None else WITH_SIGNATURE),
        answer_options=AnswerOptions(
            first_event_timeout=settings.first_token_timeout,
            thinking_first_event_timeout=settings.thinking_first_token_timeout,
            thinking_tags=thinking_tags or TAGS,
        ),
        account=urlsplit(settings.endpoint or public).netloc,
        rules=tuple(rules),
    )
