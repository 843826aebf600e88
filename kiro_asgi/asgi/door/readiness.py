"""Whether a gateway would start with its settings, lives, and should be sent requests.

The parts that may refuse are made, and thrown away: none of them opens a connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from logging import getLogger
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.door.client_table import Find
from kiro_asgi.asgi.exchange.admission import credential_allowances
from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.asgi.exchange.providers import in_effect, new_registry, new_store, new_transport
from kiro_asgi.asgi.kept.extensions import observers_of, stages_of
from kiro_asgi.asgi.kept.prices import new_prices
from kiro_asgi.asgi.protocol import Headers, Scope
from kiro_asgi.asgi.routing import Routes, new_dialects
from kiro_asgi.config import Settings, read_environment
from kiro_asgi.config.leaves import families, leaves
from kiro_asgi.config.reading import SettingsReading
from kiro_asgi.config.tree import assembled
from kiro_asgi.config.validation import require
from kiro_asgi.dialects.manifest import dialects_in
from kiro_asgi.errors import ConfigError, StoreUnavailable
from kiro_asgi.extension import extensions_in
from kiro_asgi.net.aws import ThisMachine
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.observers.base import ObserverManifest
from kiro_asgi.quota.clients import clients_of
from kiro_asgi.stages.base import StageManifest
from kiro_asgi.state.base import Store, StoreManifest, TroubledStore, WatchedStore, scoped
from kiro_asgi.upstreams.manifest import Configured, all_of, manifests_in, set_up
from kiro_asgi.upstreams.models import read_aliases

_log = getLogger("kiro_asgi")

Part = tuple[Collection[str], Callable[[], object]]
"""The tables of settings that a part is made of, and how to make it."""


def settings_to_serve(
    environ: Mapping[str, str], root: type[Settings] = Settings, find: Find | None = None
) -> Settings:
    """The settings of a gateway, from the environment and the file that it names.

    Args:
        environ: The environment.
        root: Has all that may be set.
        find: Finds clients in a table of the host's; ``None`` where it has none.

    Raises:
        ConfigError: They cannot be read, or no gateway would start with them; the message lists every reason.
    """
    reading = read_environment(root, environ)
    settings = assembled(reading)
    require((*reading.problems, *problems_with(settings, reading.faulty, reading.keys_elsewhere, find)))
    warn_of(reading)
    return settings


def warn_of(reading: SettingsReading) -> None:
    """Log what is probably misspelt."""
    for warning in reading.warnings:
        _log.warning("%s", warning)


def problems_of(reading: SettingsReading, find: Find | None = None) -> tuple[str, ...]:
    """Every reason against starting with what was read: values that cannot be used, and problems of the others.

    Parts that depend on a value that cannot be used are not checked: they would report its consequences.
    """
    settings = assembled(reading)
    return (*reading.problems, *problems_with(settings, reading.faulty, reading.keys_elsewhere, find))


def problems_with(
    settings: Settings,
    faulty: Collection[str] = (),
    keys_elsewhere: Mapping[str, str] = MappingProxyType({}),
    find: Find | None = None,
) -> tuple[str, ...]:
    """Every reason against starting with *settings*.

    Args:
        settings: How to serve.
        faulty: Tables of them that hold no more than defaults.
        keys_elsewhere: Variables with keys of services, to those that would be read: told of where no service is set
            up.
        find: Finds clients in a table of the host's; ``None`` where it has none.
    """
    found: list[str] = []
    for tables, make in _parts(in_effect(settings), faulty, keys_elsewhere, find):
        if not any(table in faulty for table in tables):
            try:
                make()
            except ConfigError as error:
                found += error.reasons
    return tuple(dict.fromkeys(found))


def _parts(
    settings: Settings, faulty: Collection[str], keys_elsewhere: Mapping[str, str], find: Find | None
) -> Iterator[Part]:
    any_upstream = tuple(each.path for each in all_of(settings))
    found = tuple(each for each in set_up(settings, ThisMachine()) if each.settings.configured)
    tables = tuple(each.path for each in found)
    named = tuple(f"keys.{name}" for name in settings.keys)
    groups = tuple(f"groups.{name}" for name in settings.groups)
    yield ("client", *named, *groups), partial(Authenticator, settings, find=find)
    if "client" in faulty:  # else they were made for those who show the keys
        yield (*named, *groups), partial(clients_of, settings.keys, settings.groups, settings.quotas)
    yield ("prices",), partial(new_prices, settings.prices)
    stores = (name for name, _ in extensions_in(type(settings), StoreManifest))
    yield ("state", *stores), partial(new_store, settings, Clocks())
    if not found:
        yield any_upstream, partial(_no_service, type(settings), keys_elsewhere)
    for each in found:
        path = each.path
        yield (path,), each.check
        yield tables, partial(_credentials, settings, each)
        yield (path,), partial(read_aliases, each.settings.model_aliases, f"{path}.model_aliases")
    yield tuple(name for name, _ in dialects_in(type(settings))), partial(_routes, settings)
    yield tuple(name for name, _ in extensions_in(type(settings), StageManifest)), partial(_all, stages_of, settings)
    observers = extensions_in(type(settings), ObserverManifest)
    yield tuple(name for name, _ in observers), partial(_all, observers_of, settings)
    limited = (f"credentials.{name}" for name in settings.credentials)
    if found:
        yield (*limited, *any_upstream), partial(_credential_limits, settings, found)
        yield ("routing", *tables), partial(new_registry, settings, [each.name for each in found])


def _no_service(root: type[Settings], keys_elsewhere: Mapping[str, str]) -> None:
    """Refuse to start without any service to ask.

    Raises:
        ConfigError: Always; it names what to set for each service.
    """
    known, named = leaves(root), families(root)
    ways = []
    for name, manifest in manifests_in(root):
        if name in named:
            ways.append(f"{name}.NAME.endpoint (a server of your own)")
        elif (key := known.get(f"{name}.api_key")) is not None:
            sign_in = "; kiro-asgi login signs in without one" if manifest.login else ""
            ways.append(f"{key.declared.variable or key.path} ({manifest.title}{sign_in})")
    words = f"no service is set up; set one of: {', '.join(ways)}"
    for theirs, ours in keys_elsewhere.items():
        words += f"; {theirs} is there, but no other program's key is used unasked: to use it, set {ours} to it"
    raise ConfigError(words, code="no_service")


def _routes(settings: Settings) -> None:
    Routes(tuple(new_dialects(settings)))


def _all(make: Callable[[Settings], Iterable[object]], settings: Settings) -> None:
    deque(make(settings), maxlen=0)


def _credentials(settings: Settings, configured: Configured[Any]) -> Credentials:
    return Credentials.create(configured.make().access, new_transport(settings, configured.settings.proxy))


def _credential_limits(settings: Settings, found: Iterable[Configured[Any]]) -> None:
    if settings.credentials:
        names = [name for each in found for name in _credentials(settings, each).names]
        credential_allowances(settings.credentials, names)


_TROUBLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "state.damaged": "the state file is damaged",
        "state.sqlite": "the state file, or its folder, cannot be opened, read or written",
        "state.memory": "what is kept between requests is in memory and lost at the end, as its file cannot be used",
    }
)
"""By the code of the error; paths and addresses are in the log alone."""

_CLOSE: Final[Headers] = ((b"connection", b"close"),)


class ReadinessReason(StrEnum):
    """Why a gateway is not ready, or does less than it should."""

    DRAINING = "draining"
    """It is being stopped."""

    CREDENTIALS = "credentials"
    """No upstream has a credential that works, and none will before a user signs in."""

    STORE = "store"
    """The store of what outlives a request cannot be reached, or is memory in place of a file."""

    KEYS = "keys"
    """The host cannot say whose keys are shown."""

    TOOLS = "tools"
    """A tool of the host's took too long within the last minute."""

    OBSERVERS = "observers"
    """An observer of the host's did: it held the event loop, or was not closed."""

    STAGES = "stages"
    """A stage of the host's held the event loop."""

    ESTIMATOR = "estimator"
    """The host's estimator did."""

    SIMULATED = "simulated"
    """No service is asked: all answers are made up."""


