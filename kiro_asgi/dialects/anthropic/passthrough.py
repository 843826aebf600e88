"""The facts that the gateway reads in Messages which another service has written.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.anthropic.encoder import SERVED
from kiro_asgi.dialects.anthropic.errors import stream_error_body
from kiro_asgi.dialects.anthropic.parsing import CLIENT_TOOLS, HOSTED_TOOLS
from kiro_asgi.dialects.anthropic.shapes import FIELD_REQUIRED, MessagesRequestBody
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.passthrough import Format, RequestPeek, Sign, peek_at
from kiro_asgi.dialects.references import references_in
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.features import Ask
from kiro_asgi.model.own_lines import own_line
from kiro_asgi.model.prompt import Tool
from kiro_asgi.model.signatures import read_mark
from kiro_asgi.stages.counts import messages_counts
from kiro_asgi.wire.json import object_of, objects_of, text_of
from kiro_asgi.wire.sse import encode_sse

_ENDED: Final = Sign(ended=True)
_FAILED: Final = Sign(failed=True)
_TIERS: Final = MappingProxyType({word: tier for tier, word in SERVED.items()})


def peek(body: bytes) -> RequestPeek:
    """The facts that decide where a request goes."""
    return peek_at(read_json(body), body, FIELD_REQUIRED, shape=MessagesRequestBody, tools=_tools, asks=_asks)


def _asks(document: Mapping[str, Any]) -> Iterator[Ask]:
    if any(not tool.hosted for tool in _tools(document)):
        yield Ask.TOOLS
    choice = object_of(document.get("tool_choice"))
    if choice.get("type", "auto") != "auto" or choice.get("disable_parallel_tool_use"):
        yield Ask.CHOICE
    if document.get("output_format") or object_of(document.get("output_config")).get("format"):
        yield Ask.FORM
    if object_of(document.get("thinking")).get("type") in ("enabled", "adaptive"):
        yield Ask.THINKING
    if any(document.get(name) is not None for name in ("temperature", "top_p", "top_k")):
        yield Ask.SAMPLING
    if document.get("temperature") is not None and document.get("top_p") is not None:
        yield Ask.SAMPLED_TWICE
    if document.get("mcp_servers") or any(map(_is_served, objects_of(document.get("tools")))):
        yield Ask.SERVED
    if any(references_in(document)):
        yield Ask.SERVED
    yield from _asks_of_texts(document)
    yield from _asks_of_history(document)


def _asks_of_texts(document: Mapping[str, Any]) -> Iterator[Ask]:
    stops = document.get("stop_sequences")
    if isinstance(stops, list) and any(isinstance(stop, str) and stop.isspace() for stop in stops):
        yield Ask.BLANK_STOPS
    if own_line(_first_text(document.get("system"))):
        yield Ask.OWN_LINE


def _first_text(system: Any) -> str:
    if isinstance(system, str):
        return system
    return next((text_of(block, "text") for block in objects_of(system)), "")


def _is_served(tool: Mapping[str, Any]) -> bool:
    """Whether only the service can run *tool*: the web search is the one tool of its own that is translated."""
    kind = tool.get("type") or "custom"
    if kind == "custom" or "input_schema" in tool:
        return False
    return not str(kind).startswith((WEB_SEARCH, *(start for start, _ in CLIENT_TOOLS)))


def _asks_of_history(document: Mapping[str, Any]) -> Iterator[Ask]:
    for message in objects_of(document.get("messages")):
        for block in objects_of(message.get("content")):
            if block.get("type") in ("thinking", "redacted_thinking"):
                yield Ask.THOUGHTS
                if read_mark(str(block.get("signature"))).owner:
                    yield Ask.FOREIGN_SIGNATURES


def _tools(document: Mapping[str, Any]) -> tuple[Tool, ...]:
    return tuple(Tool(str(tool.get("name")), hosted=_hosted(tool)) for tool in objects_of(document.get("tools")))


def _hosted(tool: Mapping[str, Any]) -> str:
    kind = str(tool.get("type"))
    return next((known.hosted for start, known in HOSTED_TOOLS if kind.startswith(start)), "")


def _read(document: Mapping[str, Any]) -> Sign:
    match document:
        case {"type": "message_stop"}:
            return _ENDED
        case {"type": "error"} | {"error": dict() | str()}:  # servers that speak the API forget the type
            return _FAILED
        case {"type": "message_start", "message": {"usage": dict(usage)}}:
            tier = _TIERS.get(text_of(usage, "service_tier"))
            return Sign(usage=usage, tier=tier, opening=True)
        case {"usage": dict(usage)}:
            return Sign(usage=usage, tier=_TIERS.get(text_of(usage, "service_tier")))
    return Sign()


def _error(error: KiroAsgiError, _: ResponseMeta) -> list[bytes]:
    return [encode_sse("error", stream_error_body(error))]


MESSAGES_FORMAT: Final = Format(
    content=frozenset({"content"}),
    heartbeat=encode_sse("ping", b'{"type":"ping"}'),
    relevant=re.compile(rb'"(?:message_(?:start|delta|stop)|error)"'),
    read=_read,
    counts=messages_counts,
    named=b'"message_start"',
    place=("message", "model"),
    error=_error,
)
"""The Messages API."""
