"""The ASGI 3 application: routes a request, settles its facts, and hands it to the relay."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from logging import getLogger
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import anyio.to_thread
from attrs import evolve

from kiro_asgi._version import __version__
from kiro_asgi.asgi.admission import (
    CredentialLimits,
    LimitedCredentials,
    UnlimitedCredentials,
    allowances_in,
    credential_allowances,
    new_admission,
    new_reservations,
)
from kiro_asgi.asgi.attachments import AttachmentFetcher, AttachmentSource
from kiro_asgi.asgi.auth import Authenticator, CrossOrigin
from kiro_asgi.asgi.call import Bodies, Call, CallsUnderWay, Share, stopping
from kiro_asgi.asgi.exchange import ClientRequest, Exchange
from kiro_asgi.asgi.exchanges import ConversationIds, ExchangeFactory
from kiro_asgi.asgi.memory import Recovery, Signatures
from kiro_asgi.asgi.models import Models
from kiro_asgi.asgi.observation import Observers
from kiro_asgi.asgi.operations import Gateway, Handler, handlers_of, new_dialects
from kiro_asgi.asgi.output import Output
from kiro_asgi.asgi.protocol import (
    JSON,
    AnyASGIApp,
    Disconnected,
    Headers,
    Listener,
    Receive,
    Scope,
    Send,
    Stalled,
    handshake_send,
    host_lifespan,
    response_body,
    response_start,
)
from kiro_asgi.asgi.providers import Internals, in_effect, new_providers, new_registry, new_store, usual_internals
from kiro_asgi.asgi.readiness import Readiness, ReadinessCheck, problems_with, settings_to_serve
from kiro_asgi.asgi.reading import AnswerContext
from kiro_asgi.asgi.relay import Attempts, Relay
from kiro_asgi.asgi.reports import rules_header, wants_rules
from kiro_asgi.asgi.routing import GATEWAY, PROBES, Routes
from kiro_asgi.asgi.scheduling import Background, Pace
from kiro_asgi.asgi.secrets import Secrets, held_in, hide_in_logs, secrets_in
from kiro_asgi.asgi.server_tools import ServerTool
from kiro_asgi.asgi.taping import RecordedCalibration, RecordedFiles, RecordedStore, new_taping, shown_settings
from kiro_asgi.asgi.usage import UsageObserver, new_ledger, usage_rows
from kiro_asgi.config import Settings
from kiro_asgi.config.rules import require
from kiro_asgi.dialects.manifest import WEBSOCKET, DialectManifest, Endpoint
from kiro_asgi.dialects.models import render_model, render_models
from kiro_asgi.errors import ConfigError, InternalError, KiroAsgiError, RequestError, StoreUnavailable, UnknownModel
from kiro_asgi.loops import PerLoop
from kiro_asgi.model.message import replay
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.lookups import OWNER
from kiro_asgi.net.retry import RetryPolicy
from kiro_asgi.observers.base import Observer, Outcome
from kiro_asgi.observers.logs import AccessLog
from kiro_asgi.quota.ledger import UsageWriter
from kiro_asgi.stages.base import StageFactory
from kiro_asgi.stages.estimate import Estimator, TokenEstimator
from kiro_asgi.state.base import Store
from kiro_asgi.upstreams.manifest import Manifest, new_token
from kiro_asgi.wire.json import dumps

if TYPE_CHECKING:
    from kiro_asgi.inspector.site import Inspector

_log = getLogger("kiro_asgi")

_ALIVE: Final = dumps({"status": "ok"})

_DEBUG_EXTENSION: Final = "http.response.debug"
"""Of hosts under test: Starlette's test client has it in its scopes."""


