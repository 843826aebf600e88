"""The upstream side of one app: whom to ask, how, and what is learnt from the answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from attrs import define, evolve, field

from kiro_asgi.asgi.conversations import Conversations
from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.recovery import Recovery
from kiro_asgi.asgi.server_tools import KiroWebSearch, ServerTool, Toolbox
from kiro_asgi.asgi.wiring import kiro_upstream, kiro_vendor, new_store, new_transport, retry_policy
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import Dialect, Inquiry
from kiro_asgi.errors import KiroAsgiError, UpstreamQuotaSpent, UpstreamRejected
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.net.asking import Asker
from kiro_asgi.net.catalogue import LIST_TIMEOUT, Catalogue, ModelSource
from kiro_asgi.net.credentials import Clocks, Credentials
from kiro_asgi.net.retry import RetryPolicy
from kiro_asgi.net.transport import Transport
from kiro_asgi.stages.answer import Answer
from kiro_asgi.stages.calibration import Calibration
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.state.base import Store
from kiro_asgi.upstreams.base import Credential
from kiro_asgi.upstreams.kiro import KiroUpstream
from kiro_asgi.upstreams.kiro.aliases import read_aliases
from kiro_asgi.upstreams.kiro.auth import without_profile
from kiro_asgi.upstreams.kiro.limits import parse_reset
from kiro_asgi.upstreams.kiro.models import FALLBACK, did_you_mean, parse_models
from kiro_asgi.upstreams.kiro.spelling import normalise, with_wishes

__all__ = ["Service"]

_LIMITS_TIMEOUT: Final = 5.0
"""Seconds for a question while a client waits for something else."""


@define(kw_only=True)
class Service:
    """Everything an app needs to ask its upstream."""

    transport: Transport
    policy: RetryPolicy
    upstream: KiroUpstream
    credentials: Credentials
    asker: Asker
    conversations: Conversations
    catalogue: Catalogue
    toolbox: Toolbox
    store: Store
    recovery: Recovery
    estimator: Estimator
    calibration: Calibration = field(factory=Calibration)
    _clocks: Clocks
    _token: Callable[[], str]

    @classmethod
    def create(
        cls,
        settings: Settings,
        clocks: Clocks,
        token: Callable[[], str],
        estimator: Estimator,
        server_tools: Sequence[ServerTool] = (),
    ) -> Service:
        """Build it from settings; opens no connection.

        Raises:
            ConfigError: There is no credential, or one that cannot be used.
        """
        transport, upstream, kiro = new_transport(settings), kiro_upstream(settings), settings.kiro
        credentials = Credentials.create(kiro, kiro_vendor(settings), transport, clocks)
        asker, store = Asker(transport, credentials, upstream.fault), new_store(settings, clocks)
        search = KiroWebSearch(asker, upstream, kiro.server_tool_timeout)
        return cls(
            transport=transport,
            policy=retry_policy(settings),
            upstream=upstream,
            credentials=credentials,
            asker=asker,
            conversations=Conversations.by(kiro.conversation_salt),
            catalogue=_catalogue(settings, asker, upstream),
            toolbox=Toolbox((*server_tools, *([search] if kiro.web_search else [])), kiro.server_tool_timeout),
            store=store,
            recovery=Recovery(store, settings.recovery.ttl, settings.recovery.enabled),
            estimator=estimator,
            clocks=clocks,
            token=token,
        )

    async def exchange(self, dialect: Dialect, inquiry: Inquiry, request_id: str, principal: str) -> Exchange:
        """Settle all facts about a request.

        Raises:
            RequestError: The upstream cannot be asked this.
            UpstreamError: There is no credential to ask with, or it rests.
        """
        model = await self.catalogue.find(inquiry.prompt.model)
        credential = await self.credentials.get()
        recovered = await self.recovery.prepare(self._adapted(inquiry.prompt, model.id), principal)
        conversation = self.conversations.name(principal, inquiry.prompt.session)
        rendered = self.upstream.render(recovered.prompt, model, credential, conversation)
        weight = self.upstream.weigh(rendered, self.estimator)
        return Exchange(
            request_id=request_id,
            principal=principal,
            dialect=dialect,
            inquiry=evolve(inquiry, prompt=recovered.prompt),
            heading=dialect.heading(inquiry, self._token, int(self._clocks.wall())),
            upstream=self.upstream,
            model=model,
            credential=credential,
            conversation=conversation,
            rendered=rendered,
            estimator=self.estimator,
            weight=weight,
            output_factor=self.calibration.output_factor(model.id),
            input_tokens=self.calibration.tokens(model.id, weight),
            toolbox=self.toolbox,
            recovered=recovered,
        )

    async def count(self, prompt: Prompt) -> int:
        """Tokens of *prompt* as it would be sent.

        Raises:
            KiroAsgiError: As for `exchange`.
        """
        model = await self.catalogue.find(prompt.model)
        credential = await self.credentials.get()
        rendered = self.upstream.render(self._adapted(prompt, model.id), model, credential)
        return self.calibration.tokens(model.id, self.upstream.weigh(rendered, self.estimator))

    def _adapted(self, prompt: Prompt, model: str) -> Prompt:
        """*prompt* with the wishes that its model's name spells out, and honest about tools that are missing here."""
        name = self.catalogue.meant(prompt.model)
        return self.toolbox.offer(evolve(prompt, thinking=with_wishes(prompt.thinking, name, model)))

    def healed(self, exchange: Exchange, error: KiroAsgiError) -> Exchange | None:
        """The same request in other words, where *error* says that the words were the trouble."""
        upstream = exchange.upstream.healed(error, exchange.rendered)
        return None if upstream is None else _rendered(evolve(exchange, upstream=upstream))

    async def renewed(self, exchange: Exchange) -> Exchange | None:
        """The same request with a newer token; ``None`` where there is none to be had."""
        credential = await self.credentials.renew(exchange.credential)
        return None if credential is None else _rendered(evolve(exchange, credential=credential))

    async def elsewhere(
        self, exchange: Exchange, error: KiroAsgiError, seconds: float, *, besides: Collection[Credential]
    ) -> Exchange:
        """The same request with a credential that is none of *besides*, while the one that was used rests.

        Raises:
            KiroAsgiError: *error*, where no other is left.
        """
        if isinstance(error, UpstreamQuotaSpent):
            error = await self._with_reset(error, exchange)
        self.credentials.cool(exchange.credential, error, seconds)
        try:
            credential = await self.credentials.get(besides=besides)
        except KiroAsgiError:
            raise error from None
        return _rendered(evolve(exchange, credential=credential))

    async def _with_reset(self, error: UpstreamQuotaSpent, exchange: Exchange) -> UpstreamQuotaSpent:
        """*error* with the time of the next quota, if the upstream can be asked for it."""
        try:
            reset = parse_reset(await self._limits(exchange.credential))
        except KiroAsgiError:
            return error
        if reset is None:
            return error
        moment = datetime.fromtimestamp(reset, UTC).strftime("%Y-%m-%d %H:%M UTC")
        seconds = max(reset - self._clocks.wall(), 0.0)
        return type(error)(f"{error.message}; resets at {moment}", code=error.code, retry_after=seconds)

    async def _limits(self, credential: Credential) -> bytes:
        ask = partial(self.asker.ask, self.upstream.limits_request, patience=_LIMITS_TIMEOUT)
        try:
            return await ask(credential=credential)
        except UpstreamRejected:  # some enterprise accounts must not name their profile here
            return await ask(credential=without_profile(credential))

    async def finished(self, exchange: Exchange, answer: Answer) -> None:
        """Learn from an answer that has been given."""
        assert answer.end is not None, "the answer has not ended"
        self.calibration.observe(exchange.model.id, exchange.weight, answer.end.usage)
        await self.recovery.remember(exchange.recovered, answer)

    async def aclose(self) -> None:
        """Let go of what the running event loop holds."""
        await self.credentials.aclose()
        await self.transport.aclose()
        await self.store.aclose()


def _rendered(exchange: Exchange) -> Exchange:
    """*exchange* with its prompt put anew."""
    prompt, model, credential = exchange.inquiry.prompt, exchange.model, exchange.credential
    return evolve(exchange, rendered=exchange.upstream.render(prompt, model, credential, exchange.conversation))


def _catalogue(settings: Settings, asker: Asker, upstream: KiroUpstream) -> Catalogue:
    async def ask(page: str) -> bytes:
        return await asker.ask(partial(upstream.models_request, page=page), patience=LIST_TIMEOUT)

    source = ModelSource(
        ask=ask,
        parse=parse_models,
        normalise=normalise,
        suggest=did_you_mean,
        builtin=FALLBACK,
        aliases=read_aliases(settings.kiro.model_aliases),
    )
    return Catalogue(source, settings.kiro.models_ttl)
