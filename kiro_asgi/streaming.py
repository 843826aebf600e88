"""The library face: the pipeline without the application, for code that brings its own network.

Everything here is a thin composition of stages.  *chunks* are the bytes of an upstream's answer and may be cut
anywhere; the result never depends on where.  Functions that read from somewhere are async; everything else is plain.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Literal

from attrs import define, field

from kiro_asgi.contract import (
    Call,
    closing,
    collect_kiro_response,
    execute_kiro,
    stream_kiro,
    translate_kiro_request,
    translate_kiro_response,
)
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, Encoder, ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Delta
from kiro_asgi.model.message import Message, MessageBuilder
from kiro_asgi.model.prompt import Prompt, Turn
from kiro_asgi.recovery import inject_anthropic_truncation_recovery, inject_openai_truncation_recovery
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.cut_answers import CutAnswer, truncation_records
from kiro_asgi.stages.parts.argument_text import TruncationDiagnosis, diagnose_json_truncation
from kiro_asgi.stages.parts.open_calls import ToolCall, ToolCallAccumulator, deduplicate_tool_calls
from kiro_asgi.stages.thinking import ThinkingParser, ThinkingParseResult
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.contract import ContractOptions, Request, Response
from kiro_asgi.upstreams.kiro.contract.answer import safe_parse_json
from kiro_asgi.upstreams.kiro.contract.request import clean_json_schema_properties, reasoning_effort_from_budget
from kiro_asgi.upstreams.kiro.rules.texts import sanitize_text
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from kiro_asgi.wire.eventstream import Frame, FrameDecoder, decode_buffer, decode_frame, encode_frame
from kiro_asgi.wire.json import dumps
from kiro_asgi.wire.objects import ObjectScanner
from kiro_asgi.wire.sse import ServerSentEvent, SseDecoder, encode_sse

__all__ = [
    "Call",
    "ContractOptions",
    "CutAnswer",
    "Delta",
    "Frame",
    "FrameDecoder",
    "Message",
    "ModelCard",
    "ObjectScanner",
    "OpenAIToAnthropicState",
    "Prompt",
    "ReasoningSummary",
    "Request",
    "Response",
    "ServerSentEvent",
    "SseDecoder",
    "ThinkingHandling",
    "ThinkingParseResult",
    "ThinkingParser",
    "ThinkingScan",
    "ToolCall",
    "ToolCallAccumulator",
    "ToolEmission",
    "TruncationDiagnosis",
    "Turn",
    "clean_json_schema_properties",
    "collect_anthropic_response",
    "collect_kiro_message",
    "collect_kiro_response",
    "collect_openai_response",
    "collect_responses_response",
    "decode_buffer",
    "decode_frame",
    "deduplicate_tool_calls",
    "diagnose_json_truncation",
    "encode_frame",
    "encode_sse",
    "execute_kiro",
    "inject_anthropic_truncation_recovery",
    "inject_openai_truncation_recovery",
    "parse_kiro_stream",
    "parse_sse_stream",
    "reasoning_effort_from_budget",
    "safe_parse_json",
    "sanitize_text",
    "stream_kiro",
    "stream_kiro_to_anthropic",
    "stream_kiro_to_openai",
    "stream_kiro_to_responses",
    "translate_kiro_request",
    "translate_kiro_response",
    "truncation_records",
]

ThinkingHandling = Literal["as_reasoning_content", "remove", "pass", "strip_tags"]
"""Handling of thinking: as thinking of the client's API, left out, as text between its tags, or as text alone."""

ThinkingScan = Literal["auto", "start", "anywhere", "open"]
"""Place where a tag of thinking counts: at the beginning of the answer only, or anywhere in its text."""

ToolEmission = Literal["complete", "end", "incremental"]
"""Time when a tool call is sent: once it is complete, after everything else, or piece by piece as it arrives."""

ReasoningSummary = Literal["auto", "concise", "detailed"]
"""Values of ``reasoning.summary`` in the Responses API."""