class App:
    """The gateway as an ASGI 3 application.

    It opens nothing until the first request that needs an upstream, so a host need not send lifespan events.

    Args:
        settings: How to serve, and from where.
        inner: Another application that gets every request whose path is not ours, as if this were its middleware.
        upstreams: Services in addition to those of the package; *settings* of `Settings.including` hold theirs, in
            others they have their defaults.
        dialects: Client APIs in addition to those of the package, with settings likewise; those that *settings*
            have a table for are served without being named here.
        stages: Make stages for every answer: each is made for each try, and sees what the client is going to be shown.
            The first is the first to see it.
        store: Keeps what outlives a request, instead of the store that ``state.engine`` names.
        server_tools: Tools to run here instead of leaving them to the client; they go before those of the service.
        estimator: Counts tokens where the service does not.
        observers: Receive the facts of every call; see `kiro_asgi.observers`.
        may_inspect: Decides whether the sender of a request, given as its scope, may see the inspector; called where
            ``inspector.trust_host`` is set.
        clock: Monotonic seconds.
        wall_clock: Seconds since the epoch, for ``created``.
        token: Makes 24 characters for ids.
        draw: Makes numbers from 0 to 1, for jitter.
        internals: Parts that a replay makes differently; ``None`` for the usual ones, or for a simulated service where
            *settings* ask for it.

    Raises:
        ConfigError: The settings let no client in, or hold no credential to ask with.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        inner: AnyASGIApp | None = None,
        upstreams: Sequence[Manifest[Any]] = (),
        dialects: Sequence[DialectManifest] = (),
        stages: Sequence[StageFactory] = (),
        store: Store | None = None,
        server_tools: Sequence[ServerTool] = (),
        estimator: Estimator = TokenEstimator(),  # noqa: B008 - a frozen value
        observers: Sequence[Observer] = (),
        may_inspect: Callable[[Scope], Awaitable[bool]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        token: Callable[[], str] = new_token,
        draw: Callable[[], float] = random.random,
        internals: Internals | None = None,
    ) -> None:
        settings = settings.with_defaults(*upstreams, *dialects)
        require(problems_with(settings))
        if internals is None:
            settings, internals = in_effect(settings), usual_internals(settings)
            if settings.simulate:
                _log.warning("simulated: no service is asked, and all answers are made up, as simulate is set")
        self._settings = settings
        self._inner = inner
        self._clock = clock
        self._calls = CallsUnderWay()
        self._bodies = Bodies(settings.limits.body_bytes_in_flight)
        made = new_dialects(settings)
        self._routes = Routes(tuple(made))
        self._id_headers = self._routes.request_id_headers
        self._cross_origin = CrossOrigin(settings.cors.origins, self._routes.exposed_headers)
        self._auth = Authenticator(
            settings.client,
            self._cross_origin,
            self._routes.key_headers,
            self._routes.key_parameters,
            settings.keys,
            wall_clock,
        )
        dates = internals.dates or wall_clock
        self._taping = new_taping(settings, lambda: self._context.secrets.redactor, clock)
        if self._taping is not None:
            recorder = self._taping.recorder
            observers = (*observers, recorder)
            token, draw = recorder.recorded("token", token), recorder.recorded("draw", draw)
            dates = recorder.recorded("clock", wall_clock)
        clocks = Clocks(clock, wall_clock, draw)
        self._token, self._draw = token, draw
        self._store = new_store(settings, clocks) if store is None else store
        providers = new_providers(
            settings,
            clocks,
            server_tools,
            self._store,
            token=token,
            transports=internals.transports,
            context_windows=internals.context_windows,
        )
        self._providers = tuple(providers.values())
        self._readiness = ReadinessCheck(self._providers, self._store, settings.simulate)
        limited = credential_allowances(
            settings.credentials, [name for each in self._providers for name in each.credentials.names]
        )
        allowances = (settings.quotas, *allowances_in(settings).values(), *limited.values())
        self._reservations = reservations = new_reservations(settings, allowances, clocks)
        self._credential_limits: CredentialLimits = (
            LimitedCredentials(limited, reservations, clock) if limited else UnlimitedCredentials()
        )
        held = partial(held_in, tuple(secrets_in(settings)), [each.credentials for each in self._providers])
        self._context = context = AnswerContext(
            settings=settings,
            clocks=clocks,
            policy=RetryPolicy(settings.retry),
            secrets=Secrets(held),
            offload=internals.offload,
            pace=PerLoop(partial(Pace, clock)),
            retry_count_headers=self._routes.retry_count_headers,
            credential_limits=self._credential_limits,
            pipeline=internals.pipeline,
        )
        hide_in_logs(context.secrets)
        self._usage = UsageWriter(new_ledger(settings)) if settings.state.usage else None
        if self._usage is not None:
            observers = (*observers, UsageObserver(self._usage, ZoneInfo(settings.quotas.timezone)))
        self._inspector = self._new_inspector(may_inspect) if settings.inspector.enabled else None
        if self._inspector is not None:
            observers = (*observers, self._inspector.calls)
        self._observers = Observers(tuple(observers), AccessLog(self._rests), self._routes, clocks)
        self._admission = new_admission(
            settings, self._reservations, lambda scope: self._routes.api(scope).quota_headers, wall_clock
        )
        earlier = self._store if self._taping is None else RecordedStore(self._store, self._taping.recorder)
        self._exchanges = ExchangeFactory(
            models=Models(new_registry(settings, providers), providers),
            policy=context.policy,
            offload=context.offload,
            conversations=ConversationIds.by(settings.conversation_salt),
            recovery=Recovery(earlier, settings.recovery.ttl, settings.recovery.enabled),
            signatures=Signatures(earlier, settings.state.ttl),
            attachments=AttachmentFetcher(self._file_source(internals.fetcher(settings))),
            estimator=estimator,
            calibration=(
                internals.calibration if self._taping is None else RecordedCalibration(recorder=self._taping.recorder)
            ),
            stream=settings.stream,
        )
        self._dialects = MappingProxyType({api.name: dialect for api, dialect in made.items()})
        self._background = Background(settings.responses.background, self._calls.interrupt, self._close_connections)
        gateway = Gateway(
            settings=settings,
            store=earlier,
            offload=context.offload,
            exchanges=self._exchanges,
            stages=tuple(stages),
            transparent=frozenset(chain.from_iterable(provider.dialects for provider in self._providers)),
            token=token,
            wall=dates,
            reply=self._reply,
            answer_within=self._answer_within,
            background=self._background,
            permit=self._auth.permit,
        )
        self._handlers: dict[Endpoint, Handler] = {
            endpoint: getattr(self, f"_{endpoint.operation}") for endpoint in GATEWAY
        }
        for api, dialect in made.items():
            self._handlers |= handlers_of(api, dialect, gateway)

    def _file_source(self, source: AttachmentSource | None) -> AttachmentSource | None:
        """*source*, recorded where calls are."""
        return source if source is None or self._taping is None else RecordedFiles(source, self._taping.recorder)

    def _new_inspector(self, may_inspect: Callable[[Scope], Awaitable[bool]] | None) -> Inspector:
        from kiro_asgi.inspector.calls import RecentCalls  # what is off is not imported
        from kiro_asgi.inspector.exchanges import Exchanges
        from kiro_asgi.inspector.site import Inspector, Sources

        settings = self._settings.inspector
        if settings.trust_host and may_inspect is None:
            raise ConfigError(
                "inspector.trust_host: nothing decides who may look; pass App(may_inspect=…), or set inspector.secret",
                code="inspector.trust_host",
            )
        usage = partial(usage_rows, self._settings) if self._settings.state.usage else None
        taping = None if settings.content == "none" else self._taping
        exchanges = None if taping is None else Exchanges(taping.maker, settings.content, self._settings)
        zone = self._settings.quotas.timezone
        sources = Sources(accounts=self._accounts, usage=usage, timezone=zone, exchanges=exchanges)
        calls = RecentCalls(settings.calls, settings.bytes, None if taping is None else taping.recorder)
        return Inspector(settings, sources, calls, may_inspect if settings.trust_host else None)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection scope; hosts hand over scope, receive and send with types of their own.

        Raises:
            ValueError: A scope type that ASGI does not define for us.
        """
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await host_lifespan(
                    self._inner or _no_lifespan, self.check_state, self._shut_down, scope, receive, send
                )
            case "websocket":
                await self._websocket(scope, receive, send)
            case other:
                raise ValueError(f"unknown scope type {other!r}")

    def drain(self) -> None:
        """Have load balancers send no more requests: ``/ready`` is 503 from now on.

        Requests that come all the same are served, each with ``connection: close`` where the client speaks HTTP/1, so
        that its next one may go to another process.  WebSockets of the running event loop are closed with 1012, each
        after the answer under way, and a new one is refused with 503.  Called again, it does nothing more.
        """
        self._readiness.drain()
        self._calls.retire()
        if self._inspector is not None:
            self._inspector.close()

    async def idle(self) -> None:
        """Wait until no call is under way in the running event loop, and no response is made in the background.

        A host that ends calls `drain`, waits for as long as its balancers take to notice, then for this, within a time
        limit of its own, and calls `interrupt` where that is over.
        """
        await self._calls.all_gone()
        await self._background.idle()

    def readiness(self) -> Readiness:
        """Whether requests should come here, and why not, by what is known; no service is asked."""
        return self._readiness.readiness()

    async def check_state(self) -> None:
        """Look whether what is kept between requests can be used, for `readiness` and the log; the lifespan does it."""
        await self._readiness.check_store()

    async def _shut_down(self) -> None:
        self.drain()
        await self.aclose()

    async def aclose(self) -> None:
        """Write what is still to be stored, and close the idle upstream connections of the running event loop."""
        await self._background.aclose()
        async with anyio.create_task_group() as group:
            for provider in self._providers:
                group.start_soon(provider.catalogue.aclose)
        for provider in self._providers:
            await provider.credentials.aclose()
        await self._close_connections()
        await self._reservations.aclose()
        if self._usage is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._usage.close)
        if self._taping is not None and self._taping.folder is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._taping.folder.close)
        await self._store.aclose()

    async def _close_connections(self) -> None:
        """Close the idle connections of the running event loop."""
        for provider in self._providers:
            await provider.transport.aclose()
        await self._exchanges.aclose()

    @property
    def is_busy(self) -> bool:
        """Whether many answers are under way in the running event loop."""
        return self._context.pace.here().is_busy

    def interrupt(self) -> None:
        """End every call under way in the running event loop, for a process that must end: returns at once.

        Responses that are made in the background fail.

        A stream ends with its API's own error event and a proper end of the body, a response that has not begun is 503
        with ``retry-after``, and one that is sent whole is sent to its end.  Give them a moment before the loop ends.
        Calls that come later are served.
        """
        self._calls.interrupt()
        self._background.interrupt()

    def _http(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[object]:
        """Answer by the inspector, by the host's application, or by one of our operations."""
        if self._inspector is not None and self._inspector.contains(scope):
            return self._inspector(scope, Listener(receive), send)
        if self._inner is not None and not self._routes.contains(scope):
            return self._inner(scope, receive, send)
        if self._cross_origin.is_preflight(scope):
            return self._cross_origin.answer(scope, self._routes.methods(scope), send)
        return self._answer(scope, Listener(receive), self._cross_origin.readable(scope, send), self._route)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._inner is not None and not self._routes.contains(scope):
            await self._inner(scope, receive, send)
        elif (await receive())["type"] == "websocket.connect":
            listener = Listener(receive)
            await self._answer({**scope, "method": WEBSOCKET}, listener, handshake_send(scope, send), self._route)

    async def _answer_within(self, scope: Scope, receive: Receive, send: Send, handler: Handler) -> Call:
        """Answer a request of a connection, whose scope names its client, as if it had come on its own."""

        async def handle(call: Call) -> None:
            await self._begin(call, self._routes.find(call.scope).endpoint)
            await handler(call, "")

        return await self._answer(scope, receive, send, handle)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, handle: Callable[[Call], Awaitable[None]]
    ) -> Call:
        """Answer one call, and account for it."""
        request_id = f"req_{self._token()}"
        observation = self._observers.observation(scope, request_id)
        if observation is not None:
            send = observation.watched(send)
        with self._calls.counting(), Share(self._bodies) as share:
            limit = self._settings.limits.write_timeout
            call = Call(scope, receive, send, request_id, self._id_headers, share, limit, self._clock, self._draw)
            call.observation, call.parting_headers = observation, self._readiness.headers(scope)
            unexpected = await self._caught(call, self._serve(call, handle))
            if unexpected is not None and not call.status:
                await self._caught(call, self._refuse(call, InternalError(call.request_id)))
            if call.observation is not None:
                call.observation.end(call)
            call.break_off = call.observation = None  # which hold the call, and with it prompt and answer
            _forget_frames(call.failure)
            if unexpected is not None and self._raises(scope):
                raise unexpected
        return call

    async def _caught(self, call: Call, serving: Awaitable[None]) -> Exception | None:
        """Serve; an unexpected exception goes into the log, and no further.  A client that has left is sent nothing.

        The traceback is the one record that may quote a request: without it the fault could not be found.
        """
        try:
            try:
                await serving
            except Stalled:
                call.outcome = Outcome.STALLED
            except Disconnected:
                call.outcome = Outcome.DISCONNECTED
            if call.outcome is Outcome.DISCONNECTED and not call.status:
                await call.leave_unanswered()
        except Exception as error:  # noqa: BLE001 - the log has it, and the host that wants it
            call.failure = InternalError(call.request_id)
            call.outcome = Outcome.CUT if call.status else None
            _log.exception("unexpected %s", type(error).__name__, extra={"request_id": call.request_id})
            return error
        return None

    def _raises(self, scope: Scope) -> bool:
        """Whether the host wants to see unexpected exceptions."""
        return self._settings.raise_unexpected or _DEBUG_EXTENSION in (scope.get("extensions") or ())

    async def _route(self, call: Call) -> None:
        """Do what the path asks for."""
        match = self._routes.find(call.scope)
        await self._begin(call, match.endpoint)
        if match.endpoint.method == WEBSOCKET and self._readiness.is_draining:
            raise stopping()
        await self._handlers[match.endpoint](call, match.argument)

    async def _begin(self, call: Call, endpoint: Endpoint) -> None:
        """Identify the client, and report the call to observers."""
        if call.observation is not None:
            call.observation.route = endpoint.path
        if endpoint not in PROBES:
            call.principal = await self._auth.identify(call.scope)
            OWNER.set(call.principal)
        if call.observation is not None:
            call.observation.begin(call.principal)

    async def _serve(self, call: Call, handle: Callable[[Call], Awaitable[None]]) -> None:
        try:
            with self._calls.doing(call):
                await handle(call)
            if call.work.cancelled_caught:
                await self._calls.end(call)
        except KiroAsgiError as error:
            await self._refuse(call, error)

    async def _refuse(self, call: Call, error: KiroAsgiError) -> None:
        call.failure = error
        if call.observation is not None:
            call.observation.begin(call.principal)
        if isinstance(error, UnknownModel):
            error.model = error.model or call.model
        if isinstance(error, StoreUnavailable):  # the client is not told what is wrong there
            _log.warning("the store cannot be used: %s", error.detail, extra={"request_id": call.request_id})
        dialect = self._dialects[self._routes.api(call.scope).name]
        reply = dialect.error(self._context.secrets.shown(error), call.request_id)
        await call.respond(reply.status, reply.body, [(b"content-type", reply.content_type), *reply.headers])

    async def _reply(self, call: Call, request: ClientRequest, send: Send) -> None:
        call.model = request.model
        exchange = await self._exchanges.settle(request)
        call.upstream, call.notes = exchange.upstream.name, exchange.notes
        traits, shows_rules = request.dialect.traits, wants_rules(call.scope)
        content_type = b"content-type", traits.stream_type if exchange.streamed else traits.body_type

        def headers() -> Headers:
            usual = (content_type, *call.headers)
            return (*usual, rules_header(call.notes)) if shows_rules else usual

        def output(exchange: Exchange) -> Output[Any]:
            channel = send if exchange.streamed else call.in_time(send)
            return exchange.output(channel, headers, self._settings, self._clock)

        if (answer := exchange.known_answer) is not None:
            known = output(exchange)
            known.put(replay(answer))
            await known.finish()
            return
        call.meanwhile = self._reservations.renewal(call)
        async with self._admission.admit(call, exchange):
            await Relay(Attempts(exchange, self._exchanges, self._context, call, output), call, self._context).run()

    def _rests(self) -> Iterator[tuple[str, KiroAsgiError, float]]:
        """Credentials that cool down now: name, cause, and the seconds until the next request may use it."""
        for provider in self._providers:
            yield from provider.credentials.cooldowns()

    async def _models(self, call: Call, argument: str) -> None:
        listings = await self._exchanges.models.listings(self._auth.permit(call.principal))
        await call.respond(200, render_models(listings), [JSON])

    async def _model(self, call: Call, argument: str) -> None:
        call.model = argument
        listing = await self._exchanges.models.listing(argument, self._auth.permit(call.principal))
        await call.respond(200, render_model(listing), [JSON])

    async def _greeting(self, call: Call, argument: str) -> None:
        """Say that somebody is here."""
        await self._answer_probe(call, 200, b"")

    async def _health(self, call: Call, argument: str) -> None:
        await self._answer_probe(call, 200, _ALIVE)

    async def _ready(self, call: Call, argument: str) -> None:
        readiness = self.readiness()
        answer = {"ready": readiness.is_ready, **await self._details(call.scope, readiness)}
        await self._answer_probe(call, 200 if readiness.is_ready else 503, dumps(answer))

    async def _answer_probe(self, call: Call, status: int, body: bytes) -> None:
        """Answer; with the head alone where that is what was asked for."""
        if call.scope["method"] != "HEAD":
            await call.respond(status, body, [JSON])
            return
        await call.send(response_start(status, [JSON, *call.headers, (b"content-length", b"%d" % len(body))]))
        await call.send(response_body(b""))

    async def _details(self, scope: Scope, readiness: Readiness) -> dict[str, Any]:
        """Reasons, and credentials that cool down, for clients with a key; others learn no more than the status."""
        try:
            await self._auth.identify(scope)
        except RequestError:
            return {}
        return self._situation(readiness)

    def _accounts(self) -> dict[str, Any]:
        """The same for the inspector, with all credentials, models and settings that may be shown."""
        readiness = self.readiness()
        upstreams = [{"name": each.name, "credentials": each.credentials.names} for each in self._providers]
        models = {each.name: [card.id for card in each.catalogue.shown()] for each in self._providers}
        settings = [[path, value] for path, value in shown_settings(self._settings)]
        more = {"upstreams": upstreams, "models": models, "settings": settings, "version": __version__}
        return {"ready": readiness.is_ready, **self._situation(readiness), **more}

    def _situation(self, readiness: Readiness) -> dict[str, Any]:
        return {
            "reasons": readiness.reasons,
            "degraded": readiness.degraded,
            "lists": {each.name: each.catalogue.state for each in self._providers},
            "resting": [
                {"credential": name, "reason": type(fault).__name__, "seconds": ceil(left)}
                for name, fault, left in self._rests()
            ],
            "at_limit": [
                {"credential": name, "limit": limit, "seconds": ceil(left)}
                for name, limit, left in self._credential_limits.reached()
            ],
        }


