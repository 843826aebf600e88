"""The OpenAI Chat Completions API, and beside it the one for embeddings.

Sources: https://platform.openai.com/docs/api-reference/chat, https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.manifest import EMBED, DialectManifest, DialectOptions, Endpoint

_MEMBERS: Final = frozenset(
    ("max_completion_tokens", "reasoning_effort", "response_format", "stream_options", "functions", "n", "stop")
)
"""Of a request with messages, members that no other API has."""

_ROLES: Final = ("developer", "tool", "function")


def _make(options: DialectOptions) -> Dialect:
    from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat

    return OpenAIChat(usage_in_finish_chunk=options.usage_chunk == "finish")


def _likeness(request: Mapping[str, Any]) -> int:
    """Signs are certain members, the roles ``developer``, ``tool`` and ``function``, and calls beside the content."""
    messages, tools = _objects(request.get("messages")), _objects(request.get("tools"))
    by_message = any(each.get("role") in _ROLES or "tool_calls" in each for each in messages)
    by_tool = any("function" in each for each in tools)
    system = any(each.get("role") == "system" for each in messages) and "system" not in request
    return 2 * bool(by_message or by_tool or system or _MEMBERS & request.keys())


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


OPENAI_CHAT: Final = DialectManifest(
    name="openai_chat",
    title="OpenAI Chat Completions",
    base="/v1",
    example={"messages": [{"role": "user", "content": "What is ASGI?"}]},
    endpoints=(Endpoint("POST", "/v1/chat/completions"), Endpoint("POST", "/v1/embeddings", EMBED)),
    make=_make,
    retry_count_headers=(b"x-stainless-retry-count",),
    likeness=_likeness,
)
