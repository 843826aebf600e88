"""What targets begin with: requests of the corpus, and answers of the simulated services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from attrs import frozen

from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import lay_out
from kiro_asgi.simulator.service import SimulatedService
from kiro_asgi.wire.eventstream import FrameDecoder
from kiro_asgi.wire.sse import SseDecoder
from tests.corpus.entries import HERE

__all__ = ["FRAMED", "SERVICES", "Step", "answers", "requests", "steps"]

SERVICES: Final = ("kiro", "gemini", "anthropic", "openai")

FRAMED: Final = ("kiro", "bedrock")
"""Services whose answers are frames of AWS; those of the others are server-sent events."""

LARGEST: Final = 20_000
"""Bytes of a request that is worth beginning with."""

MARKERS: Final = (
    "text",
    "thinking",
    "tagged",
    "redacted",
    "tool",
    "thinking-tool",
    "parallel",
    "interleaved",
    "cut-tool",
    "bad-tool-json",
    "unicode",
    "length",
    "filtered",
    "search",
    "exception",
)
"""What the simulated services are asked for."""

TOOL: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@cache
def requests(api: str) -> tuple[Any, ...]:
    """Bodies of the corpus for one API: ``anthropic``, ``openai`` or ``responses``."""
    documents = [json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))]
    return tuple(
        document["body"]
        for document in documents
        if document["api"].removesuffix("_count") == api and len(json.dumps(document)) < LARGEST
    )


@frozen
class Step:
    """One event of an answer: its type, and what it says."""

    kind: str
    payload: Any


def _asked(service: str, prompt: str) -> tuple[str, dict[str, str], Any]:
    """Path, headers and body of a question."""
    turns = [{"role": "user", "content": prompt}]
    match service:
        case "kiro":
            tool = {"toolSpecification": {"name": "get_weather", "description": "d", "inputSchema": {"json": TOOL}}}
            message = {"content": prompt, "modelId": "claude-sonnet-4.5", "origin": "AI_EDITOR"}
            message["userInputMessageContext"] = {"tools": [tool]}
            state = {"chatTriggerType": "MANUAL", "currentMessage": {"userInputMessage": message}, "history": []}
            return "/generateAssistantResponse", {}, {"conversationState": state}
        case "gemini":
            tools = [{"functionDeclarations": [{"name": "get_weather", "parameters": TOOL}]}]
            contents = [{"role": "user", "parts": [{"text": prompt}]}]
            path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
            return path, {"x-goog-api-key": "k"}, {"contents": contents, "tools": tools}
        case "bedrock":
            tool = {"toolSpec": {"name": "get_weather", "inputSchema": {"json": TOOL}}}
            body = {"messages": [{"role": "user", "content": [{"text": prompt}]}], "toolConfig": {"tools": [tool]}}
            path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
            return path, {"authorization": "Bearer k"}, body
        case "anthropic":
            tools = [{"name": "get_weather", "input_schema": TOOL}]
            body = {"model": "claude-sonnet-4-5", "max_tokens": 4096, "stream": True, "messages": turns, "tools": tools}
            return "/v1/messages", {"x-api-key": "k", "anthropic-version": "2023-06-01"}, body
        case "responses":
            tools = [{"type": "function", "name": "get_weather", "parameters": TOOL}]
            body = {"model": "gpt-5", "stream": True, "input": turns, "tools": tools, "reasoning": {"effort": "low"}}
            body["include"] = ["reasoning.encrypted_content"]
            return "/v1/responses", {"authorization": "Bearer k"}, body
        case _:
            tools = [{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}]
            body = {"model": "gpt-5", "stream": True, "messages": turns, "tools": tools}
            body["stream_options"] = {"include_usage": True}
            return "/v1/chat/completions", {"authorization": "Bearer k"}, body


def _answer(service: str, marker: str) -> bytes:
    path, headers, body = _asked(service, f"Weather? sim:{marker}")
    headers = {"authorization": "Bearer ksk_k", "content-type": "application/json", **headers}
    request = RecordedRequest("POST", path, "alt=sse", headers, json.dumps(body).encode())
    script = SimulatedService(strict=False).script_for(request)
    return b"".join(data for data in lay_out(script) if isinstance(data, bytes))


def _read(service: str, data: bytes) -> Iterator[Step]:
    if service in FRAMED:
        for frame in FrameDecoder().feed([data]):
            yield Step(str(frame.headers.get(":event-type", "exception")), json.loads(frame.payload))
    else:
        for event in SseDecoder().feed([data]):
            yield Step(event.event, event.data if event.data == "[DONE]" else json.loads(event.data))


@cache
def answers(service: str) -> tuple[bytes, ...]:
    """Whole answers of one service."""
    return tuple(filter(None, (_answer(service, marker) for marker in MARKERS)))


@cache
def steps(service: str) -> tuple[tuple[Step, ...], ...]:
    """The same, event by event."""
    return tuple(tuple(_read(service, data)) for data in answers(service))
