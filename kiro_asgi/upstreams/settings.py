"""Settings of services that take a key, and `Setup`: everything about one upstream that is set up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, runtime_checkable

from attrs import evolve, frozen

from kiro_asgi._version import __version__
from kiro_asgi.model.events import SearchHit
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.model.rules import Rule
from kiro_asgi.setting import ALIAS, DAY, HEADER, KEY, LINE, MOMENT, PART, PROXY, REGION, URL, Bounds, setting
from kiro_asgi.upstreams.access import Hosts, Keys, SignIns
from kiro_asgi.upstreams.base import Credential, Embedder, ModelCard, Upstream, UpstreamRequest


@frozen(kw_only=True)
class DirectSettings:
    """The settings that all of these services have."""

    api_key: str = setting("", KEY, secret=True)
    """Key of the service; no variable but this setting's own is read for it.  Empty for a service that wants none."""

    fallback_api_keys: tuple[str, ...] = setting((), KEY, secret=True)
    """More keys, tried in this order where the key before them is refused or its quota is spent."""

    endpoint: str = setting("", URL)
    """Base URL of the service.  Empty: its public one."""

    headers: tuple[str, ...] = setting((), HEADER, secret=True)
    """More headers for every request, each as ``name=value``; never shown, since a value may be a secret."""

    user_agent: str = setting("", LINE)
    """Value of the ``user-agent`` header.  Empty: ``kiro-asgi/<version>``."""

    proxy: str = setting("", PROXY, secret=True)
    """URL of an HTTP proxy for all connections to the service, as for ``kiro.proxy``.  Empty: none."""

    first_token_timeout: float = setting(60.0, Bounds(MOMENT, DAY))
    """Seconds from sending the request to the first upstream event, and one more for every 4,000 tokens of the prompt.
    Models of these services think without being asked, and send nothing meanwhile."""

    thinking_first_token_timeout: float = setting(180.0, Bounds(MOMENT, DAY))
    """The same at least, where the client asked for thinking."""

    models_ttl: float = setting(3600.0, Bounds(0, 30 * DAY))
    """Seconds that a fetched model list is believed.  It is asked for in the background while requests go on as the
    built-in table has it, and corrects that.  0: only who asks for the list, or for a name that is not known, waits for
    it, each time."""

    model_aliases: tuple[str, ...] = setting((), ALIAS)
    """Names of your own for models of this service, each as ``name=model``."""

    replay_thinking: bool = True
    """Hand thinking of earlier answers back: signed thinking to Gemini and Anthropic, unsigned thinking to services
    that speak Chat Completions; OpenAI itself takes none."""

    withheld: tuple[str, ...] = setting((), LINE)
    """Names of fields, members and kinds of blocks that are not passed on, wherever they stand.  A service whose API is
    the client's is sent what this package does not know, such as ``service_tier``; who must forbid that names it here,
    and then no request to the service is relayed as it is."""

    @property
    def configured(self) -> bool:
        """Whether the service is to be asked at all: there is a key, or an address of its own."""
        return any((self.api_key, self.fallback_api_keys, self.endpoint))

    def keyed(self, key: str) -> Self:
        """The same with *key* as the only one."""
        return evolve(self, api_key=key, fallback_api_keys=())

    def simulated(self, url: str) -> Self:
        """The same with a simulator at *url* as the service."""
        return evolve(self, endpoint=url, headers=(), proxy="")

    def keys(self, table: str) -> tuple[tuple[str, str], ...]:
        """Each key after its name, in the slice that is called *table*; an empty one where there is none.

        A key that is there twice counts once.
        """
        names: dict[str, str] = {}
        if self.api_key:
            names[self.api_key] = f"{table}.api_key"
        for at, key in enumerate(self.fallback_api_keys):
            names.setdefault(key, f"{table}.fallback_api_keys[{at}]")
        return tuple((name, key) for key, name in names.items()) or ((f"{table}.api_key", ""),)

    @property
    def sent_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Name and value of the *headers*."""
        pairs = (pair.partition("=") for pair in self.headers)
        return tuple((name.encode(), value.encode()) for name, _, value in pairs)


@frozen(kw_only=True)
class SignedSettings(DirectSettings):
    """The settings of services whose API AWS offers as well, with signed requests."""

    aws_service: str = setting("", PART)
    """Name of AWS's service for which each request is signed (``bedrock``, ``bedrock-mantle``) where there is no
    ``api_key``, with the credentials that AWS's own tools find.  Needs the extra ``bedrock``.  Empty: none is."""

    aws_region: str = setting("", REGION)
    """Region of the endpoint, for signatures.  Empty: ``AWS_REGION``, ``AWS_DEFAULT_REGION``, or the profile's."""

    aws_profile: str = setting("", LINE)
    """Profile of AWS's configuration files that signs.  Empty: ``AWS_PROFILE``, or the default one."""

    def simulated(self, url: str) -> Self:
        """The same with a simulator at *url* as the service; nothing is signed for it."""
        return evolve(super().simulated(url), aws_service="")


