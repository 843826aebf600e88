"""Anthropic's Messages API, and services that speak it.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from attrs import Attribute, define, evolve, field, frozen, setters

from kiro_asgi.failures.meanings import Own
from kiro_asgi.failures.phrases import FORM, FORM_UNKNOWN, SIGNATURE
from kiro_asgi.failures.remedies import Lesson
from kiro_asgi.limits import API_HEADER_CHARACTERS, API_HEADERS
from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.features import betas_in
from kiro_asgi.model.handling import Words
from kiro_asgi.model.prompt import Attachment, Prompt
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.options import blank_stops
from kiro_asgi.rendering.unread import unsent
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.anthropic import models
from kiro_asgi.upstreams.anthropic.answer import MessageEvents, PausableTurn, may_pause, reader
from kiro_asgi.upstreams.anthropic.blocks import API
from kiro_asgi.upstreams.anthropic.errors import MEANINGS
from kiro_asgi.upstreams.anthropic.models import normalise
from kiro_asgi.upstreams.anthropic.request import (
    WORDS,
    MessagesOptions,
    content_of,
    document,
)
from kiro_asgi.upstreams.anthropic.rules import RULES
from kiro_asgi.upstreams.anthropic.settings import AnthropicSettings
from kiro_asgi.upstreams.base import (
    Credential,
    CredentialKind,
    Forwarding,
    ModelCard,
    ModelPage,
    Rendered,
    Sign,
    Traits,
    UpstreamRequest,
)
from kiro_asgi.upstreams.direct import DirectUpstream, common, direct_setup, signer
from kiro_asgi.upstreams.headers import Headers, check_header, overridden
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.settings import Setup
from kiro_asgi.wire.json import dumps, object_of, objects_of

ENDPOINT: Final = "https://api.anthropic.com"

_HOST: Final = "anthropic.com"

_JSON: Final = (b"content-type", b"application/json")
_STREAM: Final = (b"accept", b"text/event-stream")
_VERSION: Final = re.compile(rb"[\w.:/-]{1,200}", re.ASCII)
"""Names that a version may have."""


_OWN: Final = frozenset(
    {b"anthropic-version", b"anthropic-beta", b"anthropic-api-key", b"anthropic-dangerous-direct-browser-access"}
)
"""Headers of the API that are made here, or are about a client's own connection."""

_NAME: Final = re.compile(rb"anthropic-[a-z0-9-]{1,100}")
_VALUE: Final = re.compile(rb"[!-~](?:[ -~]*[!-~])?")


def _is_passed_on(header: tuple[bytes, bytes]) -> bool:
    """Whether a client's *header*, its name in lower case, goes on with its bytes.

    Source: https://code.claude.com/docs/en/llm-gateway-protocol
    """
    name, value = header
    fits = len(value) <= API_HEADER_CHARACTERS and _VALUE.fullmatch(value)
    return bool(fits and name not in _OWN and _NAME.fullmatch(name))


def is_custom(endpoint: str) -> bool:
    """Whether another server than Anthropic's answers at *endpoint*, which is empty for that."""
    host = urlsplit(endpoint or ENDPOINT).hostname or ""
    return host != _HOST and not host.endswith(f".{_HOST}")


