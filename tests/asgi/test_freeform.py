"""Tools that take a text, at services that have none: models give it under other names, or bare."""

from __future__ import annotations

import json

import pytest

from kiro_asgi.simulator import Event, answer
from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
TOOL = {"type": "custom", "name": "apply_patch", "description": "Change files."}
LONG = {"type": "custom", "name": "apply patch " + "x" * 70, "description": "Change files."}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
@pytest.mark.parametrize("tool", [TOOL, LONG], ids=["as-named", "renamed"])
@pytest.mark.parametrize("given", [PATCH, json.dumps({"patch": PATCH}), json.dumps(PATCH)])
async def test_the_client_is_given_the_text(given, tool, stream, gateway, sim):
    """Codex applies the patch, whatever the model calls it; also where the service has another name for the tool."""
    body = {"model": "claude-sonnet-4.5", "input": "Add a.", "tools": [tool], "stream": stream}
    sim.enqueue(answer(Event("toolUseEvent", {"toolUseId": "t1", "name": "f", "input": given, "stop": True})))
    app = gateway()
    await post("/v1/responses", body).run(app)
    state = sim.requests[-1].json()["conversationState"]
    context = state["currentMessage"]["userInputMessage"]["userInputMessageContext"]
    wire = context["tools"][0]["toolSpecification"]["name"]
    sim.enqueue(answer(Event("toolUseEvent", {"toolUseId": "t1", "name": wire, "input": given, "stop": True})))
    exchange = await post("/v1/responses", body).run(app)

    events = [json.loads(line[6:]) for line in exchange.content.splitlines() if line.startswith(b"data: {")]
    output = events[-1]["response"]["output"] if stream else exchange.json()["output"]
    (call,) = (item for item in output if item["type"] == "custom_tool_call")
    assert (call["name"], call["input"]) == (tool["name"], PATCH)