@frozen
class Readiness:
    """Whether requests should come to a gateway.

    One that is being drained is not ready, and goes on serving: a balancer needs a moment to notice.  A
    credential that cools down, or a quota that is spent, makes no gateway unready: the others have the same one, and
    clients learn more from an answer of their API than from a proxy without a backend.
    """

    reasons: tuple[ReadinessReason, ...] = ()
    """Why not."""

    degraded: tuple[ReadinessReason, ...] = ()
    """Parts that are missing, though it is ready."""

    @property
    def is_ready(self) -> bool:
        """Whether there is no reason against it."""
        return not self.reasons


@define
class ReadinessCheck:
    """Looks at what one application knows already, and asks no service; of the store it knows the last use."""

    _providers: tuple[Provider, ...]
    _store: Store
    _is_simulated: bool = False
    _troubled: Callable[[], Iterable[str]] = tuple
    """Gives the kinds of parts from outside that do not keep up, as values of `ReadinessReason`."""

    is_draining: bool = field(init=False, default=False)
    """Whether the process is going to end."""

    def drain(self) -> None:
        """Be unready from now on."""
        self.is_draining = True

    async def check_store(self) -> None:
        """Look whether the store can be used, and log it where not; a store that watches itself knows it afterwards.

        That is no reason not to start: what needs no state is answered.
        """
        try:
            await self._store.get(scoped("", "check", ""))
        except StoreUnavailable as error:
            _log.error("requests that need what is kept between them are answered with 503: %s", error.detail)

    def store_trouble(self) -> str:
        """Why the store cannot be used, in words for clients with a key; empty where it can, or where nobody knows."""
        code = self._store.trouble if isinstance(self._store, TroubledStore) else ""
        return f"{_TROUBLES.get(code, code)}; the gateway's log has more" if code else ""

    def readiness(self) -> Readiness:
        """The readiness at this moment."""
        return Readiness(tuple(self._reasons()), tuple(self._missing()))

    def _missing(self) -> Iterator[ReadinessReason]:
        if isinstance(self._store, WatchedStore) and not self._store.is_reachable:
            yield ReadinessReason.STORE
        yield from map(ReadinessReason, self._troubled())
        if self._is_simulated:
            yield ReadinessReason.SIMULATED

    def _reasons(self) -> Iterator[ReadinessReason]:
        if self.is_draining:
            yield ReadinessReason.DRAINING
        if not any(provider.credentials.is_usable for provider in self._providers):
            yield ReadinessReason.CREDENTIALS

    def headers(self, scope: Scope) -> Headers:
        """Headers that have a client of HTTP/1 connect anew, perhaps to another gateway, while this one is drained."""
        return _CLOSE if self.is_draining and str(scope.get("http_version", "")).startswith("1") else ()
