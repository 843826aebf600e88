"""From a request to an exchange: upstream, credential and rendered prompt; and what is learnt from the answer."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID, uuid4

from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.exchange.facts import ClientRequest, Estimate
from kiro_asgi.asgi.exchange.model_routes import Route, require_answers, require_permit
from kiro_asgi.asgi.exchange.passthrough import PassthroughExchange, Way, reason_to_translate
from kiro_asgi.asgi.exchange.reading import Readable
from kiro_asgi.asgi.exchange.settling import Settler
from kiro_asgi.asgi.exchange.translated import TranslatedExchange, with_prompt
from kiro_asgi.asgi.kept.attachments import AttachmentFetcher
from kiro_asgi.asgi.kept.memory import Recovered, Recovery, Signatures
from kiro_asgi.asgi.scheduling import Offload
from kiro_asgi.config import StreamSettings
from kiro_asgi.dialects.named_models import NO_MODELS, models_named, require_once
from kiro_asgi.errors import ContextTooLong, RequestError, UnknownModel, UpstreamError
from kiro_asgi.model.history import longest_that_fits
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.model.unread import Unread
from kiro_asgi.stages.answer import Answer
from kiro_asgi.stages.call_signatures import signature_keys, unsigned_calls
from kiro_asgi.stages.estimate import Calibration, Estimator
from kiro_asgi.upstreams.base import PLACEHOLDER, Credential, NamingUpstream, Rendered, Upstream
from kiro_asgi.wire.json import objects_of

_TOOLS: Final = frozenset({"tools"})
_NOTHING: Final = frozenset[str]()
"""Members of a request by which what is remembered of refusals is limited."""


@frozen
class ConversationIds:
    """Names that are made with a secret: without it they cannot be computed, and gateways' names differ."""

    _salt: bytes = field(factory=lambda: secrets.token_bytes(32), repr=False)

    @classmethod
    def by(cls, salt: str) -> ConversationIds:
        """Names that other processes with *salt* compute, too; without one, names of this object only."""
        return cls(salt.encode()) if salt else cls()

    def name(self, principal: str, session: str) -> str:
        """A UUID for what *principal* calls *session*; a new one each time where it is empty."""
        if not session:
            return str(uuid4())
        named = json.dumps([principal, session]).encode()
        return str(UUID(bytes=hmac.digest(self._salt, named, "sha256")[:16], version=4))


def _named(prompt: Prompt) -> tuple[tuple[str, str], ...]:
    """Places and names of the models that *prompt* names for services of its API."""
    tools = [tool.unread or tool.opaque for tool in prompt.tools]
    unread = {} if prompt.unread is None else prompt.unread.members
    given = [each.members if isinstance(each, Unread) else each.value for each in tools if each is not None]
    demanded = {name: value for demand in prompt.demands for name, value in demand.members.items()}
    return models_named({**unread, **demanded, "tools": [*objects_of(unread.get("tools")), *given]})


