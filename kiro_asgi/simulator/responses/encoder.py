"""Encodes an answer as the Responses API does: items, each with its beginning, its parts and its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.encoding import SSE, AnswerBlock, AnswerPart, CollectedAnswer
from kiro_asgi.simulator.format import Question
from kiro_asgi.simulator.openai.encoder import CREATED, FAILURES, REFUSAL, envelope
from kiro_asgi.simulator.pieces import (
    CONTEXT_FULL,
    AnswerEnd,
    CallPart,
    Event,
    ExceptionFrame,
    Searched,
    Thought,
    TokensUsed,
    Words,
)
from kiro_asgi.simulator.scripts import Script, conversation_id, json_answer

Json = dict[str, Any]

SEALS: Final = "reasoning.encrypted_content"

LIMITS: Final = {
    "MAX_TOKENS": "max_output_tokens",
    CONTEXT_FULL: "max_output_tokens",
    "CONTENT_FILTERED": "content_filter",
    "GUARDRAIL_INTERVENED": "content_filter",
}
"""Stop reason in Kiro's words to why an answer is incomplete."""

DEFAULTS: Final[Json] = {
    "background": False,
    "frequency_penalty": 0.0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "top_logprobs": 0,
    "truncation": "disabled",
    "user": None,
}
"""Members of a response that repeat options of the request, with their defaults."""

TEXT_PART: Final[Json] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


def seal_of(reasoning_id: str) -> str:
    """The sealed form of the reasoning with this id, readable for the service alone."""
    return "gAAAA" + sha256(reasoning_id.encode()).hexdigest()


def text_in(arguments: str) -> str:
    """The text that a call is given, in whole arguments."""
    return str(json.loads(arguments or "{}").get("input", ""))


