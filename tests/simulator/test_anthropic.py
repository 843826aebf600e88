"""The simulated service in Anthropic's format: what only this one has, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.simulator import RecordedRequest
from kiro_asgi.simulator.answers import SENTENCE, THOUGHT
from kiro_asgi.simulator.scripts import Head, RawBytes, sign
from kiro_asgi.simulator.service import SimulatedService
from tests.simulator.asking import call
from tests.simulator.speaking import HEADERS, SCHEMA, anthropic, ask, events, heard

THINKS = {"type": "enabled", "budget_tokens": 1024}
THINKING = {"type": "thinking", "thinking": THOUGHT, "signature": sign(THOUGHT)}
USE = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4 C"}


def turns(*uses: Any, results: Any = (RESULT,)) -> list[Any]:
    """A question, a call, and its answer."""
    return [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": list(uses or (USE,))},
        {"role": "user", "content": list(results)},
    ]


def refused(messages: Any, headers: dict[str, str] | None = None, **more: Any) -> str:
    """The message of the refusal; empty for an answer."""
    target, document = anthropic(messages, **more)
    asked = HEADERS["anthropic"] if headers is None else headers
    script = SimulatedService().script_for(RecordedRequest("POST", target, "", asked, json.dumps(document).encode()))
    head, body = script[:2]
    assert isinstance(head, Head)
    if head.status == 200:
        return ""
    assert isinstance(body, RawBytes)
    envelope = json.loads(body.data)
    assert (head.status, envelope["type"], envelope["error"]["type"]) == (400, "error", "invalid_request_error")
    return envelope["error"]["message"]


def test_a_search(simulator):
    """A search of the service's own is a call and a result, and the text after it cites."""
    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    streamed = heard(simulator.url, "anthropic", "hello", tools=tools)
    collected = heard(simulator.url, "anthropic", "hello", tools=tools, stream=False)

    kinds = [extra["type"] for extra in streamed.extra]
    assert kinds == ["server_tool_use", "web_search_tool_result", *["web_search_result_location"] * 2]
    assert [extra["type"] for extra in collected.extra] == kinds[:2]
    assert collected.extra[0]["input"] == {"query": "hello"}
    assert streamed.text == collected.text != ""


def test_sealed_thinking(simulator):
    """Thinking that is not readable is a block of its own."""
    told = heard(simulator.url, "anthropic", "sim:redacted")

    assert told.extra == [{"type": "redacted_thinking", "data": "c2VhbGVk"}]
    assert told.text == SENTENCE


def test_a_refusal_has_details(simulator):
    """A refusal says what kind it is."""
    document = ask(simulator.url, "anthropic", "sim:refused", stream=False).json

    assert (document["content"], document["stop_reason"]) == ([], "refusal")
    assert document["stop_details"]["type"] == "refusal"
    assert document["stop_details"]["category"] in ("cyber", "bio"), "the official clients know no other word"


def test_a_ping_comes_first(simulator):
    """A ping follows the start of every stream."""
    assert [name for name, _ in events(ask(simulator.url, "anthropic", "hello").body)][:2] == ["message_start", "ping"]


def test_results_are_quoted(simulator):
    """The result of a tool is what the second answer is about."""
    assert heard(simulator.url, "anthropic", turns()).text == "The tool says: 4 C"


def test_thinking_over_two_turns(simulator):
    """Thinking that was given goes back as it is, or is refused."""
    first = ask(simulator.url, "anthropic", "sim:thinking-tool", stream=False, thinking=THINKS).json["content"]
    answer = {"type": "tool_result", "tool_use_id": first[1]["id"], "content": "4 C"}
    altered = {**first[0], "thinking": first[0]["thinking"] + "!"}

    def second(*blocks: Any, thinking: Any = THINKS, **more: Any) -> str:
        return refused(turns(*blocks, results=[answer]), thinking=thinking, **more)

    assert second(*first) == ""
    assert second(altered, first[1]) == "messages.1.content.0: Invalid `signature` in `thinking` block"
    assert second({**first[0], "signature": ""}, first[1]).endswith("Invalid `signature` in `thinking` block")
    assert second(first[1]).startswith("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`")
    assert second(first[1], model="claude-opus-4-6", thinking={"type": "adaptive"}) == ""


