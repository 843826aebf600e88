"""From settings to an application: each part is made once, when another one asks for it.

This is the one module that knows the application, the client APIs and what records them.  `kiro_asgi.create` adds the
inspector, which replays recordings, and so stands above.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import chain
from logging import getLogger
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import anyio
import anyio.to_thread
from attrs import define, evolve, frozen

from kiro_asgi.apis.description import Description
from kiro_asgi.apis.gateway import GatewayOperations
from kiro_asgi.apis.operations import Gateway, handlers_of
from kiro_asgi.apis.start_page import StartPage
from kiro_asgi.asgi.door.app import App
from kiro_asgi.asgi.door.auth import Authenticator, CrossOrigin
from kiro_asgi.asgi.door.door import Door, Handler, Router
from kiro_asgi.asgi.door.layers import Answers, Pages, layered, with_cross_origin, with_host, with_pages
from kiro_asgi.asgi.door.parts import Additions, Internals, usual_internals
from kiro_asgi.asgi.door.readiness import ReadinessCheck, ReadinessReason, problems_with
from kiro_asgi.asgi.door.situation import Situation
from kiro_asgi.asgi.exchange.admission import (
    Admission,
    CredentialLimits,
    LimitedCredentials,
    Reservations,
    UnlimitedCredentials,
    credential_allowances,
    new_admission,
    new_reservations,
)
from kiro_asgi.asgi.exchange.call import Bodies, CallsUnderWay
from kiro_asgi.asgi.exchange.embeddings import EmbeddingFactory
from kiro_asgi.asgi.exchange.factory import ConversationIds, ExchangeFactory
from kiro_asgi.asgi.exchange.model_routes import Models, Provider
from kiro_asgi.asgi.exchange.observation import Observers
from kiro_asgi.asgi.exchange.providers import in_effect, new_providers, new_registry, new_store
from kiro_asgi.asgi.exchange.reading import AnswerContext
from kiro_asgi.asgi.exchange.relay import Replies
from kiro_asgi.asgi.exchange.settling import Settler
from kiro_asgi.asgi.kept.attachments import AttachmentFetcher, AttachmentSource
from kiro_asgi.asgi.kept.extensions import observers_of, stages_of
from kiro_asgi.asgi.kept.hosted import STAGES, HostedEstimator, HostedParts
from kiro_asgi.asgi.kept.known import Known
from kiro_asgi.asgi.kept.memory import Recovery, Signatures
from kiro_asgi.asgi.kept.prices import new_prices
from kiro_asgi.asgi.kept.secrets import Secrets, held_in, hide_in_logs, secrets_in
from kiro_asgi.asgi.kept.taping import (
    RecordedCalibration,
    RecordedCredentials,
    RecordedFiles,
    RecordedStore,
    Taping,
    new_taping,
    recorded_reset,
)
from kiro_asgi.asgi.kept.usage import UsageObserver, new_ledger, usage_rows
from kiro_asgi.asgi.protocol import Scope
from kiro_asgi.asgi.routing import DESCRIPTION, GATEWAY, Routes, new_dialects
from kiro_asgi.asgi.scheduling import Background, Pace
from kiro_asgi.config import Settings
from kiro_asgi.config.validation import require
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.manifest import DialectManifest, Endpoint, QuotaHeaders
from kiro_asgi.loops import PerLoop
from kiro_asgi.model.prices import Prices
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.retry import RetryPolicy
from kiro_asgi.observers.base import Observer
from kiro_asgi.observers.logs import AccessLog
from kiro_asgi.quota.base import Ledger, UsageRow
from kiro_asgi.quota.ledger import UsageWriter
from kiro_asgi.quota.settings import Allowance, standing_of
from kiro_asgi.stages.estimate import Calibration, Estimator, TokenEstimator
from kiro_asgi.stages.own import OwnStage
from kiro_asgi.state.base import Store
from kiro_asgi.state.memory import MemoryStore

_log = getLogger("kiro_asgi")


@frozen
class Insight:
    """What pages for people can show of an application."""

    settings: Settings
    situation: Situation
    taping: Taping | None
    usage: Callable[[str, str], Iterable[UsageRow]] | None
    """The ledger's rows from one day to another, both included; blocks.  ``None`` where none is kept."""


