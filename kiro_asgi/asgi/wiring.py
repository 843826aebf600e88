"""From settings to the parts of a service: each function makes one, and opens nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from ssl import SSLContext
from typing import Any

from attrs import Attribute, asdict, fields_dict

from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError
from kiro_asgi.limits import FETCH_CONNECTIONS
from kiro_asgi.net.addresses import is_public
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.fetching import CheckedBackend, Fetcher, Permits, Resolve, resolve
from kiro_asgi.net.resting import RestPolicy
from kiro_asgi.net.retry import RetryPolicy
from kiro_asgi.net.transport import Transport
from kiro_asgi.private import require_own_file
from kiro_asgi.state.base import Store
from kiro_asgi.state.memory import MemoryStore
from kiro_asgi.state.sqlite import SqliteStore
from kiro_asgi.upstreams.manifest import manifests_in
from kiro_asgi.upstreams.registry import Registry, read_rows
from kiro_asgi.upstreams.settings import user_agent

__all__ = [
    "new_fetcher",
    "new_registry",
    "new_store",
    "new_transport",
    "rest_policy",
    "retry_policy",
]


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
    resolve: Resolve = resolve,
    permits: Permits = is_public,
    tls: SSLContext | None = None,
) -> Fetcher | None:
    """What fetches for requests, with connections of its own; ``None`` where no host is allowed.

    Args:
        settings: Who is allowed, and how much.
        resolve: How names of hosts are resolved.
        permits: Which of their addresses may be connected to.
        tls: Whom to trust; ``None`` for whom the system trusts.
    """
    fetch, limits = settings.fetch, settings.limits
    if not fetch.allow:
        return None
    transport = Transport(
        library=settings.http_library,
        connections=FETCH_CONNECTIONS,
        queue=limits.queue,
        keep_alive=limits.keep_alive,
        connect_timeout=limits.connect_timeout,
        tls=tls,
        network=lambda backend: CheckedBackend(backend, resolve, permits),
    )
    agent = user_agent("")
    return Fetcher(
        allow=fetch.allow, max_bytes=fetch.max_bytes, timeout=fetch.timeout, user_agent=agent, transport=transport
    )


def new_store(settings: Settings, clocks: Clocks) -> Store:
    """The place for what is kept between requests.

    Raises:
        ConfigError: It is to be a file, and nobody said which, or what has the name cannot be used.
    """
    state = settings.state
    if state.engine == "memory":
        return MemoryStore(state.entries, state.bytes, clocks.steady)
    if state.engine == "valkey":
        return _new_shared_store(state.url)
    if not state.path:
        raise ConfigError("state.path: must name the file where state.engine is sqlite", code="state.path")
    path = Path(state.path).expanduser()
    try:
        require_own_file(path)
    except OSError as error:
        raise ConfigError(f"state.path: {path} {error.strerror}", code="state.path") from error
    return SqliteStore(path, state.entries, state.bytes, clocks.wall)


def _new_shared_store(url: str) -> Store:
    """A store on a server; its client is an extra."""
    if not url:
        raise ConfigError("state.url: must name the server where state.engine is valkey", code="state.url")
    try:
        from kiro_asgi.state.valkey import ValkeyStore
        from kiro_asgi.state.valkey_server import ValkeyServer
    except ImportError:
        raise ConfigError(
            "state.engine: valkey needs its client; run pip install 'kiro-asgi[valkey]'", code="state.engine"
        ) from None
    return ValkeyStore(ValkeyServer(url))


def retry_policy(settings: Settings) -> RetryPolicy:
    """What may be tried again."""
    return RetryPolicy(**asdict(settings.retry, filter=_of(RetryPolicy)))


def rest_policy(settings: Settings) -> RestPolicy:
    """How long a credential is left alone that is at fault."""
    return RestPolicy(**asdict(settings.retry, filter=_of(RestPolicy)))


def _of(policy: type) -> Callable[[Attribute[Any], Any], bool]:
    """Which settings *policy* has a field for."""
    names = fields_dict(policy)
    return lambda attribute, value: attribute.name in names


def new_registry(settings: Settings, upstreams: Iterable[str]) -> Registry:
    """Which upstream a name means; *upstreams* are those that are set up.

    Raises:
        ConfigError: The table, the order or the default names another.
    """
    routing, names = settings.routing, tuple(upstreams)
    if missing := sorted(set(routing.order) - set(names)):
        raise ConfigError(
            f"routing.order: no upstream is set up by the name of {', '.join(missing)}", code="routing.order"
        )
    return Registry(
        upstreams=tuple(dict.fromkeys((*routing.order, *names))),
        rows=read_rows(routing.models),
        default=routing.default,
        known=frozenset(name for name, _ in manifests_in(type(settings))),
    )
