"""The upstreams that come with the package.  No other module outside their folders names one."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from kiro_asgi.upstreams.anthropic import ANTHROPIC
from kiro_asgi.upstreams.anthropic.settings import AnthropicSettings
from kiro_asgi.upstreams.gemini import GEMINI
from kiro_asgi.upstreams.gemini.settings import GeminiSettings
from kiro_asgi.upstreams.kiro import KIRO
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.manifest import declared, read_only
from kiro_asgi.upstreams.openai import OPENAI
from kiro_asgi.upstreams.openai.settings import OpenAISettings

__all__ = ["AnthropicSettings", "BuiltinSettings", "GeminiSettings", "KiroSettings", "OpenAISettings"]


@frozen(kw_only=True)
class BuiltinSettings:
    """Their settings, in the order in which they are asked where nobody says another."""

    kiro: KiroSettings = field(factory=KiroSettings, metadata=declared(KIRO))
    anthropic: AnthropicSettings = field(factory=AnthropicSettings, metadata=declared(ANTHROPIC))
    openai: OpenAISettings = field(factory=OpenAISettings, metadata=declared(OPENAI))
    gemini: GeminiSettings = field(factory=GeminiSettings, metadata=declared(GEMINI))
    custom: Mapping[str, OpenAISettings] = field(
        factory=dict, converter=read_only, hash=False, metadata=declared(OPENAI)
    )
    """Further services that speak Chat Completions, by names of your own."""
