"""From settings to the parts of an application: each function makes one, and opens nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from ssl import SSLContext
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field

from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.asgi.kept.extensions import store_of, store_table, without_store
from kiro_asgi.asgi.kept.hosted import HostedParts
from kiro_asgi.asgi.kept.server_tools import ServerTool, Toolbox, WebSearch
from kiro_asgi.config import ClientSettings, RetrySettings, Settings, StateSettings
from kiro_asgi.errors import ConfigError, UpstreamRejected
from kiro_asgi.limits import FETCH_CONNECTIONS
from kiro_asgi.net.aws import ThisMachine
from kiro_asgi.net.catalogue import LIST_TIMEOUT, Catalogue, ModelSource
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials.pool import Asker, Credentials
from kiro_asgi.net.credentials.refresh import SharedRenewals
from kiro_asgi.net.fetching import CheckedBackend, Fetcher, Permits, Resolve, is_public
from kiro_asgi.net.lookups import Lookups
from kiro_asgi.net.single_flight import SingleFlight
from kiro_asgi.net.transport import Transport
from kiro_asgi.private import require_own_file
from kiro_asgi.state.base import Store
from kiro_asgi.state.memory import MemoryStore
from kiro_asgi.state.sqlite import SqliteStore
from kiro_asgi.upstreams.base import Credential, ModelCard
from kiro_asgi.upstreams.manifest import Configured, manifests_in, new_token, set_up
from kiro_asgi.upstreams.models import read_aliases, resembling
from kiro_asgi.upstreams.registry import Registry, read_rows
from kiro_asgi.upstreams.settings import Quota, Setup, user_agent

Transports = Callable[[Settings, str], Transport]
"""Makes the connections to services by settings, through a proxy; empty for none."""


def keyed(settings: Settings, key: str) -> Settings:
    """*settings* with *key* as the only credential of every service, so that each well-known one is set up."""
    return _with_each(settings, lambda upstream: upstream.keyed(key))


def _with_each(settings: Settings, change: Callable[[Any], Any]) -> Settings:
    """*settings* with what *change* makes of the settings of each upstream."""
    changed: dict[str, Any] = {}
    for name, _ in manifests_in(type(settings)):
        value = getattr(settings, name)
        family = isinstance(value, Mapping)
        changed[name] = {member: change(it) for member, it in value.items()} if family else change(value)
    return evolve(settings, **changed)


def simulated_at(settings: Settings, url: str) -> Settings:
    """*settings* with a simulator at *url* as every service; no credential cools down, so clients can try again."""
    retry = evolve(settings.retry, refused_base=0, quota_probe=0, suspicion=0)
    return evolve(_with_each(settings, lambda upstream: upstream.simulated(url)), retry=retry)


SIMULATOR_KEY: Final = "ksk_simulator"
"""Opens nothing but the simulator."""

NOWHERE: Final = "http://simulator.invalid"
"""Where the simulated service is that stands in the place of the network: nothing can connect there."""


def simulated(settings: Settings, url: str) -> Settings:
    """*settings* with a simulator at *url* as every service, and a made-up key as the only credential of each.

    No real credential can be sent: there is none in them any more.  And the made-up one never rests: after a simulated
    failure, such as a spent quota, the next request works.
    """
    return simulated_at(keyed(settings, SIMULATOR_KEY), url)


def set_apart(settings: Settings) -> Settings:
    """*settings* with state in memory, where they name a place: made-up answers are not counted among real ones, spend
    no budget of theirs, and are not found by real requests.

    Raises:
        ConfigError: They name two places.
    """
    settings = without_store(settings)
    state = settings.state
    if not (state.is_shared or state.path):
        return settings
    return evolve(settings, state=evolve(state, engine="auto", path="", url=""))


def in_effect(settings: Settings) -> Settings:
    """*settings* as an application works with them: where ``simulate`` says so, simulated, with state of its own, and
    then open if they have no key for clients, as nobody's quota can be spent."""
    if not settings.simulate:
        return settings
    return opened(simulated(set_apart(settings), NOWHERE))


def opened(settings: Settings) -> Settings:
    """*settings*; if they let no client in, they let all in, without a key."""
    return evolve(settings, client=ClientSettings(allow_anonymous=True)) if is_closed(settings) else settings


def is_closed(settings: Settings) -> bool:
    """Whether *settings* let in no client at all, as the defaults do."""
    return settings.client == ClientSettings() and not settings.keys


