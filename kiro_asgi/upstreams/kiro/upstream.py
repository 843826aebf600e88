"""The Kiro service (formerly Amazon Q Developer, CodeWhisperer): how it is asked, and set up.

A request that it refuses is adapted in three ways that are known to help, each of them once.

Source: https://github.com/aws/amazon-q-developer-cli (the open-source client)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from attrs import define, evolve, field, frozen, setters

from kiro_asgi.errors import ConfigError, KiroAsgiError
from kiro_asgi.failures.meanings import error_of
from kiro_asgi.failures.phrases import SIGNATURE
from kiro_asgi.failures.remedies import Lesson, Remedy, remedy_for
from kiro_asgi.failures.report import refusal
from kiro_asgi.model.events import SearchHit
from kiro_asgi.model.prompt import Attachment, Prompt
from kiro_asgi.setting import broken
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.access import SignIns
from kiro_asgi.upstreams.base import (
    Credential,
    Forwarding,
    ModelCard,
    ModelPage,
    Rendered,
    Traits,
    UpstreamRequest,
)
from kiro_asgi.upstreams.kiro import models
from kiro_asgi.upstreams.kiro.account import (
    authorization,
    limits_fields,
    parse_reset,
)
from kiro_asgi.upstreams.kiro.answer import REASONING_EXTRACTION, stages
from kiro_asgi.upstreams.kiro.contract import ContractOptions, contract_options
from kiro_asgi.upstreams.kiro.contract.answer import contract_stages
from kiro_asgi.upstreams.kiro.contract.request import contract_document
from kiro_asgi.upstreams.kiro.errors import MEANINGS
from kiro_asgi.upstreams.kiro.hosts import GENERATE, MODELS, REGION, USAGE, KiroHosts, Operation, profile_of
from kiro_asgi.upstreams.kiro.mcp import parse_search, search_request
from kiro_asgi.upstreams.kiro.models import normalise, with_wishes
from kiro_asgi.upstreams.kiro.request import content_of, document, estimate, fitted
from kiro_asgi.upstreams.kiro.rules import RULES, switched_off
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.tokens import KiroVendor
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.settings import AnswerOptions, Setup, user_agent


def _thinks(document: Mapping[str, Any]) -> bool:
    return any("reasoningContent" in each for each in _assistants(document))


def _calls(document: Mapping[str, Any]) -> bool:
    return any("toolUses" in each for each in _assistants(document))


def _is_improper(error: KiroAsgiError, document: Mapping[str, Any]) -> bool:
    return error.code == IMPROPER or "improperly formed request" in error.message.lower()


def _assistants(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The assistant's messages of a body."""
    for item in document["conversationState"].get("history", ()):
        if "assistantResponseMessage" in item:
            yield item["assistantResponseMessage"]


_STUBS: Final = "tools.stubbed"

IMPROPER: Final = "improperly_formed"
_UNTAGGED: Final = "adapted.untagged"

LESSONS: Final = (
    # The service sends this message whatever ``reason`` it names beside it.
    Lesson("adapted.as_text", "adapted.as_text", hears=_is_improper, helps=_calls, lasting=False),
    Lesson(
        *("adapted.signatures", "adapted.signatures", ("THINKING_SIGNATURE_INVALID", SIGNATURE)),
        helps=_thinks,
        lasting=False,
    ),
    Lesson("adapted.stubs", "adapted.stubs", ("TOOL_CONFIG_MISSING",), lasting=False),
    Lesson(_UNTAGGED, _UNTAGGED, (REASONING_EXTRACTION,), lasting=False),
)

_CHANGES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "adapted.as_text": {"tool_history": "text"},
        "adapted.signatures": {"replay_thinking": False},
        "adapted.stubs": {},
        _UNTAGGED: {"fake_reasoning_enabled": False},
    }
)
"""Rule to the settings that it changes."""


def _new_id() -> str:
    return str(uuid4())


