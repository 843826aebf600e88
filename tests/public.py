"""What code from outside may import."""

from __future__ import annotations

from typing import Final

PUBLIC: Final = (
    "kiro_asgi",
    "kiro_asgi.dialects",
    "kiro_asgi.errors",
    "kiro_asgi.extension",
    "kiro_asgi.model.events",
    "kiro_asgi.model.message",
    "kiro_asgi.model.prompt",
    "kiro_asgi.model.unread",
    "kiro_asgi.observers",
    "kiro_asgi.stages",
    "kiro_asgi.streaming",
    "kiro_asgi.testing",
    "kiro_asgi.upstreams",
)
"""Modules whose ``__all__`` is public."""
