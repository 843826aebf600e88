"""Stop sequences without a visible character: the gateway ends the answer where the service takes none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.simulator import answer, text
from kiro_asgi.simulator.kiro.hosts import CHAT
from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

CLAUDE = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
KEYS = {"api_key": "k"}
SERVICES: dict[str, tuple[str, dict[str, Any], str]] = {
    "kiro": ("claude-sonnet-4.5", {}, CHAT),
    "anthropic": ("anthropic/claude-sonnet-4-5", {"anthropic": KEYS}, "anthropic.chat"),
    "bedrock": (CLAUDE, {"bedrock": KEYS}, "bedrock.chat"),
    "converse": (CLAUDE, {"bedrock": {**KEYS, "claude_api": "converse"}}, "bedrock.chat"),
    "nova": ("bedrock/amazon.nova-pro-v1:0", {"bedrock": KEYS}, "bedrock.chat"),
    "gemini": ("gemini/gemini-2.5-pro", {"gemini": KEYS}, "gemini.chat"),
}


def asked(api: str, model: str, stops: list[str], stream: bool) -> Any:
    """A request in *api*."""
    said = [{"role": "user", "content": "Go."}]
    if api == "messages":
        body = {"model": model, "max_tokens": 99, "messages": said, "stop_sequences": stops}
        return post("/v1/messages", {**body, "stream": stream})
    if api == "chat":
        return post("/v1/chat/completions", {"model": model, "messages": said, "stop": stops, "stream": stream})
    contents = [{"role": "user", "parts": [{"text": "Go."}]}]
    verb = "streamGenerateContent" if stream else "generateContent"
    body = {"contents": contents, "generationConfig": {"stopSequences": stops}}
    return post(f"/v1beta/models/{model}:{verb}", body)


def told(api: str, exchange: Any, stream: bool) -> tuple[str, str]:
    """The text, and why it ended."""
    documents = [exchange.json()] if not stream or api == "gemini" else []
    documents = documents or [json.loads(line[6:]) for line in exchange.content.splitlines() if line[:7] == b"data: {"]
    if api == "gemini":
        found = [one for each in documents for one in (each if isinstance(each, list) else [each])]
        parts = [part for each in found for one in each["candidates"] for part in one["content"].get("parts", ())]
        return "".join(part.get("text", "") for part in parts), found[-1]["candidates"][0]["finishReason"]
    if api == "chat":
        choices = [choice for each in documents for choice in each["choices"]]
        said = "".join(choice.get("delta", choice.get("message")).get("content") or "" for choice in choices)
        return said, choices[-1]["finish_reason"]
    if not stream:
        return documents[0]["content"][0]["text"], documents[0]["stop_sequence"]
    said = "".join(each["delta"].get("text", "") for each in documents if each["type"] == "content_block_delta")
    return said, next(each["delta"]["stop_sequence"] for each in documents if each["type"] == "message_delta")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize(
    ("pieces", "stops", "expected", "found"),
    [
        (("line one\nline two",), ["\n"], "line one", "\n"),
        (("line one\n", "\nline two"), ["\n\n"], "line one", "\n\n"),
        (("a ", "\t", "b"), [" \t", "STOP"], "a", " \t"),
        (("a\u00a0b",), ["\u00a0"], "a", "\u00a0"),
    ],
)
@pytest.mark.parametrize("api", ["messages", "chat", "gemini"])
@pytest.mark.parametrize("name", SERVICES)
async def test_an_answer_ends_there(name, api, pieces, stops, expected, found, stream, gateway, sim):
    """Across pieces, in the words of each API; a visible one still goes to the service."""
    model, slices, operation = SERVICES[name]
    app = gateway(**{key: {**value, "endpoint": sim.url} for key, value in slices.items()})
    sim.enqueue(answer(*text(*pieces)), operation=operation)
    if name == api == "gemini":
        pytest.skip("it takes them, and its bytes go through")
    exchange = await asked(api, model, stops, stream).run(app)
    assert exchange.status == 200, exchange.content
    if name == "gemini":  # which takes them
        assert json.dumps(stops) in json.dumps(sim.requests[-1].json())
        return

    said, end = told(api, exchange, stream)
    assert (said, end) == (expected, {"messages": found, "chat": "stop", "gemini": "STOP"}[api])
    body = json.dumps(sim.requests[-1].json())
    assert json.dumps(stops[0]) not in body
    assert ('"STOP"' in body) == ("STOP" in stops and name != "kiro")