def new_transport(settings: Settings, proxy: str) -> Transport:
    """The transport that *settings* describe, through *proxy*; empty for none."""
    limits = settings.limits
    return Transport(
        library=settings.http_library,
        connections=limits.connections,
        queue=limits.queue,
        keep_alive=limits.keep_alive,
        connect_timeout=limits.connect_timeout,
        proxy=proxy,
    )


def new_fetcher(
    settings: Settings,
    *,
    resolve: Resolve | None = None,
    permits: Permits = is_public,
    tls: SSLContext | None = None,
) -> Fetcher | None:
    """Make the fetcher of addresses named in requests, with connections of its own; ``None`` where no host is allowed.

    Args:
        settings: Hosts that are allowed, and limits.
        resolve: How names of hosts are resolved; by default in threads of their own.
        permits: Which of their addresses may be connected to.
        tls: Trusted authorities; ``None`` for those of the system.
    """
    fetch, limits = settings.fetch, settings.limits
    if not fetch.allow:
        return None
    looked_up = Lookups().addresses if resolve is None else resolve
    transport = Transport(
        library=settings.http_library,
        connections=FETCH_CONNECTIONS,
        queue=limits.queue,
        keep_alive=limits.keep_alive,
        connect_timeout=limits.connect_timeout,
        tls=tls,
        network=lambda backend: CheckedBackend(backend, looked_up, permits),
    )
    agent = user_agent("")
    return Fetcher(
        allow=fetch.allow, max_bytes=fetch.max_bytes, timeout=fetch.timeout, user_agent=agent, transport=transport
    )


def new_store(settings: Settings, clocks: Clocks) -> Store:
    """The place for what is kept between requests.

    Raises:
        ConfigError: It is to be a file, and no path is set, or the file there cannot be used; or a store from outside
            cannot be.
    """
    state, own = settings.state, store_of(settings)
    if own is not None:
        return own
    if not state.is_shared:
        displaced = state.engine == "auto" and state.path  # serve has named the file that it could not use
        return MemoryStore(state.entries, state.bytes, clocks.steady, trouble="state.memory" if displaced else "")
    if state.engine == "valkey":
        return _new_shared_store(state)
    if not state.path:
        raise ConfigError("state.path: must name the file where state.engine is sqlite", code="state.path")
    path = Path(state.path).expanduser()
    try:
        require_own_file(path)
    except OSError as error:
        raise ConfigError(f"state.path: {path} cannot be used: {error.strerror}", code="state.path") from error
    return SqliteStore(path, state.entries, state.bytes, clocks.wall)


def state_of(settings: Settings) -> object:
    """What decides which store `new_store` makes: two that are equal are of one place."""
    return settings.state, store_table(settings)


def _new_shared_store(state: StateSettings) -> Store:
    """A store on a server; its client is an extra."""
    if not state.url:
        raise ConfigError("state.url: must name the server where state.engine is valkey", code="state.url")
    try:
        from kiro_asgi.state.valkey import ValkeyServer, ValkeyStore
    except ImportError:
        raise ConfigError(
            "state.engine: valkey needs its client; run pip install 'kiro-asgi[valkey]'", code="state.engine"
        ) from None
    return ValkeyStore(ValkeyServer(state.url), state.entries, state.bytes)


def shared_renewals(store: Store) -> SharedRenewals | None:
    """The exchange of renewed tokens among gateways with *store*; ``None`` where it is in memory, for one alone."""
    return None if isinstance(store, MemoryStore) else SharedRenewals(store)


def new_registry(settings: Settings, upstreams: Iterable[str]) -> Registry:
    """Make the registry of upstreams by name of model; *upstreams* are those that are set up.

    Raises:
        ConfigError: The table, the order, the default or a key names another.
    """
    routing, names = settings.routing, tuple(upstreams)
    _require("routing.order", routing.order, names)
    for name, key in settings.keys.items():
        _require(f"keys.{name}.upstreams", key.upstreams, names)
    return Registry(
        upstreams=tuple(dict.fromkeys((*routing.order, *names))),
        rows=read_rows(routing.models),
        default=routing.default,
        known=frozenset(name for name, _ in manifests_in(type(settings))),
    )


def _require(setting: str, named: Iterable[str], there: Sequence[str]) -> None:
    if missing := sorted(set(named).difference(there)):
        raise ConfigError(
            f"{setting}: no upstream is set up by the name of {', '.join(missing)}; there are: {', '.join(there)}",
            code=setting,
        )


_LIMITS_TIMEOUT: Final = 5.0
"""Seconds for a request while a client waits for something else."""


