"""Anthropic's Messages API, and services that speak it."""

from __future__ import annotations

from typing import Final

from kiro_asgi.upstreams.anthropic.settings import AnthropicSettings
from kiro_asgi.upstreams.manifest import Configured, Manifest
from kiro_asgi.upstreams.settings import Setup


def _make(configured: Configured[AnthropicSettings]) -> Setup:
    from kiro_asgi.upstreams.anthropic.upstream import set_up

    return set_up(configured)


ANTHROPIC: Final = Manifest(
    name="anthropic",
    title="Anthropic",
    settings=AnthropicSettings,
    make=_make,
    probes=("claude-haiku-4-5",),
    key_variables=("ANTHROPIC_API_KEY",),
)
