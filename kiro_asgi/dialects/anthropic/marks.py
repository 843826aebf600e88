"""Marks for the service's prompt cache.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.model.prompt import REMEMBERED

__all__ = ["read_mark"]

TIMES: Final = ("5m", "1h")


def read_mark(value: Any) -> str:
    """A ``cache_control`` as `kiro_asgi.model.prompt.Text.cache` has it; what is none marks nothing."""
    if value is None or not isinstance(value, Mapping) or value.get("type") != "ephemeral":
        return ""
    time = value.get("ttl")
    return time if time in TIMES else REMEMBERED
