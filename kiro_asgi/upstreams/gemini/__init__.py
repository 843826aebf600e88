"""Google's Generative Language API (Gemini), with an API key."""

from __future__ import annotations

from typing import Final

from kiro_asgi.upstreams.gemini.settings import GeminiSettings
from kiro_asgi.upstreams.manifest import Manifest

__all__ = ["GEMINI"]

GEMINI: Final = Manifest(name="gemini", title="Gemini", settings=GeminiSettings)
