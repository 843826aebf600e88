"""Tool calls that are signed: the signature comes back with the call, whatever the client keeps."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kiro_asgi.simulator import Head, RawBytes
from tests.asgi.driver import Exchange, post

pytestmark = pytest.mark.anyio

MODEL = "gemini-3-pro-preview"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
QUESTION = {"role": "user", "content": "sim:tool=look {}"}
SENTINEL = "skip_thought_signature_validator"


def ask(messages: list[dict[str, Any]], stream: bool, key: str = "k") -> Exchange:
    body = {"model": MODEL, "messages": messages, "tools": [TOOL], "stream": stream}
    return post("/v1/chat/completions", body, key=key)


def call_of(exchange: Exchange, stream: bool) -> dict[str, Any]:
    if not stream:
        return exchange.json()["choices"][0]["message"]["tool_calls"][0]
    chunks = [json.loads(line[6:]) for line in exchange.content.splitlines() if line.startswith(b"data: {")]
    calls = [call for chunk in chunks for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", ())]
    return {**calls[0], "function": {"name": "look", "arguments": "{}"}}


def answered(call: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "a tree"},
    ]


def signature_in(body: bytes) -> str:
    parts = [part for content in json.loads(body)["contents"] for part in content["parts"]]
    return next(part.get("thoughtSignature", "") for part in parts if "functionCall" in part)


@pytest.fixture
def app(gateway, sim):
    return gateway(client={"api_keys": ["k", "other"]}, gemini={"api_key": "goo", "endpoint": sim.url})


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
async def test_the_service_gets_its_signature_back(kept, stream, app, sim):
    """From the client if it keeps what it does not know, else from what the gateway remembers (F187)."""
    first = await ask([QUESTION], stream).run(app)
    call = call_of(first, stream)
    given = call["extra_content"]["google"]["thought_signature"]
    if not kept:
        del call["extra_content"]
    second = await ask(answered(call), stream).run(app)

    assert second.status == 200
    assert given.endswith(signature_in(sim.requests[-1].body))
    assert signature_in(sim.requests[-1].body) not in ("", SENTINEL)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
async def test_two_conversations_never_see_each_other_s(stream, app, sim):
    """The same call with the same id, behind another question."""
    told = {}
    for name in ("A", "B"):
        made = {"name": "look", "args": {}, "id": "same"}
        part = {"functionCall": made, "thoughtSignature": base64.b64encode(f"seal of {name}".encode()).decode()}
        events = [{"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}]
        body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        sim.enqueue((Head(content_type="text/event-stream"), RawBytes(body)), operation="gemini.chat")
        question = {"role": "user", "content": f"I am {name}."}
        call = call_of(await ask([question], stream).run(app), stream)
        del call["extra_content"]
        told[name] = [question, *answered(call)[1:]]
    for name, messages in told.items():
        sim.forget()
        assert (await ask(messages, stream).run(app)).status == 200  # the second time: these are no real ones
        assert base64.b64decode(signature_in(sim.requests[0].body)) == f"seal of {name}".encode()


async def test_a_call_that_nobody_remembers_is_excused(app, sim):
    """Another client's memory is not searched; the service takes a word for it that it has documented."""
    first = await ask([QUESTION], False).run(app)
    call = call_of(first, False)
    del call["extra_content"]
    second = await ask(answered(call), False, key="other").run(app)

    assert second.status == 200
    assert signature_in(sim.requests[-1].body) == SENTINEL
