"""The simulated service in OpenAI's format: what only this one has, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.simulator import RecordedRequest
from kiro_asgi.simulator.answers import SENTENCE, THOUGHT
from kiro_asgi.simulator.openai.encoder import REFUSAL
from kiro_asgi.simulator.scripts import Head, RawBytes
from kiro_asgi.simulator.service import SimulatedService
from tests.simulator.asking import call
from tests.simulator.speaking import HEADERS, ask, events, heard, openai

CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "4 C"}


def turns(*calls: Any, results: Any = (RESULT,)) -> list[Any]:
    """A question, a call, and its answer."""
    asked = {"role": "assistant", "content": None, "tool_calls": list(calls or (CALL,))}
    return [{"role": "user", "content": "weather?"}, asked, *results]


def refused(messages: Any, **more: Any) -> str:
    """The message of the refusal; empty for an answer."""
    target, document = openai(messages, **more)
    request = RecordedRequest("POST", target, "", HEADERS["openai"], json.dumps(document).encode())
    head, body = SimulatedService().script_for(request)[:2]
    assert isinstance(head, Head)
    if head.status == 200:
        return ""
    assert isinstance(body, RawBytes)
    error = json.loads(body.data)["error"]
    assert (head.status, error["type"], error["param"]) == (400, "invalid_request_error", None)
    return error["message"]


def test_usage_only_on_request(simulator):
    """Without ``include_usage`` no chunk has usage; with it all have, and all but the last have none to tell."""
    silent = events(ask(simulator.url, "openai", "hello", stream_options=None).body)
    told = events(ask(simulator.url, "openai", "hello").body)

    assert not any("usage" in data for _, data in silent[:-1])
    assert [data["usage"] for _, data in told[:-2]] == [None] * (len(told) - 2)
    assert told[-2][1]["choices"] == []


def test_a_refusal(simulator):
    """A refusal of the model's is told apart from its text."""
    assert heard(simulator.url, "openai", "sim:refused").extra == [REFUSAL]
    document = ask(simulator.url, "openai", "sim:refused", stream=False).json
    assert document["choices"][0]["message"] == {"role": "assistant", "content": None, "refusal": REFUSAL}


def test_citations(simulator):
    """What rests on a search has citations."""
    told = heard(simulator.url, "openai", "hello", web_search_options={})

    assert [citation["type"] for [*citations] in told.extra for citation in citations] == ["url_citation"] * 2


def test_servers_that_leave_things_out(simulator):
    """Some servers send no ``[DONE]``, no index, no ids."""
    assert not heard(simulator.url, "openai", "hello sim:no-done").whole
    bare = [data for _, data in events(ask(simulator.url, "openai", "sim:parallel sim:no-index sim:no-ids").body)[:-1]]
    deltas = [part for data in bare for choice in data["choices"] for part in choice["delta"].get("tool_calls", ())]
    assert deltas
    assert not any({"index", "id"} & set(part) for part in deltas)


def test_thinking_elsewhere(simulator):
    """Thinking may be in another field, or between tags in the text."""
    found = events(ask(simulator.url, "openai", "sim:thinking sim:reasoning-field=reasoning").body)
    deltas = [choice["delta"] for _, data in found[:-1] for choice in data["choices"]]

    assert "".join(delta.get("reasoning", "") for delta in deltas) == THOUGHT
    assert heard(simulator.url, "openai", "sim:tagged=think").text == f"<think>{THOUGHT}</think>\n\n{SENTENCE}"


def test_a_field_that_a_server_does_not_know():
    """On demand a field is refused, and the same request without it is answered."""
    question = "hello sim:unrecognized=stream_options"

    assert refused(question) == "Unrecognized request argument supplied: stream_options"
    assert refused(question, stream_options=None) == ""


def test_paths_without_version(simulator):
    """Some services have the same operations without ``/v1``."""
    _, document = openai("hello")

    assert call(simulator.url, "/chat/completions", document, headers={}).status == 200
    assert call(simulator.url, "/models", method="GET", headers={}).json["data"][0]["id"] == "gpt-5"


@pytest.mark.parametrize("scheme", ["token", "Bearer"])
def test_tokens_are_exchanged(simulator, scheme):
    """A long-lived key is changed for a token, which says how long and where it is good; a bad key is not."""
    path = "/copilot_internal/v2/token"
    given = call(simulator.url, path, method="GET", headers={"authorization": f"{scheme} ghu_x"}).json
    refused_key = call(simulator.url, path, method="GET", headers={})
    simulator.revoke("ghu_gone")
    gone = call(simulator.url, path, method="GET", headers={"authorization": f"{scheme} ghu_gone"})

    assert given["endpoints"]["api"].startswith("http://")
    assert given["expires_at"] - given["refresh_in"] > 0
    assert (refused_key.status, gone.status) == (401, 401)
    _, document = openai("hello")
    answered = call(simulator.url, "/chat/completions", document, headers={"authorization": f"Bearer {given['token']}"})
    assert answered.status == 200
    assert simulator.last_request.headers["authorization"].endswith(given["token"])


def test_results_are_quoted(simulator):
    """The results of tools are what the second answer is about."""
    calls = CALL, {**CALL, "id": "call_2"}
    results = RESULT, {**RESULT, "tool_call_id": "call_2", "content": "rain"}

    assert heard(simulator.url, "openai", turns(*calls, results=results)).text == "The tool says: 4 C; rain"


