"""Names in tools' schemas that a service refuses: others go to the service, and the client's come back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kiro_asgi.simulator import answer, tool_call
from kiro_asgi.simulator.kiro.hosts import CHAT
from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

LEGAL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
LONG = "a" * 70
SCHEMA = {
    "type": "object",
    "properties": {
        "$filter": {"type": "string", "enum": ["$filter", "b"]},
        "plain": {"type": "string"},
        "filter[id]": {"$ref": "#/$defs/päth"},
        LONG: {
            "type": "array",
            "items": {"type": "object", "properties": {"@type": {}, "": {}}, "required": ["@type"]},
        },
        "again": {"$ref": "#/properties/%24filter"},
        "properties": {"type": "object", "properties": {"päth": {"type": "string"}}},
    },
    "required": ["$filter", "plain"],
    "$defs": {"päth": {"type": "object", "properties": {"päth": {"const": "päth"}}, "required": ["päth"]}},
}
ARGUMENTS = {
    "$filter": "b",
    "plain": "$filter",
    "filter[id]": {"päth": "päth"},
    LONG: [{"@type": 1, "": 2}],
    "properties": {"päth": "x"},
}
SERVICES = {
    "kiro": ("claude-sonnet-4.5", {}, CHAT),
    "anthropic": ("anthropic/claude-sonnet-4-5", {"anthropic": {"api_key": "a"}}, "anthropic.chat"),
    "bedrock": ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", {"bedrock": {"api_key": "b"}}, "bedrock.chat"),
    "converse": (
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        {"bedrock": {"api_key": "b", "claude_api": "converse"}},
        "bedrock.chat",
    ),
}


def schemas_in(value: Any) -> Iterator[dict[str, Any]]:
    """Schemas of tools in a body, wherever the service has them."""
    if isinstance(value, list):
        for each in value:
            yield from schemas_in(each)
    elif isinstance(value, dict):
        found = value.get("inputSchema", {}).get("json") or value.get("input_schema")
        if found:
            yield found
        else:
            for each in value.values():
                yield from schemas_in(each)


def names_in(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from names_in(each)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties":
                yield from value
                yield from names_in([*value.values()])
            elif key == "required":
                yield from value
            elif key not in ("enum", "const"):
                yield from names_in([*value.values()] if key == "$defs" else value)


def renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [renamed(each, names) for each in value]
    if isinstance(value, dict):
        return {names.get(name, name): renamed(each, names) for name, each in value.items()}
    return value


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize("emission", ["complete", "incremental"])
@pytest.mark.parametrize("name", SERVICES)
async def test_odd_names_are_renamed_and_named_back(name, emission, stream, gateway, sim):
    """In nested places, in what is required, in references, in the call and in the next request."""
    model, slices, operation = SERVICES[name]
    slices = {key: {**value, "endpoint": sim.url} for key, value in slices.items()}
    app = gateway(stream={"tool_emission": emission}, **slices)
    tools = [{"type": "function", "function": {"name": "q", "parameters": SCHEMA}}]
    question = {"role": "user", "content": "Look."}
    body = {"model": model, "tools": tools, "messages": [question], "stream": stream}
    assert (await post("/v1/chat/completions", body).run(app)).status == 200
    [sent] = schemas_in(sim.requests[-1].json())

    assert all(map(LEGAL.fullmatch, names_in(sent)))
    at = dict(zip(SCHEMA["properties"], sent["properties"], strict=True))
    assert sent["required"] == [at["$filter"], "plain"]
    assert sent["properties"][at["$filter"]]["enum"] == ["$filter", "b"]
    assert sent["properties"]["again"] == {"$ref": f"#/properties/{at['$filter']}"}
    assert at["plain"] == "plain" and at["properties"] == "properties"

    [nested] = sent["properties"]["properties"]["properties"]
    inner = dict(zip(["@type", ""], sent["properties"][at[LONG]]["items"]["properties"], strict=True))
    wire = {**at, **inner, "päth": nested}
    sim.enqueue(answer(*tool_call("q", renamed(ARGUMENTS, wire), call_id="c1")), operation=operation)
    exchange = await post("/v1/chat/completions", body).run(app)
    [call] = _calls(exchange, stream)
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS

    made = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "$filter"}
    following = {**body, "messages": [question, made, result]}
    assert (await post("/v1/chat/completions", following).run(app)).status == 200
    assert json.dumps(renamed(ARGUMENTS, wire)[at["filter[id]"]]) in json.dumps(sim.requests[-1].json())


def _calls(exchange: Any, stream: bool) -> list[dict[str, Any]]:
    if not stream:
        return exchange.json()["choices"][0]["message"]["tool_calls"]
    chunks = [json.loads(line[6:]) for line in exchange.content.splitlines() if line.startswith(b"data: {")]
    pieces = [call for chunk in chunks for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", ())]
    arguments = "".join(piece["function"].get("arguments", "") for piece in pieces)
    return [{**pieces[0], "function": {"name": "q", "arguments": arguments}}]


async def test_a_service_that_takes_any_name_gets_the_client_s(gateway, sim):
    app = gateway(openai={"api_key": "o", "endpoint": f"{sim.url}/v1"})
    tools = [{"name": "q", "input_schema": SCHEMA}]
    question = [{"role": "user", "content": "Look."}]
    body = {"model": "openai/gpt-4o", "max_tokens": 99, "tools": tools, "messages": question}
    assert (await post("/v1/messages", body).run(app)).status == 200

    [tool] = sim.requests[-1].json()["tools"]
    assert [*tool["function"]["parameters"]["properties"]] == [*SCHEMA["properties"]]


async def test_a_name_that_is_taken_is_not_given(gateway, sim):
    """Two arguments never become one."""
    first = {"type": "object", "properties": {"$a": {}}}
    app = gateway(anthropic={"api_key": "a", "endpoint": sim.url})
    question = [{"role": "user", "content": "Look."}]

    async def sent(schema: dict[str, Any]) -> list[str]:
        tools = [{"type": "function", "function": {"name": "q", "parameters": schema}}]
        body = {"model": "anthropic/claude-sonnet-4-5", "tools": tools, "messages": question}
        assert (await post("/v1/chat/completions", body).run(app)).status == 200
        [found] = schemas_in(sim.requests[-1].json())
        return [*found["properties"]]

    [substitute] = await sent(first)
    names = await sent({"type": "object", "properties": {"$a": {}, substitute: {}}})
    assert len({*names}) == 2 and names[1] == substitute
