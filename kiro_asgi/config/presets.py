"""Presets: values under a name, below everything that a file or the environment says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["NATIVE", "PRESETS"]

NATIVE: Final = "native"
"""The preset that sets nothing."""

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        NATIVE: MappingProxyType({}),
        "contract": MappingProxyType(
            {
                "kiro.translation": "contract",
                "kiro.tool_history": "text",
                "kiro.description_limit": 256,
                "kiro.sanitize_text": True,
                "kiro.strip_system_reminders": True,
                "kiro.legacy_stop_map": True,
                "stream.lead_in": "I will call a tool to help with this:",
                "emit_code_references": True,
            }
        ),
    }
)
"""Name to values by path; what is missing has its default."""
