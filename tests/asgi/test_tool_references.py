"""Results of tools that hold nothing of a known kind: services of the API get them as they are, others in words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

REFERENCE = {"type": "tool_reference", "tool_name": "Fetch"}
NEW = {"type": "brand_new", "a": [1]}
TEXT = {"type": "text", "text": "So."}
CLAUDE = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"


def asked(model: str, content: list[Any]) -> Any:
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("Find", "Fetch")]
    tools[1]["defer_loading"] = True
    use = {"type": "tool_use", "id": "toolu_1", "name": "Find", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    return post("/v1/messages", {"model": model, "max_tokens": 50, "tools": tools, "messages": messages})


@pytest.mark.parametrize("content", [[REFERENCE], [REFERENCE, REFERENCE], [NEW], [NEW, REFERENCE], [TEXT, REFERENCE]])
@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-5", CLAUDE])
async def test_a_service_of_the_api_gets_what_was_sent(model: str, content: list[Any], gateway, sim) -> None:
    """Else a tool that the client's search has found is never loaded."""
    app = gateway(anthropic={"api_key": "k", "endpoint": sim.url}, bedrock={"api_key": "k", "endpoint": sim.url})
    await asked(model, content).run(app)
    first = next(request for request in sim.requests if request.method == "POST")
    [result] = first.json()["messages"][-1]["content"]

    assert result["content"] == content


@pytest.mark.parametrize("model", ["claude-sonnet-4.5", "openai/gpt-4o", "gemini/gemini-2.5-pro"])
async def test_another_service_is_told_in_words(model: str, gateway, sim) -> None:
    """Where the tool is offered from the beginning; what is new there is its own text."""
    keys = {"api_key": "k", "endpoint": sim.url}
    app = gateway(openai={**keys, "endpoint": f"{sim.url}/v1"}, gemini=keys)
    exchange = await asked(model, [REFERENCE, NEW]).run(app)
    assert exchange.status == 200, exchange.content
    sent = json.dumps(sim.requests[-1].json())

    assert "The tool Fetch is available." in sent and "tool_reference" not in sent
    assert "brand_new" in sent
