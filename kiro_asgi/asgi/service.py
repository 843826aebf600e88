"""The upstream side of one app: whom to ask, how, and what is learnt from the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TypeVar, cast

from attrs import define, evolve, field

from kiro_asgi.asgi.attachments import Attachments
from kiro_asgi.asgi.call import Call
from kiro_asgi.asgi.conversations import Conversations
from kiro_asgi.asgi.exchange import Asked, Exchange, Passed
from kiro_asgi.asgi.models import Models, Route
from kiro_asgi.asgi.offload import Offload
from kiro_asgi.asgi.pace import Pace
from kiro_asgi.asgi.passing import passed, reason_against_passing, rendered
from kiro_asgi.asgi.provider import Provider
from kiro_asgi.asgi.providers import new_providers
from kiro_asgi.asgi.recovery import Recovered, Recovery
from kiro_asgi.asgi.reports import wants_notes
from kiro_asgi.asgi.secrets import Secrets, secrets_in
from kiro_asgi.asgi.server_tools import ServerTool
from kiro_asgi.asgi.signatures import Signatures
from kiro_asgi.asgi.wiring import new_fetcher, new_registry, new_store, retry_policy
from kiro_asgi.config import Settings, StreamSettings
from kiro_asgi.dialects.base import Dialect, Inquiry, TransparentDialect
from kiro_asgi.errors import KiroAsgiError, UpstreamQuotaSpent, UpstreamRequestTooCostly
from kiro_asgi.loops import PerLoop
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.retry import RetryPolicy
from kiro_asgi.stages.answer import Answer
from kiro_asgi.stages.base import StageFactory
from kiro_asgi.stages.estimate import Calibration, Estimator
from kiro_asgi.state.base import Store
from kiro_asgi.upstreams.base import Credential, ModelCard, Rendered
from kiro_asgi.upstreams.registry import Target

__all__ = ["Service"]

T = TypeVar("T")


@define(kw_only=True)
class Service:
    """Everything an app needs to ask its upstreams."""

    policy: RetryPolicy
    models: Models
    store: Store
    offload: Offload
    secrets: Secrets
    pace: PerLoop[Pace]
    _providers: tuple[Provider, ...]
    _spoken: frozenset[str] = field(init=False)
    """Client APIs that an upstream speaks."""

    _conversations: Conversations
    _recovery: Recovery
    _signatures: Signatures
    _attachments: Attachments
    _estimator: Estimator
    _calibration: Calibration = field(factory=Calibration)
    _stream: StreamSettings
    _stages: tuple[StageFactory, ...]
    _clocks: Clocks
    _token: Callable[[], str]

    def __attrs_post_init__(self) -> None:
        forwarding = (provider.upstream.forwarding for provider in self._providers)
        self._spoken = frozenset(each.dialect for each in forwarding if each is not None)

    @classmethod
    def create(
        cls,
        settings: Settings,
        clocks: Clocks,
        token: Callable[[], str],
        estimator: Estimator,
        server_tools: Sequence[ServerTool] = (),
        store: Store | None = None,
        stages: Sequence[StageFactory] = (),
    ) -> Service:
        """Build it from settings; opens no connection.  A *store* is used instead of the one that they describe.

        Raises:
            ConfigError: There is no upstream, or one that cannot be used.
        """
        providers = new_providers(settings, clocks, server_tools)
        store = new_store(settings, clocks) if store is None else store
        return cls(
            policy=retry_policy(settings),
            models=Models(new_registry(settings, providers), providers),
            store=store,
            offload=Offload(),
            secrets=Secrets(partial(_held, tuple(secrets_in(settings)), tuple(providers.values()))),
            pace=PerLoop(partial(Pace, clocks.steady)),
            providers=tuple(providers.values()),
            conversations=Conversations.by(settings.conversation_salt),
            recovery=Recovery(store, settings.recovery.ttl, settings.recovery.enabled),
            signatures=Signatures(store, settings.state.ttl),
            attachments=Attachments(new_fetcher(settings)),
            estimator=estimator,
            stream=settings.stream,
            stages=tuple(stages),
            clocks=clocks,
            token=token,
        )

    async def asked(self, call: Call, dialect: Dialect, body: bytes) -> Asked:
        """A request as it came; read at once unless an upstream may take it like that.

        Raises:
            RequestError: It is not a legal request.
        """
        size, headers = len(body), tuple(call.scope.get("headers") or ())
        parse: Callable[[], Inquiry] = partial(dialect.parse, body, headers)
        if wants_notes(call.scope):
            parse = partial(_with_notes, dialect, parse, body)
        if not dialect.traits.transparent or dialect.name not in self._spoken:
            return self.asked_for(call, dialect, await self.offload.run(size, parse), size)
        transparent = cast(TransparentDialect, dialect)
        glance = await self.offload.run(size, partial(transparent.glance, body))
        passed = Passed(dialect=transparent, glance=glance, headers=headers)
        return self._asked(call, dialect, parse, size, passed)

    def asked_for(self, call: Call, dialect: Dialect, inquiry: Inquiry, size: int) -> Asked:
        """A request of *size* bytes that has been read."""
        return self._asked(call, dialect, lambda: inquiry, size)

    def _asked(
        self, call: Call, dialect: Dialect, read: Callable[[], Inquiry], size: int, passed: Passed | None = None
    ) -> Asked:
        return Asked(
            request_id=call.request_id,
            principal=call.principal,
            hold=call.hold,
            dialect=dialect,
            size=size,
            passed=passed,
            stages=self._stages,
            read=read,
            head=lambda inquiry: dialect.heading(inquiry, self._token, int(self._clocks.wall())),
        )

    async def exchange(self, asked: Asked) -> Exchange:
        """Settle all facts about a request.

        Raises:
            RequestError: The upstream cannot be asked this.
            UpstreamError: There is no credential to ask with, or it rests.
        """
        return await self._first(partial(self._settled, asked), await self.models.targets(asked.model))

    async def _first(
        self, settle: Callable[[Route], Awaitable[T]], targets: tuple[Target, ...], failure: KiroAsgiError | None = None
    ) -> T:
        """What *settle* gives for the first of *targets* where that is possible.

        Args:
            settle: Does what can be done without asking for an answer.
            targets: Where, in order.
            failure: Why it was not possible before them.

        Raises:
            KiroAsgiError: Nowhere; the first reason there was.  It alone decides whether another upstream helps.
        """
        for at, target in enumerate(targets, 1):
            if failure is not None and not self.policy.other_upstream_helps(failure):
                break
            try:
                return await settle(await self.models.route(target, targets[at:]))
            except KiroAsgiError as error:
                failure = failure or error
        assert failure is not None, "a model that is nowhere"
        raise failure from None

    async def _settled(self, asked: Asked, route: Route) -> Exchange:
        provider, model = route.provider, route.model
        credential = await provider.credentials.get(model.id)
        if (request := self._passed(asked, provider, model)) is not None:
            return passed(asked, route, credential, request, self._estimator)
        inquiry = await self.offload.run(asked.size, lambda: asked.inquiry)
        prompt = await self._attachments.fetched(inquiry.prompt, provider.upstream.fetches, asked.hold)
        if prompt is not inquiry.prompt:  # another upstream need not fetch it again
            asked.replace(prompt)
        recovered = await self._recovered(asked, route)
        conversation = self._conversations.name(asked.principal, inquiry.prompt.session)
        upstream = provider.asking(model)

        def render() -> tuple[Rendered, float]:
            put = upstream.render(recovered.prompt, model, credential, conversation)
            return put, upstream.weigh(put, self._estimator)

        put, weight = await self.offload.run(asked.size, render)
        return Exchange(
            asked=asked,
            route=route,
            inquiry=evolve(inquiry, prompt=recovered.prompt),
            upstream=upstream,
            credential=credential,
            conversation=conversation,
            rendered=put,
            estimator=self._estimator,
            weight=weight,
            output_factor=self._calibration.output_factor(model.id),
            input_tokens=self._calibration.tokens(model.id, weight),
            recovered=recovered,
        )

    def _passed(self, asked: Asked, provider: Provider, model: ModelCard) -> Passed | None:
        """The request as it came, if it goes on to *provider* like that."""
        request = asked.passed
        if request is None or reason_against_passing(request, provider, model, self._stream, asked.stages) is not None:
            return None
        return request

    async def _recovered(self, asked: Asked, route: Route) -> Recovered:
        prompt, notes = route.provider.adapted(asked.inquiry.prompt, route.name, route.model)
        if route.provider.upstream.traits.signs_calls:
            prompt = await self._signatures.restored(prompt, asked.principal)
        recovered = await self._recovery.prepare(prompt, asked.principal)
        return evolve(recovered, notes=(*notes, *recovered.notes)) if notes else recovered

    async def count(self, call: Call, prompt: Prompt, size: int) -> int:
        """Tokens of *prompt*, from a request of *size* bytes, as it would be sent.

        Raises:
            KiroAsgiError: As for `exchange`.
        """
        return await self._first(partial(self._counted, call, prompt, size), await self.models.targets(prompt.model))

    async def _counted(self, call: Call, prompt: Prompt, size: int, route: Route) -> int:
        provider, model = route.provider, route.model
        credential = await provider.credentials.get()
        prompt = await self._attachments.fetched(prompt, provider.upstream.fetches, call.hold)

        def weigh() -> float:
            adapted, _ = provider.adapted(prompt, route.name, model)
            put = provider.upstream.render(adapted, model, credential)
            return provider.upstream.weigh(put, self._estimator)

        return self._calibration.tokens(model.id, await self.offload.run(size, weigh))

    async def healed(self, exchange: Exchange, error: KiroAsgiError) -> Exchange | None:
        """The same request in other words, where *error* says that the words were the trouble."""
        if exchange.passed is not None:
            return None
        upstream = exchange.upstream.healed(error, exchange.rendered)
        return None if upstream is None else await self._rendered(evolve(exchange, upstream=upstream))

    async def reminded(self, exchange: Exchange, complaint: str) -> Exchange:
        """The same request with *complaint* as the last that its user says."""
        prompt = exchange.inquiry.prompt
        told = evolve(prompt, turns=(*prompt.turns, Turn(Role.USER, (Text(complaint),))))
        return await self._rendered(evolve(exchange, inquiry=evolve(exchange.inquiry, prompt=told)))

    async def renewed(self, exchange: Exchange) -> Exchange | None:
        """The same request with a newer token; ``None`` where there is none to be had."""
        credential = await exchange.route.provider.credentials.renew(exchange.credential)
        return None if credential is None else await self._rendered(evolve(exchange, credential=credential))

    async def rest(self, exchange: Exchange, error: KiroAsgiError) -> KiroAsgiError:
        """Let the credential rest that was used, unless *error* says nothing about further requests.

        Returns:
            *error*, with the time of the next quota where that is what it is about.
        """
        provider, model = exchange.route.provider, exchange.model.id
        if not error.asked or isinstance(error, UpstreamRequestTooCostly):
            return error
        provider.credentials.cool(exchange.credential, error, model)
        if isinstance(error, UpstreamQuotaSpent):
            error = await provider.with_reset(error, exchange.credential, self._clocks.wall())
            provider.credentials.cool(exchange.credential, error, model)
        return error

    async def elsewhere(self, exchange: Exchange, error: KiroAsgiError, *, besides: Collection[Credential]) -> Exchange:
        """The same request with a credential that is none of *besides*, while the one that was used rests.

        Raises:
            KiroAsgiError: *error*, where no other is left.
        """
        error = await self.rest(exchange, error)
        try:
            credential = await exchange.route.provider.credentials.get(exchange.model.id, besides=besides)
        except KiroAsgiError:
            raise error from None
        return await self._rendered(evolve(exchange, credential=credential))

    def without_service(self, exchange: Exchange) -> Exchange:
        """*exchange* as it never asks another account of the service that it has asked."""
        return evolve(exchange, route=self.models.without_service(exchange.route))

    def rests(self) -> Iterator[tuple[str, KiroAsgiError, float]]:
        """Credentials that rest now: the name of each, why, and the seconds until somebody may ask."""
        for provider in self._providers:
            yield from provider.credentials.rests()

    async def at_another_upstream(self, exchange: Exchange, error: KiroAsgiError) -> Exchange:
        """The same request where the operator wrote that it may be asked next.

        Raises:
            KiroAsgiError: *error*, where there is no such place, or it would be no remedy.
        """
        return await self._first(partial(self._settled, exchange.asked), exchange.route.rest, error)

    async def finished(self, exchange: Exchange, answer: Answer) -> None:
        """Learn from an answer that has been given."""
        assert answer.end is not None, "the answer has not ended"
        exchange.route.provider.learn(exchange.model, exchange.upstream)
        if not answer.resumed:  # where a prompt was read several times, so it was counted
            self._calibration.observe(exchange.model.id, exchange.weight, answer.end.usage)
        await self._signatures.remember(answer.call_signatures, exchange.asked.principal)
        await self._recovery.remember(exchange.recovered, answer)

    async def _rendered(self, exchange: Exchange) -> Exchange:
        """*exchange* with its prompt put anew."""
        upstream, model, credential = exchange.upstream, exchange.model, exchange.credential
        if exchange.passed is not None:
            return evolve(exchange, rendered=rendered(exchange.passed, upstream, model, credential))
        work = partial(upstream.render, exchange.inquiry.prompt, model, credential, exchange.conversation)
        return evolve(exchange, rendered=await self.offload.run(exchange.asked.size, work))

    async def aclose(self) -> None:
        """Let go of what the running event loop holds."""
        for provider in self._providers:
            await provider.catalogue.landed()
            await provider.credentials.aclose()
        for provider in self._providers:
            await provider.transport.aclose()
        await self._attachments.aclose()
        await self.store.aclose()


def _held(given: tuple[str, ...], providers: tuple[Provider, ...]) -> Iterator[str]:
    """All secrets: those of the settings, and the tokens that there are now."""
    yield from given
    for provider in providers:
        yield from provider.credentials.secrets


def _with_notes(dialect: Dialect, parse: Callable[[], Inquiry], body: bytes) -> Inquiry:
    inquiry = parse()
    return evolve(inquiry, notes=dialect.notes(body, inquiry))
