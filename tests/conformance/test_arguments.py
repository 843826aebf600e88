"""Arguments of tool calls through the official clients, in each API, streamed and collected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.simulator import Event, Script, answer, plain_answer, tool_call
from tests.conformance.asked import EACH_API, EACH_WAY, ask
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

FILE = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}
CAMEL = {"type": "object", "properties": {"filePath": {"type": "string"}}, "required": ["filePath"]}
CLOSED = {**FILE, "additionalProperties": False}
EDITS = {
    "type": "object",
    "properties": {"edits": {"type": "array", "items": {"type": "object", "properties": {"old_string": {}}}}},
}


def say(gateway: Gateway, script: Script, operation: str = "") -> None:
    assert gateway.service is not None
    gateway.service.enqueue(script, **({"operation": operation} if operation else {}))


@EACH_WAY
@EACH_API
@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        pytest.param(FILE, {"filePath": "a.py"}, {"file_path": "a.py"}, id="camel-for-snake"),
        pytest.param(CAMEL, {"file_path": "a.py"}, {"filePath": "a.py"}, id="snake-for-camel"),
        pytest.param(CLOSED, {"filePath": "a", "why": 1}, {"file_path": "a"}, id="renamed-before-dropped"),
        pytest.param(FILE, {"file_path": "a", "why": 1}, {"file_path": "a", "why": 1}, id="others-allowed"),
        pytest.param(CLOSED, {"path": "a"}, {"path": "a"}, id="never-nothing"),
        pytest.param(EDITS, {"edits": [{"oldString": "x"}]}, {"edits": [{"old_string": "x"}]}, id="within"),
    ],
)
def test_no_argument_vanishes(
    clients: Clients, scripted: Gateway, api: str, stream: bool, schema: Any, given: Any, expected: Any
) -> None:
    """Decision 5.50: an argument gets the name that the client's schema has for it before any is dropped, which
    happens only where the schema forbids others; never is ``{}`` in the place of arguments that were there."""
    say(scripted, answer(*tool_call("edit", given)))

    assert ask(clients, scripted, api, "edit it", stream=stream, tools={"edit": schema}).calls == (("edit", expected),)


@EACH_WAY
@EACH_API
def test_a_call_without_an_id_gets_one(clients: Clients, scripted: Gateway, api: str, stream: bool) -> None:
    """Nothing is dropped for want of an id, and every id is one of its own, also over several answers."""
    events = [
        Event("toolUseEvent", {"name": name, **more})
        for name, text in (("edit", '{"file_path": "a"}'), ("read", '{"file_path": "b"}'))
        for more in ({"input": text[:7]}, {"input": text[7:]}, {"stop": True})
    ]
    seen = []
    for _ in range(2):
        say(scripted, answer(*events))
        seen.append(ask(clients, scripted, api, "do it", stream=stream, tools={"edit": FILE, "read": FILE}))

    assert [each.calls for each in seen] == [(("edit", {"file_path": "a"}), ("read", {"file_path": "b"}))] * 2
    assert len({call_id for each in seen for call_id in each.ids}) == 4


@EACH_WAY
@EACH_API
def test_complete_arguments_win_over_none(clients: Clients, scripted: Gateway, api: str, stream: bool) -> None:
    """F199: of a call that the service sends empty and once more whole, the client gets the whole one, in its place."""
    given = {"file_path": "a"}
    empty, full = (tool_call("edit", each, call_id="tooluse_1") for each in ({}, given))
    say(scripted, answer(*empty, *tool_call("read", {"file_path": "b"}, call_id="tooluse_2"), *full))
    seen = ask(clients, scripted, api, "do it", stream=stream, tools={"edit": FILE, "read": FILE})

    assert seen.calls == (("edit", given), ("read", {"file_path": "b"}))
    assert seen.ids == ("tooluse_1", "tooluse_2")


@EACH_WAY
@EACH_API
@pytest.mark.parametrize(
    ("operation", "model", "times"),
    [
        pytest.param("", "claude-haiku-4.5", 1, id="F200-kiro"),
        pytest.param("gemini.chat", "gemini-2.5-flash", 2, id="gemini"),
        pytest.param("openai.chat", "gpt-4o", 2, id="openai"),
        pytest.param("anthropic.chat", "anthropic/claude-haiku-4-5", 2, id="anthropic"),
    ],
)
def test_equal_calls(
    clients: Clients, scripted: Gateway, api: str, stream: bool, operation: str, model: str, times: int
) -> None:
    """F200: two equal calls are one where the service repeats calls, and two everywhere else."""
    given = {"file_path": "a"}
    say(scripted, answer(*tool_call("edit", given, call_id="c1"), *tool_call("edit", given, call_id="c2")), operation)

    assert (
        ask(clients, scripted, api, "do it", stream=stream, tools={"edit": FILE}, model=model).calls
        == (("edit", given),) * times
    )


@EACH_WAY
@EACH_API
@pytest.mark.parametrize("apart", [True, False], ids=["two-events", "one-event"])
def test_equal_calls_of_gemini_without_ids(
    clients: Clients, scripted: Gateway, api: str, stream: bool, apart: bool
) -> None:
    """What the service really sends: calls without ids, in one event or in several."""
    call = {"functionCall": {"name": "edit", "args": {"file_path": "a"}}}
    parts = [[call], [call]] if apart else [[call, call]]
    events = [{"candidates": [{"content": {"role": "model", "parts": each}, "index": 0}]} for each in parts]
    events.append({"candidates": [{"content": {"parts": []}, "finishReason": "STOP", "index": 0}]})
    body = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events)
    say(scripted, plain_answer(200, body.encode(), "text/event-stream"), "gemini.chat")
    seen = ask(clients, scripted, api, "do it", stream=stream, tools={"edit": FILE}, model="gemini-2.5-flash")

    assert seen.calls == (("edit", {"file_path": "a"}),) * 2


@EACH_WAY
@EACH_API
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"file_path": "a\nb\tc"}', {"file_path": "a\nb\tc"}, id="control-characters"),
        pytest.param('{"file_path": "a", "more": [1, 2,],}', {"file_path": "a", "more": [1, 2]}, id="trailing-commas"),
        pytest.param('\ufeff{"file_path": "a"}', {"file_path": "a"}, id="byte-order-mark"),
    ],
)
def test_arguments_are_mended(
    clients: Clients, scripted: Gateway, api: str, stream: bool, text: str, expected: Any
) -> None:
    """What is lexically beyond doubt is put right."""
    say(scripted, answer(*tool_call("edit", text)))
    seen = ask(clients, scripted, api, "do it", stream=stream, tools={"edit": FILE})

    assert seen.calls == (("edit", expected),)


STOPS = {"messages": "end_turn", "chat": "stop", "responses": "completed"}
CUTS = {"messages": "max_tokens", "chat": "length", "responses": "max_output_tokens"}


@EACH_WAY
@EACH_API
@pytest.mark.parametrize(
    "text", ["{'file_path': 'a'}", '{"file_path": "say "hi" to me"}', '{"file_path": "a"}}', '{"file_path": a}']
)
def test_malformed_is_not_cut(clients: Clients, scripted: Gateway, api: str, stream: bool, text: str) -> None:
    """A complete call that cannot be read is withheld; the client is told so, and it is told of no limit.  In its next
    request the model is told, too."""
    tools = {"edit": FILE}
    say(scripted, answer(*tool_call("edit", text)))
    seen = ask(clients, scripted, api, "do it", stream=stream, tools=tools)

    assert (seen.calls, seen.stop) == ((), STOPS[api])
    assert all(words in seen.text for words in ("malformed", "“edit”", "withheld"))

    turns = [{"role": "user", "content": "do it"}, {"role": "assistant", "content": seen.text}]
    ask(clients, scripted, api, [*turns, {"role": "user", "content": "and?"}], stream=stream, tools=tools)
    assert scripted.service is not None
    told = scripted.service.last_request.json()["conversationState"]["currentMessage"]["userInputMessage"]["content"]
    assert "could not be read" in told
    assert "cut off" not in told


@EACH_WAY
@EACH_API
def test_cut_is_not_malformed(clients: Clients, scripted: Gateway, api: str, stream: bool) -> None:
    """Arguments that end too early end the answer for its length, and there is no word of malformed ones."""
    say(scripted, answer(*tool_call("edit", '{"file_path": "a }')))
    seen = ask(clients, scripted, api, "do it", stream=stream, tools={"edit": FILE})

    assert (seen.calls, seen.text, seen.stop) == ((), "", CUTS[api])
