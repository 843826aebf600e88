"""Tool calls that arrive broken: whole answers in front of a simulated service."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kiro_asgi.simulator import answer, text, tool_call
from tests.asgi.driver import ask

pytestmark = pytest.mark.anyio

NAME = "mcp__files__read_file"
SCHEMA = {"type": "object", "properties": {"file_path": {"type": "string"}, "lines": {"type": "array"}}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{"name": NAME, "description": "d", "input_schema": SCHEMA}],
    "openai": [{"type": "function", "function": {"name": NAME, "description": "d", "parameters": SCHEMA}}],
    "responses": [{"type": "function", "name": NAME, "description": "d", "parameters": SCHEMA}],
}
WRITTEN = answer(*text("See. <mc", 'p__read_file>{"path": "secret", "lines": "[1]"}</mcp__read', "_file> Done."))
"""A call in the text, under half a name, with an argument misnamed and one encoded twice."""

NAMES = {"tools": {"parameter_names": [f"{NAME}.path=file_path"]}}
OFF = {
    "tools": dict.fromkeys(("remap_arguments", "filter_unknown", "repair_encoding", "mcp_bridge", "fuzzy_names"), False)
}


def told(dialect: str, message: dict[str, Any]) -> list[Any]:
    """Texts and calls of a collected answer."""
    if dialect == "openai":
        said = message["choices"][0]["message"]
        calls = [(it["id"], it["function"]["name"], it["function"]["arguments"]) for it in said.get("tool_calls", ())]
        return [said["content"], *((*it[:2], json.loads(it[2])) for it in calls)]
    if dialect == "responses":
        return [
            (it["call_id"], it["name"], json.loads(it["arguments"]))
            if it["type"] == "function_call"
            else it["content"][0]["text"]
            for it in message["output"]
        ]
    return [it["text"] if it["type"] == "text" else (it["id"], it["name"], it["input"]) for it in message["content"]]


@pytest.mark.parametrize("dialect", TOOLS)
async def test_a_call_is_put_right(dialect, gateway, sim, caplog):
    """The client gets the call that it can run; the log has one line of names, and one of codes without content."""
    sim.enqueue(WRITTEN)
    with caplog.at_level(logging.WARNING):
        exchange = await ask(dialect, "hi", stream=False, tools=TOOLS[dialect]).run(gateway(**NAMES))

    call = ("mcp__read_file-xml", NAME, {"file_path": "secret", "lines": [1]})
    texts = ["See.  Done.", call] if dialect == "openai" else ["See. ", call, " Done."]
    assert told(dialect, exchange.json()) == texts
    assert [record.getMessage() for record in caplog.records] == [
        f"tool name corrected: mcp__read_file -> {NAME}",
        "answer complete, but: tool_call.written (1), arguments.renamed (1), arguments.decoded (1)",
    ]


async def test_every_repair_can_be_switched_off(gateway, sim, caplog):
    """Then the text is what the model wrote."""
    sim.enqueue(WRITTEN)
    exchange = await ask("anthropic", "hi", stream=False, tools=TOOLS["anthropic"]).run(gateway(**OFF))

    (said,) = told("anthropic", exchange.json())
    assert said.startswith("See. <mcp__read_file>{")


@pytest.mark.parametrize("leaked", [True, False])
async def test_leaked_calls_are_read_on_demand(leaked, gateway, sim):
    """``tools.leaked_calls`` is off unless it is set."""
    sim.enqueue(answer(*text(f'[Called {NAME} with args: {{"file_path": "a"}}]')))
    app = gateway(tools={"leaked_calls": leaked}) if leaked else gateway()
    exchange = await ask("anthropic", "hi", stream=False, tools=TOOLS["anthropic"]).run(app)

    (said,) = told("anthropic", exchange.json())
    assert (said == (f"{NAME}-text", NAME, {"file_path": "a"})) == leaked


async def test_ids_differ_over_a_conversation(gateway, sim):
    """A call of the same tool in the next answer gets an id that the first has not used."""
    call_id = f"{NAME}-xml"
    turns = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": NAME, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "r"}]},
    ]
    sim.enqueue(answer(*text(f"<{NAME}></{NAME}>")))
    exchange = await ask("anthropic", "", stream=False, tools=TOOLS["anthropic"], messages=turns).run(gateway())

    assert told("anthropic", exchange.json()) == [(f"{call_id}_1", NAME, {})]


async def test_the_most_complete_call_counts_where_nothing_was_sent(gateway, sim):
    """Of one id, in an answer that goes out in one piece; what stands between stays there."""
    once = tool_call("f", {"city": "P"}, call_id="t1")
    again = tool_call("f", {"city": "Paris"}, call_id="t1")
    sim.enqueue(answer(*once, *text("So."), *again))
    exchange = await ask("anthropic", "hi", stream=False, tools=[{"name": "f", "input_schema": {}}]).run(gateway())

    assert [block.get("input", block.get("text")) for block in exchange.json()["content"]] == [{"city": "Paris"}, "So."]
