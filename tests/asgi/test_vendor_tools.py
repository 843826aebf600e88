"""Tools that one vendor alone has: its own service gets them as they are, and a note names them anywhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.simulator import Head, RawBytes
from tests.asgi.driver import Exchange, post

pytestmark = pytest.mark.anyio

TOOLSETS = [
    {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}},
    {"type": "browser_toolset_20260801"},
    {"type": "mcp_toolset", "mcp_server_name": "files"},
]
CLICK = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "left_click",
    "input": {"coordinate": [3, 4]},
    "toolset_name": "computer",
}
ASKED = {"role": "user", "content": "Click."}


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def clicking(stream: bool) -> tuple[Head, RawBytes]:
    """An answer that calls a tool of a toolset."""
    usage = {"input_tokens": 7, "output_tokens": 5}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None, "usage": usage}
    if not stream:
        whole = {**head, "content": [CLICK], "stop_reason": "tool_use"}
        return Head(content_type="application/json"), RawBytes(json.dumps(whole).encode())
    arguments = {"type": "input_json_delta", "partial_json": json.dumps(CLICK["input"])}
    said = [
        event("message_start", message={**head, "content": [], "stop_reason": None}),
        event("content_block_start", index=0, content_block={**CLICK, "input": {}}),
        event("content_block_delta", index=0, delta=arguments),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 5}),
        event("message_stop"),
    ]
    return Head(content_type="text/event-stream"), RawBytes(b"".join(said))


def ask(path: str, stream: bool = False, **body: Any) -> Exchange:
    return told(post(path, {"max_tokens": 99, "stream": stream, **body}))


def told(exchange: Exchange) -> Exchange:
    """One whose client asks for the names of rules."""
    exchange.scope["headers"] = [*exchange.scope["headers"], (b"x-kiro-asgi-rules", b"1")]
    return exchange


@pytest.fixture
def app(gateway, sim):
    """A gateway that translates what is asked, in front of Anthropic, Gemini and OpenAI."""
    keyed = {"api_key": "sk", "endpoint": sim.url}
    slices = {"anthropic": keyed, "gemini": keyed, "openai": {**keyed, "endpoint": f"{sim.url}/v1"}}
    yield gateway(**slices, stream={"relay": "never"})
    sim.answer_with(None)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
async def test_a_toolset_reaches_its_service_and_its_calls_the_client(app, sim, stream):
    """The client runs the tool, by its own name and the toolset's; both go back with the call."""
    asked: list[Any] = []

    def answer(recorded):
        if recorded.operation != "anthropic.chat":
            return None
        asked.append(json.loads(recorded.body))
        return clicking(stream)

    sim.answer_with(answer)
    body = {"model": "anthropic/claude-haiku-4-5", "tools": TOOLSETS}
    exchange = await ask("/v1/messages", stream, messages=[ASKED], **body).run(app)
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]}
    history = [ASKED, {"role": "assistant", "content": [CLICK]}, result]
    await ask("/v1/messages", stream, messages=history, **body).run(app)

    assert [each["tools"] for each in asked] == [TOOLSETS, TOOLSETS]
    assert asked[1]["messages"][1]["content"] == [CLICK]
    assert "dropped" not in exchange.headers["x-kiro-asgi-rules"]
    if stream:
        assert b'"toolset_name":"computer"' in exchange.content
        assert b'"stop_reason":"tool_use"' in exchange.content
    else:
        assert exchange.json()["content"] == [CLICK]


@pytest.mark.parametrize("tool", TOOLSETS, ids=lambda tool: tool["type"])
@pytest.mark.parametrize("model", ["openai/gpt-4o", "gemini/gemini-2.5-pro"])
async def test_a_toolset_elsewhere_is_named(app, sim, tool, model):
    """No other service has it, and the model must not be taken to know it."""
    exchange = await ask("/v1/messages", messages=[ASKED], model=model, tools=[tool]).run(app)

    assert exchange.status == 200
    assert "tools.hosted_dropped" in exchange.headers["x-kiro-asgi-rules"]


@pytest.mark.parametrize("name", ["exaAiSearch", "parallelAiSearch", "googleMaps", "futureSearch"])
@pytest.mark.parametrize("settings", [{}, {"apiKey": "k"}])
async def test_a_search_of_another_vendor_s(app, sim, name, settings):
    """An empty object is the request: Gemini gets it as it is, and elsewhere a note names it."""
    body = {"contents": [{"role": "user", "parts": [{"text": "fjords"}]}], "tools": [{name: settings}]}
    there = await told(post("/v1beta/models/gemini/gemini-2.5-pro:generateContent", body)).run(app)
    asked = [json.loads(each.body) for each in sim.requests if each.operation.startswith("gemini.")]
    elsewhere = await told(post("/v1beta/models/openai/gpt-4o:generateContent", body)).run(app)

    assert asked[-1]["tools"] == [{name: settings}]
    assert "hosted_dropped" not in there.headers.get("x-kiro-asgi-rules", "")  # Google's own server may refuse it
    assert "tools.hosted_dropped" in elsewhere.headers["x-kiro-asgi-rules"]
