"""Which client API a request body is for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.anthropic import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, TransparentDialect
from kiro_asgi.dialects.openai_chat import OpenAIChat
from kiro_asgi.dialects.openai_responses import OpenAIResponses
from kiro_asgi.wire.json import loads

__all__ = ["DIALECTS", "TRANSPARENT", "guess"]

TRANSPARENT: Final[Mapping[str, TransparentDialect]] = MappingProxyType(
    {"anthropic": AnthropicMessages(), "openai_chat": OpenAIChat()}
)
"""Those in which a request may go on as it is."""

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType({**TRANSPARENT, "openai_responses": OpenAIResponses()})

OPENAI_MEMBERS: Final = frozenset(
    ("max_completion_tokens", "reasoning_effort", "response_format", "stream_options", "functions", "n", "stop")
)
"""Members that only a Chat Completions request has."""

OPENAI_ROLES: Final = frozenset(("developer", "tool", "function"))


def guess(body: bytes) -> str:
    """The API that *body* is for.

    A Responses request has an ``input`` instead of messages.  Of the others, only Chat Completions knows certain
    members, the roles ``developer``, ``tool`` and ``function``, and calls beside the content.  A Messages request
    always has ``max_tokens``.

    Raises:
        KiroAsgiError: It is not JSON.
    """
    request = loads(body)
    if not isinstance(request, dict):
        return "openai_chat"
    if "input" in request and "messages" not in request:
        return "openai_responses"
    messages = [each for each in _list(request.get("messages")) if isinstance(each, dict)]
    tools = [each for each in _list(request.get("tools")) if isinstance(each, dict)]
    spoken = any(each.get("role") in OPENAI_ROLES or "tool_calls" in each for each in messages)
    wrapped = any("function" in each for each in tools)
    system = any(each.get("role") == "system" for each in messages) and "system" not in request
    openai = spoken or wrapped or system or OPENAI_MEMBERS & request.keys() or "max_tokens" not in request
    return "openai_chat" if openai else "anthropic"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
