"""Google's Generative Language API (Gemini), with an API key."""

from __future__ import annotations

from typing import Final

from kiro_asgi.upstreams.gemini.settings import GeminiSettings
from kiro_asgi.upstreams.manifest import Configured, Manifest
from kiro_asgi.upstreams.settings import Setup


def _make(configured: Configured[GeminiSettings]) -> Setup:
    from kiro_asgi.upstreams.gemini.upstream import set_up

    return set_up(configured)


GEMINI: Final = Manifest(
    name="gemini",
    title="Gemini",
    settings=GeminiSettings,
    make=_make,
    probes=("gemini-2.5-flash-lite", "gemini-2.5-flash"),
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
)
