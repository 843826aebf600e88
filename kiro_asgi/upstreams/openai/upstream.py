"""Servers that speak OpenAI's APIs, Chat Completions or Responses, and the choice between the two.

Sources: https://platform.openai.com/docs/api-reference/chat, https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit
from uuid import uuid4

from attrs import define, evolve, field, frozen, setters, validators

from kiro_asgi.failures.meanings import Own
from kiro_asgi.failures.remedies import OTHER_NAMES, Lesson, Remedy
from kiro_asgi.limits import REQUEST_DEPTH
from kiro_asgi.model.handling import NO_WORDS
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Attachment, Image, Prompt
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.unread import unsent
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.access import KeyExchange
from kiro_asgi.upstreams.base import Credential, ModelCard, ModelPage, Rendered, Traits, UpstreamRequest
from kiro_asgi.upstreams.direct import DirectUpstream, common, direct_setup, signer
from kiro_asgi.upstreams.headers import JSON, Headers
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.openai import models, responses_answer, responses_request
from kiro_asgi.upstreams.openai.adapting import (
    CHAT_LESSONS,
    DEMANDED,
    DETAILED,
    HEARD,
    REPLAYED,
    RESPONSES_LESSONS,
)
from kiro_asgi.upstreams.openai.answer import stages
from kiro_asgi.upstreams.openai.codex import CODEX, CodexQuota
from kiro_asgi.upstreams.openai.codex_tokens import codex_sign_in
from kiro_asgi.upstreams.openai.content import AS_SENT, CALL_IDS, wants_short_ids
from kiro_asgi.upstreams.openai.embeddings import OPENAI_SIZE, USUAL_SIZE, OpenAIEmbedder
from kiro_asgi.upstreams.openai.errors import MEANINGS
from kiro_asgi.upstreams.openai.models import efforts_of, named, wants_responses
from kiro_asgi.upstreams.openai.request import API, WORDS, ChatRenderOptions, content_of, document, is_guaranteed
from kiro_asgi.upstreams.openai.responses_request import INCLUDE, SEALED
from kiro_asgi.upstreams.openai.rules import RULES
from kiro_asgi.upstreams.openai.service_facts import ServiceFacts
from kiro_asgi.upstreams.openai.settings import OpenAISettings
from kiro_asgi.upstreams.openai.thinking import AS_SAID, CONTROLS
from kiro_asgi.upstreams.settings import Setup, user_agent
from kiro_asgi.wire.json import dumps, loads, object_of, objects_of

ENDPOINT: Final = "https://api.openai.com/v1"

OPENAI: Final = ServiceFacts(endpoint=ENDPOINT)

_HOST: Final = "api.openai.com"
"""OpenAI's, and the end of the names of its regional hosts."""


_FORWARDED: Final = frozenset({b"openai-beta"})
"""Headers of a client that belong to the API.  Those that name an organization or a project are the client's own
account's, not the gateway's; the operator's stand in ``headers``."""


