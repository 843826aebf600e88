"""Chat Completions, as OpenAI speaks it, and everybody who speaks it after OpenAI."""

from __future__ import annotations

from typing import Final

from kiro_asgi.upstreams.manifest import Manifest
from kiro_asgi.upstreams.openai.settings import OpenAISettings

__all__ = ["OPENAI"]

OPENAI: Final = Manifest(name="openai", title="OpenAI", settings=OpenAISettings)
