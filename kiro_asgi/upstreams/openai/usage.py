"""Token counts.

The API counts the whole prompt, cached or not; and it counts thinking among the answer.

Source: https://platform.openai.com/docs/api-reference/completions/object
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiro_asgi.model.events import TokenUsage
from kiro_asgi.wire.members import count_of, object_of

__all__ = ["read_usage"]


def read_usage(usage: Mapping[str, Any]) -> TokenUsage:
    """Counts; what is absent or is none stays unsaid."""
    prompt_details = object_of(usage.get("prompt_tokens_details"))
    answer_details = object_of(usage.get("completion_tokens_details"))
    prompt, written = count_of(usage, "prompt_tokens"), count_of(prompt_details, "cache_write_tokens")
    cached = count_of(prompt_details, "cached_tokens")
    if cached is None:
        cached = count_of(usage, "prompt_cache_hit_tokens")
    uncached = None if prompt is None else max(prompt - (cached or 0) - (written or 0), 0)
    answer = count_of(usage, "completion_tokens")
    return TokenUsage(uncached, answer, cached, written, count_of(answer_details, "reasoning_tokens"))
