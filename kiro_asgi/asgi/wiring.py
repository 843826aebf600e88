"""From settings to the parts of a service: each function makes one, and opens nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from ssl import SSLContext
from typing import Any

from attrs import Attribute, asdict, fields_dict

from kiro_asgi._version import __version__
from kiro_asgi.config import DirectSettings, KiroSettings, Settings
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
from kiro_asgi.upstreams.base import Credential
from kiro_asgi.upstreams.kiro.auth import credential
from kiro_asgi.upstreams.kiro.contract.options import ContractOptions
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.kiro.vendor import KiroVendor
from kiro_asgi.upstreams.registry import Registry, read_rows

__all__ = [
    "kiro_upstream",
    "kiro_vendor",
    "new_fetcher",
    "new_registry",
    "new_store",
    "new_transport",
    "rest_policy",
    "retry_policy",
    "user_agent",
]


def new_transport(settings: Settings, proxy: str | None = None) -> Transport:
    """The transport that *settings* describe; *proxy* is that of Kiro where no other one is named."""
    limits = settings.limits
    return Transport(
        library=settings.http_library,
        connections=limits.connections,
        queue=limits.queue,
        keep_alive=limits.keep_alive,
        connect_timeout=limits.connect_timeout,
        proxy=settings.kiro.proxy if proxy is None else proxy,
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
    agent = f"kiro-asgi/{__version__}"
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
    if not state.path:
        raise ConfigError("state.path: must name the file where state.engine is sqlite", code="state.path")
    path = Path(state.path).expanduser()
    try:
        require_own_file(path)
    except OSError as error:
        raise ConfigError(f"state.path: {path} {error.strerror}", code="state.path") from error
    return SqliteStore(path, state.entries, state.bytes, clocks.wall)


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
    return Registry(tuple(dict.fromkeys((*routing.order, *names))), read_rows(routing.models), routing.default)


def kiro_upstream(settings: Settings) -> KiroUpstream:
    """The upstream that *settings* describe."""
    kiro = settings.kiro
    return KiroUpstream(
        endpoint=kiro.endpoint,
        region=kiro.region,
        wire_style=kiro.wire_style,
        origin=kiro.origin,
        agent_mode=kiro.agent_mode,
        user_agent=user_agent(kiro),
        checksums=kiro.checksums,
        fake_reasoning=kiro.fake_reasoning_enabled,
        replay_thinking=kiro.replay_thinking,
        description_limit=kiro.description_limit,
        tool_history=kiro.tool_history,
        max_images=kiro.max_images,
        payload_bytes=kiro.payload_bytes,
        trim_history=kiro.trim_history,
        sanitize_text=kiro.sanitize_text,
        strip_reminders=kiro.strip_system_reminders,
        rules_off=kiro.rules_off,
        contract=_contract(kiro) if kiro.translation == "contract" else None,
    )


def _contract(kiro: KiroSettings) -> ContractOptions:
    return ContractOptions(
        inline_tool_context=kiro.inline_tool_context,
        send_sidecar_fields=kiro.send_sidecar_fields,
        strip_system_reminders=kiro.strip_system_reminders,
        legacy_stop_map=kiro.legacy_stop_map,
        plan_mode_key=kiro.plan_mode_key,
        effort_budgets=tuple(map(int, kiro.effort_budgets)),
    )


def kiro_vendor(settings: Settings) -> KiroVendor:
    """What *settings* say about the tokens of the service."""
    kiro = settings.kiro
    return KiroVendor(
        given=_given(kiro),
        auth_endpoint=kiro.auth_endpoint,
        auth_region=kiro.auth_region,
        endpoint=kiro.endpoint,
        region=kiro.region,
        profile_arn=kiro.profile_arn,
        discover_profile=kiro.discover_profile,
        user_agent=user_agent(kiro),
    )


def _given(kiro: KiroSettings) -> Credential | None:
    """The credential that stands in the settings themselves."""
    if not (kiro.api_key or kiro.access_token):
        return None
    return credential(kiro.api_key, kiro.access_token, kiro.profile_arn, external_idp=kiro.external_idp)


def user_agent(settings: KiroSettings | DirectSettings) -> str:
    """What we call ourselves towards a service."""
    return settings.user_agent or f"kiro-asgi/{__version__}"
