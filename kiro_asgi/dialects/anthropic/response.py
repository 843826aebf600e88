"""A collected answer as the Messages API words it, and the words that streamed answers share with it.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.anthropic.server_tools import has_shape, render_server_block, tally
from kiro_asgi.dialects.base import Heading
from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.model.events import Citation, StopReason, Usage
from kiro_asgi.model.message import (
    Block,
    Message,
    RedactedThinkingBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from kiro_asgi.model.server_tools import ServerCall, ServerResult
from kiro_asgi.model.signatures import UNSIGNED
from kiro_asgi.wire.json import JsonError, dumps, loads

__all__ = ["STOP_REASONS", "render_citation", "render_count", "render_message", "render_stop", "render_usage"]

STOP_REASONS: Final = MappingProxyType(
    {
        StopReason.END: "end_turn",
        StopReason.TOOL_CALL: "tool_use",
        StopReason.LENGTH: "max_tokens",
        StopReason.CONTEXT_FULL: "model_context_window_exceeded",
        StopReason.STOP_SEQUENCE: "stop_sequence",
        StopReason.CONTENT_FILTER: "refusal",
        StopReason.REFUSAL: "refusal",
        StopReason.PAUSED: "pause_turn",
    }
)


def render_message(message: Message, heading: Heading, *, may_be_empty: bool = False) -> bytes:
    """The JSON body of a collected answer.

    Args:
        message: The answer.
        heading: Its id and model.
        may_be_empty: Whether an answer without blocks stays one, instead of getting a block of empty text.

    Raises:
        UpstreamProtocolError: The arguments of a tool call are not a JSON object.
    """
    content = [_render_block(block) for block in message.blocks if has_shape(block)]
    if not content and not may_be_empty:
        content.append({"type": "text", "text": ""})
    return dumps(
        {
            "id": heading.id,
            "type": "message",
            "role": "assistant",
            "model": heading.model,
            "content": content,
            **render_stop(message.stop_reason, message.stop_sequence),
            "usage": {**render_usage(message.usage), **tally(message.blocks)},
        }
    )


def _render_block(block: Block) -> dict[str, Any]:
    match block:
        case TextBlock(text, citations) if citations:
            return {"type": "text", "text": text, "citations": [*map(render_citation, citations)]}
        case TextBlock(text) | RefusalBlock(text):
            return {"type": "text", "text": text}
        case ThinkingBlock(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature or UNSIGNED}
        case RedactedThinkingBlock(data):
            return {"type": "redacted_thinking", "data": data}
        case ToolCallBlock(call_id, name, arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": _arguments(arguments)}
        case ServerCall() | ServerResult():
            return render_server_block(block)


def render_citation(citation: Citation) -> dict[str, Any]:
    """A source of a block of text: as the service names it, or a page as a web search's."""
    return dict(citation.location) or {
        "type": "web_search_result_location",
        "url": citation.url,
        "title": citation.title or None,
        "cited_text": citation.quote,
        "encrypted_index": "",
    }


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = loads(text)
    except JsonError as exc:
        raise UpstreamProtocolError("tool call with invalid arguments", code="tool_call.arguments") from exc
    if not isinstance(value, dict):
        raise UpstreamProtocolError("tool call whose arguments are not an object", code="tool_call.arguments")
    return value


def render_stop(reason: StopReason, sequence: str | None) -> dict[str, Any]:
    """Why the answer ended."""
    stop: dict[str, Any] = {"stop_reason": STOP_REASONS[reason], "stop_sequence": sequence}
    if STOP_REASONS[reason] == "refusal":
        stop["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
    return stop


def render_usage(usage: Usage) -> dict[str, Any]:
    """Token counts."""
    counts: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.thinking_tokens:
        counts["output_tokens_details"] = {"thinking_tokens": usage.thinking_tokens}
    return counts


def render_count(tokens: int) -> bytes:
    """The JSON body of a token count."""
    return dumps({"input_tokens": tokens})
