"""Bodies of the Responses API at the path of Chat Completions, as Cursor sends them: read, asked and answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.simulator import answer, text, tool_call
from kiro_asgi.simulator.kiro.hosts import CHAT
from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

PATCH = "*** Begin Patch\n*** End Patch"
KEYS = {"api_key": "k"}
SERVICES: dict[str, tuple[str, dict[str, Any], str]] = {
    "kiro": ("kiro/claude-sonnet-4.5", {}, CHAT),
    "anthropic": ("anthropic/claude-sonnet-4-5", {"anthropic": KEYS}, "anthropic.chat"),
    "openai": ("openai/gpt-4o", {"openai": KEYS}, "openai.chat"),
    "gemini": ("gemini/gemini-2.5-pro", {"gemini": KEYS}, "gemini.chat"),
}


def body(model: str, *further: Any) -> dict[str, Any]:
    hello = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    patch = {"type": "custom", "name": "ApplyPatch", "description": "d", "format": {"type": "text"}}
    return {
        "model": model,
        "stream": True,
        "input": [{"role": "system", "content": "Be terse."}, hello, *further],
        "tools": [{"type": "function", "name": "read_file", "parameters": {"type": "object"}}, patch],
    }


@pytest.mark.parametrize("name", SERVICES)
async def test_a_conversation_as_cursor_has_it(name: str, gateway, sim) -> None:
    """The answer is chunks of Chat Completions; the call has the text, and comes back as an item or a message."""
    model, slices, operation = SERVICES[name]
    endpoint = f"{sim.url}/v1" if name == "openai" else sim.url
    app = gateway(**{key: {**value, "endpoint": endpoint} for key, value in slices.items()})
    sim.enqueue(
        answer(*text("Let me."), *tool_call("ApplyPatch", {"input": PATCH}, call_id="call_12345678")),
        operation=operation,
    )
    first = await post("/v1/chat/completions", body(model)).run(app)
    assert first.status == 200, first.content
    lines = [line[6:] for line in first.content.splitlines() if line.startswith(b"data: ")]
    assert lines.pop() == b"[DONE]"
    chunks = [json.loads(line) for line in lines]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Let me."
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert "".join(call["function"]["arguments"] for call in calls) == PATCH

    call_id = calls[0]["id"]
    made = {"type": "custom_tool_call", "call_id": call_id, "name": "ApplyPatch", "input": PATCH}
    result = {"type": "custom_tool_call_output", "call_id": call_id, "output": "patched"}
    second = await post("/v1/chat/completions", body(model, made, result)).run(app)
    assert second.status == 200, second.content
    sent = json.dumps(sim.requests[-1].json())
    assert "patched" in sent and "Begin Patch" in sent and "Be terse." in sent
