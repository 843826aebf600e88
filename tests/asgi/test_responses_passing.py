"""Requests of the Responses API to a service of that API: they go on, and answers come back with an id of ours."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kiro_asgi import create_app
from kiro_asgi.simulator import Head, Layout, RawBytes
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, get, post
from tests.asgi.test_websocket import connected, turn

pytestmark = pytest.mark.anyio

PATH = "/v1/responses"
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
SEAL = "gAAAAsealed"
ITEMS: list[dict[str, Any]] = [
    {"id": "rs_68af", "type": "reasoning", "summary": [], "encrypted_content": SEAL},
    {"id": "ci_68af", "type": "code_interpreter_call", "code": "1+1", "novel": {"x": 1.0}, "status": "completed"},
    {
        "id": "msg_68af",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": 'say "response" é', "annotations": []}],
    },
]
USAGE = {"input_tokens": 11, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 9}


def response(status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    """The response object as the service tells it."""
    facts = {"id": "resp_theirs", "object": "response", "status": status, "model": "gpt-5", "novel": 1.0}
    usage = USAGE if status == "completed" else None
    return {**facts, "error": None, "store": False, "previous_response_id": None, "output": items, "usage": usage}


def event(kind: str, number: int, **more: Any) -> bytes:
    """One event, with white space of the service's own."""
    value = {"type": kind, "sequence_number": number, **more}
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n".encode()


CREATED = event("response.created", 0, response=response("in_progress", []))
BETWEEN = b": a comment\r\n\r\n" + b"".join(
    (
        event("response.novel", 1, x=1.0),
        event("response.output_text.delta", 2, item_id="msg_68af", delta='say "response" é'),
        *(event("response.output_item.done", at, output_index=at - 3, item=item) for at, item in enumerate(ITEMS, 3)),
    )
)
COMPLETED = event("response.completed", 6, response=response("completed", ITEMS))
FAILED = event("error", 7, code="server_error", message="busy", param=None)


def streaming(data: bytes, chunk: int = 10_000) -> tuple[Any, ...]:
    return (Head(content_type="text/event-stream", layout=Layout(chunk=chunk)), RawBytes(data))


def answer(*, stream: bool) -> tuple[Any, ...]:
    """A whole answer of the service."""
    whole = json.dumps(response("completed", ITEMS)).encode()
    return (
        streaming(CREATED + BETWEEN + COMPLETED) if stream else (Head(content_type="application/json"), RawBytes(whole))
    )


def told(exchange: Exchange) -> dict[str, Any]:
    """The response that a client has been told last."""
    assert exchange.status == 200, exchange.content
    if exchange.headers["content-type"] == "application/json":
        return exchange.json()
    return json.loads(exchange.content.rpartition(b"data: ")[2])["response"]


@pytest.fixture
async def direct(sim):
    apps = []

    def make(**slices: Any):
        openai = {"endpoint": f"{sim.url}/v1", "api_key": "sk-up", "api": "responses"}
        rows = {"models": ["gpt-5=openai", "mine=openai/gpt-5"]}
        apps.append(create_app(settings_for(sim.url, {"openai": openai, "routing": rows, **slices})))
        return apps[-1]

    yield make
    for app in apps:
        await app.aclose()


def asking(text: str = "Hi", *, model: str = "gpt-5", **more: Any) -> Exchange:
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}, {"type": "custom", "name": "patch"}]
    return post(PATH, {"model": model, "input": text, "tools": tools, **more})


@EACH_MODE
async def test_an_answer_goes_through_and_is_kept(direct, sim, stream, caplog):
    """Only the response object is told anew, under an id of ours: what is asked for by it later is found.

    The next request builds on it, and goes on as well: with the items as the service made them, sealed reasoning too.
    """
    app = direct()
    sim.enqueue(answer(stream=stream), operation="responses.chat")
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        first = await asking(stream=stream, model="mine", novel={"x": 1.0}).run(app)
    one = told(first)
    assert one == {**response("completed", ITEMS), "id": one["id"], "store": True, "model": "mine"}
    assert one["id"].startswith("resp_") and one["id"] != "resp_theirs"
    assert BETWEEN in first.content or not stream
    assert first.content.count(one["id"].encode()) == (2 if stream else 1)
    assert "tokens=7+9 " in caplog.messages[-1], "cached tokens are apart"
    assert sim.requests[-1].json() == {
        **json.loads(asking(stream=stream, novel={"x": 1.0}).body[0]),
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }

    assert (await get(f"{PATH}/{one['id']}").run(app)).json() == one
    (listed,) = (await get(f"{PATH}/{one['id']}/input_items").run(app)).json()["data"]
    assert listed["content"] == [{"type": "input_text", "text": "Hi"}]

    sim.enqueue(answer(stream=stream), operation="responses.chat")
    two = told(await asking("And you?", stream=stream, previous_response_id=one["id"]).run(app))
    assert two["previous_response_id"] == one["id"] and two["id"] != one["id"]
    sent = sim.requests[-1].json()
    assert "previous_response_id" not in sent
    assert [item["type"] for item in sent["input"]] == ["message", *(item["type"] for item in ITEMS), "message"]
    assert sent["input"][1:4] == ITEMS

    await post(PATH, {"model": "gpt-5", "input": [{"type": "item_reference", "id": "msg_68af"}]}).run(app)
    assert 'say \\"response\\"' in json.dumps(sim.requests[-1].json()["input"]), "an item is found by the service's id"