async def parse_kiro_stream(chunks: AsyncIterable[bytes]) -> AsyncIterator[Delta]:
    """Decode an answer of the Kiro service, delta by delta.

    Args:
        chunks: The body of its answer: binary event stream, or JSON objects embedded in text.

    Raises:
        UpstreamError: A broken stream, or a failure that the service reports in band.
    """
    stages: Pipeline[bytes, Delta] = Pipeline(*KiroUpstream().decoder(""))
    async with closing(chunks) as source:
        async for chunk in source:
            for delta in stages.feed([chunk]):
                yield delta
    for delta in stages.flush():
        yield delta


async def parse_sse_stream(chunks: AsyncIterable[bytes]) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events, as the WHATWG standard reads them."""
    decoder = SseDecoder()
    async with closing(chunks) as source:
        async for chunk in source:
            for event in decoder.feed([chunk]):
                yield event
    for event in decoder.flush():
        yield event


def stream_kiro_to_openai(
    chunks: AsyncIterable[bytes],
    *,
    model: str,
    include_usage: bool = False,
    input_tokens: int = 0,
    thinking: ThinkingHandling = "as_reasoning_content",
    thinking_scan: ThinkingScan = "start",
    tool_emission: ToolEmission = "complete",
) -> AsyncGenerator[bytes, None]:
    """A Kiro answer as OpenAI Chat Completions chunks.

    Args:
        chunks: The body of the service's answer.
        model: The name that every chunk repeats.
        include_usage: Whether a chunk with token counts comes before ``[DONE]``.
        input_tokens: The prompt's size, where it is known; else the service's own numbers are used.
        thinking: What becomes of thinking: ``as_reasoning_content``, ``remove``, ``pass``, ``strip_tags``.
        thinking_scan: Where a thinking tag counts: ``start`` or ``anywhere``.
        tool_emission: When a tool call is sent: ``complete``, ``end`` or ``incremental``.

    Returns:
        Whole server-sent events, one or more at a time.

    Raises:
        UpstreamError: A broken stream, or a failure that the service reports in band.  If anything was yielded before,
            the API's own in-band error is yielded too, and the exception only informs the caller.
    """
    dialect = OpenAIChat()
    answer = _answer(input_tokens, thinking, thinking_scan, tool_emission)
    encoder = dialect.encoder(_new_meta("chatcmpl-", model, ChatOptions(include_usage=include_usage)))
    return _encoded(chunks, answer, encoder)


def stream_kiro_to_anthropic(
    chunks: AsyncIterable[bytes],
    *,
    model: str,
    input_tokens: int = 0,
    thinking: ThinkingHandling = "as_reasoning_content",
    thinking_scan: ThinkingScan = "start",
    tool_emission: ToolEmission = "complete",
) -> AsyncGenerator[bytes, None]:
    """A Kiro answer as Anthropic Messages events; arguments, result and errors as `stream_kiro_to_openai`."""
    answer = _answer(input_tokens, thinking, thinking_scan, tool_emission)
    encoder = AnthropicMessages().encoder(_new_meta("msg_", model, None))
    return _encoded(chunks, answer, encoder)


def stream_kiro_to_responses(
    chunks: AsyncIterable[bytes],
    *,
    model: str,
    reasoning_summary: ReasoningSummary | None = None,
    input_tokens: int = 0,
    thinking: ThinkingHandling = "as_reasoning_content",
    thinking_scan: ThinkingScan = "start",
    tool_emission: ToolEmission = "complete",
) -> AsyncGenerator[bytes, None]:
    """A Kiro answer as OpenAI Responses events; the rest as `stream_kiro_to_openai`.

    Args:
        chunks: The body of the service's answer.
        model: The name that the response repeats.
        reasoning_summary: As in a request: with ``auto``, ``concise`` or ``detailed`` thinking is shown as a summary,
            else as reasoning text.
        input_tokens: The prompt's size, where it is known; else the service's own numbers are used.
        thinking: What becomes of thinking: ``as_reasoning_content``, ``remove``, ``pass``, ``strip_tags``.
        thinking_scan: Where a thinking tag counts: ``start`` or ``anywhere``.
        tool_emission: When a tool call is sent: ``complete``, ``end`` or ``incremental``.
    """
    answer = _answer(input_tokens, thinking, thinking_scan, tool_emission, kept_whole=True)
    encoder = OpenAIResponses(clock=time.time).encoder(_new_meta("resp_", model, _responses_options(reasoning_summary)))
    return _encoded(chunks, answer, encoder)


async def collect_kiro_message(
    chunks: AsyncIterable[bytes],
    *,
    input_tokens: int = 0,
    thinking: ThinkingHandling = "as_reasoning_content",
    thinking_scan: ThinkingScan = "start",
) -> Message:
    """A whole Kiro answer as a neutral `Message`, which belongs to no client API; else as `collect_openai_response`."""
    return await _collected(chunks, _answer(input_tokens, thinking, thinking_scan, "end", kept_whole=True))


async def collect_openai_response(
    chunks: AsyncIterable[bytes],
    *,
    model: str,
    input_tokens: int = 0,
    thinking: ThinkingHandling = "as_reasoning_content",
    thinking_scan: ThinkingScan = "start",
) -> dict[str, Any]:
    """A whole Kiro answer as one ``chat.completion`` object, ready for JSON.

    Tool calls are deduplicated over the whole answer: by id, the most complete arguments win.

    Raises:
        AnswerTooLarge: The answer takes more than 32 MiB of memory.
        UpstreamError: A broken stream, or a failure that the service reports in band.
    """
    answer = _answer(input_tokens, thinking, thinking_scan, "end", kept_whole=True)
    return _rendered(await _collected(chunks, answer), OpenAIChat(), _new_meta("chatcmpl-", model, ChatOptions()))


async def collect_anthropic_response(
    chunks: AsyncIterable[bytes],
    *,
    model: str,
    input_tokens: int = 0,
    thinking: ThinkingHandling = "as_reasoning_content",
    thinking_scan: ThinkingScan = "start",
) -> dict[str, Any]:
    """A whole Kiro answer as one ``message`` object, ready for JSON; else as `collect_openai_response`."""
    answer = _answer(input_tokens, thinking, thinking_scan, "end", kept_whole=True)
    return _rendered(await _collected(chunks, answer), AnthropicMessages(), _new_meta("msg_", model, None))


async def collect_responses_response(
    chunks: AsyncIterable[bytes],
    *,
    model: str,
    reasoning_summary: ReasoningSummary | None = None,
    input_tokens: int = 0,
    thinking: ThinkingHandling = "as_reasoning_content",
    thinking_scan: ThinkingScan = "start",
) -> dict[str, Any]:
    """A whole Kiro answer as one ``response`` object, ready for JSON; else as `collect_openai_response`."""
    answer = _answer(input_tokens, thinking, thinking_scan, "end", kept_whole=True)
    meta = _new_meta("resp_", model, _responses_options(reasoning_summary))
    return _rendered(await _collected(chunks, answer), OpenAIResponses(clock=time.time), meta)


def _new_id() -> str:
    return f"toolu_{secrets.token_hex(12)}"


@define
class OpenAIToAnthropicState:
    """OpenAI's Chat Completions events in, Anthropic's Messages events out; does no I/O.

    What comes out is always one legal stream: it begins with ``message_start``, blocks never overlap, thinking
    (``reasoning_content``) is a block of its own, a tool call is sent when its arguments are whole, and the end is
    ``message_delta`` with the stop reason and all counts, then ``message_stop``; or one ``error`` event, and nothing
    behind it.

    The opposite direction is `kiro_asgi.upstreams.anthropic` in front of `kiro_asgi.dialects.openai_chat`, and every
    other pair is put together likewise: an upstream's decoder, `kiro_asgi.stages.answer.build_pipeline`, a dialect's
    encoder.

    Args:
        model: The name that ``message_start`` repeats.
        input_tokens: The prompt's size in tokens, where it is known before the service counts it.
        thinking_tags: Names of the tags between which the text holds thinking.
        new_id: Makes the id of a call that came without one.

    Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming
    """

    model: str
    input_tokens: int = field(default=0, kw_only=True)
    thinking_tags: tuple[str, ...] = field(default=(), kw_only=True)
    new_id: Callable[[], str] = field(default=_new_id, kw_only=True)

    failure: KiroAsgiError | None = field(init=False, default=None)
    """The error that ended the stream with an ``error`` event; ``None`` as long as there is none."""

    _answer: Answer = field(init=False)
    _encoder: Encoder = field(init=False)
    _ended: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        thinking = "as_reasoning_content" if self.thinking_tags else ""
        plan = Plan(
            thinking=thinking,
            thinking_tags=self.thinking_tags,
            drop_equal_tool_calls=False,
            input_tokens=self.input_tokens,
        )
        self._answer = build_pipeline(OpenAIUpstream(new_id=self.new_id).decoder(""), plan)
        self._encoder = AnthropicMessages().encoder(_new_meta("msg_", self.model, None))

    def feed(self, event: ServerSentEvent | bytes | Mapping[str, Any], /) -> bytes:
        """Translate the next bytes of the upstream's answer: to whole server-sent events, or to nothing yet.

        Args:
            event: One event, as decoded or as the object that is its data; or bytes of the stream, cut anywhere.
                A stream is fed in one of these ways.

        An error that the upstream reports, or that its answer is, becomes the stream's end and `failure`; nothing is
        raised.
        """
        return self._encoded(self._encoder.feed(self._answer.feed([_bytes_of(event)])))

    def finish(self) -> bytes:
        """The rest, when the upstream's answer has ended; an answer that was cut ends with an ``error`` event."""
        rest = self._encoded(self._encoder.feed(self._answer.flush())) + self._encoded(self._encoder.flush())
        self._ended = True
        return rest

    def error(self, error: KiroAsgiError) -> bytes:
        """End the stream with an ``error`` event, for a failure of the caller's own: a connection that broke."""
        if self._ended:
            return b""
        self._ended, self.failure = True, error
        return b"".join(self._encoder.error(error))

    def _encoded(self, pieces: Iterable[bytes]) -> bytes:
        if self._ended:
            return b""
        encoded = bytearray()
        try:
            for piece in pieces:
                encoded += piece
        except KiroAsgiError as error:
            encoded += self.error(error)
        return bytes(encoded)