@define
class ResponsesAnswerEncoder:
    """One answer, streamed or whole."""

    question: Question
    used: TokensUsed
    content_type: str = field(init=False, default=SSE)
    _sequence: int = field(init=False, default=0)
    _output: list[Json] = field(init=False, factory=list)
    """The items, as far as they have come."""

    _open: dict[str, int] = field(init=False, factory=dict)
    """Open items, calls by their ids and others by their kinds, to their places in the output."""

    _written: str = field(init=False, default="")
    """The arguments of a call with a text, as far as they have come."""

    _thoughts: int = field(init=False, default=0)
    _stop: AnswerEnd | None = field(init=False, default=None)

    def encode(self, piece: AnswerPart) -> Iterator[bytes]:
        """Encode *piece*: the events that it adds to the stream."""
        if not self._sequence:
            yield self._event("response.created", response=self._response("in_progress"))
            yield self._event("response.in_progress", response=self._response("in_progress"))
        match piece:
            case Words(text):
                yield from self._say(text)
            case Thought(text):
                self._thoughts += 1
                yield from self._think(text)
            case CallPart():
                yield from self._call(piece)
            case Searched():
                yield from self._cite(piece)
            case AnswerEnd():
                self._stop = piece
            case Event(name, payload):
                yield self._event(f"response.{name}", payload=payload)
            case ExceptionFrame():
                _, _, code, message = FAILURES[piece.name]
                yield self._event("error", code=code or "server_error", message=message, param=None)

    def close(self) -> Iterator[bytes]:
        """The end of the stream, if there was an `AnswerEnd`."""
        if self._stop is None:
            return
        limit = LIMITS.get(self._stop.reason)
        yield from self._end_all("incomplete" if limit else "completed")
        if self._stop.reason == "REFUSED":
            yield from self._refuse()
        status = "incomplete" if limit else "completed"
        yield self._event(f"response.{status}", response=self._response(status))

    def document(self, answer: CollectedAnswer) -> Json:
        """A ``response``."""
        self._stop = answer.stop
        for block in answer.blocks:
            self._output += self._items(block)
        if answer.stop is not None and answer.stop.reason == "REFUSED":
            content = [{"type": "refusal", "refusal": REFUSAL}]
            self._output.append(self._message(content))
        limit = answer.stop is not None and answer.stop.reason in LIMITS
        return self._response("incomplete" if limit else "completed")

    def error(self, failure: ExceptionFrame) -> Script:
        """The response where *failure* is the whole answer."""
        status, kind, code, message = FAILURES[failure.name]
        return json_answer(status, envelope(kind, code, message))

    def _items(self, block: AnswerBlock) -> Iterator[Json]:
        match block.first:
            case Words():
                yield self._message([{**TEXT_PART, "text": block.text}])
            case Thought():
                self._thoughts += len(block.text.split())
                yield self._sealed(
                    {
                        "id": self._id("rs"),
                        "type": "reasoning",
                        "summary": [{"type": "summary_text", "text": block.text}],
                    }
                )
            case CallPart() as call:
                item = self._new_call(call)
                content = {"input": text_in(block.text)} if "input" in item else {"arguments": block.text}
                yield {**item, **content, "status": "completed"}

    def _message(self, content: list[Json]) -> Json:
        return {
            "id": self._id("msg"),
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }

    def _new_call(self, call: CallPart) -> Json:
        call_id = "call_" + call.call_id.removeprefix("tooluse_").replace("-", "A")
        if call.name in self.question.texts:
            about = {"id": self._id("ctc"), "type": "custom_tool_call", "call_id": call_id}
            return {**about, "name": call.name, "input": "", "status": "in_progress"}
        return {
            "id": self._id("fc"),
            "type": "function_call",
            "call_id": call_id,
            "name": call.name,
            "arguments": "",
            "status": "in_progress",
        }

    def _sealed(self, item: Json) -> Json:
        seals = SEALS in self.question.fields_wanted
        return {**item, "encrypted_content": seal_of(item["id"]) if seals else None}

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{conversation_id(self.question.conversation.content).replace('-', '')}{len(self._output)}"

    def _begin(self, key: str, item: Json) -> Iterator[bytes]:
        place = self._open[key] = len(self._output)
        self._output.append(item)
        yield self._event("response.output_item.added", output_index=place, item=item)

    def _say(self, text: str) -> Iterator[bytes]:
        yield from self._end_all(kept="message")
        if "message" not in self._open:
            message = {**self._message([]), "status": "in_progress"}
            yield from self._begin("message", message)
            yield self._about("message", "response.content_part.added", content_index=0, part=TEXT_PART)
            message["content"] = [{**TEXT_PART, "annotations": []}]
        item = self._output[self._open["message"]]
        item["content"][0]["text"] += text
        yield self._about("message", "response.output_text.delta", content_index=0, delta=text, logprobs=[])

    def _think(self, text: str) -> Iterator[bytes]:
        yield from self._end_all(kept="reasoning")
        if "reasoning" not in self._open:
            item: Json = {"id": self._id("rs"), "type": "reasoning", "summary": []}
            yield from self._begin("reasoning", item)
            part = {"type": "summary_text", "text": ""}
            yield self._about("reasoning", "response.reasoning_summary_part.added", summary_index=0, part=part)
            item["summary"] = [part]
        self._output[self._open["reasoning"]]["summary"][0]["text"] += text
        yield self._about("reasoning", "response.reasoning_summary_text.delta", summary_index=0, delta=text)

    def _call(self, part: CallPart) -> Iterator[bytes]:
        for kind in ("message", "reasoning"):
            yield from self._end(kind)
        if part.call_id not in self._open:
            yield from self._begin(part.call_id, self._new_call(part))
        item = self._output[self._open[part.call_id]]
        if part.input and "input" in item:
            self._written += part.input
        elif part.input:
            item["arguments"] += part.input
            yield self._about(part.call_id, "response.function_call_arguments.delta", delta=part.input)
        if part.stop:
            yield from self._input_events(part.call_id)
            yield from self._end(part.call_id)

    def _input_events(self, key: str) -> Iterator[bytes]:
        """The text of a call, in two pieces, if it is one with a text."""
        item = self._output[self._open[key]]
        if "input" not in item:
            return
        item["input"], self._written = text_in(self._written), ""
        half = len(item["input"]) // 2
        for piece in (item["input"][:half], item["input"][half:]):
            yield self._about(key, "response.custom_tool_call_input.delta", delta=piece)
        yield self._about(key, "response.custom_tool_call_input.done", input=item["input"])

    def _cite(self, searched: Searched) -> Iterator[bytes]:
        yield from self._say("")
        for number, hit in enumerate(searched.hits):
            page = {"type": "url_citation", "start_index": 0, "end_index": 4, "url": hit.url, "title": hit.title}
            where = {"content_index": 0, "annotation_index": number}
            yield self._about("message", "response.output_text.annotation.added", **where, annotation=page)

    def _refuse(self) -> Iterator[bytes]:
        message = {**self._message([]), "status": "in_progress"}
        yield from self._begin("message", message)
        part = {"type": "refusal", "refusal": ""}
        yield self._about("message", "response.content_part.added", content_index=0, part=part)
        yield self._about("message", "response.refusal.delta", content_index=0, delta=REFUSAL)
        yield self._about("message", "response.refusal.done", content_index=0, refusal=REFUSAL)
        message |= {"content": [{**part, "refusal": REFUSAL}], "status": "completed"}
        place = self._open.pop("message")
        yield self._event("response.output_item.done", output_index=place, item=message)

    def _end_all(self, status: str = "completed", kept: str = "") -> Iterator[bytes]:
        for key in [key for key in self._open if key != kept]:
            yield from self._end(key, status)

    def _end(self, key: str, status: str = "completed") -> Iterator[bytes]:
        """The last events of an item, if it is open."""
        if key not in self._open:
            return
        place = self._open[key]
        item = self._output[place]
        match key:
            case "message":
                part = item["content"][0]
                yield self._about(key, "response.output_text.done", content_index=0, text=part["text"], logprobs=[])
                yield self._about(key, "response.content_part.done", content_index=0, part=part)
            case "reasoning":
                part = item["summary"][0]
                yield self._about(key, "response.reasoning_summary_text.done", summary_index=0, text=part["text"])
                yield self._about(key, "response.reasoning_summary_part.done", summary_index=0, part=part)
                item = self._output[place] = self._sealed(item)
            case _ if status == "completed" and "arguments" in item:
                call = {"name": item["name"], "arguments": item["arguments"]}
                yield self._about(key, "response.function_call_arguments.done", **call)
        if key != "reasoning":
            item["status"] = status
        del self._open[key]
        yield self._event("response.output_item.done", output_index=place, item=item)

    def _about(self, key: str, kind: str, **more: Any) -> bytes:
        place = self._open[key]
        return self._event(kind, item_id=self._output[place]["id"], output_index=place, **more)

    def _event(self, kind: str, **more: Any) -> bytes:
        document = {"type": kind, "sequence_number": self._sequence, **more}
        self._sequence += 1
        return f"event: {kind}\ndata: {json.dumps(document, ensure_ascii=False)}\n\n".encode()

    def _response(self, status: str) -> Json:
        ended = status != "in_progress"
        reason = LIMITS.get(self._stop.reason) if self._stop is not None and ended else None
        return {
            **DEFAULTS,
            "completed_at": CREATED if status == "completed" else None,
            "id": f"resp_{conversation_id(self.question.conversation.content).replace('-', '')}",
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "instructions": None,
            "metadata": {},
            "model": self.question.model,
            "output": self._output if ended else [],
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "store": False,
            "usage": self._usage() if ended else None,
        }

    def _usage(self) -> Json:
        prompt = self.used.input + self.used.cached
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": self.used.cached, "cache_write_tokens": 0},
            "output_tokens": self.used.output,
            "output_tokens_details": {"reasoning_tokens": self._thoughts},
            "total_tokens": prompt + self.used.output,
        }