def new_providers(
    settings: Settings,
    clocks: Clocks,
    server_tools: Sequence[ServerTool],
    store: Store | None = None,
    *,
    token: Callable[[], str] = new_token,
    transports: Transports = new_transport,
    context_windows: Mapping[tuple[str, str], int] = MappingProxyType({}),
    hosted: HostedParts | None = None,
) -> Mapping[str, Provider]:
    """The upstreams that are set up, by name, in the order in which they are asked where no setting names another.

    Args:
        settings: Which, and how.
        clocks: Time and chance.
        server_tools: Tools in addition to those of the services.
        store: Where gateways exchange tokens that they have renewed; one in memory is not shared.
        token: Makes 24 characters for ids.
        transports: Makes the connections through each proxy.
        context_windows: Tokens that models can read and write, by upstream and model, where that is known already.
        hosted: Takes note of tools that take too long.

    Raises:
        ConfigError: There is none, or one that cannot be used.
    """
    shared = None if store is None else shared_renewals(store)
    making = _ProviderFactory(
        settings,
        clocks,
        tuple(server_tools),
        settings.retry,
        shared,
        transports,
        context_windows,
        hosted or HostedParts(),
    )
    found = set_up(settings, ThisMachine())
    return MappingProxyType({each.name: making.provider(evolve(each, token=token)) for each in found})


@define
class _ProviderFactory:
    """Makes providers; those with the same proxy share their connections."""

    _settings: Settings
    _clocks: Clocks
    _server_tools: tuple[ServerTool, ...]
    _retry: RetrySettings
    _shared: SharedRenewals | None
    _new_transport: Transports
    _windows: Mapping[tuple[str, str], int]
    _hosted: HostedParts
    _transports: dict[str, Transport] = field(init=False, factory=dict)

    def provider(self, configured: Configured[Any]) -> Provider:
        """Make the provider of one upstream."""
        setup = configured.make()
        transport = self._transport(configured.settings.proxy)
        credentials = Credentials.create(setup.access, transport, self._clocks, self._retry, self._shared)
        asker = Asker(transport, credentials, setup.upstream.fault, setup.hosts)
        return Provider(
            setup=setup,
            transport=transport,
            credentials=credentials,
            catalogue=_catalogue(configured, setup, asker, transport, self._known(setup)),
            toolbox=self._toolbox(setup, asker),
            ask_reset=partial(_reset, asker, setup.quota),
            clock=self._clocks.steady,
        )

    def _known(self, setup: Setup) -> tuple[ModelCard, ...]:
        """Models that are known without asking."""
        known = {card.id: card for card in setup.upstream.builtin}
        for (name, model), window in self._windows.items():
            if name == setup.upstream.name:
                known[model] = evolve(known.get(model) or setup.named(model), context_window=window)
        return tuple(known.values())

    def _transport(self, proxy: str) -> Transport:
        if proxy not in self._transports:
            self._transports[proxy] = self._new_transport(self._settings, proxy)
        return self._transports[proxy]

    def _toolbox(self, setup: Setup, asker: Asker) -> Toolbox:
        timeout = self._settings.server_tool_timeout
        own = () if setup.search is None else (WebSearch(asker, setup.search, timeout),)
        return Toolbox((*self._server_tools, *own), timeout, setup.upstream.traits.runs, self._hosted)


async def _reset(asker: Asker, quota: Quota | None, credential: Credential) -> float | None:
    if quota is None:
        return None
    refusal: UpstreamRejected | None = None
    for question in quota.questions:
        try:
            return quota.reset(await asker.ask(question, patience=_LIMITS_TIMEOUT, credential=credential))
        except UpstreamRejected as error:
            refusal = error
    if refusal is not None:
        raise refusal
    return None


def _catalogue(
    configured: Configured[Any], setup: Setup, asker: Asker, transport: Transport, known: tuple[ModelCard, ...]
) -> Catalogue:
    path, settings, upstream = configured.path, configured.settings, setup.upstream

    async def ask(page: str) -> bytes:
        return await asker.ask(partial(upstream.models_request, page=page), patience=LIST_TIMEOUT)

    def suggest(name: str, cards: Iterable[ModelCard]) -> tuple[str, ...]:
        return resembling(upstream.normalise(name), cards)

    source = ModelSource(
        ask=ask,
        parse=upstream.parse_models,
        normalise=upstream.normalise,
        suggest=suggest,
        builtin=known,
        named=setup.named,
        unlisted=upstream.traits.unlisted,
        aliases=read_aliases(settings.model_aliases, f"{path}.model_aliases"),
    )
    return Catalogue(source, SingleFlight(f"asking {path} for its models", transport), settings.models_ttl)
