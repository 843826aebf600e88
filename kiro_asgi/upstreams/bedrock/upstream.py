"""Amazon Bedrock: how it is set up, how requests come to it, and which API a model is asked by.

Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html and
API_runtime_InvokeModelWithResponseStream.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import quote

from attrs import define, evolve, field, setters

from kiro_asgi.errors import ConfigError
from kiro_asgi.failures.meanings import Own
from kiro_asgi.failures.phrases import UNSTREAMED
from kiro_asgi.failures.remedies import Lesson
from kiro_asgi.model.handling import MARKED, Handling, Tier, Words, crossed
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Document, Image, Prompt
from kiro_asgi.model.understood import understood
from kiro_asgi.rendering.attachments import instead_of_address
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.options import blank_stops
from kiro_asgi.rendering.refusal import refusal
from kiro_asgi.rendering.unread import WriteBack, unsent
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.access import Keys
from kiro_asgi.upstreams.aws import REGIONS, key_life, region_in
from kiro_asgi.upstreams.base import Credential, ModelCard, ModelPage, Rendered, Traits, UpstreamRequest
from kiro_asgi.upstreams.bedrock import claude, models
from kiro_asgi.upstreams.bedrock.answer import FRAMES, stages
from kiro_asgi.upstreams.bedrock.embeddings import BedrockEmbedder
from kiro_asgi.upstreams.bedrock.errors import MEANINGS
from kiro_asgi.upstreams.bedrock.request import WORDS, ConverseOptions, content_of, document
from kiro_asgi.upstreams.bedrock.rules import RULES
from kiro_asgi.upstreams.bedrock.settings import NOWHERE, BedrockSettings
from kiro_asgi.upstreams.direct import DirectUpstream, common, direct_setup
from kiro_asgi.upstreams.headers import JSON
from kiro_asgi.upstreams.machine import Machine, Signer
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.settings import Setup
from kiro_asgi.wire.json import dumps

_SUFFIXES: Final = (
    ("cn-", "amazonaws.com.cn"),
    ("eusc-", "amazonaws.eu"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("us-iso-", "c2s.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("", "amazonaws.com"),
)
"""Beginning of a region's name to the end of its hosts'."""

_UNSTREAMED: Final = "adapted.unstreamed"


def host(service: str, region: str) -> str:
    """Base URL of *service*, ``bedrock-runtime`` or ``bedrock``, in a region."""
    suffix = next(suffix for begins, suffix in _SUFFIXES if region.startswith(begins))
    return f"https://{service}.{region}.{suffix}"


@define(kw_only=True, on_setattr=setters.frozen)
class BedrockUpstream(DirectUpstream):
    """One region of the service; holds no state, and no secret but what *sign* has."""

    name: str = "bedrock"
    control: str = ""
    """Base URL of lists of models."""

    geography: str = ""
    """Of inference profiles for ids without one; empty for none."""

    invokes: bool = True
    """Whether Claude is asked by InvokeModel."""

    betas: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(factory=dict)
    """Members of every body of Converse."""

    invoke_headers: tuple[tuple[bytes, bytes], ...] = ()
    """The same for InvokeModel."""

    builtin: tuple[ModelCard, ...] = ()
    meanings: ClassVar[Own] = MEANINGS
    lessons: ClassVar[tuple[Lesson, ...]] = (Lesson(_UNSTREAMED, _UNSTREAMED, (UNSTREAMED,)), *claude.LESSONS)

    messages: claude.AnthropicUpstream = field(init=False, repr=False)
    """Renders requests to Claude for InvokeModel."""

    words: Words = field(init=False)
    """Of how requests are handled: without tiers where the operator has chosen one."""

    traits: Traits = field(init=False)

    @words.default
    def _make_words(self) -> Words:
        return evolve(WORDS, tiers={}) if "serviceTier" in self.extra else WORDS

    @messages.default
    def _make_messages(self) -> claude.AnthropicUpstream:
        # It has no endpoint, so it counts as Anthropic's own: Bedrock enforces the same.  Requests are sent from here.
        return claude.AnthropicUpstream(
            replay_thinking=self.replay_thinking,
            withheld=self.withheld,
            remedies=self.remedies,
            words=Words(retentions=MARKED),  # the others are headers of InvokeModel
        )

    @traits.default
    def _make_traits(self) -> Traits:
        api = self.messages.traits.api if self.invokes else ""
        return Traits(
            cites=True,
            strict=True,
            unlisted=("arn:",),
            api=api,
            words=self.words,
            provider="aws.bedrock",
        )

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Render *prompt* for the API that *model* is asked by; neither has a field for *conversation*.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place, and
                the message the rule.
        """
        if self.invokes and models.is_claude(model):
            return self._invoke(prompt, model, credential)
        prompt = understood(prompt, "")  # as the upstream has the API of Claude, and this model has not
        options = ConverseOptions(
            replay_thinking=self.replay_thinking and claude.SIGNATURES not in self.learnt,
            betas=self.betas,
            adaptations=self.learnt,
            extra=self.extra,
            words=self.words,
            without=unsent(self.withheld),
        )
        body = document(prompt, model, options)
        streamed = body.streamed and _UNSTREAMED not in self.learnt
        operation, accept = ("converse-stream", FRAMES) if streamed else ("converse", JSON)
        sent = self.mended(body.document, body.notes)
        asked = sent if streamed else _unstreamed(sent)
        return Rendered(
            self._ask(model, operation, credential, asked, accept),
            body.names.changed(),
            argument_names=body.names.arguments,
            stop=blank_stops(prompt.sampling),
            notes=(*map(Note, self.learnt), *body.notes.found()),
            document=asked,
            formed=body.formed,
            crossed=body.crossed,
        )

    def _invoke(self, prompt: Prompt, model: ModelCard, credential: Credential) -> Rendered:
        _refuse_addresses(prompt)
        notes = Notes()
        if prompt.attribution is not None and notes.applies("system.attribution", "system"):
            prompt = evolve(prompt, attribution=None)
        rendered = self.messages.render(prompt, claude.known(model), credential)
        body = claude.invoked(rendered.document, claude.betas((*self.betas, *prompt.betas), notes))
        said: dict[str, Any] = {}
        write = WriteBack(self.messages.traits.api, notes, unsent(self.withheld))
        names = write.said(said, prompt, self.words)
        if prompt.handling.tier is not None and body.pop("service_tier", None) is not None:
            said |= _tier_of(prompt.handling.tier, self.words)  # a header here, also for clients of the body's own API
        headers = (*self.invoke_headers, *_told(said))
        request = self._ask(model, "invoke-with-response-stream", credential, body, FRAMES, headers)
        found = (*rendered.notes, *notes.found())
        # A pause is the client's to go on with: parts of a turn are read as events here, which frames are not.
        return evolve(rendered, request=request, document=body, notes=found, crossed=names, turn=None)

    def embedding_request(self, body: Mapping[str, Any], credential: Credential, model: ModelCard) -> UpstreamRequest:
        """Ask *model* for embeddings with this *body*; guardrails and tiers are for models that answer."""
        return self._ask(model, "invoke", credential, body, JSON)

    def _ask(
        self,
        model: ModelCard,
        operation: str,
        credential: Credential,
        body: Mapping[str, Any],
        accept: str,
        more: tuple[tuple[bytes, bytes], ...] = (),
    ) -> UpstreamRequest:
        # Every reserved character of an id is quoted: the slash of an ARN would divide the path.
        path = f"/model/{quote(model.id, safe='', errors='replace')}/{operation}"
        request = self.post(self.url(credential, path), credential, dumps(dict(body)), accept)
        return evolve(request, headers=(*request.headers, *more))

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        return stages(content_type, claude.messages)

    def content_of(self, document: Mapping[str, Any]) -> BodyContent:
        """As of Converse, or for InvokeModel of the Messages API."""
        return self.messages.content_of(document) if "anthropic_version" in document else content_of(document)

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the models of the account and region; `parse_models` reads the answer."""
        base = (credential.endpoint or self.control).rstrip("/")
        return self.get(base + models.models_path(page), credential)

    def parse_models(self, body: bytes) -> ModelPage:
        """Read a part of the list of models.

        Raises:
            UpstreamProtocolError: It is not a list of models.
        """
        return models.parse_models(body)

    def normalise(self, model: str) -> str:
        """The id in small letters, behind the geography where that is set and the id has none; an ARN as it is."""
        name = model.strip()
        if name.lower().startswith("arn:"):
            return name
        name = name.lower()
        return f"{self.geography}.{name}" if self.geography and models.base_model(name) == name else name


def _tier_of(tier: Tier, words: Words) -> dict[str, Any]:
    """The member of Converse's bodies for a *tier*; none for one that says nothing, or that it has not."""
    return crossed(Handling(tier), words, Notes())


