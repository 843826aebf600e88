"""Chat Completions, as OpenAI speaks it, and everybody who speaks it after OpenAI.

Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from attrs import define, evolve, field, frozen, setters, validators

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.features import Ask
from kiro_asgi.model.prompt import Attachment, Image, Prompt
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.access import KeyExchange
from kiro_asgi.upstreams.base import Credential, ModelCard, ModelPage, Rendered, Traits, UpstreamRequest
from kiro_asgi.upstreams.direct import DirectUpstream, common, direct_setup, signer
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.openai import models
from kiro_asgi.upstreams.openai.adapting import ASKS, DETAILED, RENAMED, REPLAYED, refused_field
from kiro_asgi.upstreams.openai.answer import stages
from kiro_asgi.upstreams.openai.content import CALL_IDS, wants_short_ids
from kiro_asgi.upstreams.openai.errors import fault
from kiro_asgi.upstreams.openai.models import refuses_sampling
from kiro_asgi.upstreams.openai.options import guaranteed
from kiro_asgi.upstreams.openai.request import ChatRenderOptions, document, estimate_tokens, statistics
from kiro_asgi.upstreams.openai.rules import RULES
from kiro_asgi.upstreams.openai.settings import OpenAISettings
from kiro_asgi.upstreams.settings import user_agent
from kiro_asgi.upstreams.setup import Setup
from kiro_asgi.wire.json import dumps

__all__ = ["ENDPOINT", "ChatForwarding", "OpenAIUpstream", "set_up"]

ENDPOINT: Final = "https://api.openai.com/v1"

_HOST: Final = "api.openai.com"
"""OpenAI's, and the end of the names of its regional hosts."""

_FORWARDED: Final = frozenset({b"openai-beta"})
"""Headers of a client that belong to the API.  Those that name an organization or a project are the client's own
account's, not the one that we ask for; the operator's stand in ``headers``."""


def _new_id() -> str:
    return f"call_{uuid4().hex[:24]}"


@frozen
class ChatForwarding:
    """Sends a client's own request on; the path and the headers are ours."""

    upstream: OpenAIUpstream
    dialect = "openai_chat"

    @property
    def tagged(self) -> bool:
        """Whether models of the service write their thinking between tags in the text."""
        return bool(self.upstream.thinking_tags)

    def differs(self, asks: Set[Ask], model: ModelCard) -> bool:
        """Whether a rule or a setting has something to do for *asks*; see `kiro_asgi.upstreams.openai.rules`."""
        return any(ask in asks for ask in self.upstream.adapted(model))

    def request(
        self,
        body: bytes,
        credential: Credential,
        headers: Iterable[tuple[bytes, bytes]],
        model: ModelCard,
        stream: bool,
    ) -> UpstreamRequest:
        """The same request to the service; of the client's *headers* those go on that belong to the API."""
        kept = [(name.lower(), value) for name, value in headers if name.lower() in _FORWARDED]
        return self.upstream.chat_request(body, credential, kept)


