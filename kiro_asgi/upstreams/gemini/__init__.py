"""Google's Generative Language API (Gemini), with an API key."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from kiro_asgi.setting import Choices, setting
from kiro_asgi.upstreams.manifest import Configured, Manifest
from kiro_asgi.upstreams.settings import DirectSettings, Setup

SAFETY: Final = ("", "OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE")
"""Source: https://ai.google.dev/api/generate-content#HarmBlockThreshold"""


@frozen(kw_only=True)
class GeminiSettings(DirectSettings):
    """The Gemini API."""

    safety_threshold: str = setting("", Choices(SAFETY))
    """From which probability on the service blocks harmful content, for all categories.  Empty: its own default."""


def _make(configured: Configured[GeminiSettings]) -> Setup:
    from kiro_asgi.upstreams.gemini.upstream import set_up

    return set_up(configured)


GEMINI: Final = Manifest(
    name="gemini",
    title="Gemini",
    settings=GeminiSettings,
    make=_make,
    probes=("gemini-2.5-flash-lite", "gemini-2.5-flash"),
)
