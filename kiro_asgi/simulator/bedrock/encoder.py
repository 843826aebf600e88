"""Encodes an answer as Amazon Bedrock's runtime does, frames of an event stream or one document; its failures.

Source: botocore's model ``bedrock-runtime/2023-09-30``; what it does not define (no start of a block of text or of
thinking, padding in ``p``, ``metadata`` after ``messageStop``) is as in observed answers of the service.
Failures: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit
from zlib import crc32

from attrs import define, evolve, field, frozen

from kiro_asgi.simulator.anthropic.encoder import AnthropicAnswerEncoder
from kiro_asgi.simulator.encoding import AnswerBlock, AnswerPart, CollectedAnswer
from kiro_asgi.simulator.format import Question
from kiro_asgi.simulator.pieces import (
    CONTEXT_FULL,
    AnswerEnd,
    CallPart,
    Event,
    ExceptionFrame,
    Seal,
    Sealed,
    Searched,
    Thought,
    TokensUsed,
    Words,
)
from kiro_asgi.simulator.scripts import Script, json_answer
from kiro_asgi.wire.eventstream import encode_frame

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"

VALIDATION: Final = "ValidationException"
THROTTLING: Final = "ThrottlingException"
UNAVAILABLE: Final = "ServiceUnavailableException"

REFUSALS: Final[Mapping[str, tuple[int, str, str]]] = {
    "429": (429, THROTTLING, "Too many requests, please wait before trying again."),
    "suspicious": (429, THROTTLING, "Too many tokens, please wait before trying again."),
    "daily": (429, THROTTLING, "Too many tokens per day, please wait before trying again."),
    "quota": (400, "ServiceQuotaExceededException", "Your request exceeds the service quota for your account."),
    "overage": (400, "ServiceQuotaExceededException", "Your account has reached its spend limit."),
    "overloaded": (503, UNAVAILABLE, "Bedrock is unable to process your request."),
    "403": (403, "AccessDeniedException", "You don't have access to the model with the specified model ID."),
    "token-invalid": (403, "UnrecognizedClientException", "The security token included in the request is invalid."),
    "suspended": (403, "AccessDeniedException", "Operation not allowed"),
    "404": (404, "ResourceNotFoundException", "This model version has reached the end of its life."),
    "500": (500, "InternalServerException", "The system encountered an unexpected error during processing."),
    "503": (503, UNAVAILABLE, "Too many connections, please wait before trying again."),
    "too-long": (400, VALIDATION, "Input is too long for requested model."),
    "bad-request": (400, VALIDATION, "Malformed input request, please reformat your input and try again."),
    "bad-model": (400, VALIDATION, "The provided model identifier is invalid."),
    "bad-signature": (
        400,
        VALIDATION,
        "The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "not-ready": (429, "ModelNotReadyException", "The model is not ready for inference. Try again later."),
    "model-timeout": (408, "ModelTimeoutException", "The model took too long to answer."),
    "model-error": (424, "ModelErrorException", "The model could not process the request."),
}
"""Refusals before the stream: status, exception, message."""

MORE: Final[Mapping[str, Mapping[str, Any]]] = {
    "ModelErrorException": {"originalStatusCode": 500, "resourceName": "simulated"},
    "ModelStreamErrorException": {"originalStatusCode": 500, "originalMessage": "Internal server error"},
}
"""Exception to its members other than the message."""


CLAUDE: Final = re.compile(r"(?:[a-z-]+\.)?anthropic\.(.+?)(?:-v\d+(?::\d+)?)?")


def claude_name(model: str) -> str:
    """*model*, an id on Bedrock, as Anthropic's own API calls it."""
    found = CLAUDE.fullmatch(model)
    return found[1] if found else model


