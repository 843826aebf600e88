"""A collected answer, and the words that streamed answers share with it.

Everything is ASCII but for what only strings hold, and of that, too, what some official clients take for the end of a
line is escaped.

Source: https://ai.google.dev/api/generate-content#GenerateContentResponse
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.gemini.grounding import GroundingTally
from kiro_asgi.dialects.gemini.request import GeminiOptions
from kiro_asgi.dialects.gemini.signatures import Signing
from kiro_asgi.dialects.pieces import dump_array, dump_text
from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.model.events import StopReason, Usage
from kiro_asgi.model.message import (
    Block,
    Message,
    RedactedThinkingBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from kiro_asgi.wire.json import JsonError, dumps, loads, quote_bytes

_FINISH: Final[Mapping[StopReason, str]] = MappingProxyType(
    {
        StopReason.LENGTH: "MAX_TOKENS",
        StopReason.CONTEXT_FULL: "MAX_TOKENS",
        StopReason.PAUSED: "MAX_TOKENS",
        StopReason.CONTENT_FILTER: "SAFETY",
        StopReason.REFUSAL: "SAFETY",
    }
)
"""Every other reason is ``STOP``; that there are calls, their parts tell."""

_MESSAGES: Final[Mapping[StopReason, str]] = MappingProxyType(
    {
        StopReason.CONTEXT_FULL: "The context window is full.",
        StopReason.PAUSED: "The service paused before the end of the answer.",
        StopReason.CONTENT_FILTER: "A filter of the service took the answer, or the rest of it.",
        StopReason.REFUSAL: "The model declined to answer.",
    }
)

_LINE_ENDS: Final = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""Characters at which clients split lines, though no standard for events does, to their escapes in JSON."""


def escaped(json: bytes) -> bytes:
    """*json*, whose strings hold no line end as it stands."""
    if not json.isascii():
        for character, escape in _LINE_ENDS:
            json = json.replace(character, escape)
    return json


def thought_or_text(text: bytes, *, thought: bool) -> bytes:
    """A part of text, which is JSON already."""
    return b'{"text":%b,"thought":true}' % text if thought else b'{"text":%b}' % text


def call_part(call_id: str, name: str, arguments: str, signature: Mapping[str, str]) -> bytes:
    """A call.

    Raises:
        UpstreamProtocolError: The arguments are not a JSON object.
    """
    try:
        value = loads(arguments or "{}")
    except JsonError as error:
        raise UpstreamProtocolError("the arguments of a tool call are not JSON", code="tool_call.arguments") from error
    if not isinstance(value, dict):
        raise UpstreamProtocolError("the arguments of a tool call are not a JSON object", code="tool_call.arguments")
    return dumps({"functionCall": {"id": call_id, "name": name, "args": value}, **signature})


def grounding_of(meta: ResponseMeta) -> GroundingTally:
    """What collects the pages of an answer."""
    options = meta.options
    return GroundingTally(keeps_text=isinstance(options, GeminiOptions) and options.grounded)


def finish(reason: StopReason, grounding: GroundingTally) -> dict[str, Any]:
    """Members of a candidate that has ended."""
    ended: dict[str, Any] = {"finishReason": _FINISH.get(reason, "STOP")}
    if reason in _MESSAGES:
        ended["finishMessage"] = _MESSAGES[reason]
    return {**ended, "index": 0, **grounding.metadata()}


def tail(meta: ResponseMeta) -> bytes:
    """The members at the end of every object of an answer."""
    return b',"modelVersion":%b,"responseId":%b}' % (quote_bytes(meta.model), quote_bytes(meta.id))


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts; thinking is not among those of the candidate, and the cache's are among the prompt's."""
    prompt, thoughts = usage.prompt_tokens, usage.thinking_tokens
    counts = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": max(usage.output_tokens - thoughts, 0),
        "totalTokenCount": prompt + usage.output_tokens,
    }
    if usage.cache_read_tokens:
        counts["cachedContentTokenCount"] = usage.cache_read_tokens
    if thoughts:
        counts["thoughtsTokenCount"] = thoughts
    return counts


def render(message: Message, meta: ResponseMeta) -> Iterator[bytes]:
    """The JSON body of a collected answer, in pieces.

    Raises:
        UpstreamProtocolError: The arguments of a call are not a JSON object.
    """
    signing, grounding = Signing(), grounding_of(meta)
    yield b'{"candidates":[{"content":{"parts":'
    for piece in dump_array(_parts(message, signing, grounding)):
        yield escaped(piece)
    candidate = dumps(finish(message.stop_reason, grounding))[1:]
    usage = dumps(usage_object(message.usage))
    yield escaped(b',"role":"model"},%b],"usageMetadata":%b%b' % (candidate, usage, tail(meta)))


def _parts(message: Message, signing: Signing, grounding: GroundingTally) -> Iterator[Iterable[bytes]]:
    """The parts of an answer, never none; each in pieces."""
    empty = True
    for block in message.blocks:
        for part in _part(block, signing, grounding):
            empty = False
            yield part
    rest = signing.rest()
    if rest or empty:
        yield (dumps({"text": "", **rest}),)


def _part(block: Block, signing: Signing, grounding: GroundingTally) -> Iterator[Iterable[bytes]]:
    match block:
        case TextBlock(text) | RefusalBlock(text):
            if text:
                grounding.text(text)
                yield (b'{"text":', *dump_text(text), b"}")
            for citation in block.citations if isinstance(block, TextBlock) else ():
                grounding.cite(citation)
        case ThinkingBlock(text, signature):
            if text:
                yield (b'{"text":', *dump_text(text), b',"thought":true}')
            if (part := signing.thinking(text, signature)) is not None:
                yield (dumps(part),)
        case RedactedThinkingBlock(data):
            signing.thinking("", "", data)
        case ToolCallBlock(call_id, name, arguments):
            yield (call_part(call_id, name, arguments, signing.of_call()),)
        case server:
            grounding.tool(server)
