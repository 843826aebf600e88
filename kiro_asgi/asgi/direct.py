"""The services that are asked with a key: which are set up, and what stands for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.asgi.wiring import user_agent
from kiro_asgi.config import AnthropicSettings, DirectSettings, GeminiSettings, OpenAISettings, Settings
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Upstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream

__all__ = ["Direct", "direct_services", "set_up"]


@frozen
class Direct:
    """One service that is set up."""

    path: str
    """Where its settings stand, e.g. ``gemini`` or ``custom.local``."""

    settings: DirectSettings
    upstream: Upstream
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """What every request to whom it belongs has, besides what stands in the settings' own words."""


def direct_services(settings: Settings) -> Iterator[Direct]:
    """Those that are set up: the well-known ones, then those with names of their own."""
    known = (("anthropic", settings.anthropic), ("openai", settings.openai), ("gemini", settings.gemini))
    for name, service in known:
        if service.configured:
            yield _direct(name, name, service)
    for name, service in settings.custom.items():
        yield _direct(f"custom.{name}", name, service)


def set_up(settings: Settings) -> tuple[str, ...]:
    """Names of the upstreams that are asked, in the order in which that is done where nobody says another.

    Kiro is one of them where it has a credential, and where there is no other.
    """
    direct = tuple(service.upstream.name for service in direct_services(settings))
    return ("kiro", *direct) if settings.kiro.configured or not direct else direct


def _direct(path: str, name: str, settings: DirectSettings) -> Direct:
    headers = tuple(map(_header, settings.headers))
    upstream = _MAKERS[type(settings)](
        settings,
        name=name,
        endpoint=settings.endpoint,
        user_agent=user_agent(settings),
        headers=headers,
        replay_thinking=settings.replay_thinking,
    )
    return Direct(path, settings, upstream, ((b"user-agent", user_agent(settings).encode()), *headers))


def _header(pair: str) -> tuple[bytes, bytes]:
    name, _, value = pair.partition("=")
    return name.encode(), value.encode()


def _gemini(settings: GeminiSettings, **common: Any) -> Upstream:
    return GeminiUpstream(safety_threshold=settings.safety_threshold, **common)


def _anthropic(settings: AnthropicSettings, **common: Any) -> Upstream:
    return AnthropicUpstream(version=settings.version, betas=settings.betas, bearer=settings.bearer, **common)


def _openai(settings: OpenAISettings, **common: Any) -> Upstream:
    itself = common["name"] == "openai"
    return OpenAIUpstream(
        forwards=settings.relay == "allow" or (settings.relay == "auto" and itself),
        thinking_tags=settings.thinking_tags,
        max_tokens_field=settings.max_tokens_field,
        call_ids=settings.call_ids,
        include_usage=settings.include_usage,
        **common,
    )


_MAKERS: Final[Mapping[type[DirectSettings], Callable[..., Upstream]]] = MappingProxyType(
    {GeminiSettings: _gemini, AnthropicSettings: _anthropic, OpenAISettings: _openai}
)
