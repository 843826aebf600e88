"""What an application is made with beside its settings: what a program adds, and what a replay makes differently."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from attrs import field, frozen

from kiro_asgi.asgi.door.client_table import Find
from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.asgi.exchange.providers import Transports, new_fetcher, new_transport
from kiro_asgi.asgi.kept.attachments import AttachmentSource
from kiro_asgi.asgi.kept.server_tools import ServerTool
from kiro_asgi.asgi.protocol import AnyASGIApp, Scope
from kiro_asgi.asgi.scheduling import Offload
from kiro_asgi.asgi.siblings import Siblings
from kiro_asgi.config import Settings
from kiro_asgi.dialects.manifest import DialectManifest
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.observers.base import Observer
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.stages.base import Stage, StageFactory
from kiro_asgi.stages.estimate import Calibration, Estimator, TokenEstimator
from kiro_asgi.state.base import Store
from kiro_asgi.upstreams.manifest import Manifest, new_token


@frozen(kw_only=True)
class Additions:
    """What a program adds; `kiro_asgi.create_app` has a word on each."""

    inner: AnyASGIApp | None = None
    upstreams: tuple[Manifest[Any], ...] = ()
    dialects: tuple[DialectManifest, ...] = ()
    stages: tuple[StageFactory, ...] = ()
    store: Store | None = None
    server_tools: tuple[ServerTool, ...] = ()
    estimator: Estimator = TokenEstimator()  # noqa: RUF009 - a frozen value
    observers: tuple[Observer, ...] = ()
    may_inspect: Callable[[Scope], Awaitable[bool]] | None = None
    keys: Find | None = None
    siblings: Siblings = Siblings()  # noqa: RUF009 - a frozen value


def _unchanged(provider: Provider) -> Provider:
    return provider


@frozen(kw_only=True)
class Internals:
    """Parts that are made differently for a replay: time, chance, the network, the calibration and the stages."""

    clocks: Clocks = Clocks()  # noqa: RUF009 - a frozen value
    token: Callable[[], str] = new_token
    """Makes 24 characters for ids."""

    transports: Transports = new_transport
    """Makes the connections to services."""

    provider: Callable[[Provider], Provider] = _unchanged
    """Changes how an upstream is asked."""

    fetcher: Callable[[Settings], AttachmentSource | None] = new_fetcher
    """Makes the fetcher of addresses named in requests."""

    calibration: Calibration = field(factory=Calibration)
    """Experience with estimates, to which the application adds its own."""

    pipeline: Callable[[Iterable[Stage[Any, Any]], Plan], Answer] = build_pipeline
    """Makes the stages of an answer."""

    offload: Offload = field(factory=Offload)
    """Runs long work."""

    dates: Callable[[], float] | None = None
    """Seconds since the epoch, for dates in answers; ``None``: by the application's clock."""

    context_windows: Mapping[tuple[str, str], int] = field(factory=dict)
    """Tokens that models can read and write, by upstream and model, as far as that is known without asking."""


def usual_internals(settings: Settings) -> Internals:
    """The network, or what stands in its place where no service is to be asked."""
    if not settings.simulate:
        return Internals()
    from kiro_asgi.simulation import SimulatedTransport  # imports the simulator, which few need

    transport = SimulatedTransport()
    return Internals(transports=lambda settings, proxy: transport)