def _bytes_of(event: ServerSentEvent | bytes | Mapping[str, Any]) -> bytes:
    if isinstance(event, bytes):
        return event
    if isinstance(event, ServerSentEvent):
        return encode_sse("" if event.event == "message" else event.event, event.data)
    return encode_sse("", dumps(dict(event)))


def _answer(
    input_tokens: int,
    thinking: ThinkingHandling,
    scan: ThinkingScan,
    tool_emission: ToolEmission,
    *,
    kept_whole: bool = False,
) -> Answer:
    plan = Plan(
        thinking=thinking,
        thinking_scan=scan,
        tool_emission=tool_emission,
        input_tokens=input_tokens,
        kept_whole=kept_whole,
    )
    return build_pipeline(KiroUpstream().decoder(""), plan)


def _responses_options(summary: ReasoningSummary | None) -> ResponsesOptions:
    return ResponsesOptions(store=False, reasoning={"summary": summary})


def _new_meta(prefix: str, model: str, options: Any) -> ResponseMeta:
    return ResponseMeta(prefix + secrets.token_hex(12), model, int(time.time()), options)


async def _encoded(chunks: AsyncIterable[bytes], answer: Answer, encoder: Encoder) -> AsyncGenerator[bytes, None]:
    begun = False
    try:
        async with closing(chunks) as source:
            async for chunk in source:
                for event in answer.feed([chunk]):
                    if data := b"".join(encoder.feed((event,))):
                        begun = True
                        yield data
        for event in answer.flush():
            if data := b"".join(encoder.feed((event,))):
                begun = True
                yield data
        for data in encoder.flush():
            yield data
    except KiroAsgiError as error:
        if begun:
            yield b"".join(encoder.error(error))
        raise


async def _collected(chunks: AsyncIterable[bytes], answer: Answer) -> Message:
    builder = MessageBuilder()
    async with closing(chunks) as source:
        async for chunk in source:
            builder.feed(answer.feed([chunk]))
    builder.feed(answer.flush())
    assert builder.message is not None, "the stages ended without a MessageEnd"
    return builder.message


def _rendered(message: Message, dialect: Dialect, meta: ResponseMeta) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(b"".join(dialect.render(message, meta)))
    return body