@define(kw_only=True, on_setattr=setters.frozen)
class KiroUpstream:
    """One Kiro service; holds no state and no secret.

    Raises:
        ConfigError: A setting that cannot work.
    """

    settings: KiroSettings = field(factory=KiroSettings)
    name: str = "kiro"
    contract: ContractOptions | None = field()
    """Render prompts, and read the ends of answers, as the contract has it; ``None``: in the service's native form."""

    remedies: tuple[Remedy, ...] = ()
    """Changes that answer what the service has refused."""

    new_id: Callable[[], str] = _new_id
    """Makes the UUID of a conversation, and that of a call."""

    hosts: KiroHosts = field(init=False)
    """The addresses, by the settings."""

    traits: Traits = field(init=False, default=Traits(provider="aws.kiro", meters=True))
    builtin: tuple[ModelCard, ...] = field(init=False, default=models.FALLBACK)
    forwarding: Forwarding | None = field(init=False, default=None)

    @hosts.default
    def _hosts_of_settings(self) -> KiroHosts:
        return KiroHosts(self.settings)

    @contract.default
    def _contract_of_settings(self) -> ContractOptions | None:
        return contract_options(self.settings) if self.settings.translation == "contract" else None

    def __attrs_post_init__(self) -> None:
        if not REGION.fullmatch(self.settings.region):
            raise ConfigError(f"{self.settings.region!r} is not the name of a region", code="kiro.region")
        for name, message in broken(self.settings):
            raise ConfigError(f"kiro.{name}: {message}", code=f"kiro.{name}")
        switched_off(self.settings.rules_off)

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Render *prompt* as a request; *conversation* is a UUID, and empty for a new one.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place, and
                the message the rule.
            ContextTooLong: It holds more than the service reads.
        """
        write = document if self.contract is None else partial(contract_document, options=self.contract)
        written = write(
            prompt,
            model,
            self.settings,
            adaptations=tuple(each.feature for each in self.remedies),
            conversation_id=conversation or self.new_id(),
            profile_arn=profile_of(credential),
        )
        data = fitted(written, prompt, model, self.settings)
        headers = (
            (b"accept", b"application/vnd.amazon.eventstream"),
            (b"x-amzn-codewhisperer-optout", b"true"),
            (b"x-amzn-kiro-agent-mode", self.settings.agent_mode.encode()),
            (b"amz-sdk-invocation-id", self.new_id().encode()),
            *self._headers(credential),
        )
        request = self.hosts.generation(credential).request(GENERATE, {}, headers, data)
        return Rendered(
            request,
            written.names.changed(),
            written.thinking_tags,
            prompt.sampling.stop,
            prompt.sampling.max_tokens,
            written.notes.found(),
            written.body,
            argument_names=written.names.arguments,
        )

    def fetches(self, part: Attachment) -> bool:
        """Whether the service itself fetches *part*: it takes bytes only."""
        return False

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        asks_again = self.settings.fake_reasoning_enabled and _UNTAGGED not in self.settings.rules_off
        read = stages(content_type, self.settings.checksums, asks_again=asks_again and self.contract is None)
        return read if self.contract is None else (*read, *contract_stages(self.contract))

    def fault(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
        """The error that an answer with a *status* other than 200 means."""
        return error_of(refusal(status, headers, body), MEANINGS)

    def adapt_after_error(self, error: KiroAsgiError, rendered: Rendered) -> KiroUpstream | None:
        """This upstream, adapted to ask again after *error* was the answer to *rendered*; ``None`` where no adaptation
        helps, or it was tried already, or is switched off."""
        lessons = [each for each in LESSONS if each.rule not in self.settings.rules_off and self._is_open(each)]
        found = remedy_for(error, rendered.document, self.remedies, lessons)
        return None if found is None or found.place is not None else self.with_remedies((*self.remedies, found))

    def _is_open(self, lesson: Lesson) -> bool:
        """Whether the settings leave it to the service."""
        settings = self.settings
        return {
            "adapted.as_text": settings.tool_history == "auto",
            "adapted.signatures": settings.replay_thinking,
            "adapted.stubs": _STUBS in settings.rules_off,
            _UNTAGGED: settings.fake_reasoning_enabled,
        }[lesson.feature]

    def with_remedies(self, remedies: tuple[Remedy, ...]) -> KiroUpstream:
        """This upstream with these *remedies*."""
        changed: dict[str, Any] = {}
        for each in remedies:
            changed |= _CHANGES.get(each.feature, {})
            if each.feature == "adapted.stubs":
                changed["rules_off"] = tuple(name for name in self.settings.rules_off if name != _STUBS)
        return evolve(self, settings=evolve(self.settings, **changed), remedies=remedies)

    def estimate_tokens(self, rendered: Rendered, estimator: Estimator) -> float:
        """Tokens that the model will read for what was rendered; see `kiro_asgi.upstreams.kiro.request`."""
        return estimate(rendered.document, estimator)

    def statistics(self, rendered: Rendered) -> Mapping[str, int]:
        """``bytes``, ``messages``, ``tools``, ``tool_results``, ``images``, and the characters of ``system``."""
        return content_of(rendered.document).statistics(len(rendered.request.body))

    def parse_models(self, body: bytes) -> ModelPage:
        """Read a part of the list of models.

        Raises:
            UpstreamProtocolError: It is not a list of models.
        """
        return models.parse_models(body)

    def normalise(self, model: str) -> str:
        """One spelling for every known way to write a model's name."""
        return normalise(model)

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models; `parse_models` reads the answer."""
        fields = models.models_fields(profile_of(credential), self.settings.origin, page)
        return self._listing(MODELS, credential, fields)

    def limits_request(self, credential: Credential) -> UpstreamRequest:
        """Ask for the account's limits; `kiro_asgi.upstreams.kiro.account.parse_limits` reads the answer."""
        return self._listing(USAGE, credential, limits_fields(profile_of(credential), self.settings.origin))

    def search_request(self, credential: Credential, query: str) -> UpstreamRequest:
        """Ask for a web search; `kiro_asgi.upstreams.kiro.mcp.parse_search` reads the answer."""
        base = self.hosts.generation(credential).base
        return search_request(base, profile_of(credential), self._asking(credential), query, self.new_id())

    def _listing(self, operation: Operation, credential: Credential, fields: Mapping[str, Any]) -> UpstreamRequest:
        return self.hosts.management(credential).request(operation, fields, self._asking(credential))

    def _asking(self, credential: Credential) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"accept", b"application/json"), *self._headers(credential))

    def _headers(self, credential: Credential) -> tuple[tuple[bytes, bytes], ...]:
        return (
            *authorization(credential),
            (b"accept-encoding", b"identity"),
            (b"user-agent", user_agent(self.settings.user_agent).encode()),
        )


