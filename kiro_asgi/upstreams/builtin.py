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

    @property
    def conversation_salt(self) -> str:
        """A secret from which names of conversations are made, whoever is told them.

        It, and the two below, stand with the upstream that was once the only one.
        """
        return self.kiro.conversation_salt

    @property
    def server_tool_timeout(self) -> float:
        """Seconds for one call of a tool that the gateway runs, whichever upstream's answer it is for."""
        return self.kiro.server_tool_timeout

    @property
    def log_bodies(self) -> bool:
        """Whether what services are sent is logged."""
        return self.kiro.log_bodies
