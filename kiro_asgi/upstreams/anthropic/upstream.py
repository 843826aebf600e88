"""Anthropic's Messages API, and services that speak it.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from attrs import Attribute, define, evolve, field, setters

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.prompt import Attachment, Prompt
from kiro_asgi.model.server_tools import WEB_SEARCH
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.anthropic import models
from kiro_asgi.upstreams.anthropic.answer import reader
from kiro_asgi.upstreams.anthropic.door import ENDPOINT, Door, PassedOn
from kiro_asgi.upstreams.anthropic.events import MessageEvents
from kiro_asgi.upstreams.anthropic.families import normalise
from kiro_asgi.upstreams.anthropic.faults import fault
from kiro_asgi.upstreams.anthropic.reasons import SIGNATURE
from kiro_asgi.upstreams.anthropic.request import FORM_RULES, Wording, document
from kiro_asgi.upstreams.anthropic.rules import RULES
from kiro_asgi.upstreams.anthropic.settings import AnthropicSettings
from kiro_asgi.upstreams.anthropic.turn import Turn, may_pause
from kiro_asgi.upstreams.anthropic.weight import statistics, weigh
from kiro_asgi.upstreams.base import Credential, Forwarding, ModelCard, ModelPage, Rendered, Traits, UpstreamRequest
from kiro_asgi.upstreams.direct import DirectUpstream, common, direct_setup
from kiro_asgi.upstreams.headers import check_header
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.setup import Setup
from kiro_asgi.wire.json import dumps

__all__ = ["AnthropicUpstream", "set_up"]

HEALED: Final = "healed.signatures"

LASTING: Final = ("healed.output_format",)
"""What holds for every request to a model; another conversation has other signatures, and another schema."""


def _check_betas(instance: Any, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    for beta in value:
        check_header(instance, attribute, beta)


@define(kw_only=True, on_setattr=setters.frozen)
class AnthropicUpstream(DirectUpstream):
    """How one service that speaks the Messages API is talked to; holds no state and no secret of its own.

    Raises:
        ConfigError: A setting that cannot work.
    """

    name: str = "anthropic"
    version: str = field(default="2023-06-01", validator=check_header)
    """Of the API."""

    betas: tuple[str, ...] = field(default=(), validator=_check_betas)
    """Features to ask for in ``anthropic-beta``, besides the client's."""

    bearer: bool = False
    """Whether API keys go into ``Authorization`` as tokens do, instead of ``x-api-key``."""

    healings: tuple[str, ...] = ()
    """What `healed` changed, by the names of its rules."""

    traits: Traits = field(init=False)
    builtin: tuple[ModelCard, ...] = field(init=False, default=models.KNOWN)
    _door: Door = field(init=False, repr=False)
    forwarding: Forwarding | None = field(init=False, repr=False)

    @traits.default
    def _make_traits(self) -> Traits:
        return Traits(runs=frozenset({WEB_SEARCH}), cites=True, learns=self.healings == LASTING)

    @_door.default
    def _make_door(self) -> Door:
        return Door(
            endpoint=self.endpoint,
            user_agent=self.user_agent,
            version=self.version,
            betas=self.betas,
            bearer=self.bearer,
            extra=self.headers,
        )

    @forwarding.default
    def _make_forwarding(self) -> Forwarding:
        return PassedOn(self._door, self.replay_thinking)

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Put *prompt* into the service's words; *conversation* goes along as the user's id, where there is one.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place, and
                the message the rule.
        """
        wording = Wording(
            version=self.version,
            replay_thinking=self.replay_thinking,
            healings=self.healings,
            custom=self._door.is_custom(credential),
        )
        body = document(prompt, model, wording, conversation)
        request = self._door.ask(credential, dumps(body.document), prompt.betas)
        return Rendered(
            request,
            body.names.changed(),
            notes=body.notes.found(),
            document=body.document,
            formed=body.formed,
            turn=partial(Turn, request, body.document) if may_pause(body.document) else None,
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

    def fault(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
        """The error that an answer with a *status* other than 200 means; see `kiro_asgi.upstreams.anthropic.faults`."""
        return fault(status, headers, body)

    def healed(self, error: KiroAsgiError, rendered: Rendered) -> AnthropicUpstream | None:
        """This upstream without what *error* refuses: earlier thinking, for its signature, or the schema of the answer,
        which is told in words then; ``None`` where that is no remedy, or was tried already."""
        if "format" in rendered.document.get("output_config", {}):
            rule = next((rule for rule, code in FORM_RULES.items() if code == error.code), "")
            if rule:
                return evolve(self, healings=(*self.healings, rule))
        if error.code != SIGNATURE or not _thought(rendered.document):
            return None
        return evolve(self, replay_thinking=False, healings=(*self.healings, HEALED))

    def weigh(self, rendered: Rendered, estimator: Estimator) -> float:
        """Tokens that the model will read for what was rendered; see `kiro_asgi.upstreams.anthropic.weight`."""
        return weigh(rendered.document, estimator)

    def statistics(self, rendered: Rendered) -> Mapping[str, int]:
        """``bytes``, ``messages``, ``tools``, ``tool_results``, ``images``, and the characters of ``system``."""
        return statistics(rendered.document, len(rendered.request.body))

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models; `parse_models` reads the answer."""
        return self._door.look_up(credential, models.models_path(page))

    def parse_models(self, body: bytes) -> ModelPage:
        """Read a part of the list of models.

        Raises:
            UpstreamProtocolError: It is none.
        """
        return models.parse_models(body)

    def normalise(self, model: str) -> str:
        """One spelling for every known way to write a model's name."""
        return normalise(model)


def _thought(document: Mapping[str, Any]) -> bool:
    """Whether a body hands thinking back."""
    return any(block["type"].endswith("thinking") for message in document["messages"] for block in message["content"])


def set_up(configured: Configured[AnthropicSettings]) -> Setup:
    """Everything that it takes to ask the service that is configured.

    Raises:
        ConfigError: A setting that cannot work.
    """
    settings = configured.settings
    upstream = AnthropicUpstream(
        version=settings.version, betas=settings.betas, bearer=settings.bearer, **common(configured)
    )
    return direct_setup(configured, upstream, RULES, ENDPOINT)
