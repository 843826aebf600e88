"""Google's Generative Language API (Gemini), with an API key.

Source: https://ai.google.dev/api
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import quote
from uuid import uuid4

from attrs import Attribute, define, evolve, field, frozen, setters

from kiro_asgi.errors import ConfigError
from kiro_asgi.failures.meanings import Own
from kiro_asgi.failures.phrases import FORM, FORM_UNKNOWN, SIGNATURE
from kiro_asgi.failures.remedies import Lesson
from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.prompt import Attachment, Prompt
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.unread import unsent
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.base import (
    Credential,
    CredentialKind,
    ModelCard,
    ModelPage,
    Rendered,
    Traits,
    UpstreamRequest,
)
from kiro_asgi.upstreams.direct import DirectUpstream, common, direct_setup
from kiro_asgi.upstreams.gemini import models
from kiro_asgi.upstreams.gemini.answer import NOTHING, stages
from kiro_asgi.upstreams.gemini.content import MINTED, is_readable, signable
from kiro_asgi.upstreams.gemini.embeddings import GeminiEmbedder
from kiro_asgi.upstreams.gemini.errors import MEANINGS
from kiro_asgi.upstreams.gemini.request import API, MAX_STOPS, WORDS, content_of, document
from kiro_asgi.upstreams.gemini.rules import RULES
from kiro_asgi.upstreams.gemini.settings import GeminiSettings
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, Headers
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.settings import Setup
from kiro_asgi.wire.json import dumps, object_of, objects_of

ENDPOINT: Final = "https://generativelanguage.googleapis.com"

STREAMED: Final = "streamGenerateContent?alt=sse"
COLLECTED: Final = "generateContent"
EMBEDDED: Final = "batchEmbedContents"

SIGNATURES: Final = "adapted.signatures"
PROJECTED: Final = "adapted.json_schema"
CONTENT_WITH_NOTHING: Final = "empty answers"


def _formed(document: Mapping[str, Any]) -> bool:
    return "responseJsonSchema" in object_of(document.get("generationConfig"))


def _signable(document: Mapping[str, Any]) -> bool:
    contents: list[Any] = [*objects_of(document.get("contents"))]
    return all(type(each.get("parts")) is list for each in contents) and signable(contents)


LESSONS: Final = (
    Lesson(PROJECTED, PROJECTED, (FORM_UNKNOWN,), helps=_formed),
    # The service may blame a schema in no other word than this; another conversation has another schema.
    Lesson(PROJECTED, PROJECTED, (FORM, "INVALID_ARGUMENT"), helps=_formed, lasting=False),
    Lesson(CONTENT_WITH_NOTHING, "", (NOTHING,), lasting=False),
    Lesson(SIGNATURES, SIGNATURES, (SIGNATURE,), helps=_signable, lasting=False),
)

THRESHOLDS: Final = ("", "OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE")
"""From which probability of harm the service blocks; empty for its own."""


def _check_threshold(_: Any, __: Attribute[str], value: str) -> None:
    if value not in THRESHOLDS:
        known = ", ".join(filter(None, THRESHOLDS))
        raise ConfigError(
            f"gemini.safety_threshold must be one of {known}, not {value!r}", code="gemini.safety_threshold"
        )


def _new_id() -> str:
    return uuid4().hex


_ASKED_AGAIN: Final = frozenset({"STOP"})
"""Reasons to end that are errors where the answer is empty: Gemini sends some empty answers for no reason, and answers
when it is asked once more."""

_TRAITS: Final = Traits(
    runs=frozenset({WEB_SEARCH}), grounds=True, signs_calls=True, api=API, words=WORDS, provider="gcp.gemini"
)


@frozen
class GeminiForwarding:
    """Sends a client's own request on; the address and the headers are ours."""

    upstream: GeminiUpstream
    dialect = API
    tagged = False

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
        """The same request to the service; none of the client's *headers* is passed on, as none belongs to the API."""
        verb, accept = (STREAMED, EVENT_STREAM) if stream else (COLLECTED, JSON)
        return self.upstream.ask(body, credential, model, verb, accept)