class ObservingPages(Pages, Protocol):
    """Pages that show calls."""

    @property
    def path(self) -> str:
        """Where they begin, below the mount point."""
        ...

    @property
    def calls(self) -> Observer:
        """Receives the facts of every call."""
        ...


NewPages = Callable[[Insight], ObservingPages]


def compose(
    settings: Settings,
    additions: Additions = Additions(),  # noqa: B008 - a frozen value
    internals: Internals | None = None,
    new_pages: NewPages | None = None,
) -> App:
    """Make an application.

    Args:
        settings: How to serve, and from where.
        additions: What the program that uses it adds.
        internals: Parts that a replay makes differently; ``None`` for the usual ones, or for a simulated service where
            *settings* ask for it.
        new_pages: Makes pages for people; ``None`` for none.

    Raises:
        ConfigError: The settings let no client in, or hold no credential to ask with.
    """
    settings = settings.with_defaults(*additions.upstreams, *additions.dialects)
    require(problems_with(settings, find=additions.keys))
    if internals is None:
        settings, internals = in_effect(settings), usual_internals(settings)
        if settings.simulate:
            _log.warning("simulated: no service is asked, and all answers are made up, as simulate is set")
    return _Parts(settings, additions, internals, new_pages).app


@define(eq=False, repr=False, slots=False)
class _Parts:
    """The parts of one application, by what they do."""

    _settings: Settings
    _additions: Additions
    _internals: Internals
    _new_pages: NewPages | None

    @cached_property
    def app(self) -> App:
        """All of it."""
        hide_in_logs(self._secrets)
        host = self._additions.inner
        own: Answers = self._router.http
        around_sockets = [] if host is None else [with_host(host, self._routes)]
        pages = [] if self._pages is None else [with_pages(self._pages)]
        start = [with_pages(self._start_page)] if self._settings.start_page else []
        return App(
            http=layered(own, [*pages, *around_sockets, *start, with_cross_origin(self._cross_origin, self._routes)]),
            websocket=layered(self._router.websocket, around_sockets),
            host=host,
            trusts_host=self._settings.client.trust_host,
            readiness=self._readiness,
            calls=self._calls,
            background=self._background,
            pace=self._context.pace,
            draining=() if self._pages is None else (self._pages.close,),
            closing=tuple(self._closing()),
        )

    @cached_property
    def _start_page(self) -> StartPage:
        inspector = "" if self._pages is None else self._pages.path
        models, readiness = self._exchanges.models, self._situation.readiness
        return StartPage(tuple(self._dialects), self._auth, models, readiness, inspector)

    def _closing(self) -> Iterator[Callable[[], Awaitable[None]]]:
        yield self._background.aclose
        yield partial(_at_once, [each.catalogue.aclose for each in self._providers])
        yield from (each.credentials.aclose for each in self._providers)
        yield self._close_connections
        yield self._reservations.aclose
        yield self._observers.aclose
        if self._ledger is not None:
            yield partial(_in_thread, self._ledger.close)
        if self._taping is not None and self._taping.folder is not None:
            yield partial(_in_thread, self._taping.folder.close)
        yield self._store.aclose

    async def _close_connections(self) -> None:
        """Close the idle connections of the running event loop."""
        for provider in self._providers:
            await provider.transport.aclose()
        await self._exchanges.aclose()

    # What comes in.

    @cached_property
    def _router(self) -> Router:
        return Router(door=self._door, routes=self._routes, handlers=self._handlers, readiness=self._readiness)

    @cached_property
    def _door(self) -> Door:
        return Door(
            routes=self._routes,
            dialects={api.name: dialect for api, dialect in self._dialects.items()},
            auth=self._auth,
            calls=self._calls,
            bodies=Bodies(self._settings.limits.body_bytes_in_flight),
            observers=self._observers,
            readiness=self._readiness,
            secrets=self._secrets,
            clocks=self._clocks,
            token=self._token,
            write_timeout=self._settings.limits.write_timeout,
            raise_unexpected=self._settings.raise_unexpected,
        )

    @cached_property
    def _dialects(self) -> Mapping[DialectManifest, Dialect]:
        return new_dialects(self._settings)

    @cached_property
    def _routes(self) -> Routes:
        described = (DESCRIPTION,) if self._settings.openapi == "on" else ()
        return Routes(tuple(self._dialects), (*GATEWAY, *described))

    @cached_property
    def _cross_origin(self) -> CrossOrigin:
        return CrossOrigin(self._settings.cors.origins, self._routes.exposed_headers)

    @cached_property
    def _auth(self) -> Authenticator:
        routes, settings = self._routes, self._settings
        headers, parameters, wall = routes.key_headers, routes.key_parameters, self._internals.clocks.wall
        for name, key in settings.keys.items():
            if (standing := standing_of(key, wall())) not in ("active", "disabled"):
                _log.warning("the key %s %s; kiro-asgi keys rotate %s makes another one", name, standing, name)
        return Authenticator(
            settings, self._cross_origin, headers, parameters, self._additions.keys, self._internals.clocks
        )

    @cached_property
    def _calls(self) -> CallsUnderWay:
        return CallsUnderWay()

    # What answers.

    @cached_property
    def _handlers(self) -> Mapping[Endpoint, Handler]:
        own = GatewayOperations(self._models, self._auth, self._situation, self._description.document)
        handlers: dict[Endpoint, Handler] = {it: getattr(own, it.operation) for it in self._routes.own}
        for api, dialect in self._dialects.items():
            handlers |= handlers_of(api, dialect, self._gateway)
        return handlers

    @cached_property
    def _description(self) -> Description:
        routes, client = self._routes, self._settings.client
        needs_key = bool(client.api_keys or self._settings.keys) or not client.allow_anonymous
        operations, keys = GatewayOperations, (routes.key_headers, routes.key_parameters)
        return Description(self._dialects, routes.own, operations, *keys, needs_key)

    @cached_property
    def _gateway(self) -> Gateway:
        return Gateway(
            settings=self._settings,
            store=self._earlier,
            is_forgetful=self._settings.state.engine == "auto" and isinstance(self._store, MemoryStore),
            offload=self._context.offload,
            pace=self._context.pace,
            exchanges=self._exchanges,
            stages=self._stages,
            transparent=frozenset(chain.from_iterable(provider.dialects for provider in self._providers)),
            token=self._token,
            wall=self._dates,
            reply=self._replies(self._exchanges).reply,
            count=self._admission.count,
            embed=self._replies(self._embeddings).reply,
            answer_within=self._door.answer_within,
            recalled=Known(self._settings.limits.known_bytes, self._clocks.steady).of,
            background=self._background,
        )

    @cached_property
    def _stages(self) -> tuple[OwnStage, ...]:
        given = (OwnStage(f"stages[{at}]", make) for at, make in enumerate(self._additions.stages))
        watch = partial(self._hosted.timed, STAGES)
        return tuple(evolve(stage, watch=watch) for stage in (*given, *stages_of(self._settings)))

    @cached_property
    def _background(self) -> Background:
        return Background(self._settings.responses.background, self._calls.interrupt, self._close_connections)

    def _replies(self, exchanges: Settler[Any]) -> Replies:
        limits, renewal = self._credential_limits, self._reservations.renewal
        return Replies(self._context, exchanges, self._admission, limits, renewal)

    @cached_property
    def _admission(self) -> Admission:
        wall = self._internals.clocks.wall
        return new_admission(self._client_limits, self._reservations, self._quota_headers, wall, self._prices)

    @cached_property
    def _client_limits(self) -> tuple[Allowance, ...] | None:
        """All that clients and groups have; ``None`` where the host's table has clients of its own."""
        if self._additions.keys is not None:
            return None
        settings, clients = self._settings, self._auth.clients.values()
        return (settings.quotas, *(each.limits for each in clients), *settings.groups.values())

    @cached_property
    def _prices(self) -> Prices:
        return new_prices(self._settings.prices)

    def _quota_headers(self, scope: Scope) -> QuotaHeaders:
        return self._routes.api(scope).quota_headers

    @cached_property
    def _context(self) -> AnswerContext:
        return AnswerContext(
            settings=self._settings,
            clocks=self._clocks,
            policy=RetryPolicy(self._settings.retry),
            secrets=self._secrets,
            offload=self._internals.offload,
            pace=PerLoop(partial(Pace, self._clocks.steady)),
            retry_count_headers=self._routes.retry_count_headers,
            prices=self._prices,
            pipeline=self._internals.pipeline,
        )

    @cached_property
    def _exchanges(self) -> ExchangeFactory:
        settings = self._settings
        return ExchangeFactory(
            models=self._models,
            policy=self._context.policy,
            offload=self._context.offload,
            conversations=ConversationIds.by(settings.conversation_salt),
            recovery=Recovery(self._earlier, settings.recovery.ttl, settings.recovery.enabled),
            signatures=Signatures(self._earlier, settings.state.ttl),
            attachments=AttachmentFetcher(self._files),
            estimator=self._estimator,
            calibration=self._calibration,
            stream=settings.stream,
        )

    @cached_property
    def _embeddings(self) -> EmbeddingFactory:
        return EmbeddingFactory(
            models=self._models,
            policy=self._context.policy,
            offload=self._internals.offload,
            pace=self._context.pace,
            estimator=self._estimator,
        )

    @cached_property
    def _models(self) -> Models:
        registry = new_registry(self._settings, self._named_providers)
        return Models(registry, self._named_providers, self._prices)

    @cached_property
    def _files(self) -> AttachmentSource | None:
        source = self._internals.fetcher(self._settings)
        return source if source is None or self._taping is None else RecordedFiles(source, self._taping.recorder)

    @cached_property
    def _calibration(self) -> Calibration:
        if self._taping is None:
            return self._internals.calibration
        return RecordedCalibration(recorder=self._taping.recorder)

    # Whom it asks.

    @cached_property
    def _named_providers(self) -> Mapping[str, Provider]:
        made = new_providers(
            self._settings,
            self._clocks,
            self._additions.server_tools,
            self._store,
            token=self._token,
            transports=self._internals.transports,
            context_windows=self._internals.context_windows,
            hosted=self._hosted,
        )
        return {name: self._internals.provider(self._recorded_provider(each)) for name, each in made.items()}

    def _recorded_provider(self, provider: Provider) -> Provider:
        if self._taping is None:
            return provider
        recorder = self._taping.recorder
        return evolve(
            provider,
            credentials=RecordedCredentials.of(provider.credentials, provider.name, recorder),
            ask_reset=recorded_reset(provider.ask_reset, recorder),
        )

    @cached_property
    def _providers(self) -> tuple[Provider, ...]:
        return tuple(self._named_providers.values())

    @cached_property
    def _secrets(self) -> Secrets:
        credentials = [each.credentials for each in self._providers]
        return Secrets(partial(held_in, tuple(secrets_in(self._settings)), credentials))

    # What it keeps and counts.

    @cached_property
    def _store(self) -> Store:
        given = self._additions.store
        return new_store(self._settings, self._clocks) if given is None else given

    @cached_property
    def _earlier(self) -> Store:
        """The store as calls read it: recorded where they are."""
        return self._store if self._taping is None else RecordedStore(self._store, self._taping.recorder)

    @cached_property
    def _credential_limits(self) -> CredentialLimits:
        limited = self._limited_credentials
        if not limited:
            return UnlimitedCredentials()
        return LimitedCredentials(limited, self._reservations, self._clocks.steady, self._prices)

    @cached_property
    def _limited_credentials(self) -> Mapping[str, Allowance]:
        names = [name for each in self._providers for name in each.credentials.names]
        return credential_allowances(self._settings.credentials, names)

    @cached_property
    def _reservations(self) -> Reservations:
        clients = self._client_limits
        allowances = None if clients is None else (*clients, *self._limited_credentials.values())
        return new_reservations(self._settings, allowances, self._clocks)

    @cached_property
    def _ledger(self) -> UsageWriter | None:
        return UsageWriter(self._sums) if self._settings.state.usage else None

    @cached_property
    def _sums(self) -> Ledger:
        return new_ledger(self._settings)

    def _usage(self) -> Callable[[str, str], Iterable[UsageRow]] | None:
        """The ledger's rows of some days; a shared one is opened for each query, so that no writer waits."""
        state = self._settings.state
        if not state.usage:
            return None
        return partial(usage_rows, self._settings) if state.is_shared else self._sums.rows

    # What others see.

    @cached_property
    def _readiness(self) -> ReadinessCheck:
        return ReadinessCheck(self._providers, self._store, self._settings.simulate, self._troubled)

    @cached_property
    def _hosted(self) -> HostedParts:
        return HostedParts(self._internals.clocks.steady)

    def _troubled(self) -> Iterator[str]:
        """Kinds of parts from outside that do not keep up."""
        yield from self._hosted.troubled()
        if self._auth.is_failing:
            yield ReadinessReason.KEYS

    @cached_property
    def _estimator(self) -> Estimator:
        given = self._additions.estimator
        return given if isinstance(given, TokenEstimator) else HostedEstimator(given, self._hosted)

    @cached_property
    def _situation(self) -> Situation:
        return Situation(self._settings, self._readiness, self._providers, self._credential_limits)

    @cached_property
    def _observers(self) -> Observers:
        observers = [*self._additions.observers, *observers_of(self._settings)]
        outside = len(observers)
        if self._taping is not None:
            observers.append(self._taping.recorder)
        if self._ledger is not None:
            zone = ZoneInfo(self._settings.quotas.timezone)
            observers.append(UsageObserver(self._ledger, zone, self._prices))
        if self._pages is not None:
            observers.append(self._pages.calls)
        log = AccessLog(self._situation.resting)
        return Observers(tuple(observers), log, self._routes, self._clocks, self._hosted, outside)

    @cached_property
    def _pages(self) -> ObservingPages | None:
        if self._new_pages is None:
            return None
        return self._new_pages(Insight(self._settings, self._situation, self._taping, self._usage()))

    # Time, chance, and what is recorded of them.

    @cached_property
    def _taping(self) -> Taping | None:
        return new_taping(self._settings, lambda: self._secrets.redactor, self._internals.clocks.steady)

    def _recorded(self, name: str, source: Callable[[], Any]) -> Callable[[], Any]:
        return source if self._taping is None else self._taping.recorder.recorded(name, source)

    @cached_property
    def _clocks(self) -> Clocks:
        given = self._internals.clocks
        return Clocks(given.steady, given.wall, self._recorded("draw", given.draw))

    @cached_property
    def _token(self) -> Callable[[], str]:
        """Makes 24 characters for ids."""
        return self._recorded("token", self._internals.token)

    @cached_property
    def _dates(self) -> Callable[[], float]:
        """Seconds since the epoch, for dates in answers."""
        return self._recorded("clock", self._internals.dates or self._internals.clocks.wall)


async def _at_once(closing: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    async with anyio.create_task_group() as group:
        for close in closing:
            group.start_soon(close)


async def _in_thread(close: Callable[[], None]) -> None:
    """Wait for *close*, which writes to a file, even if the end is cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(close)
