"""A client of the three APIs for the demonstration: how to ask, to read an answer, to return a tool's result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import h11
from attrs import field, frozen

TOOL: Final = "get_weather"
RESULT: Final = "9 degrees and rain"
"""The tool's result for every call."""

ABOUT: Final = "The weather of a city, now."
PARAMETERS: Final[Mapping[str, Any]] = MappingProxyType(
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
)
BUDGET: Final = 1024
"""Tokens for thinking, where an API wants a number; the least that it takes."""


class PieceKind(Enum):
    """Kind of a piece of an answer; the value is its name on the screen."""

    THINKING = "thinking"
    TEXT = "text"
    CALL = "tool call"
    ARGUMENTS = "arguments"
    END = "end"
    ERROR = "error"
    CALL_ID = "call id"
    SIGNATURE = "signature"
    RESPONSE_ID = "response id"


Answer = Mapping[PieceKind, str]
"""All pieces of a kind in a row."""

Document = Mapping[str, Any]
Piece = tuple[PieceKind, str | None]


@frozen
class Api:
    """One way to ask the same question."""

    title: str
    path: str
    ask: Callable[[str], Document]
    """The request for a question, without model and streaming."""

    answer_call: Callable[[Document, Answer, str], Document]
    """The request that follows one that was answered with a call: that request, its answer, the tool's result."""

    read: Callable[[Document], Iterator[Piece]]
    """The pieces in the data of one server-sent event; those without text do not count."""

    headers: Mapping[str, str] = field(factory=dict)


def _ask_chat(question: str) -> Document:
    function = {"name": TOOL, "description": ABOUT, "parameters": {**PARAMETERS}}
    return {
        "messages": [{"role": "user", "content": question}],
        "tools": [{"type": "function", "function": function}],
        "reasoning_effort": "low",
    }


def _answer_chat_call(request: Document, answer: Answer, result: str) -> Document:
    function = {"name": answer[PieceKind.CALL], "arguments": answer[PieceKind.ARGUMENTS]}
    call = {"id": answer[PieceKind.CALL_ID], "type": "function", "function": function}
    called = {"role": "assistant", "content": answer.get(PieceKind.TEXT), "tool_calls": [call]}
    tool_result = {"role": "tool", "tool_call_id": call["id"], "content": result}
    return {**request, "messages": [*request["messages"], called, tool_result]}


def _read_chat(data: Document) -> Iterator[Piece]:
    for choice in data["choices"]:
        delta = choice["delta"]
        yield PieceKind.THINKING, delta.get("reasoning_content")
        yield PieceKind.TEXT, delta.get("content")
        for call in delta.get("tool_calls", ()):
            yield PieceKind.CALL_ID, call.get("id")
            yield PieceKind.CALL, call["function"].get("name")
            yield PieceKind.ARGUMENTS, call["function"].get("arguments")
        yield PieceKind.END, choice.get("finish_reason")


def _ask_responses(question: str) -> Document:
    return {
        "input": question,
        "tools": [{"type": "function", "name": TOOL, "description": ABOUT, "parameters": {**PARAMETERS}}],
        "reasoning": {"effort": "low", "summary": "auto"},
    }


def _answer_responses_call(request: Document, answer: Answer, result: str) -> Document:
    tool_result = {"type": "function_call_output", "call_id": answer[PieceKind.CALL_ID], "output": result}
    return {**request, "previous_response_id": answer[PieceKind.RESPONSE_ID], "input": [tool_result]}


RESPONSES_DELTAS: Final[Mapping[str, PieceKind]] = {
    "response.reasoning_summary_text.delta": PieceKind.THINKING,
    "response.output_text.delta": PieceKind.TEXT,
    "response.function_call_arguments.delta": PieceKind.ARGUMENTS,
}