@define(kw_only=True, on_setattr=setters.frozen)
class GeminiUpstream(DirectUpstream):
    """The Gemini API; holds no state and no secret.

    Raises:
        ConfigError: A setting that cannot work.
    """

    name: str = "gemini"
    safety_threshold: str = field(default="", validator=_check_threshold)
    """From which probability of harm the service blocks; empty for its own."""

    meanings: ClassVar[Own] = MEANINGS
    lessons: ClassVar[tuple[Lesson, ...]] = LESSONS

    new_id: Callable[[], str] = _new_id
    """Makes the id of a call that comes without one: letters, digits, at most 50."""

    traits: Traits = field(init=False, default=_TRAITS)
    builtin: tuple[ModelCard, ...] = field(init=False, default=(*models.KNOWN, *models.EMBEDDING))

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Render *prompt* as a request; the service has no field for a *conversation*.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place, and
                the message the rule.
        """
        written = document(
            prompt,
            model,
            replay_thinking=self.replay_thinking,
            without_signatures=SIGNATURES in self.learnt,
            threshold=self.safety_threshold,
            json_schemas=PROJECTED not in self.learnt,
            unsent=unsent(self.withheld),
        )
        sent = self.mended(written.body, written.notes)
        return Rendered(
            self.ask(dumps(sent), credential, model, STREAMED, EVENT_STREAM),
            written.names.changed(),
            stop=tuple(filter(None, prompt.sampling.stop))[MAX_STOPS:],
            notes=written.notes.found(),
            document=sent,
            unread=written.unread,
            crossed=written.crossed,
        )

    def ask(self, body: bytes, credential: Credential, model: ModelCard, verb: str, accept: str) -> UpstreamRequest:
        """Call the method *verb* of *model*."""
        path = f"/v1beta/models/{quote(model.id, safe='', errors='replace')}:{verb}"
        return self.post(self.url(credential, path, ENDPOINT), credential, body, accept)

    def embedding_request(self, body: bytes, credential: Credential, model: ModelCard) -> UpstreamRequest:
        """Ask *model* for embeddings with this *body*."""
        return self.ask(body, credential, model, EMBEDDED, JSON)

    @property
    def forwarding(self) -> GeminiForwarding | None:
        """Requests of clients that speak the API are passed on as they are, unless the operator set a threshold."""
        return None if self.safety_threshold else GeminiForwarding(self)

    def fetches(self, part: Attachment) -> bool:
        """Whether the service itself fetches *part*: files that were uploaded to it, and videos."""
        return is_readable(part.url)

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        return stages(content_type, self._call_id, frozenset[str]() if self._takes_nothing else _ASKED_AGAIN)

    @property
    def _takes_nothing(self) -> bool:
        return any(each.feature == CONTENT_WITH_NOTHING for each in self.remedies)

    def _call_id(self) -> str:
        return MINTED + self.new_id()

    def content_of(self, document: Mapping[str, Any]) -> BodyContent:
        """As of `kiro_asgi.upstreams.gemini.request`."""
        return content_of(document)

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models; `parse_models` reads the answer."""
        headers = self.request_headers(credential, (b"accept", b"application/json"))
        return models.models_request(self.url(credential, "", ENDPOINT), headers, page)

    def parse_models(self, body: bytes) -> ModelPage:
        """Read a part of the list of models.

        Raises:
            UpstreamProtocolError: It is not a list of models.
        """
        return models.parse_models(body)

    def normalise(self, model: str) -> str:
        """One spelling for every known way to write a model's name."""
        return models.normalise(model)

    def authorization(self, credential: Credential) -> Headers:
        """How *credential* is presented: never in the URL, since URLs are written into logs."""
        secret = credential.secret.encode("ascii")
        if secret and credential.kind is CredentialKind.API_KEY:
            return ((b"x-goog-api-key", secret),)
        return super().authorization(credential)


def set_up(configured: Configured[GeminiSettings]) -> Setup:
    """Everything that it takes to ask the service that is configured.

    Raises:
        ConfigError: A setting that cannot work.
    """
    upstream = GeminiUpstream(
        safety_threshold=configured.settings.safety_threshold,
        new_id=configured.token,
        **common(configured, "/v1beta/models", "/v1beta"),
    )
    setup = direct_setup(configured, upstream, RULES, ENDPOINT)
    return evolve(setup, embedder=GeminiEmbedder(upstream.embedding_request))
