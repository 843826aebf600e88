"""From settings to the upstreams of an app: each that is set up, with its credentials and its models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.asgi.provider import Provider
from kiro_asgi.asgi.server_tools import ServerTool, Toolbox, WebSearch
from kiro_asgi.asgi.wiring import new_transport, rest_policy
from kiro_asgi.config import Settings
from kiro_asgi.errors import UpstreamRejected
from kiro_asgi.net.asking import Asker
from kiro_asgi.net.catalogue import LIST_TIMEOUT, Catalogue, ModelSource
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials import Credentials
from kiro_asgi.net.flights import Flights
from kiro_asgi.net.resting import RestPolicy
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.base import Credential, ModelCard, Upstream
from kiro_asgi.upstreams.manifest import Configured, set_up
from kiro_asgi.upstreams.model_names import read_aliases, resembling
from kiro_asgi.upstreams.setup import Quota, Setup

__all__ = ["new_providers"]

_LIMITS_TIMEOUT: Final = 5.0
"""Seconds for a question while a client waits for something else."""


def new_providers(settings: Settings, clocks: Clocks, server_tools: Sequence[ServerTool]) -> Mapping[str, Provider]:
    """The upstreams that are set up, by name, in the order in which they are asked where nobody says another.

    Raises:
        ConfigError: There is none, or one that cannot be used.
    """
    making = _Making(settings, clocks, tuple(server_tools), rest_policy(settings))
    return MappingProxyType({each.name: making.provider(each) for each in set_up(settings)})


@define
class _Making:
    """Makes providers; those with the same proxy share their connections."""

    _settings: Settings
    _clocks: Clocks
    _server_tools: tuple[ServerTool, ...]
    _rests: RestPolicy
    _transports: dict[str, Transport] = field(init=False, factory=dict)

    def provider(self, configured: Configured[Any]) -> Provider:
        """What it takes to ask one upstream."""
        setup = configured.make()
        transport = self._transport(configured.settings.proxy)
        credentials = Credentials.create(setup.access, transport, self._clocks, self._rests)
        asker = Asker(transport, credentials, setup.upstream.fault)
        return Provider(
            upstream=setup.upstream,
            service=setup.account,
            transport=transport,
            credentials=credentials,
            catalogue=_catalogue(configured, setup.upstream, asker, transport),
            toolbox=self._toolbox(setup, asker),
            manner=setup.manner,
            rules=setup.rules,
            ask_reset=partial(_reset, asker, setup.quota),
            adapt=setup.adapt,
        )

    def _transport(self, proxy: str) -> Transport:
        if proxy not in self._transports:
            self._transports[proxy] = new_transport(self._settings, proxy)
        return self._transports[proxy]

    def _toolbox(self, setup: Setup, asker: Asker) -> Toolbox:
        timeout = self._settings.server_tool_timeout
        own = () if setup.search is None else (WebSearch(asker, setup.search, timeout),)
        return Toolbox((*self._server_tools, *own), timeout, setup.upstream.traits.runs)


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


def _catalogue(configured: Configured[Any], upstream: Upstream, asker: Asker, transport: Transport) -> Catalogue:
    path, settings = configured.path, configured.settings

    async def ask(page: str) -> bytes:
        return await asker.ask(partial(upstream.models_request, page=page), patience=LIST_TIMEOUT)

    def suggest(name: str, cards: Iterable[ModelCard]) -> tuple[str, ...]:
        return resembling(upstream.normalise(name), cards)

    source = ModelSource(
        ask=ask,
        parse=upstream.parse_models,
        normalise=upstream.normalise,
        suggest=suggest,
        builtin=upstream.builtin,
        aliases=read_aliases(settings.model_aliases, f"{path}.model_aliases"),
    )
    return Catalogue(source, Flights(f"asking {path} for its models", transport), settings.models_ttl)
