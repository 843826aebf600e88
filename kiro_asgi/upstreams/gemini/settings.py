"""Settings of the Gemini API."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from kiro_asgi.setting import Choices, setting
from kiro_asgi.upstreams.settings import DirectSettings

SAFETY: Final = ("", "OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE")
"""Source: https://ai.google.dev/api/generate-content#HarmBlockThreshold"""


@frozen(kw_only=True)
class GeminiSettings(DirectSettings):
    """The Gemini API."""

    safety_threshold: str = setting("", Choices(SAFETY))
    """From which probability on the service blocks harmful content, for all categories.  Empty: its own default."""