def user_agent(configured: str) -> str:
    """The ``User-Agent`` for a service: *configured*, from its settings, else our own."""
    return configured or f"kiro-asgi/{__version__}"


Adapt = Callable[[Prompt, str, ModelCard], Prompt]
"""A prompt, the name by which the model was asked for, and the model, to the prompt as the name means it."""


def _never(model: ModelCard) -> bool:
    """No model: the time to the first event has room for thinking anyway."""
    return False


@frozen(kw_only=True)
class AnswerOptions:
    """How an upstream's answers are waited for and read."""

    first_event_timeout: float
    """Seconds from asking to the first event."""

    thinking_first_event_timeout: float
    """The same where the client asked for thinking."""

    thinks_unasked: Callable[[ModelCard], bool] = _never
    """Whether a model may think without being asked to, so that the longer time holds for it, too."""

    thinking_tags: tuple[str, ...] = ()
    """Names of tags that hold thinking, where it was asked for."""

    thinking_scan: str = "start"
    thinking_handling: str = "as_reasoning_content"
    """Handling of thinking, in tags or not, see `ThinkingSplitter`."""

    drop_equal_tool_calls: bool = False
    drop_repeated_text: bool = False


class Search(Protocol):
    """A web search that the service runs beside its answers, for the gateway to run it where a client offers one."""

    def request(self, credential: Credential, query: str) -> UpstreamRequest:
        """Ask for pages about *query*."""
        ...

    def parse(self, body: bytes) -> tuple[SearchHit, ...]:
        """The pages of an answer, best first.

        Raises:
            RequestError: The service does not take the query.
            UpstreamError: The search failed.
        """
        ...


class Quota(Protocol):
    """Queries for the quota that is left of an account, where the service offers them."""

    @property
    def questions(self) -> tuple[Callable[[Credential], UpstreamRequest], ...]:
        """Ways to ask; each further one is for accounts that are refused those before it."""
        ...

    def reset(self, body: bytes) -> float | None:
        """When there is a new quota, in seconds since the epoch; ``None`` where the answer does not name it."""
        ...


@runtime_checkable
class DescribedQuota(Quota, Protocol):
    """A quota that can be put into words for ``doctor``."""

    def describe(self, body: bytes) -> str:
        """What is used of it, by an answer."""
        ...


def unchanged(prompt: Prompt, name: str, model: ModelCard) -> Prompt:
    """*prompt*: the model's name means nothing but the model."""
    return prompt


@frozen(kw_only=True)
class Setup:
    """Everything that it takes to ask one upstream; it holds no open file or connection."""

    upstream: Upstream
    access: Keys | SignIns
    answer_options: AnswerOptions
    account: str
    """Whose accounts its credentials are, e.g. the host of the endpoint; two upstreams may be one service."""

    rules: tuple[Rule, ...] = ()
    """The rules that `kiro_asgi.upstreams.base.Rendered.notes` report."""

    named: Callable[[str], ModelCard] = ModelCard
    """The card of a model that no list has, as far as its name shows it."""

    adapt: Adapt = unchanged
    choose: Callable[[ModelCard], Upstream] | None = None
    """The upstream for a model, where a service is asked in several ways; ``None`` where *upstream* is for all."""

    others: tuple[Upstream, ...] = ()
    """Further ways in which the service may be asked, some of which *choose* or a refusal may lead to."""

    embedder: Embedder | None = None
    """How it is asked for embeddings; ``None`` where it has none."""

    search: Search | None = None
    quota: Quota | None = None
    hosts: Hosts | None = None