def message(**fields: Any) -> dict[str, Any]:
    return {"messages": [fields]}


def tool(**fields: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", **fields}}]}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown-field": ({"top_k": 1}, "Unrecognized request argument supplied: top_k"),
    "temperature": ({"temperature": 2.5}, "Invalid 'temperature'"),
    "stops": ({"stop": list("abcde")}, "array too long"),
    "stream-options": ({"stream": False, "stream_options": {}}, "only allowed when 'stream' is enabled"),
    "length": ({"max_completion_tokens": 16_385}, "max_completion_tokens is too large: 16385. This model supports"),
    "two-lengths": ({"max_tokens": 1, "max_completion_tokens": 1}, "at the same time"),
    "length-of-reasoner": ({"model": "gpt-5", "max_tokens": 9}, "Use 'max_completion_tokens' instead"),
    "stop-of-reasoner": ({"model": "o3", "stop": "x"}, "'stop' is not supported"),
    "temperature-of-reasoner": ({"model": "o3", "temperature": 0.5}, "'temperature' does not support 0.5"),
    "temperature-of-newer": (
        {"model": "gpt-5.2", "temperature": 0.5, "reasoning_effort": "low"},
        "'temperature' does not support 0.5",
    ),
    "effort-of-other": ({"reasoning_effort": "low"}, "argument supplied: reasoning_effort"),
    "effort": ({"model": "o3", "reasoning_effort": "max"}, "Invalid value: 'max'"),
    "no-messages": ({"messages": []}, "empty array"),
    "role": (message(role="model", content="x"), "Invalid value: 'model'"),
    "member": (message(role="user", content="x", cache_control={}), "'cache_control' was unexpected"),
    "null": (message(role="user", content=None), "expected a string"),
    "null-assistant": (message(role="assistant", content=None), "expected a string"),
    "part": (message(role="system", content=[{"type": "image_url", "image_url": {"url": "x"}}]), "'image_url' in"),
    "image": (
        message(role="user", content=[{"type": "image_url", "image_url": {"url": "data:text/plain;base64,QQ=="}}]),
        "Invalid MIME type",
    ),
    "format": ({"response_format": {"type": "json"}}, "Invalid value: 'json'"),
    "format-name": ({"response_format": {"type": "json_schema", "json_schema": {}}}, "json_schema.name"),
    "no-tools": ({"tools": []}, "Invalid 'tools': empty array"),
    "tool-kind": ({"tools": [{"name": "f"}]}, "'tools[0].type'"),
    "tool-name": (tool(name="a.b"), "Invalid 'tools[0].function.name'"),
    "tool-name-long": (tool(name="a" * 65), "Invalid 'tools[0].function.name'"),
    "tool-schema": (tool(parameters={}), "schema must be a JSON Schema of 'type"),
    "tool-array": (
        tool(parameters={"type": "object", "properties": {"a": {"type": "array"}}}),
        "array schema missing items",
    ),
    "choice-alone": ({"tools": None, "tool_choice": "auto"}, "only allowed when 'tools' are specified"),
    "parallel-alone": ({"tools": None, "parallel_tool_calls": True}, "only allowed when 'tools' are specified"),
    "choice-name": ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "parameter: other"),
    "call-id": ({"messages": turns({**CALL, "id": "x" * 41})}, "maximum length 40"),
    "call-name": (
        {"messages": turns({**CALL, "function": {"name": "a b", "arguments": "{}"}})},
        "does not match pattern",
    ),
    "call-arguments": (
        {"messages": turns({**CALL, "function": {"name": "f", "arguments": {}}})},
        "expected a string, but got an object",
    ),
    "no-calls": (message(role="assistant", content="x", tool_calls=[]), "tool_calls': empty array"),
    "unanswered": ({"messages": turns(CALL, {**CALL, "id": "call_2"})}, "response messages: call_2"),
    "unanswered-before": (
        {"messages": [*turns()[:2], {"role": "user", "content": "x"}]},
        "response messages: call_1",
    ),
    "unasked": (message(**RESULT), "must be a response to a preceeding message"),
    "answered-twice": ({"messages": turns(results=(RESULT, RESULT))}, "must be a response to a preceeding message"),
}


@pytest.mark.parametrize(("change", "told"), [pytest.param(*row, id=name) for name, row in REFUSED.items()])
def test_what_is_refused(change, told):
    """A request that breaks a rule is refused with 400 and the service's words."""
    options = {name: it for name, it in change.items() if name != "messages"}

    assert told in refused(change.get("messages", "hello"), **options)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"messages": turns()}, id="turns"),
        pytest.param({"model": "gpt-5", "max_completion_tokens": 9, "reasoning_effort": "low"}, id="reasoner"),
        pytest.param({"model": "gpt-5.2", "temperature": 0.5, "reasoning_effort": "none"}, id="resting-reasoner"),
        pytest.param({"response_format": {"type": "json_object"}}, id="json"),
        pytest.param(
            message(role="user", content=[{"type": "image_url", "image_url": {"url": "https://x"}}]), id="url"
        ),
        pytest.param({"messages": [{"role": "developer", "content": "x"}, *turns()]}, id="developer"),
    ],
)
def test_what_is_taken(change):
    """What the service takes is taken."""
    assert refused(change.get("messages", "hello"), **{k: it for k, it in change.items() if k != "messages"}) == ""