def _forget_frames(error: BaseException | None) -> None:
    """Let go of the frames in which *error*, and what led to it, was raised.

    They hold the error, and with it prompt and answer, in a circle, which only the garbage collector would break.  It
    comes by when many objects have been made, not when large ones have.  An error with a cause has a context, too, and
    it need not be the same: anyio raises what broke a connection from where it found nothing to read.
    """
    rest = [error]
    while rest:
        if (error := rest.pop()) is not None and error.__traceback__ is not None:
            error.__traceback__ = None
            rest += (error.__cause__, error.__context__)


async def _no_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Leaves the answer to us."""


def create_app(
    settings: Settings | Mapping[str, Any] | None = None,
    *,
    inner: AnyASGIApp | None = None,
    upstreams: Sequence[Manifest[Any]] = (),
    dialects: Sequence[DialectManifest] = (),
    stages: Sequence[StageFactory] = (),
    store: Store | None = None,
    server_tools: Sequence[ServerTool] = (),
    estimator: Estimator = TokenEstimator(),  # noqa: B008 - a frozen value
    observers: Sequence[Observer] = (),
    may_inspect: Callable[[Scope], Awaitable[bool]] | None = None,
    simulate: bool = False,
) -> App:
    """The application.

    Args:
        settings: How to serve: settings, a mapping as for `Settings.from_mapping`, or ``None`` for those of
            the environment, and of the file that it names.
        inner: As for `App`, like all that follow.
        upstreams: Services in addition to those of the package, whose settings are read as well.
        dialects: Client APIs in addition to those of the package, whose settings are read as well.
        stages: Make stages for every answer.
        store: Keeps what outlives a request.
        server_tools: Tools to run here.
        estimator: Counts tokens.
        observers: Receive the facts of every call.
        may_inspect: Decides who may see the inspector.
        simulate: Ask a simulated service within the process, as the setting of that name does: it needs no account.

    Raises:
        ConfigError: The settings cannot work; the message lists every reason found.
    """
    root = Settings.including(*upstreams, *dialects)
    if settings is None:
        settings = root.from_env(os.environ) if simulate else settings_to_serve(os.environ, root)
    elif not isinstance(settings, Settings):
        settings = root.from_mapping(settings)
    if simulate:
        settings = evolve(settings, simulate=True)
    return App(
        settings,
        inner=inner,
        upstreams=upstreams,
        dialects=dialects,
        stages=stages,
        store=store,
        server_tools=server_tools,
        estimator=estimator,
        observers=observers,
        may_inspect=may_inspect,
    )