@define(kw_only=True)
class ExchangeFactory(Settler[ClientRequest]):
    """Settles the requests of one application for answers."""

    _offload: Offload
    _conversations: ConversationIds
    _recovery: Recovery
    _signatures: Signatures
    _attachments: AttachmentFetcher
    _estimator: Estimator
    _calibration: Calibration = field(factory=Calibration)
    _stream: StreamSettings

    async def count(self, prompt: Prompt, size: int, hold: Callable[[int], None]) -> int:
        """Tokens of *prompt*, from a request of *size* bytes, as it would be sent.

        Args:
            prompt: What would be asked.
            size: How long work on it takes.
            hold: As `ClientRequest.hold`.

        Raises:
            KiroAsgiError: As for `settle`.
        """
        return await self._first(partial(self._counted, prompt, size, hold), await self.models.targets(prompt.model))

    async def aclose(self) -> None:
        """Close the idle connections of the running event loop."""
        await self._attachments.aclose()

    async def _settled(self, request: ClientRequest, route: Route) -> Readable:
        source = request.passthrough
        require_permit(request.permit, route.provider, route.model, NO_MODELS if source is None else source.named)
        require_answers(route.model)
        credential = await route.provider.credentials.get(route.model.id)
        prompt = request.parsed.prompt
        if source is None:
            return await self._translated(request, route, credential)
        way = Way.to(
            route.provider,
            route.model,
            dialect=request.dialect,
            body=source.body,
            misspelt=source.misspelt,
            stream=self._stream,
            stages=request.stages,
            parsed=request.parsed,
            principal=request.principal,
        )
        if reason_to_translate(way) is not None:
            return await self._translated(request, route, credential)
        if request.refusal is None:
            try:
                exchange = await self._translated(request, route, credential)
            except UnknownModel:
                raise
            except RequestError:  # the service may judge that otherwise
                pass
            else:
                fetched = request.parsed.prompt is not prompt
                way = way.rendered(exchange.parsed, exchange.rendered, exchange.recovered.notes, fetched)
                if reason_to_translate(way) is not None:
                    return exchange
        if source.named:  # their bytes go on, and only the last of several was looked at
            await self._offload.run(request.size, partial(require_once, source.body))
        translate = partial(self._translated, request)
        return PassthroughExchange.create(request, source, route, credential, self._estimator, translate)

    async def _translated(
        self, request: ClientRequest, route: Route, credential: Credential, upstream: Upstream | None = None
    ) -> TranslatedExchange:
        """The exchange for *request*, which *upstream* asks, or by default the one that does so for the model."""
        if request.refusal is not None:
            raise request.refusal
        provider, model, parsed = route.provider, route.model, request.parsed
        require_permit(request.permit, provider, model, _named(parsed.prompt))
        upstream = upstream or provider.asking(
            model, parsed.prompt.demands, request.principal, members=_TOOLS if parsed.prompt.tools else _NOTHING
        )
        prompt = await self._attachments.fetched(parsed.prompt, provider.setup.upstream.fetches, request.hold)
        if prompt is not parsed.prompt:  # another upstream need not fetch it again
            request.replace_prompt(prompt)
        recovered = await self._recovered(request, route, upstream)
        conversation = self._conversations.name(request.principal, parsed.prompt.session)

        latest: tuple[Prompt, Rendered, float] | None = None

        def render(prompt: Prompt) -> tuple[Prompt, Rendered, float]:
            nonlocal latest  # checking that a prompt fits has rendered it already
            if latest is None or latest[0] is not prompt:
                rendered = upstream.render(prompt, model, credential, conversation)
                latest = prompt, rendered, upstream.estimate_tokens(rendered, self._estimator)
            return latest

        def fits(prompt: Prompt) -> bool:
            try:
                return self._calibration.tokens(model.id, render(prompt)[2]) <= model.context_window
            except ContextTooLong:
                return False

        def settled() -> tuple[Prompt, Rendered, float]:
            prompt = recovered.prompt
            return render(longest_that_fits(prompt, fits) if prompt.shortens else prompt)

        prompt, rendered, uncalibrated = await self._offload.run(request.size, settled)
        return TranslatedExchange(
            request=request,
            route=route,
            parsed=with_prompt(parsed, prompt, len(recovered.prompt.turns)),
            upstream=upstream,
            credential=credential,
            conversation=conversation,
            rendered=rendered,
            estimate=Estimate(
                self._estimator,
                self._calibration.tokens(model.id, uncalibrated),
                uncalibrated,
                self._calibration.output_factor(model.id),
                self._calibration.credits(model.id),
            ),
            recovered=recovered,
            learn=self._learn,
            translate=partial(self._translated, request),
        )

    async def _recovered(self, request: ClientRequest, route: Route, upstream: Upstream) -> Recovered:
        prompt, notes = route.provider.adapted(request.parsed.prompt, route.name, route.model, upstream)
        traits = upstream.traits
        if traits.signs_calls or traits.thinking_owner:
            look = partial(unsigned_calls, prompt, earlier=traits.demands_thinking)
            if unsigned := await self._offload.run(request.size, look):
                prompt = await self._signatures.restored(prompt, unsigned, request.principal, traits.thinking_owner)
        recovered = await self._recovery.prepare(prompt, request.principal)
        return evolve(recovered, notes=(*notes, *recovered.notes)) if notes else recovered

    async def _counted(self, prompt: Prompt, size: int, hold: Callable[[int], None], route: Route) -> int:
        provider, model = route.provider, route.model
        try:
            credential = await provider.credentials.get()
        except UpstreamError:  # the number is the gateway's own: nothing is asked of the service
            credential = PLACEHOLDER
        prompt = await self._attachments.fetched(prompt, provider.setup.upstream.fetches, hold)

        def estimated() -> float:
            upstream = provider.asking(model, prompt.demands)
            adapted, _ = provider.adapted(prompt, route.name, model, upstream)
            return upstream.estimate_tokens(upstream.render(adapted, model, credential), self._estimator)

        return self._calibration.tokens(model.id, await self._offload.run(size, estimated))

    async def _learn(self, exchange: TranslatedExchange, answer: Answer) -> None:
        """Learn from an answer that has been given."""
        assert answer.end is not None, "the answer has not ended"
        route, upstream = exchange.route, exchange.upstream
        if (member := answer.thinking_member) and isinstance(upstream, NamingUpstream):
            upstream = upstream.naming_thinking(member)
        prompt, principal = exchange.parsed.prompt, exchange.request.principal
        route.provider.learn(route.model, upstream, principal, exchange.rendered, prompt.demands)
        if not answer.resumed:  # a prompt that was read several times was counted several times
            self._calibration.observe(route.model.id, exchange.estimate.uncalibrated, answer.end.usage)
        if calls := answer.call_signatures:
            keys = partial(signature_keys, calls, exchange.recovered.asked)
            signatures = await self._offload.run(exchange.request.size, keys)
            await self._signatures.remember(signatures, exchange.request.principal)
        await self._recovery.remember(exchange.recovered, answer)