def _read_responses(data: Document) -> Iterator[Piece]:
    match data:
        case {"type": "response.created", "response": {"id": identity}}:
            yield PieceKind.RESPONSE_ID, identity
        case {
            "type": "response.output_item.added",
            "item": {"type": "function_call", "call_id": identity, "name": name},
        }:
            yield PieceKind.CALL_ID, identity
            yield PieceKind.CALL, name
        case {"type": "response.completed" | "response.incomplete", "response": {"status": status}}:
            yield PieceKind.END, status
        case {"type": name, "delta": delta} if name in RESPONSES_DELTAS:
            yield RESPONSES_DELTAS[name], delta


def _ask_messages(question: str) -> Document:
    return {
        "max_tokens": 4 * BUDGET,
        "messages": [{"role": "user", "content": question}],
        "tools": [{"name": TOOL, "description": ABOUT, "input_schema": {**PARAMETERS}}],
        "thinking": {"type": "enabled", "budget_tokens": BUDGET},
    }


def _answer_messages_call(request: Document, answer: Answer, result: str) -> Document:
    called: list[Document] = []
    if PieceKind.SIGNATURE in answer:  # thinking may only come back with it
        thinking = answer.get(PieceKind.THINKING, "")
        called.append({"type": "thinking", "thinking": thinking, "signature": answer[PieceKind.SIGNATURE]})
    if PieceKind.TEXT in answer:
        called.append({"type": "text", "text": answer[PieceKind.TEXT]})
    call = {
        "id": answer[PieceKind.CALL_ID],
        "name": answer[PieceKind.CALL],
        "input": json.loads(answer[PieceKind.ARGUMENTS]),
    }
    called.append({"type": "tool_use", **call})
    tool_result = {"type": "tool_result", "tool_use_id": call["id"], "content": result}
    turns = ({"role": "assistant", "content": called}, {"role": "user", "content": [tool_result]})
    return {**request, "messages": [*request["messages"], *turns]}


def _read_messages(data: Document) -> Iterator[Piece]:
    match data:
        case {"type": "content_block_start", "content_block": {"type": "tool_use", "id": identity, "name": name}}:
            yield PieceKind.CALL_ID, identity
            yield PieceKind.CALL, name
        case {"type": "content_block_delta", "delta": delta}:
            yield PieceKind.THINKING, delta.get("thinking")
            yield PieceKind.SIGNATURE, delta.get("signature")
            yield PieceKind.TEXT, delta.get("text")
            yield PieceKind.ARGUMENTS, delta.get("partial_json")
        case {"type": "message_delta", "delta": {"stop_reason": reason}}:
            yield PieceKind.END, reason


APIS: Final = (
    Api("OpenAI Chat Completions", "/v1/chat/completions", _ask_chat, _answer_chat_call, _read_chat),
    Api("OpenAI Responses", "/v1/responses", _ask_responses, _answer_responses_call, _read_responses),
    Api(
        "Anthropic Messages",
        "/v1/messages",
        _ask_messages,
        _answer_messages_call,
        _read_messages,
        {"anthropic-version": "2023-06-01"},
    ),
)


CHUNK = 65_536


async def post(url: str, headers: Mapping[str, str], body: bytes, take: Callable[[int, bytes], None]) -> None:
    """Send *body* and hand over the answer piece by piece, each with the status.

    Raises:
        OSError: No connection, or it broke.
        h11.RemoteProtocolError: The answer is not HTTP, or is torn.
    """
    parts = urlsplit(url)
    lines = [("host", parts.netloc), ("content-length", str(len(body))), ("connection", "close"), *headers.items()]
    http = h11.Connection(h11.CLIENT)
    async with await anyio.connect_tcp(parts.hostname or "", parts.port or 80) as stream:
        head = http.send(h11.Request(method="POST", target=parts.path or "/", headers=lines)) or b""
        await stream.send(head + (http.send(h11.Data(data=body)) or b"") + (http.send(h11.EndOfMessage()) or b""))
        await _receive(http, stream, take)


async def _receive(http: h11.Connection, stream: anyio.abc.ByteStream, take: Callable[[int, bytes], None]) -> None:
    status = 0
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            try:
                http.receive_data(await stream.receive(CHUNK))
            except anyio.EndOfStream:
                http.receive_data(b"")
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            take(status, bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            return