@frozen
class BedrockFailure:
    """An exception within a stream."""

    status: int
    """Of the response where the answer is collected."""

    name: str
    """As the member of the stream's union is spelt."""

    message: str

    @property
    def kind(self) -> str:
        """Name of the exception as a response has it."""
        return self.name[0].upper() + self.name[1:]

    @property
    def members(self) -> dict[str, Any]:
        """Payload of the frame."""
        return envelope(self.kind, self.message)


FAILURES: Final[Mapping[str, BedrockFailure]] = {
    "InternalServerException": BedrockFailure(500, "internalServerException", REFUSALS["500"][2]),
    "ThrottlingException": BedrockFailure(429, "throttlingException", REFUSALS["429"][2]),
    "ValidationException": BedrockFailure(400, "validationException", REFUSALS["bad-request"][2]),
    "ServiceUnavailableException": BedrockFailure(503, "serviceUnavailableException", REFUSALS["overloaded"][2]),
    "ModelStreamErrorException": BedrockFailure(424, "modelStreamErrorException", REFUSALS["model-error"][2]),
    "ContentLengthExceededException": BedrockFailure(
        424, "modelStreamErrorException", "The answer is longer than the model can write."
    ),
}
"""Exceptions of a script to those of a stream."""


def envelope(kind: str, message: str) -> dict[str, Any]:
    """The body of an error, or the payload of an exception's frame."""
    return {"message": message, **MORE.get(kind, {})}


def refusal(status: int, kind: str, message: str, retry_after: str = "") -> Script:
    """A refusal before the stream."""
    headers: tuple[tuple[str, str], ...] = (
        ("x-amzn-errortype", f"{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/"),
    )
    if retry_after:
        headers += (("retry-after", retry_after),)
    return json_answer(status, envelope(kind, message), headers)


Json = dict[str, Any]

STOPS: Final[Mapping[str, str]] = {
    "END_TURN": "end_turn",
    "TOOL_USE": "tool_use",
    "MAX_TOKENS": "max_tokens",
    "STOP_SEQUENCE": "stop_sequence",
    "CONTENT_FILTERED": "content_filtered",
    "GUARDRAIL_INTERVENED": "guardrail_intervened",
    "REFUSED": "content_filtered",
    CONTEXT_FULL: "model_context_window_exceeded",
}
"""Stop reason of the simulator to the one of Converse, which has none for a refusal."""

LATENCY: Final = 321
"""Milliseconds that every answer reports as its latency."""

PADDING: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _frame(name: str, payload: Json, *, kind: str = "event") -> bytes:
    """One frame, padded so that its length reveals nothing of its content."""
    data = json.dumps(payload)
    padded = {**payload, "p": PADDING[: 1 + crc32(data.encode()) % len(PADDING)]} if kind == "event" else payload
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return encode_frame(headers, json.dumps(padded, separators=(",", ":")).encode())


def _exception(failure: ExceptionFrame) -> bytes:
    known = FAILURES[failure.name]
    return _frame(known.name, known.members, kind="exception")


def _error(failure: ExceptionFrame) -> Script:
    known = FAILURES[failure.name]
    return refusal(known.status, known.kind, known.message)


