"""A collected answer as the Messages API words it, and the words that streamed answers share with it.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.anthropic.server_tools import has_shape, render_server_block, tally
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.pieces import dump_array, dump_text
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
from kiro_asgi.wire.json import JsonError, dumps, loads, quote_bytes

__all__ = ["STOP_REASONS", "render_citation", "render_count", "render_message", "render_stop", "render_usage"]

_BEFORE: Final = b'{"id":%b,"type":"message","role":"assistant","model":%b,"content":'
_TEXT: Final = b'{"type":"text","text":'
_THINKING: Final = b'{"type":"thinking","thinking":'
_REDACTED: Final = b'{"type":"redacted_thinking","data":'

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


def render_message(message: Message, meta: ResponseMeta, *, may_be_empty: bool = False) -> Iterator[bytes]:
    """The JSON body of a collected answer, in pieces.

    Args:
        message: The answer.
        meta: Its id and model.
        may_be_empty: Whether an answer without blocks stays one, instead of getting a block of empty text.

    Raises:
        UpstreamProtocolError: The arguments of a tool call are not a JSON object.
    """
    blocks: Sequence[Block] = [block for block in message.blocks if has_shape(block)]
    if not blocks and not may_be_empty:
        blocks = (TextBlock(""),)
    yield _BEFORE % (quote_bytes(meta.id), quote_bytes(meta.model))
    yield from dump_array(map(_render_block, blocks))
    stop = render_stop(message.stop_reason, message.stop_sequence)
    yield b"," + dumps({**stop, "usage": {**render_usage(message.usage), **tally(message.blocks)}})[1:]


def _render_block(block: Block) -> Iterable[bytes]:
    match block:
        case TextBlock(text, citations) if citations:
            cited = b',"citations":%b}' % dumps([*map(render_citation, citations)])
            return chain((_TEXT,), dump_text(text), (cited,))
        case TextBlock(text) | RefusalBlock(text):
            return chain((_TEXT,), dump_text(text), (b"}",))
        case ThinkingBlock(text, signature):
            signed = b',"signature":%b}' % quote_bytes(signature or UNSIGNED)
            return chain((_THINKING,), dump_text(text), (signed,))
        case RedactedThinkingBlock(data):
            return chain((_REDACTED,), dump_text(data), (b"}",))
        case ToolCallBlock(call_id, name, arguments):
            return (dumps({"type": "tool_use", "id": call_id, "name": name, "input": _arguments(arguments)}),)
        case ServerCall() | ServerResult():
            return (dumps(render_server_block(block)),)


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
