"""The facts that the gateway reads in answers of Google, and in requests that may go there as they are.

Source: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.choices import choices_of
from kiro_asgi.dialects.gemini.content import opened
from kiro_asgi.dialects.gemini.encoder import SERVED, SseEncoder
from kiro_asgi.dialects.gemini.parsing import HOSTED, MODES, SEARCHES, read_body
from kiro_asgi.dialects.gemini.shapes import GenerateBody
from kiro_asgi.dialects.named_models import models_named
from kiro_asgi.dialects.passthrough import Format, RequestPeek, Sign, misspellings
from kiro_asgi.dialects.references import references_in
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.features import Ask
from kiro_asgi.model.prompt import Tool, ToolChoiceMode
from kiro_asgi.stages.counts import gemini_counts
from kiro_asgi.wire.json import count_of, object_of, objects_of, text_of

_FORMS: Final = frozenset({"response_schema", "response_json_schema", "response_format"})
_TIERS: Final = MappingProxyType({word: tier for tier, word in SERVED.items()})
_EMPTY_EVENT: Final = b"\n\n"


@frozen
class GeminiPeek(RequestPeek):
    """A request whose path names the model."""

    def renamed(self, model: str) -> bytes:
        """The client's very bytes: the address is ours."""
        return self.body


def peek(body: bytes, model: str, *, stream: bool) -> RequestPeek:
    """The facts that decide where a request for *model* goes.

    Raises:
        RequestError: No JSON object.
    """
    document = read_body(body)
    longest = count_of(object_of(document.get("generation_config")), "max_output_tokens")
    asks = frozenset((*_asks(document), *misspellings(document, GenerateBody)))
    choices, named = choices_of(document), models_named(document)
    return GeminiPeek(body, model, stream, tuple(_tools(document)), asks, longest, choices, named)


def _tools(document: Mapping[str, Any]) -> Iterator[Tool]:
    for tool in objects_of(document.get("tools")):
        for function in objects_of(tool.get("function_declarations")):
            yield Tool(text_of(function, "name"))
        if not tool.keys().isdisjoint(SEARCHES):
            yield Tool(WEB_SEARCH, hosted=WEB_SEARCH)


def _asks(document: Mapping[str, Any]) -> Iterator[Ask]:
    tools = objects_of(document.get("tools"))
    if any(objects_of(tool.get("function_declarations")) for tool in tools):
        yield Ask.TOOLS
    if any(not tool.keys().isdisjoint(HOSTED) for tool in tools) or any(references_in(document)):
        yield Ask.SERVED
    calling = object_of(object_of(document.get("tool_config")).get("function_calling_config"))
    if MODES.get(text_of(calling, "mode") or "AUTO") is not ToolChoiceMode.AUTO:
        yield Ask.CHOICE
    config = object_of(document.get("generation_config"))
    if "json" in text_of(config, "response_mime_type") or not config.keys().isdisjoint(_FORMS):
        yield Ask.FORM
    if object_of(config.get("thinking_config")):
        yield Ask.THINKING
    yield from _asks_of_history(document)


def _asks_of_history(document: Mapping[str, Any]) -> Iterator[Ask]:
    for content in objects_of(document.get("contents")):
        for part in objects_of(content.get("parts")):
            signature = text_of(part, "thought_signature")
            if signature or part.get("thought"):
                yield Ask.THOUGHTS
            if opened(signature) is not None:
                yield Ask.FOREIGN_SIGNATURES


def _read(document: Mapping[str, Any]) -> Sign:
    if "error" in document:
        return Sign(failed=True)
    blocked = text_of(object_of(document.get("promptFeedback")), "blockReason")
    finished = any(text_of(candidate, "finishReason") for candidate in objects_of(document.get("candidates")))
    usage = object_of(document.get("usageMetadata"))
    tier = _TIERS.get(text_of(usage, "trafficType"))
    return Sign(ended=bool(blocked) or finished, usage=usage or None, tier=tier)


def _error(error: KiroAsgiError, meta: ResponseMeta) -> list[bytes]:
    return SseEncoder(meta).error(error)


GENERATED: Final = Format(
    content=frozenset({"candidates", "promptFeedback"}),
    heartbeat=_EMPTY_EVENT,
    early_heartbeat=_EMPTY_EVENT,
    relevant=re.compile(rb'"(?:finishReason|usageMetadata|promptFeedback|error)"'),
    read=_read,
    counts=gemini_counts,
    error=_error,
)
"""``streamGenerateContent`` as events."""
