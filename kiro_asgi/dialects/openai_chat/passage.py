"""What has to be known of chat completions that another service has written.

Many services speak this API, not all to the letter: an answer may lack the sentinel at its end, and an error may come
under any status.

Source: https://platform.openai.com/docs/api-reference/chat/streaming
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.dialects.base import Glance
from kiro_asgi.dialects.glance import read_glance
from kiro_asgi.dialects.openai_chat.errors import stream_error_object
from kiro_asgi.dialects.passage import Format, Sign
from kiro_asgi.dialects.structure import MISSING
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import TokenUsage
from kiro_asgi.model.prompt import Tool
from kiro_asgi.model.server_tools import WEB_SEARCH
from kiro_asgi.wire.json import dumps
from kiro_asgi.wire.members import count_of, object_of, objects_of
from kiro_asgi.wire.sse import encode_comment, encode_sse

__all__ = ["COMPLETIONS", "glance"]

_DONE: Final = b"[DONE]"
_FAILED: Final = Sign(failed=True)


def glance(body: bytes) -> Glance:
    """What must be known of a request."""
    return read_glance(body, MISSING, tools=_tools, thinking=_thinks)


def _tools(document: Mapping[str, Any]) -> tuple[Tool, ...]:
    tools = tuple(map(_tool, objects_of(document.get("tools"))))
    asked = document.get("web_search_options") is not None
    return (*tools, Tool(WEB_SEARCH, hosted=WEB_SEARCH)) if asked else tools


def _tool(tool: Mapping[str, Any]) -> Tool:
    name = (object_of(tool.get("function")) or tool).get("name")
    hosted = WEB_SEARCH if str(tool.get("type")).startswith(WEB_SEARCH) else ""
    return Tool(str(name), hosted=hosted)


def _thinks(document: Mapping[str, Any]) -> bool:
    return document.get("reasoning_effort") not in (None, "none", "minimal")


def _read(document: Mapping[str, Any]) -> Sign:
    if document.get("error"):
        return _FAILED
    ended = any(choice.get("finish_reason") for choice in objects_of(document.get("choices")))
    usage = document.get("usage")
    return Sign(ended, usage=_usage(usage) if type(usage) is dict else None)


def _usage(usage: Mapping[str, Any]) -> TokenUsage:
    prompt, cached = count_of(usage, "prompt_tokens"), _detail(usage, "prompt_tokens_details", "cached_tokens")
    return TokenUsage(
        input_tokens=None if prompt is None else max(prompt - (cached or 0), 0),
        output_tokens=count_of(usage, "completion_tokens"),
        cache_read_tokens=cached,
        thinking_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int | None:
    return count_of(object_of(usage.get(group)), name)


def _error(error: KiroAsgiError) -> bytes:
    return encode_sse("", dumps({"error": stream_error_object(error)})) + encode_sse("", _DONE)


COMPLETIONS: Final = Format(
    heartbeat=encode_comment("ping"),
    telling=re.compile(rb'"(?:error"|usage"\s*:\s*\{|finish_reason"\s*:\s*")'),
    done=_DONE,
    read=_read,
    named=b'"model"',
    place=("model",),
    error=_error,
)
"""The Chat Completions API."""