@define(kw_only=True, on_setattr=setters.frozen)
class OpenAIUpstream(DirectUpstream):
    """How one server that speaks Chat Completions is talked to; holds no state and no secret."""

    name: str = "openai"
    thinking_tags: tuple[str, ...] = ()
    """Names of the tags between which the server lets models think in the text; empty where it tells thinking apart."""

    max_tokens_field: str = field(default="max_completion_tokens", validator=validators.in_(RENAMED))
    """Name of the field for the answer's greatest length: ``max_completion_tokens``, or ``max_tokens`` as of old."""

    call_ids: str = field(default="auto", validator=validators.in_(CALL_IDS))
    """Which ids of calls the server takes, see `kiro_asgi.upstreams.openai.content.CALL_IDS`."""

    include_usage: bool = True
    """Ask for token counts at the end of the stream."""

    forwards: bool = True
    """Whether requests of clients that speak the API may go to the server as they are."""

    without: tuple[str, ...] = ()
    """Fields that the server refused, or missed, in the order in which `adapt_after_error` found them."""

    new_id: Callable[[], str] = _new_id
    """Makes the id of a call that came without one."""

    traits: Traits = field(init=False)

    @traits.default
    def _make_traits(self) -> Traits:
        return Traits(verbose=True, signs_calls=self._is_custom(self.endpoint), learns=True)

    @property
    def builtin(self) -> tuple[ModelCard, ...]:
        """OpenAI's models; of any other server nothing is known before it is asked."""
        return () if self._is_custom(self.endpoint) else models.BUILTIN

    @property
    def forwarding(self) -> ChatForwarding | None:
        """How a client's own bytes go to it; ``None`` where it is not to be sent them."""
        return ChatForwarding(self) if self.forwards else None

    def adapted(self, model: ModelCard) -> Iterator[Ask]:
        """Features that requests for *model* do not carry as a client of the API may ask for them, or not at all."""
        custom = self._is_custom(self.endpoint)
        yield Ask.MAX_TOKENS if self.max_tokens_field == "max_completion_tokens" else Ask.MAX_COMPLETION_TOKENS
        if not (custom and self.replay_thinking):
            yield Ask.THOUGHTS
        if not self.include_usage:
            yield Ask.COUNTS
        if not custom:
            yield Ask.MANY_STOPS
        if refuses_sampling(model.id):
            yield from (Ask.SAMPLING, Ask.STOP)
        yield from (ASKS[name] for name in self.without if name in ASKS)

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Render *prompt* as a request; *conversation* is not sent.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place, and
                the message the rule.
        """
        custom = self._is_custom(credential.endpoint or self.endpoint)
        options = ChatRenderOptions(
            service=self.name if self.replay_thinking and DETAILED not in self.without else "",
            custom=custom,
            max_tokens_field=self.max_tokens_field,
            include_usage=self.include_usage,
            short_ids=wants_short_ids(self.call_ids, self._host(credential.endpoint or self.endpoint), model.id),
            replay_thinking=(custom and self.replay_thinking) is not (REPLAYED in self.without),
            without=self.without,
        )
        written = document(prompt, model, options)
        request = self.chat_request(dumps(written.body), credential)
        return Rendered(
            request,
            written.tool_names,
            bool(self.thinking_tags),
            prompt.sampling.stop[len(written.body.get("stop", ())) :],
            notes=written.notes,
            document=written.body,
            formed=not custom and guaranteed(written.body),
        )

    def fetches(self, part: Attachment) -> bool:
        """Whether the service itself fetches *part*: images, but no documents."""
        return isinstance(part, Image)

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        return stages(content_type, self.new_id, self.name)

    def fault(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
        """The error that an answer with a *status* other than 200 means; see `kiro_asgi.upstreams.openai.errors`."""
        return fault(status, headers, body)

    def adapt_after_error(self, error: KiroAsgiError, rendered: Rendered) -> OpenAIUpstream | None:
        """This upstream as it has to ask again after *error* was the answer to *rendered*; ``None`` where asking
        differently is no remedy, or was tried already."""
        name = refused_field(error, rendered.document, self.without)
        return evolve(self, without=(*self.without, name)) if name else None

    def estimate_tokens(self, rendered: Rendered, estimator: Estimator) -> float:
        """Tokens that the model will read for what was rendered; see `kiro_asgi.upstreams.openai.request`."""
        return estimate_tokens(rendered.document, estimator)

    def statistics(self, rendered: Rendered) -> Mapping[str, int]:
        """``bytes``, ``messages``, ``tools``, ``tool_results``, ``images``, and the characters of ``system``."""
        return statistics(rendered.document, len(rendered.request.body))

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models, which is one page; `parse_models` reads the answer."""
        return self.get(self._url(credential, "/models"), credential)

    def parse_models(self, body: bytes) -> ModelPage:
        """Read the list of models.

        Raises:
            UpstreamProtocolError: It is not a list of models.
        """
        return models.parse_models(body, custom=self._is_custom(self.endpoint))

    def chat_request(
        self, body: bytes, credential: Credential, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> UpstreamRequest:
        """A request with this *body*, and these *headers* beside ours."""
        sent = (
            (b"content-type", b"application/json"),
            *headers,
            *self.request_headers(credential, (b"accept", b"text/event-stream, application/json")),
        )
        url = self._url(credential, "/chat/completions")
        return UpstreamRequest("POST", url, sent, body, self.signing(credential))

    def _url(self, credential: Credential, path: str) -> str:
        """Where *path* is asked; a query at the end of the endpoint goes with every request."""
        base, mark, query = (credential.endpoint or self.endpoint or ENDPOINT).partition("?")
        return f"{base.rstrip('/')}{path}{mark}{query}"

    @staticmethod
    def _is_custom(endpoint: str) -> bool:
        """Whether somebody else than OpenAI answers at *endpoint*."""
        host = OpenAIUpstream._host(endpoint)
        return host != _HOST and not host.endswith(f".{_HOST}")

    @staticmethod
    def _host(endpoint: str) -> str:
        return urlsplit(endpoint or ENDPOINT).hostname or ""


def set_up(configured: Configured[OpenAISettings]) -> Setup:
    """Everything that it takes to ask the service that is configured.

    Raises:
        ConfigError: A setting that cannot work.
    """
    settings, sign = configured.settings, signer(configured)
    itself = configured.path == "openai"
    upstream = OpenAIUpstream(
        forwards=settings.relay == "allow" or (settings.relay == "auto" and itself),
        thinking_tags=settings.thinking_tags,
        max_tokens_field=settings.max_tokens_field,
        call_ids=settings.call_ids,
        include_usage=settings.include_usage,
        sign=sign,
        new_id=lambda: f"call_{configured.token()}",
        **common(configured),
    )
    tags, exchange = settings.thinking_tags, _exchange(settings)
    return direct_setup(configured, upstream, RULES, ENDPOINT, thinking_tags=tags, exchange=exchange, sign=sign)


def _exchange(settings: OpenAISettings) -> KeyExchange | None:
    """How keys become tokens; ``None`` where they are used as they are."""
    if not settings.token_url:
        return None
    headers = ((b"user-agent", user_agent(settings.user_agent).encode()), *settings.sent_headers)
    return KeyExchange(settings.token_url, _SCHEMES[settings.token_scheme], headers)


_SCHEMES: Final[Mapping[str, str]] = MappingProxyType({"bearer": "Bearer", "token": "token"})
"""Setting to what stands before a key."""