@frozen(kw_only=True)
class MessagesEndpoint:
    """The operator's part of every request."""

    endpoint: str
    """Base URL; empty for the public one."""

    user_agent: str
    version: str
    betas: tuple[str, ...]
    bearer: bool
    """Whether API keys go into ``Authorization`` as tokens do."""

    extra: Headers = field(repr=False)
    """Added to every request, in place of those of ours that have the same name."""

    sign: Sign | None = field(default=None, repr=False)
    """Signs requests whose credential has no key."""

    def is_custom(self, credential: Credential) -> bool:
        """Whether *credential* is for another server than Anthropic's."""
        return is_custom(credential.endpoint or self.endpoint)

    def url(self, credential: Credential, path: str) -> str:
        """Address of *path*, which begins with a slash."""
        return (credential.endpoint or self.endpoint or ENDPOINT).rstrip("/") + path

    def ask(self, credential: Credential, body: bytes, betas: Iterable[str]) -> UpstreamRequest:
        """Ask for an answer as a stream, with the client's *betas*."""
        headers = self._headers(credential, (_JSON, _STREAM), self.version.encode(), betas)
        return self._request("POST", credential, "/v1/messages", headers, body)

    def look_up(self, credential: Credential, path: str) -> UpstreamRequest:
        """Ask for a resource."""
        headers = self._headers(credential, ((b"accept", b"application/json"),), self.version.encode(), ())
        return self._request("GET", credential, path, headers)

    def pass_on(self, credential: Credential, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> UpstreamRequest:
        """Pass a client's request on, with the version and betas that its headers name, and the API's other headers.

        Which there are is not for us to know: new ones come with new features, and a feature of which one half is
        missing is a refused request.  The operator's own headers stand in their place.
        """
        headers = [*headers]
        versions = [value.strip() for name, value in headers if name.lower() == b"anthropic-version"]
        version = next(filter(_VERSION.fullmatch, reversed(versions)), self.version.encode())
        more = islice(filter(_is_passed_on, ((name.lower(), value) for name, value in headers)), API_HEADERS)
        own = self._headers(credential, (_JSON, *dict(more).items()), version, betas_in(headers))
        return self._request("POST", credential, "/v1/messages", own, body)

    def _request(
        self, method: str, credential: Credential, path: str, headers: Headers, body: bytes = b""
    ) -> UpstreamRequest:
        sign = None if credential.secret else self.sign
        return UpstreamRequest(method, self.url(credential, path), headers, body, sign)

    def _headers(self, credential: Credential, kinds: Headers, version: bytes, betas: Iterable[str]) -> Headers:
        features = ",".join(dict.fromkeys((*betas, *self.betas))).encode()
        own = (
            *kinds,
            (b"anthropic-version", version),
            *([(b"anthropic-beta", features)] if features else []),
            *self._authorization(credential),
            (b"accept-encoding", b"identity"),
            (b"user-agent", self.user_agent.encode()),
        )
        return overridden(own, self.extra)

    def _authorization(self, credential: Credential) -> Headers:
        secret = credential.secret.encode("ascii")
        if not secret:
            return ()
        if self.bearer or credential.kind is not CredentialKind.API_KEY:
            return ((b"authorization", b"Bearer " + secret),)
        return ((b"x-api-key", secret),)


@frozen
class MessagesForwarding:
    """Requests of clients that speak the service's own API, for `kiro_asgi.upstreams.base.Forwarding`."""

    _endpoint: MessagesEndpoint
    withheld: tuple[str, ...] = ()
    dialect: str = field(init=False, default=API)
    tagged: bool = field(init=False, default=False)

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
        """The same request to the service; of the client's *headers*, version and betas are passed on."""
        return self._endpoint.pass_on(credential, body, headers)


def thought(document: Mapping[str, Any]) -> bool:
    """Whether a body hands thinking back, in this API or in Converse."""
    blocks = (block for each in objects_of(document.get("messages")) for block in objects_of(each.get("content")))
    return any("reasoningContent" in block or str(block.get("type", "")).endswith("thinking") for block in blocks)


def held_to_schema(document: Mapping[str, Any]) -> bool:
    """Whether a body holds the answer to a schema, in this API or in Converse."""
    return "format" in object_of(document.get("output_config")) or "outputConfig" in document


SIGNATURES: Final = "adapted.signatures"

LESSONS: Final = (
    # Another conversation has other signatures, and another schema.
    Lesson(SIGNATURES, SIGNATURES, (SIGNATURE,), helps=thought, lasting=False),
    Lesson("adapted.output_format", "adapted.output_format", (FORM_UNKNOWN,), helps=held_to_schema),
    Lesson("adapted.output_schema", "adapted.output_schema", (FORM,), helps=held_to_schema, lasting=False),
)


def _check_betas(instance: Any, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    for beta in value:
        check_header(instance, attribute, beta)


@define(kw_only=True, on_setattr=setters.frozen)
class AnthropicUpstream(DirectUpstream):
    """One service that speaks the Messages API; holds no state and no secret of its own.

    Raises:
        ConfigError: A setting that cannot work.
    """

    name: str = "anthropic"
    version: str = field(default="2023-06-01", validator=check_header)
    """Of the API."""

    betas: tuple[str, ...] = field(default=(), validator=_check_betas)
    """Features to ask for in ``anthropic-beta``, as well as the client's."""

    bearer: bool = False
    """Whether API keys go into ``Authorization`` as tokens do, instead of ``x-api-key``."""

    meanings: ClassVar[Own] = MEANINGS
    lessons: ClassVar[tuple[Lesson, ...]] = LESSONS

    words: Words = field()
    """Of how requests are handled: Anthropic's, which has tiers of its own."""

    traits: Traits = field(init=False)
    builtin: tuple[ModelCard, ...] = field(init=False, default=models.KNOWN)
    _endpoint: MessagesEndpoint = field(init=False, repr=False)
    forwarding: Forwarding | None = field(init=False, repr=False)

    @words.default
    def _make_words(self) -> Words:
        return evolve(WORDS, tiers={}) if is_custom(self.endpoint) else WORDS

    @traits.default
    def _make_traits(self) -> Traits:
        return Traits(runs=frozenset({WEB_SEARCH}), cites=True, strict=True, api=API, words=self.words)

    @_endpoint.default
    def _make_endpoint(self) -> MessagesEndpoint:
        return MessagesEndpoint(
            endpoint=self.endpoint,
            user_agent=self.user_agent,
            version=self.version,
            betas=self.betas,
            bearer=self.bearer,
            extra=self.headers,
            sign=self.sign,
        )

    @forwarding.default
    def _make_forwarding(self) -> Forwarding:
        return MessagesForwarding(self._endpoint, self.withheld)

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Render *prompt* as a request; *conversation* goes along as the user's id, where there is one.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place, and
                the message the rule.
        """
        options = MessagesOptions(
            version=self.version,
            replay_thinking=self.replay_thinking and SIGNATURES not in self.learnt,
            adaptations=self.learnt,
            custom=self._endpoint.is_custom(credential),
            words=self.words,
            without=unsent(self.withheld),
        )
        body = document(prompt, model, options, conversation)
        sent = self.mended(body.document, body.notes)
        request = self._endpoint.ask(credential, dumps(sent), prompt.betas)
        return Rendered(
            request,
            body.names.changed(),
            argument_names=body.names.arguments,
            stop=blank_stops(prompt.sampling),
            notes=body.notes.found(),
            document=sent,
            formed=body.formed,
            unread=body.unread,
            crossed=body.crossed,
            turn=partial(PausableTurn, request, sent) if may_pause(sent) else None,
        )

    def fetches(self, part: Attachment) -> bool:
        """Whether the service itself fetches *part*: it does."""
        return True

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        return reader(content_type), MessageEvents()

    def content_of(self, document: Mapping[str, Any]) -> BodyContent:
        """As of `kiro_asgi.upstreams.anthropic.request`."""
        return content_of(document)

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models; `parse_models` reads the answer."""
        return self._endpoint.look_up(credential, models.models_path(page))

    def parse_models(self, body: bytes) -> ModelPage:
        """Read a part of the list of models.

        Raises:
            UpstreamProtocolError: It is not a list of models.
        """
        return models.parse_models(body)

    def normalise(self, model: str) -> str:
        """One spelling for every known way to write a model's name."""
        return normalise(model)


def set_up(configured: Configured[AnthropicSettings]) -> Setup:
    """Everything that it takes to ask the service that is configured.

    Raises:
        ConfigError: A setting that cannot work.
    """
    settings, sign = configured.settings, signer(configured)
    upstream = AnthropicUpstream(
        version=settings.version,
        betas=settings.betas,
        bearer=settings.bearer,
        sign=sign,
        **common(configured, "/v1/messages", "/v1"),
    )
    return evolve(direct_setup(configured, upstream, RULES, ENDPOINT, sign=sign), named=models.named)
