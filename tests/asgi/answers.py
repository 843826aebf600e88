"""What a client makes of an answer, in any dialect; checked by the dialects' own grammars on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio.to_thread

import kiro_asgi.testing.grammar.messages as anthropic_grammar
import tests.dialects.openai_chat.grammar as openai_grammar
import tests.dialects.openai_responses.grammar as responses_grammar
from kiro_asgi.simulator.server import Simulator
from tests.asgi.driver import Exchange

DIALECTS = ("anthropic", "openai")
ALL_DIALECTS = (*DIALECTS, "responses")
"""Where the form of the answer matters; elsewhere two are enough to see that it does not."""

PINGS = {
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
    "openai": b": ping\n\n",
    "responses": b'"delta":""}\n\n',
}
"""How a sign of life ends; of the Responses API, where text has begun."""


def text_of(dialect: str, exchange: Exchange) -> str:
    """The text of a complete answer, streamed or not."""
    assert exchange.status == 200, exchange.content
    if exchange.headers["content-type"] == "application/json":
        return _collected_text(dialect, exchange.json())
    if dialect == "anthropic":
        return _collected_text(dialect, anthropic_grammar.check(exchange.content))
    if dialect == "responses":
        return _collected_text(dialect, responses_grammar.check(exchange.content)[-1]["response"])
    return str(openai_grammar.fold(openai_grammar.check(exchange.content))["message"].get("content", ""))


def _collected_text(dialect: str, message: dict[str, Any]) -> str:
    if dialect == "openai":
        return str(message["choices"][0]["message"]["content"])
    if dialect == "responses":
        said = [part for item in message["output"] if item["type"] == "message" for part in item["content"]]
        return "".join(part["text"] for part in said)
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def error_of(dialect: str, exchange: Exchange) -> dict[str, Any]:
    """The error of an answer that has failed before its first byte; its envelope is checked."""
    assert exchange.headers["content-type"] == "application/json"
    document = exchange.json()
    if dialect == "anthropic":
        assert document["type"] == "error"
        assert document["request_id"] == exchange.headers["request-id"]
    else:
        assert set(document) == {"error"}
        assert set(document["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = document["error"]
    return error


def cut_of(dialect: str, exchange: Exchange) -> dict[str, Any]:
    """The error that a stream has ended with, after its head had gone out; what came before is checked."""
    assert exchange.status == 200
    if dialect == "anthropic":
        return anthropic_grammar.check_cut(exchange.content)
    if dialect == "responses":
        told: dict[str, Any] = responses_grammar.check(exchange.content)[-2]["error"]
        return told
    error: dict[str, Any] = openai_grammar.check(exchange.content)[-1]["error"]
    return error


def partial_text(dialect: str, content: bytes) -> str:
    """The text of as much of a stream as there is."""
    data = [json.loads(line[6:]) for line in content.split(b"\n") if line.startswith(b"data: {")]
    if dialect == "anthropic":
        return "".join(event["delta"].get("text", "") for event in data if event["type"] == "content_block_delta")
    if dialect == "responses":
        return "".join(event["delta"] for event in data if event["type"] == "response.output_text.delta")
    return "".join(choice["delta"].get("content") or "" for chunk in data for choice in chunk.get("choices", ()))


def told_as(dialect: str, kind: str) -> str:
    """What an error of a *kind* is called inside a stream: the Responses API has one word for all."""
    return "server_error" if dialect == "responses" else kind


async def comes_true(sim: Simulator, condition: Callable[[], object], seconds: float = 2.0) -> bool:
    """Whether *condition* holds soon."""
    return await anyio.to_thread.run_sync(sim.wait_until, condition, seconds)