def set_up(configured: Configured[KiroSettings]) -> Setup:
    """Everything that it takes to ask the service.

    Raises:
        ConfigError: A setting that cannot work.
    """
    settings = configured.settings
    upstream = KiroUpstream(settings=settings, name=configured.name)
    return Setup(
        upstream=upstream,
        access=SignIns(KiroVendor(settings), settings),
        answer_options=AnswerOptions(
            first_event_timeout=settings.first_token_timeout,
            thinking_first_event_timeout=settings.thinking_first_token_timeout,
            thinks_unasked=models.thinks_unasked,
            thinking_tags=settings.thinking_tags if settings.fake_reasoning_enabled else (),
            thinking_scan=settings.thinking_scan,
            thinking_handling=settings.fake_reasoning_handling,
            drop_equal_tool_calls=settings.drop_equal_tool_calls,
            drop_repeated_text=settings.drop_repeated_content,
        ),
        account=configured.path,
        rules=RULES,
        adapt=_with_wishes,
        search=_Search(upstream) if settings.web_search else None,
        quota=_Quota(upstream),
        hosts=upstream.hosts,
    )


def _with_wishes(prompt: Prompt, name: str, model: ModelCard) -> Prompt:
    thinking = with_wishes(prompt.thinking, name, model.id)
    return prompt if thinking is prompt.thinking else evolve(prompt, thinking=thinking)


@frozen
class _Search:
    """The service's web search, as `kiro_asgi.upstreams.settings.Search`."""

    _upstream: KiroUpstream

    def request(self, credential: Credential, query: str) -> UpstreamRequest:
        return self._upstream.search_request(credential, query)

    def parse(self, body: bytes) -> tuple[SearchHit, ...]:
        return parse_search(body)


@frozen
class _Quota:
    """The account's limits, as `kiro_asgi.upstreams.settings.Quota`."""

    _upstream: KiroUpstream

    @property
    def questions(self) -> tuple[Callable[[Credential], UpstreamRequest], ...]:
        limits, unnamed = self._upstream.limits_request, self._upstream.hosts.unnamed
        # some enterprise accounts must not name their profile here
        return limits, lambda credential: limits(unnamed(credential))

    def reset(self, body: bytes) -> float | None:
        return parse_reset(body)