def test_pages_of_models(simulator):
    """The list of models comes in pages where the request wants some; the header tells it from OpenAI's."""
    names: list[str] = []
    page: dict[str, Any] = {"has_more": True, "last_id": ""}
    while page["has_more"]:
        target = f"/v1/models?limit=3&after_id={page['last_id']}"
        page = call(simulator.url, target, method="GET", headers=HEADERS["anthropic"]).json
        names += [model["id"] for model in page["data"]]

    assert names == ["claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-1", "claude-opus-4-6"]


def test_tokens_are_counted(simulator):
    """The size of a prompt is told."""
    _, document = anthropic("x" * 40)
    counted = call(simulator.url, "/v1/messages/count_tokens", document, headers=HEADERS["anthropic"])

    assert counted.json == {"input_tokens": 11}


def test_a_dated_name_is_the_model(simulator):
    """A model may be asked for with a date."""
    assert heard(simulator.url, "anthropic", "hello", model="claude-sonnet-4-5-20250929").whole


def test_the_version_is_named():
    """A request without a version is refused."""
    assert refused("hello", {"x-api-key": "key"}) == "anthropic-version: header is required"


def block(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [fields]}]}


def tool(**fields: Any) -> dict[str, Any]:
    return {"tools": [{"name": "f", "input_schema": SCHEMA, **fields}]}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown-field": ({"seed": 1}, "seed: Extra inputs are not permitted"),
    "no-length": ({"max_tokens": None}, "max_tokens: Field required"),
    "no-messages": ({"messages": []}, "at least one message is required"),
    "length-text": ({"max_tokens": "9"}, "valid integer"),
    "length-zero": ({"max_tokens": 0}, "greater than or equal to 1"),
    "length-most": ({"max_tokens": 64_001}, "which is the maximum allowed number of output tokens"),
    "temperature": ({"temperature": 1.1}, "temperature: range"),
    "both-samplings": ({"temperature": 1, "top_p": 1}, "cannot both be specified"),
    "stop-blank": ({"stop_sequences": [" "]}, "must contain non-whitespace"),
    "metadata": ({"metadata": {"x": 1}}, "metadata.x: Extra inputs are not permitted"),
    "role": ({"messages": [{"role": "system", "content": "x"}]}, 'Unexpected role "system"'),
    "first": ({"messages": [{"role": "assistant", "content": "x"}]}, 'must use the "user" role'),
    "message-field": ({"messages": [{"role": "user", "content": "x", "name": "y"}]}, "messages.0.name: Extra inputs"),
    "no-content": ({"messages": [{"role": "user", "content": []}]}, "must have non-empty content"),
    "empty-text": (block(type="text", text=""), "text content blocks must be non-empty"),
    "blank-text": (block(type="text", text=" \n"), "must contain non-whitespace text"),
    "empty-system": ({"system": [{"type": "text", "text": ""}]}, "text content blocks must be non-empty"),
    "unknown-block": (block(type="reasoning"), "Input tag 'reasoning'"),
    "block-field": (block(type="text", text="x", id="1"), "messages.0.content.0.text.id: Extra inputs"),
    "wrong-side": (block(**USE), "`tool_use` blocks are not allowed"),
    "media-type": (
        block(type="image", source={"type": "base64", "media_type": "image/bmp", "data": "QQ=="}),
        "media_type: Input should be",
    ),
    "base64": (
        block(type="image", source={"type": "base64", "media_type": "image/png", "data": "?"}),
        "invalid base64 data",
    ),
    "trailing-space": (
        {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y "}]},
        "cannot end with trailing whitespace",
    ),
    "breakpoints": (
        {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5},
        "Found 5.",
    ),
    "tool-name": (tool(name="a.b"), "tools.0.custom.name: String should match pattern"),
    "tool-field": (tool(parameters={}), "tools.0.custom.parameters: Extra inputs"),
    "tool-schema": (tool(input_schema={}), "input_schema.type"),
    "tool-union": (tool(input_schema={"type": "object", "anyOf": []}), "does not support oneOf, allOf, or anyOf"),
    "tool-twice": ({"tools": tool()["tools"] * 2}, "Tool names must be unique"),
    "choice-unknown": ({"tool_choice": {"type": "required"}}, "tool_choice: Input tag"),
    "choice-alone": ({"tools": None, "tool_choice": {"type": "auto"}}, "only be specified while providing tools"),
    "choice-name": ({"tool_choice": {"type": "tool", "name": "other"}}, "Tool 'other' not found"),
    "use-id": ({"messages": turns({**USE, "id": "a.b"})}, "tool_use.id: String should match"),
    "use-input": ({"messages": turns({**USE, "input": "{}"})}, "Input should be a valid dictionary"),
    "use-twice": ({"messages": turns(USE, USE)}, "`tool_use` ids must be unique"),
    "unanswered": ({"messages": turns(USE, {**USE, "id": "toolu_2"})}, "immediately after: toolu_2."),
    "unasked": (
        {"messages": turns(results=[RESULT, {**RESULT, "tool_use_id": "toolu_2"}])},
        "unexpected `tool_use_id` found in `tool_result` blocks: toolu_2.",
    ),
    "answered-twice": ({"messages": turns(results=[RESULT, RESULT])}, "must have a single result"),
    "text-first": (
        {"messages": turns(results=[{"type": "text", "text": "x"}, RESULT])},
        "`tool_result` blocks must come first",
    ),
    "use-last": ({"messages": turns()[:2]}, "without `tool_result` blocks"),
    "budget-low": ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "greater than or equal to 1024"),
    "budget-none": ({"thinking": {"type": "enabled"}}, "budget_tokens: Field required"),
    "budget-high": ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "must be greater than `thinking.budget"),
    "thinking-kind": ({"thinking": {"type": "on"}}, "thinking: Input tag"),
    "adaptive": ({"thinking": {"type": "adaptive"}}, "adaptive thinking is not supported"),
    "effort": ({"output_config": {"effort": "low"}}, "does not support the effort parameter"),
    "thinking-temperature": ({"thinking": THINKS, "temperature": 0.5}, "may only be set to 1"),
    "thinking-top-k": ({"thinking": THINKS, "top_k": 5}, "`top_k` must be unset"),
    "thinking-top-p": ({"thinking": THINKS, "top_p": 0.9}, "greater than or equal to 0.95"),
    "thinking-forced": ({"thinking": THINKS, "tool_choice": {"type": "any"}}, "tool_choice forces tool use"),
    "foreign-seal": ({"messages": turns({"type": "redacted_thinking", "data": "QQ=="}, USE)}, "Invalid `data`"),
}


@pytest.mark.parametrize(("change", "message"), [pytest.param(*row, id=name) for name, row in REFUSED.items()])
def test_what_is_refused(change, message):
    """A request that breaks a rule is refused with 400 and the service's words."""
    told = refused(change.get("messages", "hello"), **{name: it for name, it in change.items() if name != "messages"})

    assert message in told


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"messages": turns()}, id="turns"),
        pytest.param({"messages": turns(THINKING, USE), "thinking": THINKS}, id="thinking"),
        pytest.param({"messages": [*turns(), {"role": "user", "content": "and?"}]}, id="neighbours-are-one"),
        pytest.param({"model": "claude-opus-4-6", "thinking": {"type": "adaptive"}}, id="adaptive"),
        pytest.param({"model": "claude-opus-4-6", "output_config": {"effort": "low"}}, id="effort"),
        pytest.param({"messages": [*turns(), {"role": "assistant", "content": "It is"}]}, id="prefill"),
    ],
)
def test_what_is_taken(change):
    """What the service takes is taken."""
    assert refused(change.get("messages", "hello"), **{k: it for k, it in change.items() if k != "messages"}) == ""