def _forwarded(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Those of a client's *headers* that are passed on."""
    return [(name.lower(), value) for name, value in headers if name.lower() in _FORWARDED]


def _new_id() -> str:
    return f"call_{uuid4().hex[:24]}"


@define(kw_only=True, on_setattr=setters.frozen)
class OpenAIServer(DirectUpstream):
    """Base of the upstreams for both APIs; holds no state and no secret."""

    name: str = "openai"

    meanings: ClassVar[Own] = MEANINGS

    key_header: str = "authorization"
    """Header that holds the key, as a bearer token there, and alone in any other."""

    models_endpoint: str = ""
    """URL of the list of models; empty for ``/models`` below the endpoint."""

    new_id: Callable[[], str] = _new_id
    """Makes the id of a call that came without one."""

    @property
    def builtin(self) -> tuple[ModelCard, ...]:
        """OpenAI's models; of any other server nothing is known before it is asked."""
        return () if self.is_custom(self.endpoint) else (*models.BUILTIN, *models.EMBEDDING)

    def fetches(self, part: Attachment) -> bool:
        """Whether the service itself fetches *part*: images, but no documents."""
        return isinstance(part, Image)

    def authorization(self, credential: Credential) -> Headers:
        """How *credential* is presented; not at all where it is empty."""
        if self.key_header == "authorization" or not credential.secret:
            return super().authorization(credential)
        return ((self.key_header.encode("ascii"), credential.secret.encode("ascii")),)

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models, which is one page; `parse_models` reads the answer."""
        return self.get(self.models_endpoint or self._address(credential, "/models"), credential)

    def parse_models(self, body: bytes) -> ModelPage:
        """Read the list of models.

        Raises:
            UpstreamProtocolError: It is not a list of models.
        """
        return models.parse_models(body, custom=self.is_custom(self.endpoint))

    def asked(
        self, path: str, body: bytes, credential: Credential, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> UpstreamRequest:
        """Ask for an answer at *path* with this *body*, and these *headers* beside ours."""
        sent = (
            (b"content-type", b"application/json"),
            *headers,
            *self.request_headers(credential, (b"accept", b"text/event-stream, application/json")),
        )
        return UpstreamRequest("POST", self._address(credential, path), sent, body, self.signing(credential))

    def embedding_request(self, body: bytes, credential: Credential) -> UpstreamRequest:
        """Ask for embeddings with this *body*."""
        return self.post(self._address(credential, "/embeddings"), credential, body, JSON)

    def _address(self, credential: Credential, path: str) -> str:
        """URL of *path*; a query at the end of the endpoint goes with every request."""
        base, mark, query = (credential.endpoint or self.endpoint or ENDPOINT).partition("?")
        return f"{base.rstrip('/')}{path}{mark}{query}"

    @staticmethod
    def is_custom(endpoint: str) -> bool:
        """Whether another server than OpenAI's answers at *endpoint*."""
        host = OpenAIServer.host(endpoint)
        return host != _HOST and not host.endswith(f".{_HOST}")

    @staticmethod
    def host(endpoint: str) -> str:
        """The name of the server at *endpoint*."""
        return urlsplit(endpoint or ENDPOINT).hostname or ""


@frozen
class ResponsesForwarding:
    """Sends a client's own request on.  Nothing is stored at the service: all of it is sent along, sealed."""

    upstream: ResponsesUpstream
    dialect = responses_request.API
    tagged = False

    @property
    def withheld(self) -> tuple[str, ...]:
        """As of the upstream."""
        return self.upstream.withheld

    def takes(self, body: bytes) -> bool:
        """Whether it takes this *body*: that of those who signed in only streams, and has no texts of the system among
        the items; and earlier thinking is handed back only where it may be."""
        signed_in, replays = self.upstream.signed_in is not None, self.upstream.replay_thinking
        if replays and not signed_in:
            return True
        fields = object_of(loads(body, max_depth=REQUEST_DEPTH))
        items = objects_of(fields.get("input"))
        if not replays and any(item.get("type") == "reasoning" for item in items):
            return False
        texts = type(fields.get("input")) is str or any(item.get("role") == "system" for item in items)
        return not signed_in or (fields.get("stream") is True and not texts)

    def request(
        self,
        body: bytes,
        credential: Credential,
        headers: Iterable[tuple[bytes, bytes]],
        model: ModelCard,
        stream: bool,
    ) -> UpstreamRequest:
        """The same request to the service; of the client's *headers* those that belong to the API are passed on."""
        fields = loads(body, max_depth=REQUEST_DEPTH)
        wanted, given = fields.get(INCLUDE) or [], fields.get("input")
        seals = efforts_of(model.id) != () and INCLUDE not in {each.feature for each in self.upstream.remedies}
        if seals and fields.get("store") is not False and type(wanted) is list and SEALED not in wanted:
            fields[INCLUDE] = [*wanted, SEALED]
        if type(given) is list:
            fields["input"] = [item for item in given if not _is_lost(item)]
        sent = dumps({**fields, "store": False})
        return self.upstream.asked("/responses", sent, credential, _forwarded(headers))


def _is_lost(item: object) -> bool:
    """Whether *item* is reasoning with nothing but an id, under which the service has not stored it."""
    return (
        type(item) is dict and item.get("type") == "reasoning" and not (item.keys() & {"encrypted_content", "content"})
    )


@define(kw_only=True, on_setattr=setters.frozen)
class ResponsesUpstream(OpenAIServer):
    """Asks by the Responses API; holds no state and no secret."""

    signed_in: ServiceFacts | None = None
    """The service of those who signed in; ``None`` where nobody does.  Who has a key asks OpenAI's."""

    lessons: ClassVar[tuple[Lesson, ...]] = RESPONSES_LESSONS

    takes_text: bool = True
    """Whether the server has tools that take a text; else they are functions."""

    forwards: bool = True
    """Whether requests of clients that speak the API may be passed on as they are."""

    @property
    def forwarding(self) -> ResponsesForwarding | None:
        """How a client's own bytes go to it; ``None`` where they are not to be sent."""
        return ResponsesForwarding(self) if self.forwards else None

    @property
    def builtin(self) -> tuple[ModelCard, ...]:
        """OpenAI's models; those of a sign-in depend on the account's plan."""
        return super().builtin if self.signed_in is None else ()

    def facts(self, credential: Credential) -> ServiceFacts:
        """The service that *credential* is for: by its account, or by the address."""
        known, address = self.signed_in, credential.endpoint or self.endpoint
        return known if known is not None and (credential.account or address == known.endpoint) else OPENAI

    def authorization(self, credential: Credential) -> Headers:
        """The token or key, and what the service wants to be told beside it."""
        facts = self.facts(credential)
        account = ((facts.account_header, credential.account.encode("ascii")),) if credential.account else ()
        return (*super().authorization(credential), *account, *facts.headers)

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models, which is one page."""
        url, query = self._address(credential, "/models"), self.facts(credential).models_query
        return self.get(f"{url}{'&' if '?' in url else '?'}{query}" if query else url, credential)

    def parse_models(self, body: bytes) -> ModelPage:
        """Read the list of models.

        Raises:
            UpstreamProtocolError: It is not a list of models.
        """
        own = None if self.signed_in is None else self.signed_in.parse_models
        return super().parse_models(body) if own is None else own(body)

    def usage_request(self, path: str, credential: Credential) -> UpstreamRequest:
        """Ask for the document about the account's limits at *path*, which stands beside the models."""
        base = self._address(credential, "").removesuffix("/codex")
        return self.get(f"{base}/wham{path}", credential)

    @property
    def traits(self) -> Traits:
        """What differs by the service that is asked."""
        words = NO_WORDS if self.is_custom(self.endpoint) and self.signed_in is None else WORDS
        return Traits(verbose=True, strict=True, phases=True, api=responses_request.API, words=words)

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Render *prompt* as a request; *conversation* is the key of the service's prompt cache.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place, and
                the message the rule.
        """
        facts = self.facts(credential)
        custom = facts is OPENAI and self.is_custom(credential.endpoint or self.endpoint)
        written = responses_request.document(
            prompt,
            model,
            service=self.name if self.replay_thinking else "",
            custom=custom,
            takes_text=self.takes_text,
            conversation=conversation,
            without=self.learnt,
            unsent=unsent(self.withheld),
            facts=facts,
        )
        notes = Notes()
        sent = self.mended(written.body, notes)
        form = sent.get("text", {}).get("format", {})
        return Rendered(
            self.asked("/responses", dumps(sent), credential),
            written.tool_names,
            stop=prompt.sampling.stop,
            max_tokens=None if "max_output_tokens" in sent else prompt.sampling.max_tokens,
            notes=(*written.notes, *notes.found()),
            document=sent,
            formed=not custom and is_guaranteed(form),
            unread=written.unread,
            crossed=written.crossed,
        )

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        return responses_answer.stages(content_type, self.new_id, self.name)

    def content_of(self, document: Mapping[str, Any]) -> BodyContent:
        """As of `kiro_asgi.upstreams.openai.responses_request`."""
        return responses_request.content_of(document)


@frozen
class ChatForwarding:
    """Sends a client's own request on; the path and the headers are ours."""

    upstream: OpenAIUpstream
    dialect = API

    @property
    def tagged(self) -> bool:
        """Whether models of the service write their thinking between tags in the text."""
        return bool(self.upstream.thinking_tags)

    @property
    def withheld(self) -> tuple[str, ...]:
        """As of the upstream."""
        return self.upstream.withheld

    def takes(self, body: bytes) -> bool:
        """Whether it takes this *body*: any."""
        return True

    def request(
        self,
        body: bytes,
        credential: Credential,
        headers: Iterable[tuple[bytes, bytes]],
        model: ModelCard,
        stream: bool,
    ) -> UpstreamRequest:
        """The same request to the service; of the client's *headers* those that belong to the API are passed on."""
        return self.upstream.asked("/chat/completions", body, credential, _forwarded(headers))


class ReturnedThinking(Enum):
    """Which thinking of earlier answers is sent to a server."""

    NONE = "none"
    TEXT = "text"
    """Text that no service has sealed, where there is any."""

    DEMANDED = "demanded"
    """The same, and in each answer: a blank where there is none."""


@define(kw_only=True, on_setattr=setters.frozen)
class OpenAIUpstream(OpenAIServer):
    """Asks by Chat Completions; holds no state and no secret."""

    thinking_tags: tuple[str, ...] = ()
    """Names of the tags between which the server lets models think in the text; empty where it sends it apart."""

    max_tokens_field: str = field(default="max_completion_tokens", validator=validators.in_(OTHER_NAMES))
    """Name of the field for the answer's greatest length: ``max_completion_tokens``, or the older ``max_tokens``."""

    call_ids: str = field(default="auto", validator=validators.in_(CALL_IDS))
    """Which ids of calls the server takes, see `kiro_asgi.upstreams.openai.content.CALL_IDS`."""

    thinking_field: str = AS_SENT
    """Member of earlier answers in which their thinking is handed back; `AS_SENT` for the one that the client sent."""

    demands_thinking: bool = False
    """The server wants thinking in each of them."""

    thinking_control: str = field(default=AS_SAID, validator=validators.in_(CONTROLS))
    """How the server is told whether to think, see `kiro_asgi.upstreams.openai.thinking`."""

    efforts: tuple[str, ...] = ()
    """Efforts that the server knows for all of its models; empty where that is not known."""

    max_tools: int = 0
    """The most tools that the server takes; 0 where that is not known."""

    include_usage: bool = True
    """Ask for token counts at the end of the stream."""

    forwards: bool = True
    """Whether requests of clients that speak the API may be passed on as they are."""

    lessons: ClassVar[tuple[Lesson, ...]] = CHAT_LESSONS

    responses: ResponsesUpstream | None = None
    """Asks the same server by its other API, for models that Chat Completions does not serve; ``None`` for none."""

    traits: Traits = field(init=False)

    @traits.default
    def _make_traits(self) -> Traits:
        custom = self.is_custom(self.endpoint)
        returned = self._returned_thinking(custom)
        return Traits(
            verbose=True,
            strict=True,
            signs_calls=custom,
            thinking_owner=self.name if returned is not ReturnedThinking.NONE else "",
            demands_thinking=returned is ReturnedThinking.DEMANDED,
            api=API,
            words=NO_WORDS if custom else WORDS,
        )

    def _returned_thinking(self, custom: bool) -> ReturnedThinking:
        """Which thinking of earlier answers is sent to the server, which is *custom* where it is not OpenAI's own.

        A server that demands it gets it whatever the operator wishes: without it the request is refused.
        """
        if REPLAYED in self.learnt:
            return ReturnedThinking.NONE
        if self.demands_thinking or DEMANDED in self.learnt:
            return ReturnedThinking.DEMANDED
        return ReturnedThinking.TEXT if custom and self.replay_thinking else ReturnedThinking.NONE

    @property
    def forwarding(self) -> ChatForwarding | None:
        """How a client's own bytes go to it; ``None`` where they are not to be sent."""
        return ChatForwarding(self) if self.forwards else None

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Render *prompt* as a request; *conversation* is the key of OpenAI's prompt cache; no other server gets it.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place, and
                the message the rule.
        """
        custom = self.is_custom(credential.endpoint or self.endpoint)
        returned = self._returned_thinking(custom)
        options = ChatRenderOptions(
            service=self.name if self.replay_thinking and DETAILED not in self.learnt else "",
            custom=custom,
            max_tokens_field=self.max_tokens_field,
            include_usage=self.include_usage,
            short_ids=wants_short_ids(self.call_ids, self.host(credential.endpoint or self.endpoint), model.id),
            replay_thinking=returned is not ReturnedThinking.NONE,
            thinking_field=self._returned_field,
            demands_thinking=returned is ReturnedThinking.DEMANDED,
            thinking_control=self.thinking_control,
            efforts=self.efforts,
            max_tools=self.max_tools,
            cache_key="" if custom else conversation,
            words=NO_WORDS if custom else WORDS,
            without=self.learnt,
            unsent=unsent(self.withheld),
        )
        written, notes = document(prompt, model, options), Notes()
        sent = self.mended(written.body, notes)
        request = self.asked("/chat/completions", dumps(sent), credential)
        return Rendered(
            request,
            written.tool_names,
            bool(self.thinking_tags),
            prompt.sampling.stop[len(sent.get("stop", ())) :],
            max_tokens=prompt.sampling.max_tokens if OTHER_NAMES.keys().isdisjoint(sent) else None,
            notes=(*written.notes, *notes.found()),
            document=sent,
            formed=not custom and is_guaranteed(sent.get("response_format", {})),
            unread=written.unread,
            crossed=written.crossed,
        )

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        return stages(content_type, self.new_id, self.name)

    @property
    def other_upstream(self) -> ResponsesUpstream | None:
        """Who asks the same server by the Responses API; ``None`` where that is not to be asked."""
        return self.responses

    @property
    def _returned_field(self) -> str:
        heard = next((each.renamed for each in self.remedies if each.feature == HEARD), "")
        return heard if heard and self.thinking_field == AS_SENT else self.thinking_field

    def naming_thinking(self, member: str) -> OpenAIUpstream:
        """This upstream, for a model that has sent thinking as *member*, and wants it back as that."""
        others = tuple(each for each in self.remedies if each.feature != HEARD)
        return self.with_remedies((*others, Remedy(HEARD, "", renamed=member)))

    def content_of(self, document: Mapping[str, Any]) -> BodyContent:
        """As of `kiro_asgi.upstreams.openai.request`."""
        return content_of(document)


def set_up(configured: Configured[OpenAISettings]) -> Setup:
    """Everything that it takes to ask the service that is configured.

    Raises:
        ConfigError: A setting that cannot work.
    """
    settings, sign = configured.settings, signer(configured)
    is_builtin = configured.path == "openai" or bool(settings.credentials_file)

    def new_id() -> str:
        return f"call_{configured.token()}"

    forwards = settings.relay == "allow" or (settings.relay == "auto" and is_builtin)
    known = is_builtin or settings.relay == "allow"
    header = settings.key_header.lower()
    responses = ResponsesUpstream(
        takes_text=known,
        forwards=forwards,
        key_header=header,
        models_endpoint=settings.models_endpoint,
        sign=sign,
        new_id=new_id,
        **common(configured, "/chat/completions", "/responses"),
    )
    if settings.credentials_file or settings.endpoint == CODEX.endpoint:
        return _signed_in(configured, evolve(responses, signed_in=CODEX))
    upstream = OpenAIUpstream(
        responses=None if settings.api == "chat" else responses,
        forwards=forwards,
        thinking_tags=settings.thinking_tags,
        thinking_field=settings.thinking_field,
        demands_thinking=settings.demands_thinking,
        thinking_control=settings.thinking_control,
        efforts=settings.efforts,
        max_tools=settings.max_tools,
        max_tokens_field=settings.max_tokens_field,
        call_ids=settings.call_ids,
        include_usage=settings.include_usage,
        sign=sign,
        key_header=header,
        models_endpoint=settings.models_endpoint,
        new_id=new_id,
        **common(configured, "/chat/completions", "/responses"),
    )
    tags, exchange = settings.thinking_tags, _exchange(settings)
    setup = direct_setup(configured, upstream, RULES, ENDPOINT, thinking_tags=tags, exchange=exchange, sign=sign)
    scan = settings.thinking_scan if tags else "start"
    custom = upstream.is_custom(upstream.endpoint)
    inputs = settings.embedding_inputs or (USUAL_SIZE if custom else OPENAI_SIZE)
    setup = evolve(
        setup,
        answer_options=evolve(setup.answer_options, thinking_scan=scan),
        embedder=OpenAIEmbedder(upstream.embedding_request, inputs, custom),
    )
    if not custom:
        setup = evolve(setup, named=named)
    match settings.api:
        case "responses":
            return evolve(setup, upstream=responses)
        case "auto" if not custom:
            setup = evolve(setup, choose=lambda model: responses if wants_responses(model.id) else upstream)
    return setup if upstream.responses is None else evolve(setup, others=(responses,))


def _signed_in(configured: Configured[OpenAISettings], upstream: ResponsesUpstream) -> Setup:
    """The same with the sign-in of the Codex command; ``explain`` has a key in its place."""
    settings = configured.settings
    setup = direct_setup(configured, upstream, RULES, CODEX.endpoint, thinking_tags=settings.thinking_tags)
    if not settings.credentials_file:
        return setup
    access = codex_sign_in(configured.path, settings.credentials_file, settings.endpoint, ENDPOINT)
    return evolve(setup, access=access, quota=CodexQuota(upstream.usage_request))


def _exchange(settings: OpenAISettings) -> KeyExchange | None:
    """How keys become tokens; ``None`` where they are used as they are."""
    if not settings.token_url:
        return None
    headers = ((b"user-agent", user_agent(settings.user_agent).encode()), *settings.sent_headers)
    return KeyExchange(settings.token_url, _SCHEMES[settings.token_scheme], headers)


_SCHEMES: Final[Mapping[str, str]] = MappingProxyType({"bearer": "Bearer", "token": "token"})
"""Setting to the scheme that stands before a key."""
