"""A whole answer as one ``chat.completion`` object.

Source: https://platform.openai.com/docs/api-reference/chat/object
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_chat.request import options_of
from kiro_asgi.dialects.openai_chat.signatures import call_signature, extra_content, reasoning_details
from kiro_asgi.dialects.openai_fields import usage_object
from kiro_asgi.dialects.pieces import dump_array, dump_text
from kiro_asgi.model.events import Citation, StopReason
from kiro_asgi.model.message import Message, RefusalBlock, TextBlock, ThinkingBlock, ToolCallBlock
from kiro_asgi.model.server_tools import ServerResult, ToolOutput
from kiro_asgi.wire.json import dumps, quote_bytes

__all__ = ["GAP", "citation", "citations", "finish_reason", "render"]

GAP: Final = "\n\n"
"""Stands before what a server tool gave, as this API has no blocks of text."""

_BEFORE: Final = b'{"id":%b,"object":"chat.completion","created":%d,"model":%b,"choices":[{"index":0,"message":'
_AFTER: Final = b',"finish_reason":%b,"logprobs":null}],"usage":%b,"service_tier":"default","system_fingerprint":null}'
"""What stands around the assistant's turn."""

_CALL: Final = b'{"id":%b,"type":"function","function":'

_FINISH: Final = MappingProxyType(
    {
        StopReason.END: "stop",
        StopReason.STOP_SEQUENCE: "stop",
        StopReason.REFUSAL: "stop",
        StopReason.TOOL_CALL: "tool_calls",
        StopReason.LENGTH: "length",
        StopReason.CONTEXT_FULL: "length",
        StopReason.PAUSED: "length",
        StopReason.CONTENT_FILTER: "content_filter",
    }
)


def finish_reason(reason: StopReason, legacy_functions: bool) -> str:
    """One of the five words that clients know."""
    if legacy_functions and reason is StopReason.TOOL_CALL:
        return "function_call"
    return _FINISH[reason]


def render(message: Message, meta: ResponseMeta) -> Iterator[bytes]:
    """The JSON body, in pieces."""
    legacy = options_of(meta).legacy_functions
    yield _BEFORE % (quote_bytes(meta.id), meta.created, quote_bytes(meta.model))
    yield from _turn(message, legacy)
    yield _AFTER % (quote_bytes(finish_reason(message.stop_reason, legacy)), dumps(usage_object(message.usage)))


def _turn(message: Message, legacy: bool) -> Iterator[bytes]:
    """The assistant's turn; absent, not empty, is what clients expect of ``tool_calls``."""
    calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    thoughts = [block for block in message.blocks if isinstance(block, ThinkingBlock)]
    thinking = "".join(block.text for block in thoughts)
    details = reasoning_details(block.signature for block in thoughts)
    text, annotations = _content(message)
    refusal = "".join(block.text for block in message.blocks if isinstance(block, RefusalBlock)) or None
    yield b'{"role":"assistant","content":'
    yield from _text_or_null(text or (None if calls or refusal else ""))
    yield b',"refusal":'
    yield from _text_or_null(refusal)
    if annotations:
        yield b',"annotations":' + dumps(annotations)
    if thinking:
        yield b',"reasoning_content":'
        yield from dump_text(thinking)
    if details:
        yield b',"reasoning_details":' + dumps(details)
    if calls and legacy:
        yield b',"function_call":'
        yield from _function(calls[0])
    elif calls:
        yield b',"tool_calls":'
        yield from dump_array(_tool_calls(message))
    yield b"}"


def _text_or_null(text: str | None) -> Iterator[bytes]:
    return iter((b"null",)) if text is None else dump_text(text)


def _tool_calls(message: Message) -> Iterator[Iterable[bytes]]:
    """The calls, each with the signature that stands before it."""
    signature = ""
    for block in message.blocks:
        if isinstance(block, ThinkingBlock):
            signature = call_signature(block.signature) or signature
        elif isinstance(block, ToolCallBlock):
            extra = b',"extra_content":' + dumps(extra_content(signature)) if signature else b""
            yield (_CALL % quote_bytes(block.call_id), *_function(block), extra + b"}")
            signature = ""


def _content(message: Message) -> tuple[str, list[dict[str, Any]]]:
    """The text, which is one here, and what it cites."""
    text, annotations = "", []
    for block in message.blocks:
        if isinstance(block, TextBlock):
            text += block.text
            annotations += [citation(each, len(text)) for each in block.citations if each.url]
        elif isinstance(block, ServerResult):
            text += GAP * bool(text)
            annotations += citations(block.output, len(text))
    return text, annotations


def citations(output: ToolOutput, offset: int) -> list[dict[str, Any]]:
    """Where the content names the pages that a tool found; *offset* is where it begins to."""
    return [_annotation(offset + start, offset + end, hit.url, hit.title) for start, end, hit in output.spans()]


def citation(source: Citation, end: int) -> dict[str, Any]:
    """Where the content relies on a page; the source stands behind its first *end* characters."""
    return _annotation(max(end - source.begins, 0), max(end - source.ends, 0), source.url, source.title)


def _annotation(start: int, end: int, url: str, title: str) -> dict[str, Any]:
    places = {"start_index": start, "end_index": end, "url": url, "title": title}
    return {"type": "url_citation", "url_citation": places}


def _function(call: ToolCallBlock) -> Iterable[bytes]:
    return (b'{"name":%b,"arguments":' % quote_bytes(call.name), *dump_text(call.input), b"}")
