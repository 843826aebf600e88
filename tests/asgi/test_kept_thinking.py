"""Thinking that led to a call: a server that wants it gets it back under its own name, whatever the client keeps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kiro_asgi import App, create_app
from kiro_asgi.simulator import Head, RawBytes, Simulator, Step, serve
from tests.asgi.conftest import settings_for
from tests.asgi.driver import post
from tests.asgi.test_learnt import refusal

pytestmark = pytest.mark.anyio

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CHAT = "openai.chat"
ASKED = {"role": "user", "content": "Look."}
THOUGHT = "It is best to look. \U0001f332"
MISSED = refusal("thinking is enabled but reasoning_content is missing in assistant tool call message at index 1")


def answer(*deltas: dict[str, Any], end: str) -> tuple[Step, ...]:
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return (Head(content_type="text/event-stream"), RawBytes(body + b"data: [DONE]\n\n"))


def call(call_id: str, place: int = 0) -> dict[str, Any]:
    function = {"name": "look", "arguments": "{}"}
    return {"tool_calls": [{"index": place, "id": call_id, "type": "function", "function": function}]}


PLAIN = answer({"content": "A tree."}, end="stop")


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    """A server that takes what OpenAI's does not."""
    async with serve(strict=False) as simulator:
        yield simulator


@pytest.fixture
async def app(sim: Simulator) -> AsyncIterator[App]:
    """A gateway in front of it."""
    custom = {name: {"endpoint": f"{sim.url}/v1", "api_key": "sk"} for name in ("local", "elsewhere")}
    made: App = create_app(settings_for(sim.url, {"custom": custom, "client": {"api_keys": ["k", "other"]}}))
    yield made
    await made.aclose()


def called(*ids: str, **members: Any) -> list[dict[str, Any]]:
    """An answer with calls, and their results, as a client sends it back that keeps only *members* of it."""
    calls = [{"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in ids]
    results = [{"role": "tool", "tool_call_id": each, "content": "a tree"} for each in ids]
    return [{"role": "assistant", "content": None, "tool_calls": calls, **members}, *results]


async def chat(app: App, messages: list[dict[str, Any]], model: str = "local/gpt-4o", key: str = "k") -> int:
    body = {"model": model, "messages": messages, "tools": [TOOL], "stream": True}
    return (await post("/v1/chat/completions", body, key=key).run(app)).status


def asked(sim: Any) -> list[dict[str, Any]]:
    return [request.json() for request in sim.requests if request.operation == CHAT]


def sent(sim: Any) -> list[dict[str, Any]]:
    """The assistant's messages of the last request."""
    messages = asked(sim)[-1]["messages"]
    return [message for message in messages if message["role"] == "assistant"]


@pytest.mark.parametrize("member", ["reasoning_content", "reasoning", "reasoning_text"])
async def test_what_the_client_drops_comes_back_under_the_server_s_name(member: str, app: App, sim: Any) -> None:
    """Whole, once for all calls of the answer, and for the next calls of the same turn as well."""
    sim.enqueue(
        answer({member: THOUGHT[:5]}, {member: THOUGHT[5:]}, call("a"), call("b", 1), end="tool_calls"),
        operation=CHAT,
    )
    assert await chat(app, [ASKED]) == 200
    sim.enqueue(answer({member: "Again."}, call("c"), end="tool_calls"), operation=CHAT)
    assert await chat(app, [ASKED, *called("a", "b")]) == 200
    assert [message.get(member) for message in sent(sim)] == [THOUGHT]
    sim.enqueue(PLAIN, operation=CHAT)
    assert await chat(app, [ASKED, *called("a", "b"), *called("c")]) == 200

    assert [message.get(member) for message in sent(sim)] == [THOUGHT, "Again."]


async def test_what_the_client_keeps_stays(app: App, sim: Any) -> None:
    """It may have changed it on purpose."""
    sim.enqueue(answer({"reasoning": THOUGHT}, call("a"), end="tool_calls"), PLAIN, operation=CHAT)
    await chat(app, [ASKED])
    await chat(app, [ASKED, *called("a", reasoning="Mine.")])

    assert [message.get("reasoning") for message in sent(sim)] == ["Mine."]


async def test_a_client_of_another_api_learns_no_name_and_needs_none(app: App, sim: Any) -> None:
    """Its thinking goes back under the name that the server used."""
    tool = {"name": "look", "input_schema": {"type": "object"}}
    body = {
        "model": "local/gpt-4o",
        "max_tokens": 99,
        "tools": [tool],
        "thinking": {"type": "enabled", "budget_tokens": 9},
    }
    sim.enqueue(answer({"reasoning": THOUGHT}, call("a"), end="tool_calls"), PLAIN, operation=CHAT)
    first = await post("/v1/messages", {**body, "messages": [ASKED]}, key="k").run(app)
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "a tree"}]}
    spoken = {"role": "assistant", "content": first.json()["content"]}
    assert [block["type"] for block in spoken["content"]] == ["thinking", "tool_use"]
    second = await post("/v1/messages", {**body, "messages": [ASKED, spoken, result]}, key="k").run(app)

    assert second.status == 200
    assert [(message.get("reasoning"), message.get("reasoning_content")) for message in sent(sim)] == [(THOUGHT, None)]


