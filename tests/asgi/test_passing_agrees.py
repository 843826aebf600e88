"""Whether a request goes through or is translated, its client gets the same.

A service says something of everything that the gateway may have to handle.  What a client gets of it must not depend on
how the client has spelled its wish.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from kiro_asgi import App, create_app
from tests.asgi.conftest import settings_for
from tests.asgi.driver import PATHS, Exchange, post
from tests.asgi.test_passing import OPERATIONS, THINKING, asked, saying, upstreams
from tests.corpus.entries import CORPUS

Said = dict[str, str]
"""What a client gets, by kind."""

MODELS = {"anthropic": "claude-haiku-4-5-20251001", "openai": "local/gpt-4o"}
USER = {"role": "user", "content": "hi"}
LEAST: dict[str, dict[str, Any]] = {"anthropic": {"max_tokens": 64, "messages": [USER]}, "openai": {"messages": [USER]}}
WISHES: dict[str, tuple[dict[str, Any], ...]] = {
    "anthropic": (
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"thinking": {"type": "adaptive"}},
        {"thinking": {"type": "between_tools"}},
        {"thinking": {"type": "disabled"}},
        {"output_config": {"effort": "low"}},
        {"temperature": 1},
        {"stop_sequences": ["hid"]},
        {"tool_choice": {"type": "auto"}},
        {"metadata": {"user_id": "u"}},
        {"service_tier": "auto"},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [{"name": "f", "input_schema": {"type": "object"}}]},
        {"novel": {"x": 1.0}},
    ),
    "openai": (
        *THINKING,
        {"temperature": 0.5},
        {"stop": ["hid"]},
        {"stop": ["a", "b", "c", "d", "e"]},
        {"max_tokens": 64},
        {"max_completion_tokens": 64},
        {"n": 1},
        {"response_format": {"type": "text"}},
        {"response_format": {"type": "json_object"}},
        {"stream_options": {"include_usage": True}},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"system": "Be brief."},
        {"seed": 1, "presence_penalty": 0},
        {"novel": {"x": 1.0}},
    ),
}
"""Members of a request that ask for something, or for nothing."""


def event(name: str, **more: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **more})}\n\n".encode()


def block(index: int, begun: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    pieces = (event("content_block_delta", index=index, delta=delta) for delta in deltas)
    begin = event("content_block_start", index=index, content_block=begun)
    return begin + b"".join(pieces) + event("content_block_stop", index=index)


def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    document = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "some-model", "choices": [choice]}
    return f"data: {json.dumps(document)}\n\n".encode()


HEAD = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
USAGE = {"input_tokens": 7, "output_tokens": 9}
ANSWERS = {
    "anthropic": (
        event("message_start", message={**HEAD, "stop_sequence": None, "usage": USAGE})
        + block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "hidden"},
            {"type": "signature_delta", "signature": "c2ln"},
        )
        + block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "hello"})
        + event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=USAGE)
        + event("message_stop")
    ),
    "openai": (
        chunk({"role": "assistant", "content": "<think>hid"})
        + chunk({"content": "den</think>hello"})
        + chunk({}, "stop")
        + b"data: [DONE]\n\n"
    ),
}
"""Of a service that thinks apart, and of one that thinks between tags."""


def bodies(api: str) -> Iterator[dict[str, Any]]:
    """Wishes, each by itself and some together, alone and with requests of the corpus."""
    wishes = WISHES[api]
    yield from ({**LEAST[api], **wish} for wish in ({}, *wishes))
    draw = random.Random(49)
    seeds = [entry.body for entry in CORPUS if entry.api == api and len(json.dumps(entry.body)) < 5_000]
    for seed in seeds:
        more: dict[str, Any] = {}
        for wish in draw.sample(wishes, 2):
            more |= deepcopy(wish)
        yield {**seed, **more}


def said(api: str, exchange: Exchange) -> Said:
    """The text and the thinking of an answer, and how it ended."""
    found = {"text": "", "thinking": "", "end": ""}
    lines = (line.removeprefix(b"data: ") for line in exchange.content.splitlines() if line.startswith(b"data: {"))
    for document in map(json.loads, lines):
        for choice in document.get("choices") or ():
            found["text"] += choice["delta"].get("content") or ""
            found["thinking"] += choice["delta"].get("reasoning_content") or ""
            found["end"] += choice["finish_reason"] or ""
        delta = document.get("delta") or {}
        found["text"] += delta.get("text", "")
        found["thinking"] += delta.get("thinking", "")
        found["end"] += delta.get("stop_reason") or ""
    return found


@pytest.mark.anyio
@pytest.mark.parametrize("api", ["anthropic", "openai"])
async def test_a_client_gets_the_same_either_way(api: str, service: Any, sim: Any) -> None:
    """Of every body that may go through; and each spelling of a wish is the same wish."""
    local = {"endpoint": f"{service.url}/v1", "api_key": "sk-up", "relay": "allow"}
    slices = {**upstreams(service.url), "custom": {"local": local}}
    apps: dict[str, App] = {
        relay: create_app(settings_for(service.url, {**slices, "stream": {"relay": relay}}))
        for relay in ("auto", "never")
    }
    through = 0
    for body in bodies(api):
        data = json.dumps({**body, "model": MODELS[api], "stream": True}).encode()
        found: dict[str, Said] = {}
        for relay, app in apps.items():
            sim.forget()
            sim.enqueue(saying(ANSWERS[api]), operation=OPERATIONS[api])
            exchange = await post(PATHS[api], data).run(app)
            if exchange.status == 200 and asked(sim, api):
                found[relay] = said(api, exchange)
                through += asked(sim, api)[-1].body == data.replace(b"local/", b"")
        if len(found) == 2:  # what our own reader refuses, the service may judge otherwise
            assert found["auto"] == found["never"], body
    for app in apps.values():
        await app.aclose()
    assert through > 10
