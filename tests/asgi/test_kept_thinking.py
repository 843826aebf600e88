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


def asking_for(text: str, system: str = "Be brief.") -> list[dict[str, Any]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": text}]


def turn(*, result: str = "a tree", **arguments: str) -> list[dict[str, Any]]:
    """A call as the server makes its first in every conversation, and what came of it."""
    function = {"name": "look", "arguments": json.dumps(arguments)}
    made = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "look:0", "type": "function", "function": function}],
    }
    return [made, {"role": "tool", "tool_call_id": "look:0", "content": result}]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        pytest.param((asking_for("Look."), turn(at="/A")), (asking_for("Look."), turn(at="/B")), id="arguments"),
        pytest.param((asking_for("Look A."), turn()), (asking_for("Look B."), turn()), id="question"),
        pytest.param((asking_for("Look.", "I am A."), turn()), (asking_for("Look.", "I am B."), turn()), id="system"),
        pytest.param(
            ([*asking_for("Look."), *turn(result="A")], turn(at="/")),
            ([*asking_for("Look."), *turn(result="B")], turn(at="/")),
            id="result-before",
        ),
    ],
)
async def test_two_conversations_never_see_each_other_s(mine: Any, theirs: Any, app: App, sim: Any) -> None:
    """One key, or none, may be that of many people, and some servers count the ids of each answer anew."""
    for (before, [made, _]), thought in ((mine, "SECRET OF A"), (theirs, "SECRET OF B")):
        function = made["tool_calls"][0]["function"]
        delta = {"tool_calls": [{"index": 0, "id": "look:0", "type": "function", "function": function}]}
        sim.enqueue(answer({"reasoning_content": thought}, delta, end="tool_calls"), operation=CHAT)
        assert await chat(app, before) == 200
    told = {}
    for (before, after), name in ((mine, "A"), (theirs, "B")):
        sim.enqueue(PLAIN, operation=CHAT)
        assert await chat(app, [*before, *after]) == 200
        told[name] = json.dumps(sent(sim))

    assert "SECRET OF B" not in told["A"] and "SECRET OF A" not in told["B"]
    if len(mine[0]) == 2:  # ids that come twice in one conversation were not handed out here
        assert "SECRET OF A" in told["A"] and "SECRET OF B" in told["B"]


async def test_each_turn_of_a_conversation_gets_its_own(app: App, sim: Any) -> None:
    """The server names each call the same; the client is shown ids that differ, and drops the thinking."""
    conversation = asking_for("Look.")
    for number in range(4):
        delta = call("look:0")
        sim.enqueue(answer({"reasoning_content": f"step {number}"}, delta, end="tool_calls"), operation=CHAT)
        body = {"model": "local/gpt-4o", "messages": conversation, "tools": [TOOL]}
        told = (await post("/v1/chat/completions", body).run(app)).json()["choices"][0]["message"]
        del told["reasoning_content"]
        [made] = told["tool_calls"]
        assert made["id"] == f"look:{number}"
        conversation += [told, {"role": "tool", "tool_call_id": made["id"], "content": "a tree"}]
    sim.enqueue(PLAIN, operation=CHAT)
    assert await chat(app, conversation) == 200

    assert [message["reasoning_content"] for message in sent(sim)] == [f"step {number}" for number in range(4)]


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
