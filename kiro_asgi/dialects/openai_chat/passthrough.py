"""The facts that the gateway reads in chat completions which another service has written.

Many services speak this API, not all to the letter: an answer may lack the sentinel at its end, and an error may come
under any status.

Source: https://platform.openai.com/docs/api-reference/chat/streaming
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_chat.blocks import stops_beside, texts_beside
from kiro_asgi.dialects.openai_chat.content import read_reasoning_details
from kiro_asgi.dialects.openai_chat.encoder import ChatEncoder
from kiro_asgi.dialects.openai_chat.items import is_of_responses
from kiro_asgi.dialects.openai_chat.shapes import BLOCKS, CHOICES, ChatRequestBody
from kiro_asgi.dialects.openai_common import served_tier
from kiro_asgi.dialects.passthrough import Format, RequestPeek, Sign, peek_at
from kiro_asgi.dialects.references import references_in
from kiro_asgi.dialects.structure import MISSING, read_json
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.features import Ask
from kiro_asgi.model.prompt import Tool
from kiro_asgi.stages.counts import chat_counts
from kiro_asgi.wire.json import count_of, object_of, objects_of, text_of
from kiro_asgi.wire.sse import encode_comment

_DONE: Final = b"[DONE]"
_FAILED: Final = Sign(failed=True)

_CLIENT_TOOLS: Final = frozenset({"function", "custom"})
"""Types of tools that the API has."""

_THOUGHTS: Final = ("reasoning_content", "reasoning", "reasoning_details")
"""Members of a message in which services that are not OpenAI hand thinking over."""

_MAX_STOPS: Final = 4

_LONGEST: Final = ("max_completion_tokens", "max_tokens")
"""Names of the greatest length, the newer one first."""

_FIELDS: Final[Mapping[str, Ask]] = MappingProxyType(
    {
        "max_tokens": Ask.MAX_TOKENS,
        "max_completion_tokens": Ask.MAX_COMPLETION_TOKENS,
        "stream_options": Ask.COUNTS,
        **dict.fromkeys(("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty"), Ask.SAMPLING),
    }
)
"""Fields that ask for something where they are there at all."""


def peek(body: bytes) -> RequestPeek:
    """The facts that decide where a request goes."""
    return peek_at(read_json(body), body, MISSING, shape=ChatRequestBody, tools=_tools, asks=_asks, max_tokens=_LONGEST)


def _asks(document: Mapping[str, Any]) -> Iterator[Ask]:
    kinds = {str(tool.get("type", "function")) for tool in objects_of(document.get("tools"))}
    if document.get("functions") or kinds & _CLIENT_TOOLS:
        yield Ask.TOOLS
    if kinds - _CLIENT_TOOLS:
        yield Ask.UNKNOWN_TOOLS
    if any(foreign_shapes(document)):
        yield Ask.FOREIGN_SHAPES
    if "custom" in kinds or any(references_in(document)):
        yield Ask.SERVED
    choices = (document.get("tool_choice"), document.get("function_call"))
    if any(choice not in (None, "auto") for choice in choices) or document.get("parallel_tool_calls") is False:
        yield Ask.CHOICE
    if object_of(document.get("response_format")).get("type", "text") != "text":
        yield Ask.FORM
    if document.get("reasoning_effort") not in (None, "none", "minimal"):
        yield Ask.THINKING
    messages = objects_of(document.get("messages"))
    if any(message.get(name) for message in messages for name in _THOUGHTS):
        yield Ask.THOUGHTS
    if any(any(read_reasoning_details(message.get("reasoning_details"))) for message in messages):
        yield Ask.FOREIGN_SIGNATURES
    yield from _asks_of_options(document)


def foreign_shapes(document: Mapping[str, Any]) -> Iterator[str]:
    """Places of what has the form of the Messages API, or of the Responses API, in a request of this one."""
    if texts_beside(document.get("system")):
        yield "system"
    if is_of_responses(document):
        yield "input"
    if not document.get("stop") and stops_beside(document.get("stop_sequences")):
        yield "stop_sequences"
    for index, tool in enumerate(objects_of(document.get("tools"))):
        for place, each in ((f"tools[{index}]", tool), (f"tools[{index}].function", object_of(tool.get("function")))):
            if "input_schema" in each:
                yield place
        if tool.get("type") == "custom" and "custom" not in tool:
            yield f"tools[{index}]"
    if object_of(document.get("tool_choice")).get("type") in CHOICES:
        yield "tool_choice"
    yield from _foreign_parts(document)


def _foreign_parts(document: Mapping[str, Any]) -> Iterator[str]:
    for index, message in enumerate(objects_of(document.get("messages"))):
        for at, part in enumerate(objects_of(message.get("content"))):
            if text_of(part, "type") in BLOCKS or text_of(part, "type") == "input_image":
                yield f"messages[{index}].content[{at}]"


def _asks_of_options(document: Mapping[str, Any]) -> Iterator[Ask]:
    if stop := document.get("stop"):
        yield Ask.STOP
        if type(stop) is list and len(stop) > _MAX_STOPS:
            yield Ask.MANY_STOPS
    for name, ask in _FIELDS.items():
        if document.get(name) is not None:
            yield ask


def _tools(document: Mapping[str, Any]) -> tuple[Tool, ...]:
    tools = tuple(map(_tool, objects_of(document.get("tools"))))
    asked = document.get("web_search_options") is not None
    return (*tools, Tool(WEB_SEARCH, hosted=WEB_SEARCH)) if asked else tools


def _tool(tool: Mapping[str, Any]) -> Tool:
    name = (object_of(tool.get("function") or tool.get("custom")) or tool).get("name")
    hosted = WEB_SEARCH if str(tool.get("type")).startswith(WEB_SEARCH) else ""
    return Tool(str(name), hosted=hosted)


def _read(document: Mapping[str, Any]) -> Sign:
    if document.get("error"):
        return _FAILED
    ended = any(choice.get("finish_reason") for choice in objects_of(document.get("choices")))
    usage = document.get("usage")
    return Sign(ended, usage=usage if type(usage) is dict else None, tier=served_tier(document))


def _answer_meta(document: Mapping[str, Any], meta: ResponseMeta) -> ResponseMeta:
    """Facts of the answer by its first chunk; those that it lacks are *meta*'s."""
    created = count_of(document, "created")
    return evolve(
        meta,
        id=text_of(document, "id") or meta.id,
        model=text_of(document, "model") or meta.model,
        created=meta.created if created is None else created,
    )


def _error(error: KiroAsgiError, meta: ResponseMeta) -> list[bytes]:
    return ChatEncoder(meta).error(error)


COMPLETIONS: Final = Format(
    content=frozenset({"choices"}),
    heartbeat=encode_comment("ping"),
    relevant=re.compile(rb'"(?:error"|usage"\s*:\s*\{|finish_reason"\s*:\s*")'),
    done=_DONE,
    read=_read,
    counts=chat_counts,
    named=b'"model"',
    place=("model",),
    meta=_answer_meta,
    error=_error,
)
"""The Chat Completions API."""
