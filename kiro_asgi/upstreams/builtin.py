"""The upstreams that come with the package.  No other module outside their folders names one."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from kiro_asgi.upstreams.anthropic import ANTHROPIC
from kiro_asgi.upstreams.anthropic.settings import AnthropicSettings
from kiro_asgi.upstreams.bedrock import BEDROCK
from kiro_asgi.upstreams.bedrock.settings import BedrockSettings
from kiro_asgi.upstreams.gemini import GEMINI
from kiro_asgi.upstreams.gemini.settings import GeminiSettings
from kiro_asgi.upstreams.kiro import KIRO
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.manifest import family_of, slice_of
from kiro_asgi.upstreams.openai import OPENAI
from kiro_asgi.upstreams.openai.settings import OpenAISettings

__all__ = [
    "AnthropicSettings",
    "BedrockSettings",
    "BuiltinSettings",
    "GeminiSettings",
    "KiroSettings",
    "OpenAISettings",
]


@frozen(kw_only=True)
class BuiltinSettings:
    """Their settings, in the order in which they are asked unless the operator sets another."""

    kiro: KiroSettings = slice_of(KIRO)
    anthropic: AnthropicSettings = slice_of(ANTHROPIC)
    openai: OpenAISettings = slice_of(OPENAI)
    gemini: GeminiSettings = slice_of(GEMINI)
    bedrock: BedrockSettings = slice_of(BEDROCK)
    custom: Mapping[str, OpenAISettings] = family_of(OPENAI)
    """Further services that speak Chat Completions, by names of your own."""

    @property
    def conversation_salt(self) -> str:
        """A secret from which names of conversations are made, whichever service gets them.

        It, and the two below, stand with Kiro's, which was once the only upstream.
        """
        return self.kiro.conversation_salt

    @property
    def server_tool_timeout(self) -> float:
        """Seconds for one call of a tool that the gateway runs, whichever upstream's answer it is for."""
        return self.kiro.server_tool_timeout

    @property
    def log_bodies(self) -> bool:
        """Whether bodies of requests to services are logged."""
        return self.kiro.log_bodies