def _told(said: Mapping[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    """Headers of InvokeModel for members that Converse has in its bodies."""
    if "serviceTier" in said:
        yield b"x-amzn-bedrock-service-tier", said["serviceTier"]["type"].encode()
    if "requestMetadata" in said:
        yield b"x-amzn-bedrock-request-metadata", dumps(said["requestMetadata"])


def _unstreamed(body: Mapping[str, Any]) -> dict[str, Any]:
    """*body* for an answer that is not streamed: the model's own members stand at another place in it."""
    if "additionalModelResponseFieldPaths" not in body:
        return dict(body)
    return {**body, "additionalModelResponseFieldPaths": ["/stop_sequence"]}


def _refuse_addresses(prompt: Prompt) -> None:
    for turn in prompt.turns:
        for part in turn.content():
            if isinstance(part, Image | Document) and part.url:
                rule = "images.address" if isinstance(part, Image) else "documents.address"
                raise refusal(rule, f"an address; {instead_of_address(part.url)}", part.place)


SERVICE: Final = "bedrock"
"""Name of the service in signatures, for its lists of models as well."""

KEY: Final = "AWS_BEARER_TOKEN_BEDROCK"
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL")
CONTROL_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_BEDROCK", "AWS_ENDPOINT_URL")


def set_up(configured: Configured[BedrockSettings]) -> Setup:
    """Everything that it takes to ask the service that is configured; settings take precedence over AWS's variables.

    Raises:
        ConfigError: A setting that cannot work: no region, or no botocore where there is no key.
    """
    settings, path, machine = configured.settings, configured.path, configured.machine
    environ = machine.environ
    named = settings.keys(path)
    if not named[0][1]:
        key = "" if settings.profile else environ.get(KEY, "")
        named = ((KEY, key),) if key else ((f"{path}.profile", ""),)
    region = settings.region or region_in(environ)
    if not settings.configured:  # set up to be described, not to send requests
        region = region or NOWHERE
    signer = _signer(configured, named[0][1], region)
    region = region if signer is None else signer.region
    if not region and (signer is not None or not settings.endpoint):
        raise ConfigError(f"{path}.region: must be set where {' and '.join(REGIONS)} are not", code="bedrock.region")
    endpoint = settings.endpoint or _first(environ, ENDPOINTS) or host("bedrock-runtime", region)
    control = settings.control_endpoint or settings.endpoint or _first(environ, CONTROL_ENDPOINTS)
    shared = common(configured)
    upstream = BedrockUpstream(
        name=shared["name"],
        user_agent=shared["user_agent"],
        headers=shared["headers"],
        replay_thinking=shared["replay_thinking"],
        withheld=shared["withheld"],
        endpoint=endpoint,
        control=control or host("bedrock", region),
        geography=settings.geography,
        invokes=settings.claude_api == "invoke",
        betas=settings.betas,
        extra=dict(_members(settings)),
        invoke_headers=tuple(_headers(settings)),
        sign=None if signer is None else signer.sign,
        builtin=models.set_cards(settings.models),
    )
    setup = direct_setup(configured, upstream, RULES, endpoint, sign=upstream.sign)
    if upstream.invokes:  # models that are not Claude are asked by Converse, which is no client's API
        converse = evolve(upstream, invokes=False)
        setup = evolve(setup, choose=lambda model: upstream if models.is_claude(model) else converse)
    assert isinstance(setup.access, Keys)
    examine = partial(_life_of, named[0][1], machine) if signer is None else signer.chosen
    access = evolve(setup.access, named=named, examine=examine)
    return evolve(setup, access=access, embedder=BedrockEmbedder(upstream.embedding_request))


def _life_of(key: str, machine: Machine) -> str:
    return key_life(key, machine.now())


def _signer(configured: Configured[BedrockSettings], key: str, region: str) -> Signer | None:
    """The signer where there is no key; none for an endpoint of the operator's without region and profile."""
    settings = configured.settings
    bare = not settings.region and not settings.profile
    if key or (bare and (settings.endpoint or not settings.configured)):
        return None
    return configured.machine.signer(settings.profile, region, SERVICE, configured.path)


def _first(environ: Mapping[str, str], names: Iterable[str]) -> str:
    """The first of the variables that is set."""
    return next(filter(None, (environ.get(name, "") for name in names)), "")


def _members(settings: BedrockSettings) -> Iterator[tuple[str, Any]]:
    """Members of every body of Converse."""
    if settings.guardrail:
        guardrail = {"guardrailIdentifier": settings.guardrail, "guardrailVersion": settings.guardrail_version}
        yield "guardrailConfig", guardrail
    if settings.latency:
        yield "performanceConfig", {"latency": settings.latency}
    if settings.service_tier:
        yield "serviceTier", {"type": settings.service_tier}


def _headers(settings: BedrockSettings) -> Iterator[tuple[bytes, bytes]]:
    """The same as headers of InvokeModel."""
    if settings.guardrail:
        yield b"x-amzn-bedrock-guardrailidentifier", settings.guardrail.encode()
        yield b"x-amzn-bedrock-guardrailversion", settings.guardrail_version.encode()
    if settings.latency:
        yield b"x-amzn-bedrock-performanceconfig-latency", settings.latency.encode()
    if settings.service_tier:
        yield b"x-amzn-bedrock-service-tier", settings.service_tier.encode()