@pytest.mark.parametrize("asks", [True, False], ids=["shown", "not-shown"])
async def test_it_is_kept_for_a_client_that_does_not_see_it(asks: bool, app: App, sim: Any) -> None:
    """A server that always thinks wants it back all the same."""
    tool = {"name": "look", "input_schema": {"type": "object"}}
    body = {"model": "local/gpt-4o", "max_tokens": 99, "tools": [tool]}
    sim.enqueue(answer({"reasoning": THOUGHT}, call("a"), end="tool_calls"), PLAIN, operation=CHAT)
    await post("/v1/messages", {**body, "messages": [ASKED]}, key="k").run(app)
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "a tree"}]}
    more = {"thinking": {"type": "enabled", "budget_tokens": 9}} if asks else {}
    await post("/v1/messages", {**body, **more, "messages": [ASKED, use, result]}, key="k").run(app)

    assert [message.get("reasoning") for message in sent(sim)] == [THOUGHT]


@pytest.mark.parametrize(("model", "key"), [("elsewhere/gpt-4o", "k"), ("local/gpt-4o", "other")])
async def test_it_is_no_other_s(model: str, key: str, app: App, sim: Any) -> None:
    """Neither another service nor another client gets it."""
    sim.enqueue(answer({"reasoning": THOUGHT}, call("a"), end="tool_calls"), PLAIN, operation=CHAT)
    await chat(app, [ASKED])
    assert await chat(app, [ASKED, *called("a")], model, key) == 200

    assert THOUGHT not in json.dumps(sent(sim), ensure_ascii=False)


async def test_a_server_that_demands_it_gets_all_that_is_known(app: App, sim: Any) -> None:
    """Of every turn, not of the last one alone; a blank stands for what nobody knows.  It is asked twice only once."""
    sim.enqueue(answer({"reasoning_content": THOUGHT}, call("a"), end="tool_calls"), operation=CHAT)
    await chat(app, [ASKED])
    later = [ASKED, *called("a"), {"role": "assistant", "content": "A tree."}, {"role": "user", "content": "Which?"}]
    sim.enqueue(MISSED, PLAIN, operation=CHAT)
    assert await chat(app, later) == 200
    count = len(asked(sim))
    sim.enqueue(PLAIN, operation=CHAT)
    assert await chat(app, later) == 200

    assert len(asked(sim)) == count + 1
    assert [message["reasoning_content"] for message in sent(sim)] == [THOUGHT, " "]


async def test_a_server_that_refuses_it_gets_none(app: App, sim: Any) -> None:
    """Refused is not missing: what is remembered of it is not put back either."""
    sim.enqueue(answer({"reasoning_content": THOUGHT}, call("a"), end="tool_calls"), operation=CHAT)
    await chat(app, [ASKED])
    sim.enqueue(
        refusal("property 'messages.1.assistant.reasoning_content' is unsupported"),
        PLAIN,
        PLAIN,
        operation=CHAT,
    )
    assert await chat(app, [ASKED, *called("a")]) == 200
    assert await chat(app, [ASKED, *called("a")]) == 200

    assert [message.keys() & {"reasoning_content", "reasoning"} for message in sent(sim)] == [set()]


async def test_thinking_that_is_too_long_is_not_kept(app: App, sim: Any) -> None:
    """Nor is a part of it: it would not be what the model thought."""
    sim.enqueue(answer(*[{"reasoning": "x" * 1024}] * 65, call("a"), end="tool_calls"), PLAIN, operation=CHAT)
    await chat(app, [ASKED])
    await chat(app, [ASKED, *called("a")])

    assert [message.get("reasoning") for message in sent(sim)] == [None]


MESSAGES = {"model": "local/gpt-4o", "max_tokens": 99, "thinking": {"type": "enabled", "budget_tokens": 9}}


@pytest.mark.parametrize("member", ["reasoning_content", "reasoning", "reasoning_text"])
async def test_the_server_s_name_holds_for_answers_without_calls(member: str, app: App, sim: Any) -> None:
    """It is known of the model: clients of other APIs know none, and those of Chat Completions know the gateway's."""
    sim.enqueue(answer({member: THOUGHT}, {"content": "A tree."}, end="stop"), PLAIN, PLAIN, operation=CHAT)
    first = await post("/v1/messages", {**MESSAGES, "messages": [ASKED]}).run(app)
    spoken = {"role": "assistant", "content": first.json()["content"]}
    assert [block["type"] for block in spoken["content"]] == ["thinking", "text"]
    assert (await post("/v1/messages", {**MESSAGES, "messages": [ASKED, spoken, ASKED]}).run(app)).status == 200
    assert [message.get(member) for message in sent(sim)] == [THOUGHT]

    echoed = {"role": "assistant", "content": "A tree.", "reasoning_content": THOUGHT}
    assert await chat(app, [ASKED, echoed, ASKED]) == 200
    [message] = sent(sim)
    assert {name for name in message if name.startswith("reasoning")} == {member}
    assert message[member] == THOUGHT


async def test_another_model_s_name_is_not_known(app: App, sim: Any) -> None:
    """Nor that of another server: what the client says counts there."""
    sim.enqueue(answer({"reasoning": THOUGHT}, {"content": "A tree."}, end="stop"), PLAIN, PLAIN, operation=CHAT)
    await chat(app, [ASKED])
    echoed = {"role": "assistant", "content": "A tree.", "reasoning_content": THOUGHT}
    for model in ("local/gpt-5", "elsewhere/gpt-4o"):
        assert await chat(app, [ASKED, echoed, ASKED], model=model) == 200
        assert [message.get("reasoning_content") for message in sent(sim)] == [THOUGHT]