async def test_what_is_not_to_be_stored_is_not(direct, sim):
    """Nothing is kept, and the client's own word about seals counts; elsewhere hosted tools are told as calls."""
    app = direct()
    sim.enqueue(answer(stream=False), operation="responses.chat")
    one = told(await asking(store=False).run(app))
    assert one["store"] is False
    assert "include" not in sim.requests[-1].json()
    assert (await get(f"{PATH}/{one['id']}").run(app)).status == 404
    lost = {"type": "reasoning", "id": "rs_1", "summary": []}
    await asking(input=[lost, {"role": "user", "content": "Hi"}], store=False).run(app)
    assert [item.get("type") for item in sim.requests[-1].json()["input"]] == [None], "found under no id"


@pytest.mark.parametrize("chunk", [1, 50])
async def test_an_answer_that_breaks_off(direct, sim, chunk):
    """What came is sent, then the error in the API's words; its numbers go on, its id is ours, and nothing is kept."""
    app = direct()
    sim.enqueue(streaming(CREATED + BETWEEN + FAILED + COMPLETED, chunk), operation="responses.chat")
    exchange = await asking(stream=True).run(app)
    assert BETWEEN in exchange.content
    *_, error, failed = (json.loads(line[6:]) for line in exchange.content.splitlines() if line.startswith(b"data: "))
    assert (error["type"], error["sequence_number"]) == ("error", 6)
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 7)
    assert "busy" in failed["response"]["error"]["message"]
    assert exchange.content.count(failed["response"]["id"].encode()) == 2
    assert (await get(f"{PATH}/{failed['response']['id']}").run(app)).status == 404


async def test_over_a_websocket(direct, sim):
    """Every event is a frame; a response that is not stored is gone on with by the connection alone."""
    sim.enqueue(answer(stream=True), operation="responses.chat")
    sim.enqueue(answer(stream=True), operation="responses.chat")
    more = {"model": "gpt-5", "store": False, "tools": [{"type": "custom", "name": "patch"}]}
    async with connected(direct()) as peer:
        one = await turn(peer, "Hi", **more)
        assert [frame["sequence_number"] for frame in one] == [*range(7)]
        assert one[-1]["response"]["output"] == ITEMS
        await turn(peer, "And you?", previous_response_id=one[-1]["response"]["id"], **more)
    sent = sim.requests[-1].json()
    assert sent["input"][1:4] == ITEMS
    assert not sent.keys() & {"type", "previous_response_id", "include"}


@EACH_MODE
@pytest.mark.parametrize("relay", ["auto", "never"])
async def test_a_custom_tool_is_one_for_the_service(direct, sim, relay, stream):
    """Whether its request goes through or is translated: with its grammar, and its call and result with theirs."""
    app = direct(stream={"relay": relay})
    form = {"type": "grammar", "syntax": "lark", "definition": "start: /x+/"}
    more = {"tools": [{"type": "custom", "name": "patch", "description": "Patches.", "format": form}], "stream": stream}
    one = told(await asking("Patch it.", tool_choice="required", **more).run(app))
    (call,) = (item for item in one["output"] if item["type"] == "custom_tool_call")
    assert (call["name"], bool(call["input"])) == ("patch", True)

    result = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "Done!"}
    two = told(await asking([result], previous_response_id=one["id"], **more).run(app))
    sent = sim.requests[-1].json()
    assert sent["tools"] == more["tools"]
    again, answered = (item for item in sent["input"] if item["type"] != "message")
    assert (again["type"], again["input"]) == ("custom_tool_call", call["input"])
    assert (answered["type"], answered["output"]) == ("custom_tool_call_output", "Done!")
    assert "Done!" in json.dumps(two["output"])
