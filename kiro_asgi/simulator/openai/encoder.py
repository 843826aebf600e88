"""Encodes an answer as Chat Completions does, with deviations of compatible servers; refusals and failures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.encoding import SSE, AnswerPart, CollectedAnswer
from kiro_asgi.simulator.format import Question
from kiro_asgi.simulator.pieces import (
    CONTEXT_FULL,
    AnswerEnd,
    CallPart,
    Event,
    ExceptionFrame,
    Picture,
    Seal,
    Sealed,
    Searched,
    Thought,
    TokensUsed,
    Words,
)
from kiro_asgi.simulator.scripts import Script, conversation_id, json_answer

INVALID: Final = "invalid_request_error"
BAD_KEY: Final = "Incorrect API key provided: simulat**ed. You can find your API key at the dashboard."
QUOTA: Final = "You exceeded your current quota, please check your plan and billing details."
TOO_LONG: Final = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens. Please "
    "reduce the length of the messages."
)

REFUSALS: Final[Mapping[str, tuple[int, str, str | None, str]]] = {
    "429": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again in 2s."),
    "suspicious": (429, "requests", "rate_limit_exceeded", "Your account is limited for a while."),
    "daily": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests per day (RPD)."),
    "quota": (429, "insufficient_quota", "insufficient_quota", QUOTA),
    "overage": (429, "insufficient_quota", "billing_hard_limit_reached", "Billing hard limit has been reached."),
    "overloaded": (503, "server_error", "server_is_overloaded", "The engine is currently overloaded."),
    "403": (403, INVALID, "unsupported_country_region_territory", "Country, region, or territory not supported."),
    "token-invalid": (401, INVALID, "invalid_api_key", BAD_KEY),
    "suspended": (403, INVALID, "account_deactivated", "The account behind this key has been deactivated."),
    "404": (404, INVALID, None, "Invalid URL (POST /v1/none)"),
    "500": (500, "server_error", None, "The server had an error while processing your request. Sorry about that!"),
    "503": (503, "server_error", None, "The service is unavailable."),
    "too-long": (400, INVALID, "context_length_exceeded", TOO_LONG),
    "bad-request": (400, INVALID, None, "We could not parse the JSON body of your request."),
    "bad-model": (404, INVALID, "model_not_found", "The model `none` does not exist or you do not have access to it."),
    "bad-signature": (400, INVALID, "invalid_encrypted_content", "The encrypted content could not be verified."),
}
"""Refusals before the stream: status, type, code, message."""

FAILURES: Final[Mapping[str, tuple[int, str, str | None, str]]] = {
    "InternalServerException": (500, "server_error", None, "The server had an error processing your request."),
    "ThrottlingException": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    "ValidationException": (400, INVALID, None, "Improper request."),
    "ServiceUnavailableException": (503, "server_error", "server_is_overloaded", "The engine is overloaded."),
    "ContentLengthExceededException": (400, INVALID, "context_length_exceeded", "The answer is too long."),
}
"""Exceptions of a script: status, type, code, message."""


def envelope(kind: str, code: str | None, message: str, param: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refusal(status: int, kind: str, code: str | None, message: str, retry_after: str = "") -> Script:
    """A refusal before the stream."""
    headers: tuple[tuple[str, str], ...] = (("x-request-id", "req_simulated"),)
    if retry_after:
        headers += (("retry-after", retry_after),)
    return json_answer(status, envelope(kind, code, message), headers)


Json = dict[str, Any]

CREATED: Final = 1_767_225_600
"""Creation time of models and answers, in seconds since the epoch."""

REFUSAL: Final = "I'm sorry, but I can't help with that."
DONE: Final = b"data: [DONE]\n\n"

STOPS: Final[Mapping[str, str]] = {
    "END_TURN": "stop",
    "TOOL_USE": "tool_calls",
    "MAX_TOKENS": "length",
    "STOP_SEQUENCE": "stop",
    "CONTENT_FILTERED": "content_filter",
    "GUARDRAIL_INTERVENED": "content_filter",
    "REFUSED": "stop",
    CONTEXT_FULL: "length",
}
"""Stop reason of the simulator to the one of this format."""


@define
class OpenAIAnswerEncoder:
    """One answer, streamed or whole."""

    question: Question
    used: TokensUsed
    content_type: str = field(init=False, default=SSE)
    _started: bool = field(init=False, default=False)
    _thoughts: int = field(init=False, default=0)
    _calls: dict[str, int] = field(init=False, factory=dict)
    """Call id to its index."""

    _stop: AnswerEnd | None = field(init=False, default=None)

    def encode(self, piece: AnswerPart) -> Iterator[bytes]:
        """Encode *piece*: the chunks that it adds to the stream."""
        if not self._started:
            self._started = True
            yield self._chunk({"role": "assistant", "content": "", "refusal": None})
        match piece:
            case Words(text):
                yield self._chunk({"content": text})
            case Thought(text):
                self._thoughts += 1
                yield self._chunk({self._reasoning: text})
            case CallPart():
                yield from self._call(piece)
            case Searched():
                yield self._chunk({"annotations": _annotations(piece)})
            case AnswerEnd():
                self._stop = piece
            case Event(_, payload):
                yield self._chunk({"foo": payload})
            case ExceptionFrame():
                yield _data(envelope(*FAILURES[piece.name][1:]))
            case Seal() | Sealed() | Picture() | TokensUsed():
                pass

    def close(self) -> Iterator[bytes]:
        """The end of the stream, if there was a `AnswerEnd`."""
        if self._stop is None:
            return
        if self._stop.reason == "REFUSED":
            yield self._chunk({"refusal": REFUSAL})
        yield self._chunk({}, STOPS.get(self._stop.reason, self._stop.reason))
        if self.question.with_usage and "no-usage" not in self.question.habits:
            yield _data({**self._head(), "choices": [], "usage": self._usage(self._thoughts)})
        if "no-done" not in self.question.habits:
            yield DONE

    def document(self, answer: CollectedAnswer) -> Json:
        """A ``chat.completion``."""
        texts = [block.text for block in answer.blocks if isinstance(block.first, Words)]
        thoughts = [block.text for block in answer.blocks if isinstance(block.first, Thought)]
        calls = [
            _complete_call(block.first, block.text) for block in answer.blocks if isinstance(block.first, CallPart)
        ]
        cites = [block.first for block in answer.blocks if isinstance(block.first, Searched)]
        stop = "" if answer.stop is None else answer.stop.reason
        message: Json = {"role": "assistant", "content": "".join(texts) if texts else None, "refusal": None}
        message |= {"refusal": REFUSAL} if stop == "REFUSED" else {}
        message |= {self._reasoning: "".join(thoughts)} if thoughts else {}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"annotations": _annotations(cites[0])} if cites else {}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": STOPS.get(stop, stop)}
        usage = {} if "no-usage" in self.question.habits else {"usage": self._usage(sum(map(_words, thoughts)))}
        return {**self._head(), "object": "chat.completion", "choices": [choice], **usage}

    def error(self, failure: ExceptionFrame) -> Script:
        """The response where *failure* is the whole answer."""
        status, kind, code, message = FAILURES[failure.name]
        return json_answer(status, envelope(kind, code, message))

    @property
    def _reasoning(self) -> str:
        return self.question.habits.get("reasoning-field") or "reasoning_content"

    def _head(self) -> Json:
        return {
            "id": f"chatcmpl-{conversation_id(self.question.conversation.content).replace('-', '')[:24]}",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.question.model,
            "service_tier": "default",
            "system_fingerprint": None,
        }

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage: Json = {"usage": None} if self.question.with_usage else {}
        return _data({**self._head(), "choices": [choice], **usage})

    def _call(self, part: CallPart) -> Iterator[bytes]:
        habits = self.question.habits
        first = part.call_id not in self._calls
        index = self._calls.setdefault(part.call_id, len(self._calls))
        if not first and not part.input:
            return
        call: Json = {} if "no-index" in habits else {"index": index}
        if first:
            call |= {} if "no-ids" in habits else {"id": _own(part.call_id)}
            call |= {"type": "function", "function": {"name": part.name, "arguments": part.input}}
        else:
            call |= {"function": {"arguments": part.input}}
        yield self._chunk({"tool_calls": [call]})

    def _usage(self, thoughts: int) -> Json:
        prompt = self.used.input + self.used.cached
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self.used.output,
            "total_tokens": prompt + self.used.output,
            "prompt_tokens_details": {"cached_tokens": self.used.cached, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": thoughts,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }


def _data(document: Json) -> bytes:
    return f"data: {json.dumps(document, ensure_ascii=False)}\n\n".encode()


def _own(call_id: str) -> str:
    """*call_id* with this format's prefix."""
    return "call_" + call_id.removeprefix("tooluse_").replace("-", "A")


def _words(text: str) -> int:
    return len(text.split())


def _complete_call(call: CallPart, arguments: str) -> Json:
    return {"id": _own(call.call_id), "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _annotations(searched: Searched) -> list[Json]:
    return [
        {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 4, "url": hit.url, "title": hit.title}}
        for hit in searched.hits
    ]
