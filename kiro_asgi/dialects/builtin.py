"""The client APIs that come with the package.  No other module outside their folders names one."""

from __future__ import annotations

from typing import Final

from kiro_asgi.dialects.anthropic import ANTHROPIC_MESSAGES
from kiro_asgi.dialects.gemini import GEMINI
from kiro_asgi.dialects.manifest import DialectManifest
from kiro_asgi.dialects.openai_chat import OPENAI_CHAT
from kiro_asgi.dialects.openai_completions import OPENAI_COMPLETIONS
from kiro_asgi.dialects.openai_responses import OPENAI_RESPONSES

BUILTIN: Final[tuple[DialectManifest, ...]] = (
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    ANTHROPIC_MESSAGES,
    OPENAI_COMPLETIONS,
    GEMINI,
)
"""Errors at paths of no API have the form of the first one's."""
