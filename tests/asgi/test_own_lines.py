"""Lines that clients write for their own vendor: nobody else gets them, whatever API they come by."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.upstreams.anthropic.request import MessagesOptions, document
from kiro_asgi.upstreams.base import ModelCard
from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

CLAUDE = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
KEYS = {"api_key": "k"}
SERVICES: dict[str, tuple[str, dict[str, Any]]] = {
    "kiro": ("claude-sonnet-4.5", {}),
    "a copy of Anthropic's": ("anthropic/claude-sonnet-4-5", {"anthropic": KEYS}),
    "bedrock": (CLAUDE, {"bedrock": KEYS}),
    "converse": (CLAUDE, {"bedrock": {**KEYS, "claude_api": "converse"}}),
    "nova": ("bedrock/amazon.nova-pro-v1:0", {"bedrock": KEYS}),
    "gemini": ("gemini/gemini-2.5-pro", {"gemini": KEYS}),
    "openai": ("openai/gpt-4o", {"openai": KEYS}),
}
LINE = "x-anthropic-billing-header: cc_version=2.1.329.48f; cc_entrypoint=cli; cch={};"
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}


def bodies(model: str, line: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The line before "Be brief." in each API, and in each form that it has there."""
    said = [{"role": "user", "content": "Hi."}]
    blocks = [{"type": "text", "text": line}, {"type": "text", "text": "Be brief."}]
    messages = {"model": model, "max_tokens": 99, "messages": said}
    parts = [{"text": f"{line}\nBe brief."}]
    return {
        "blocks": ("/v1/messages", {**messages, "system": blocks}),
        "first line": ("/v1/messages", {**messages, "system": f"{line}\nBe brief."}),
        "with a tool": ("/v1/messages", {**messages, "system": blocks, "tools": [TOOL]}),
        "chat": (
            "/v1/chat/completions",
            {"model": model, "messages": [{"role": "system", "content": f"{line}\nBe brief."}, *said]},
        ),
        "responses": ("/v1/responses", {"model": model, "instructions": f"{line}\nBe brief.", "input": "Hi."}),
        "gemini": (
            f"/v1beta/models/{model}:generateContent",
            {"systemInstruction": {"parts": parts}, "contents": [{"role": "user", "parts": [{"text": "Hi."}]}]},
        ),
    }


RELAYED = {("openai", "chat"), ("openai", "responses"), ("gemini", "gemini")}
"""Bytes that go through, which only a client that speaks the API of another vendor than its own can bring about."""


@pytest.mark.parametrize(
    ("name", "form"), [pair for pair in product(SERVICES, bodies("m", "")) if pair not in RELAYED], ids=str
)
async def test_nobody_else_gets_the_line(name: str, form: str, gateway, sim) -> None:
    """So the prompt is the same turn after turn, and a cache of it holds."""
    model, slices = SERVICES[name]
    endpoint = f"{sim.url}/v1" if name == "openai" else sim.url
    app = gateway(**{key: {**value, "endpoint": endpoint} for key, value in slices.items()})
    sent = []
    for mark in ("71fea", "24c2d"):
        path, body = bodies(model, LINE.format(mark))[form]
        exchange = await post(path, body).run(app)
        assert exchange.status == 200, exchange.content
        sent.append(sim.requests[-1].json())
        text = json.dumps(sent[-1])
        assert "Be brief." in text
        assert "billing" not in text and mark not in text
    for request in sent:  # what differs in each request
        request.pop("user", None)
        request.pop("prompt_cache_key", None)
        request.get("conversationState", {}).pop("conversationId", None)
        request.pop("metadata", None)
    assert sent[0] == sent[1]


def test_anthropic_itself_gets_it() -> None:
    """First, as a text of its own."""
    body = bodies("claude-sonnet-4-5", LINE.format("1"))["first line"][1]
    prompt = AnthropicMessages().parse(json.dumps(body).encode()).prompt
    written = document(
        prompt, ModelCard("claude-sonnet-4-5"), MessagesOptions(version="2023-06-01", replay_thinking=True)
    ).document

    assert [block["text"] for block in written["system"]] == [LINE.format("1"), "Be brief."]
