"""What users call: `create_app`, and the same for the parts of this package that add to it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from kiro_asgi.asgi.door.app import App
from kiro_asgi.asgi.door.client_table import Find
from kiro_asgi.asgi.door.handed_in import additions_of, require_settings
from kiro_asgi.asgi.door.parts import Additions, Internals
from kiro_asgi.asgi.door.readiness import settings_to_serve
from kiro_asgi.asgi.kept.guarded import GuardedStore
from kiro_asgi.asgi.kept.server_tools import ServerTool
from kiro_asgi.asgi.protocol import AnyASGIApp, Scope
from kiro_asgi.compose import Insight, compose
from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import ENV_PREFIX
from kiro_asgi.dialects.manifest import DialectManifest
from kiro_asgi.errors import ConfigError
from kiro_asgi.observers.base import Observer
from kiro_asgi.stages.base import StageFactory
from kiro_asgi.stages.estimate import Estimator, TokenEstimator
from kiro_asgi.state.base import Store
from kiro_asgi.upstreams.manifest import Manifest

if TYPE_CHECKING:
    from kiro_asgi.inspector.site import Inspector


_SIMULATE: Final = f"{ENV_PREFIX}SIMULATE"


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
    keys: Find | None = None,
    simulate: bool = False,
) -> App:
    """The application.

    Args:
        settings: How to serve: settings, a mapping as for `Settings.from_mapping`, or ``None`` for those of
            the environment, and of the file that it names.
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
        keys: Finds clients in a table of the host's.  It is called with a `kiro_asgi.Presented`, a key or a user of the
            host's, and gives a `kiro_asgi.Client`, an awaitable of one, or ``None``: nobody, who is refused.  One that
            is not async is called in a thread.  It is asked about keys that the settings do not have, and, with
            ``client.trust_host``, about users; what it says holds for ``client.keys_ttl`` seconds.
        simulate: Ask a simulated service within the process, as the setting of that name does: it needs no account.
            The environment variable of that setting, ``KIRO_ASGI__SIMULATE``, does the same, whatever *settings* are.

    Raises:
        ConfigError: The settings cannot work, or an object has not what is asked of it; the message lists every reason
            found, with its place.
    """
    require_settings(settings)
    additions = additions_of(
        {
            "inner": inner,
            "upstreams": upstreams,
            "dialects": dialects,
            "stages": stages,
            "store": store,
            "server_tools": server_tools,
            "estimator": estimator,
            "observers": observers,
            "may_inspect": may_inspect,
            "keys": keys,
        }
    )
    root = Settings.including(*additions.upstreams, *additions.dialects)
    if settings is None:
        settings = root.from_env(os.environ) if simulate else settings_to_serve(os.environ, root, additions.keys)
    elif not isinstance(settings, Settings):
        settings = root.from_mapping(settings)
    if simulate or _is_simulated(os.environ):
        settings = evolve(settings, simulate=True)
    if additions.store is not None:
        additions = evolve(additions, store=GuardedStore(additions.store, settings.state.timeout))
    return new_app(settings, additions)


def _is_simulated(environ: Mapping[str, str]) -> bool:
    """Whether the environment says so: also where an application takes its other settings from elsewhere."""
    return _SIMULATE in environ and Settings.from_env({_SIMULATE: environ[_SIMULATE]}).simulate


def new_app(
    settings: Settings,
    additions: Additions = Additions(),  # noqa: B008 - a frozen value
    internals: Internals | None = None,
) -> App:
    """As `kiro_asgi.compose.compose`, with the inspector where *settings* ask for it."""
    pages = partial(_new_inspector, additions) if settings.inspector.enabled else None
    return compose(settings, additions, internals, pages)


def _new_inspector(additions: Additions, insight: Insight) -> Inspector:
    from kiro_asgi.inspector.calls import RecentCalls  # what is off is not imported
    from kiro_asgi.inspector.recordings import Recordings
    from kiro_asgi.inspector.site import Inspector, Sources

    settings, may_inspect = insight.settings.inspector, additions.may_inspect
    if settings.trust_host and may_inspect is None:
        raise ConfigError(
            "inspector.trust_host: nothing decides who may look; pass create_app(may_inspect=…), or set "
            "inspector.secret",
            code="inspector.trust_host",
        )
    taping = None if settings.content == "none" else insight.taping
    recordings = None if taping is None else Recordings(taping.maker, settings.content, insight.settings)
    sources = Sources(
        accounts=insight.situation.accounts,
        usage=insight.usage,
        timezone=insight.settings.quotas.timezone,
        currency=insight.settings.prices.currency,
        recordings=recordings,
    )
    calls = RecentCalls(settings.calls, settings.bytes, None if taping is None else taping.recorder)
    admits = may_inspect if settings.trust_host else None
    return Inspector(settings, sources, calls, admits, additions.siblings)
