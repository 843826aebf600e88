"""One answer in the words of each upstream: pieces in no format to the events that say them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from tests.helpers import kiro_stream


@frozen
class Say:
    """A piece of text."""

    text: str


@frozen
class Think:
    """A piece of thinking."""

    text: str


@frozen
class Call:
    """A tool call."""

    id: str
    name: str
    arguments: dict[str, Any]


Piece = Say | Think | Call

WORDS = {
    "gemini": {"end": "STOP", "call": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"},
    "anthropic": {"end": "end_turn", "call": "tool_use", "length": "max_tokens", "filter": "refusal"},
    "openai": {"end": "stop", "call": "tool_calls", "length": "length", "filter": "content_filter"},
}
"""Why an answer ended, in each upstream's word."""

USAGE: dict[str, dict[str, Any]] = {
    "gemini": {
        "promptTokenCount": 20,
        "cachedContentTokenCount": 8,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 7,
        "totalTokenCount": 32,
    },
    "anthropic": {"input_tokens": 12, "cache_read_input_tokens": 8, "output_tokens": 12},
    "openai": {
        "prompt_tokens": 20,
        "completion_tokens": 12,
        "total_tokens": 32,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 7},
    },
}
"""The same counts in each upstream's words: a prompt of 20, 8 of them cached, and 12 of output."""

COUNTED = (20, 8, 12)

DONE = "[DONE]"


def gemini(pieces: Iterable[Piece], word: str) -> list[Any]:
    """Each piece is an event, with the counts so far."""
    parts: list[dict[str, Any]] = []
    for piece in pieces:
        match piece:
            case Say(text):
                parts.append({"text": text})
            case Think(text):
                parts.append({"text": text, "thought": True})
            case Call(call_id, name, arguments):
                parts.append({"functionCall": {"id": call_id, "name": name, "args": arguments}})
    counts = {"usageMetadata": {"promptTokenCount": 20, "totalTokenCount": 20}}
    said = [{"candidates": [{"content": {"role": "model", "parts": [part]}}], **counts} for part in parts]
    return [*said, {"candidates": [{"finishReason": word}], "usageMetadata": USAGE["gemini"]}]


def anthropic(pieces: Iterable[Piece], word: str) -> list[Any]:
    """Each piece is a block."""
    usage = {**USAGE["anthropic"], "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    block: dict[str, Any]
    delta: dict[str, Any]
    for index, piece in enumerate(pieces):
        match piece:
            case Say(text):
                block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
            case Think(text):
                block = {"type": "thinking", "thinking": "", "signature": ""}
                delta = {"type": "thinking_delta", "thinking": text}
            case Call(call_id, name, arguments):
                block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": word}, "usage": {"output_tokens": 12}})
    return [*events, {"type": "message_stop"}]


def openai(pieces: Iterable[Piece], word: str) -> list[Any]:
    """Each piece is a chunk."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    calls = 0
    for piece in pieces:
        match piece:
            case Say(text):
                deltas.append({"content": text})
            case Think(text):
                deltas.append({"reasoning_content": text})
            case Call(call_id, name, arguments):
                function = {"name": name, "arguments": json.dumps(arguments)}
                deltas.append({"tool_calls": [{"index": calls, "id": call_id, "function": function}]})
                calls += 1
    said = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": word}]}
    return [*said, end, {"choices": [], "usage": USAGE["openai"]}, DONE]


def event(*parts: Any, finish: str = "", **also: Any) -> dict[str, Any]:
    """One event of Gemini's with several parts."""
    candidate = {
        "content": {"role": "model", "parts": [*parts]},
        **({"finishReason": finish} if finish else {}),
        **also,
    }
    return {"candidates": [candidate]}


SPEAKERS = {"gemini": gemini, "anthropic": anthropic, "openai": openai}


def spoken(upstream: str, *pieces: Piece, end: str = "end") -> list[Any]:
    """The data of the events of a whole answer; *end* is a key of `WORDS`."""
    return SPEAKERS[upstream](pieces, WORDS[upstream].get(end, end))


def framed(value: Any) -> bytes:
    """One event."""
    if value == DONE:
        return b"data: [DONE]\n\n"
    name = f"event: {value['type']}\n" if type(value.get("type")) is str else ""
    return f"{name}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def written(service: str, values: Iterable[Any]) -> bytes:
    """The events as bytes; those of services that send frames are pairs of a type and a payload."""
    if service in ("bedrock", "kiro"):
        return kiro_stream(*values)
    return stream(values)


def stream(values: Iterable[Any]) -> bytes:
    """The events as bytes."""
    return b"".join(map(framed, values))
