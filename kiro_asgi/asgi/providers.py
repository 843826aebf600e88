"""From settings to the upstreams of an app: each that is set up, with its credentials and its models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from attrs import define, evolve, field

from kiro_asgi.asgi.direct import Direct, direct_services, set_up
from kiro_asgi.asgi.provider import Manner, Provider
from kiro_asgi.asgi.server_tools import KiroWebSearch, ServerTool, Toolbox
from kiro_asgi.asgi.wiring import kiro_upstream, kiro_vendor, new_transport, rest_policy
from kiro_asgi.config import DirectSettings, KiroSettings, OpenAISettings, Settings
from kiro_asgi.errors import UpstreamRejected
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.net.asking import Asker
from kiro_asgi.net.catalogue import LIST_TIMEOUT, Catalogue, ModelSource
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials import Credentials
from kiro_asgi.net.flights import Flights
from kiro_asgi.net.keys import exchange_in, keys_in
from kiro_asgi.net.resting import RestPolicy
from kiro_asgi.net.transport import Transport
from kiro_asgi.stages.thinking import TAGS
from kiro_asgi.upstreams.base import Credential, ModelCard, Upstream
from kiro_asgi.upstreams.kiro.auth import without_profile
from kiro_asgi.upstreams.kiro.limits import parse_reset
from kiro_asgi.upstreams.kiro.spelling import with_wishes
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.model_names import read_aliases, resembling

__all__ = ["new_providers"]

_LIMITS_TIMEOUT: Final = 5.0
"""Seconds for a question while a client waits for something else."""


def new_providers(settings: Settings, clocks: Clocks, server_tools: Sequence[ServerTool]) -> Mapping[str, Provider]:
    """The upstreams that are set up, by name, in the order in which they are asked where nobody says another.

    Raises:
        ConfigError: There is none, or one that cannot be used.
    """
    making = _Making(settings, clocks, tuple(server_tools), rest_policy(settings))
    kiro = {"kiro": making.kiro()} if "kiro" in set_up(settings) else {}
    return MappingProxyType(kiro | {each.upstream.name: making.direct(each) for each in direct_services(settings)})


@define
class _Making:
    """Makes providers; those with the same proxy share their connections."""

    _settings: Settings
    _clocks: Clocks
    _server_tools: tuple[ServerTool, ...]
    _rests: RestPolicy
    _transports: dict[str, Transport] = field(init=False, factory=dict)

    def kiro(self) -> Provider:
        """The Kiro service."""
        kiro, upstream = self._settings.kiro, kiro_upstream(self._settings)
        transport = self._transport(kiro.proxy)
        credentials = Credentials.create(kiro, kiro_vendor(self._settings), transport, self._clocks, self._rests)
        asker = Asker(transport, credentials, upstream.fault)
        search = [KiroWebSearch(asker, upstream, kiro.server_tool_timeout)] if kiro.web_search else []
        return Provider(
            upstream=upstream,
            service="kiro",
            transport=transport,
            credentials=credentials,
            catalogue=_catalogue("kiro", kiro, asker, upstream, transport),
            toolbox=self._toolbox(upstream, search),
            manner=_kiro_manner(kiro),
            ask_reset=partial(_reset, asker, upstream),
            adapt=_with_wishes,
        )

    def direct(self, service: Direct) -> Provider:
        """A service that is asked with a key."""
        settings, upstream = service.settings, service.upstream
        transport = self._transport(settings.proxy)
        keys, exchange = keys_in(service.path, settings), exchange_in(settings, service.headers)
        credentials = Credentials.of_keys(keys, transport, self._clocks, self._rests, exchange=exchange)
        asker = Asker(transport, credentials, upstream.fault)
        return Provider(
            upstream=upstream,
            service=urlsplit(settings.endpoint).netloc,
            transport=transport,
            credentials=credentials,
            catalogue=_catalogue(service.path, settings, asker, upstream, transport),
            toolbox=self._toolbox(upstream),
            manner=_direct_manner(settings),
        )

    def _transport(self, proxy: str) -> Transport:
        if proxy not in self._transports:
            self._transports[proxy] = new_transport(self._settings, proxy)
        return self._transports[proxy]

    def _toolbox(self, upstream: Upstream, own: Iterable[ServerTool] = ()) -> Toolbox:
        timeout = self._settings.kiro.server_tool_timeout
        return Toolbox((*self._server_tools, *own), timeout, upstream.traits.runs)


def _kiro_manner(kiro: KiroSettings) -> Manner:
    return Manner(
        first_event_timeout=kiro.first_token_timeout,
        thinking_first_event_timeout=kiro.thinking_first_token_timeout,
        thinking_tags=kiro.thinking_tags if kiro.fake_reasoning_enabled else (),
        thinking_scan=kiro.thinking_scan,
        thinking_handling=kiro.fake_reasoning_handling,
        drop_equal_tool_calls=kiro.drop_equal_tool_calls,
        drop_repeated_text=kiro.drop_repeated_content,
    )


def _direct_manner(settings: DirectSettings) -> Manner:
    return Manner(
        first_event_timeout=settings.first_token_timeout,
        thinking_first_event_timeout=settings.thinking_first_token_timeout,
        thinking_tags=(settings.thinking_tags if isinstance(settings, OpenAISettings) else ()) or TAGS,
    )


def _with_wishes(prompt: Prompt, name: str, model: ModelCard) -> Prompt:
    return evolve(prompt, thinking=with_wishes(prompt.thinking, name, model.id))


async def _reset(asker: Asker, upstream: KiroUpstream, credential: Credential) -> float | None:
    ask = partial(asker.ask, upstream.limits_request, patience=_LIMITS_TIMEOUT)
    try:
        limits = await ask(credential=credential)
    except UpstreamRejected:  # some enterprise accounts must not name their profile here
        limits = await ask(credential=without_profile(credential))
    return parse_reset(limits)


def _catalogue(
    path: str, settings: KiroSettings | DirectSettings, asker: Asker, upstream: Upstream, transport: Transport
) -> Catalogue:
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
