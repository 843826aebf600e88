"""Anthropic's Messages API, and services that speak it."""

from __future__ import annotations

from typing import Final

from kiro_asgi.upstreams.anthropic.settings import AnthropicSettings
from kiro_asgi.upstreams.manifest import Manifest

__all__ = ["ANTHROPIC"]

ANTHROPIC: Final = Manifest(name="anthropic", title="Anthropic", settings=AnthropicSettings)