def _arguments(text: str) -> Any:
    """The input of a collected call; the service leaves broken arguments out."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return {}


def _citations(searched: Searched) -> list[Json]:
    """Citations of a search."""
    return [
        {
            "title": hit.title,
            "sourceContent": [{"text": hit.title}],
            "location": {"web": {"url": hit.url, "domain": urlsplit(hit.url).netloc}},
        }
        for hit in searched.hits
    ]


@define
class ConverseAnswerEncoder:
    """One answer of Converse or ConverseStream."""

    question: Question
    used: TokensUsed
    content_type: str = field(init=False, default=EVENT_STREAM)
    _started: bool = field(init=False, default=False)
    _index: int = field(init=False, default=0)
    """Of the next block."""

    _open: tuple[str, int] | None = field(init=False, default=None)
    """Kind and index of the open block, unless that is a call."""

    _calls: dict[str, int] = field(init=False, factory=dict)
    """Call id to the index of its open block."""

    _cites: list[Json] = field(init=False, factory=list)
    _stop: AnswerEnd | None = field(init=False, default=None)

    def encode(self, piece: AnswerPart) -> Iterator[bytes]:
        """Encode *piece*: the frames that it adds to the stream."""
        if isinstance(piece, ExceptionFrame):
            yield _exception(piece)
            return
        if not self._started:
            self._started = True
            yield _frame("messageStart", {"role": "assistant"})
        yield from self._encode(piece)

    def _encode(self, piece: AnswerPart) -> Iterator[bytes]:
        match piece:
            case Words(text):
                yield from self._words(text)
            case Thought(text):
                yield from self._closed(unless="thought")
                yield self._delta(self._opened("thought"), reasoningContent={"text": text})
            case Seal(signature):
                yield self._delta(self._opened("thought"), reasoningContent={"signature": signature})
                yield from self._closed()
            case Sealed(data):
                yield from self._sealed(data)
            case CallPart():
                yield from self._call(piece)
            case Searched():
                self._cites = _citations(piece)
            case AnswerEnd():
                self._stop = piece
            case Event(name, payload):
                yield _frame(name, dict(payload))
            case _:
                pass

    def close(self) -> Iterator[bytes]:
        """The end of the stream, if there was an `AnswerEnd`, followed by the metadata."""
        if self._stop is None:
            return
        yield from self._closed()
        yield from (_frame("contentBlockStop", {"contentBlockIndex": index}) for index in self._calls.values())
        more = self._more(self._stop, "/delta/stop_sequence")
        yield _frame("messageStop", {"stopReason": STOPS.get(self._stop.reason, self._stop.reason), **more})
        if "no-metadata" not in self.question.habits:
            yield _frame("metadata", self._metadata())

    def document(self, answer: CollectedAnswer) -> Json:
        """The body of a Converse answer."""
        cites: list[Json] = []
        content: list[Json] = []
        for block in answer.blocks:
            if isinstance(block.first, Searched):
                cites = _citations(block.first)
            else:
                content += _content_of(block, cites)
        stop = answer.stop or AnswerEnd("END_TURN")
        message = {"role": "assistant", "content": content}
        reason = STOPS.get(stop.reason, stop.reason)
        more = self._more(stop, "/stop_sequence")
        return {"output": {"message": message}, "stopReason": reason, **self._metadata(), **more}

    def error(self, failure: ExceptionFrame) -> Script:
        """The response where *failure* is the whole answer."""
        return _error(failure)

    def _more(self, stop: AnswerEnd, path: str) -> Json:
        """The requested field of the model's own answer: the stop sequence that was met."""
        if path not in self.question.fields_wanted or not stop.sequence:
            return {}
        fields: Json = {"stop_sequence": stop.sequence}
        return {"additionalModelResponseFields": {"delta": fields} if path.startswith("/delta") else fields}

    def _metadata(self) -> Json:
        usage = {
            "inputTokens": self.used.input,
            "outputTokens": self.used.output,
            "totalTokens": self.used.input + self.used.cached + self.used.output,
            "cacheReadInputTokens": self.used.cached,
            "cacheWriteInputTokens": 0,
        }
        return {"usage": usage, "metrics": {"latencyMs": LATENCY}}

    def _words(self, text: str) -> Iterator[bytes]:
        yield from self._closed(unless="text")
        yield self._delta(self._opened("text"), text=text)
        yield from (self._delta(self._opened("text"), citation=citation) for citation in self._cites)
        self._cites = []

    def _sealed(self, data: str) -> Iterator[bytes]:
        """A block of its own, in two deltas, each of them base64 by itself."""
        yield from self._closed()
        raw = b64decode(data)
        index = self._opened("sealed")
        for part in (raw[: len(raw) // 2], raw[len(raw) // 2 :]):
            yield self._delta(index, reasoningContent={"redactedContent": b64encode(part).decode()})
        yield from self._closed()

    def _call(self, part: CallPart) -> Iterator[bytes]:
        if part.call_id not in self._calls:
            yield from self._closed()
            index = self._calls[part.call_id] = self._next()
            start = {"toolUse": {"toolUseId": part.call_id, "name": part.name}}
            yield _frame("contentBlockStart", {"contentBlockIndex": index, "start": start})
        if part.input:
            yield self._delta(self._calls[part.call_id], toolUse={"input": part.input})
        if part.stop:
            yield _frame("contentBlockStop", {"contentBlockIndex": self._calls.pop(part.call_id)})

    def _opened(self, kind: str) -> int:
        """Index of the open block of *kind*; blocks of text and of thinking have deltas and no start."""
        if self._open is None:
            self._open = kind, self._next()
        return self._open[1]

    def _closed(self, unless: str = "") -> Iterator[bytes]:
        if self._open is not None and self._open[0] != unless:
            yield _frame("contentBlockStop", {"contentBlockIndex": self._open[1]})
            self._open = None

    def _next(self) -> int:
        index = self._index
        self._index += 2 if "gaps" in self.question.habits else 1
        return index

    def _delta(self, index: int, **delta: Any) -> bytes:
        return _frame("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})


def _content_of(block: AnswerBlock, cites: list[Json]) -> Iterator[Json]:
    """*block* as blocks of a message; *cites* are what its text rests on."""
    match block.first:
        case Words() if cites:
            yield {"citationsContent": {"content": [{"text": block.text}], "citations": cites}}
        case Words():
            yield {"text": block.text}
        case Thought():
            sealed = {"signature": block.seal} if block.seal else {}
            yield {"reasoningContent": {"reasoningText": {"text": block.text, **sealed}}}
        case Sealed(data):
            yield {"reasoningContent": {"redactedContent": data}}
        case CallPart(call_id, name):
            yield {"toolUse": {"toolUseId": call_id, "name": name, "input": _arguments(block.text)}}
        case _:
            pass


@define
class InvokeAnswerEncoder:
    """One answer of InvokeModel or InvokeModelWithResponseStream: Anthropic's own, each event of it in a frame."""

    question: Question
    used: TokensUsed
    content_type: str = field(init=False, default=EVENT_STREAM)
    _inner: AnthropicAnswerEncoder = field(init=False)

    def __attrs_post_init__(self) -> None:
        named = evolve(self.question, model=claude_name(self.question.model))
        self._inner = AnthropicAnswerEncoder(named, self.used)

    def encode(self, piece: AnswerPart) -> Iterator[bytes]:
        """Encode *piece*: the frames that it adds to the stream."""
        if isinstance(piece, ExceptionFrame):
            yield _exception(piece)
        else:
            yield from map(self._chunk, filter(_is_sent, self._inner.encode(piece)))

    def close(self) -> Iterator[bytes]:
        """The end of the stream, if there was an `AnswerEnd`."""
        yield from map(self._chunk, self._inner.close())

    def document(self, answer: CollectedAnswer) -> Json:
        """A message of Anthropic's."""
        return self._inner.document(answer)

    def error(self, failure: ExceptionFrame) -> Script:
        """The response where *failure* is the whole answer."""
        return _error(failure)

    def _chunk(self, event: bytes) -> bytes:
        data = json.loads(event.partition(b"data: ")[2])
        if data["type"] == "message_stop":
            data["amazon-bedrock-invocationMetrics"] = {
                "inputTokenCount": self.used.input,
                "outputTokenCount": self.used.output,
                "invocationLatency": LATENCY,
                "firstByteLatency": LATENCY // 2,
            }
        return _frame("chunk", {"bytes": b64encode(json.dumps(data).encode()).decode()})


def _is_sent(event: bytes) -> bool:
    """Whether *event* is passed on; a connection that has frames needs no pings."""
    return not event.startswith(b"event: ping\n")
