"""Encodes an answer as Chat Completions does, and with the deviations of servers that imitate it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.builders import conversation_id, json_answer
from kiro_asgi.simulator.encoding import (
    CONTEXT_FULL,
    SSE,
    AnswerEnd,
    CallPart,
    CollectedAnswer,
    Failure,
    Picture,
    Piece,
    Seal,
    Sealed,
    Searched,
    Thought,
    TokensUsed,
    Unknown,
    Words,
)
from kiro_asgi.simulator.openai.faults import FAILURES, envelope
from kiro_asgi.simulator.question import Question
from kiro_asgi.simulator.scripts import Script

__all__ = ["CREATED", "REFUSAL", "STOPS", "OpenAIAnswerEncoder"]

Json = dict[str, Any]

CREATED: Final = 1_767_225_600
"""When everything was created, in seconds since the epoch."""

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
"""Stop reason in Kiro's words to the one of this format."""


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

    def encode(self, piece: Piece) -> Iterator[bytes]:
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
            case Unknown(_, payload):
                yield self._chunk({"foo": payload})
            case Failure():
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
        calls = [_whole_call(block.first, block.text) for block in answer.blocks if isinstance(block.first, CallPart)]
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

    def error(self, failure: Failure) -> Script:
        """The response where *failure* is all that is answered."""
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


def _whole_call(call: CallPart, arguments: str) -> Json:
    return {"id": _own(call.call_id), "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _annotations(searched: Searched) -> list[Json]:
    return [
        {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 4, "url": hit.url, "title": hit.title}}
        for hit in searched.hits
    ]
