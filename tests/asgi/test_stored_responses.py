"""Responses that are kept: to build on, to look at, to delete; each client's for that client alone."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import anyio
import pytest

from kiro_asgi import simulator
from kiro_asgi.apis.responses import stored
from kiro_asgi.apis.responses.owners import Owner
from kiro_asgi.apis.responses.stored import Responses
from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.create import new_app
from kiro_asgi.dialects.openai_responses.kept import Kept
from kiro_asgi.errors import BodyTooLarge, ConfigError, RequestError
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.simulator.scripts import sign
from kiro_asgi.state.base import scoped
from kiro_asgi.state.memory import MemoryStore
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, get, http_scope, post
from tests.asgi.test_long_answers import slow
from tests.dialects.openai_responses.records import record
from tests.parts import part_of
from tests.state.engines import Clock
from tests.state.test_trouble import held
from tests.valkey_server import free_port, needs_server, running

pytestmark = pytest.mark.anyio

PATH = "/v1/responses"
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": False}
BOTH_MODES = pytest.mark.parametrize("stream", [False, True], ids=["collected", "streamed"])
ALICE = Owner("alice")
CLIENTS = {"client": {"api_keys": ["k", "other"]}}


def delete(path: str, *, key: str = "k") -> Exchange:
    return Exchange(http_scope("DELETE", path, [("authorization", f"Bearer {key}")]))


def asking(prompt: Any, *, key: str = "k", **more: Any) -> Exchange:
    return post(PATH, {"model": "claude-sonnet-4.5", "input": prompt, **more}, key=key)


def response_of(exchange: Exchange) -> dict[str, Any]:
    """The response object of an answer, streamed or not."""
    assert exchange.status == 200, exchange.content
    if exchange.headers["content-type"] == "application/json":
        return exchange.json()
    events = [json.loads(line[6:]) for line in exchange.content.split(b"\n") if line.startswith(b"data: {")]
    assert events[-1]["type"] in ("response.completed", "response.incomplete")
    return events[-1]["response"]


async def respond(app, prompt, **more) -> dict[str, Any]:
    return response_of(await asking(prompt, **more).run(app))


def error_of(exchange: Exchange) -> tuple[int, str, str | None, str | None]:
    assert set(exchange.json()["error"]) == {"message", "type", "param", "code"}
    error = exchange.json()["error"]
    assert error["type"] == "invalid_request_error"
    return exchange.status, error["message"], error["param"], error["code"]


def asked(sim) -> dict[str, Any]:
    return sim.requests[-1].json()["conversationState"]


# Building on a response.


@BOTH_MODES
async def test_a_conversation_goes_on_by_id(gateway, sim, stream):
    """The model is told what was said before, as if the client had sent it; instructions are not carried over."""
    app = gateway()
    one = await respond(app, "My name is Ada.", instructions="Speak like a pirate.", stream=stream)
    two = await respond(app, "Who am I?", previous_response_id=one["id"], stream=stream)
    await respond(app, [{"role": "user", "content": "And you?"}], previous_response_id=two["id"], stream=stream)

    told = json.dumps(asked(sim))
    assert [told.count(text) for text in ("My name is Ada.", "You said: ", "Who am I?", "And you?")] == [2, 2, 2, 1]
    assert "pirate" not in told
    assert two["previous_response_id"] == one["id"]
    assert asked(sim)["currentMessage"]["userInputMessage"]["content"].endswith("And you?")


@BOTH_MODES
@pytest.mark.parametrize("shown", [[], ["reasoning.encrypted_content"]], ids=["hidden", "shown"])
async def test_calls_and_signed_thinking_survive(gateway, sim, stream, shown):
    """F037: the service gets its thinking back with the signature that it put on it, and the call with its result,
    whether the client was shown the seal or not."""
    app = gateway()
    calls = simulator.tool_call("get_weather", {"city": "Oslo"})
    sim.enqueue(simulator.answer(*simulator.thinking("Let me ", "see."), *calls))
    one = await respond(app, "Weather?", tools=[TOOL], reasoning={"effort": "high"}, include=shown, stream=stream)
    assert [item["type"] for item in one["output"]] == ["reasoning", "function_call"]
    assert ("encrypted_content" in one["output"][0]) is bool(shown)

    output = {"type": "function_call_output", "call_id": one["output"][1]["call_id"], "output": "rain"}
    await respond(app, [output], tools=[TOOL], previous_response_id=one["id"], stream=stream)
    (said,) = [turn["assistantResponseMessage"] for turn in asked(sim)["history"] if "assistantResponseMessage" in turn]
    signed = {"text": "Let me see.", "signature": sign("Let me see.")}
    assert said["reasoningContent"] == {"reasoningText": signed}
    assert said["toolUses"][0]["input"] == {"city": "Oslo"}
    assert "rain" in json.dumps(asked(sim)["currentMessage"])


async def test_thinking_survives_in_the_client_alone(gateway, sim):
    """Store or not: what a client hands back is as good as what is kept, in any process with the same key."""
    sealed = {"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "high"}, "store": False}
    state = {"seal_key": "a-key-of-ours"}
    one = await respond(gateway(state=state), "sim:thinking", **sealed)
    items = [{"role": "user", "content": "Think."}, *one["output"], {"role": "user", "content": "Go on."}]
    await respond(gateway(fresh=True, state=state), items, store=False)

    (said,) = [turn["assistantResponseMessage"] for turn in asked(sim)["history"] if "assistantResponseMessage" in turn]
    text = said["reasoningContent"]["reasoningText"]["text"]
    assert said["reasoningContent"]["reasoningText"]["signature"] == sign(text)


@pytest.mark.parametrize("how", ["another key", "another client", "changed", "foreign"])
async def test_a_seal_that_is_not_ours_is_passed_over(gateway, sim, how):
    """What cannot be opened never breaks a conversation."""
    app = gateway(state={"seal_key": "a-key-of-ours"}, **CLIENTS)
    sealed = {"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "high"}, "store": False}
    one = await respond(app, "sim:thinking", **sealed)
    thought, said = one["output"]
    seal = thought["encrypted_content"]
    thought["encrypted_content"] = {"changed": seal[:-8] + "AAAA" + seal[-4:], "foreign": "gAAAA"}.get(how, seal)
    if how == "another key":
        app = gateway(state={"seal_key": "another-key"}, **CLIENTS)
    key = "other" if how == "another client" else "k"
    items = [{"role": "user", "content": "Think."}, thought, said, {"role": "user", "content": "Go on."}]
    await respond(app, items, key=key)

    assert "signature" not in json.dumps(asked(sim))


@pytest.mark.parametrize("prompt", ["Go on.", [{"role": "user", "content": "Go on."}]], ids=["text", "items"])
async def test_an_unknown_response_cannot_be_built_on(gateway, sim, prompt):
    """Never a silent fresh start: the API's own refusal, and the service is not asked."""
    refused = await asking(prompt, previous_response_id="resp_0123").run(gateway())

    message = "Previous response with id 'resp_0123' not found."
    assert error_of(refused) == (400, message, "previous_response_id", "previous_response_not_found")
    assert sim.requests == ()


async def test_a_conversation_without_its_beginning_is_not_one(gateway):
    """A response that was deleted is missing for all that build on it."""
    app = gateway()
    one = await respond(app, "One.")
    two = await respond(app, "Two.", previous_response_id=one["id"])
    await delete(f"{PATH}/{one['id']}").run(app)
    refused = await asking("Three.", previous_response_id=two["id"]).run(app)

    assert error_of(refused)[0::3] == (400, "previous_response_not_found")


async def test_items_are_found_by_reference(gateway, sim):
    """What the Vercel AI SDK sends in place of items of earlier answers, with and without a type."""
    app = gateway()
    one = await respond(app, "One.")
    (listed,) = (await get(f"{PATH}/{one['id']}/input_items").run(app)).json()["data"]
    references = [{"id": listed["id"]}, {"type": "item_reference", "id": one["output"][0]["id"]}]
    two = await respond(app, [*references, {"role": "user", "content": "Two."}])
    await respond(app, "Three.", previous_response_id=two["id"])

    told = json.dumps(asked(sim))
    assert [told.count(text) for text in ('"One."', "You said: One.", "Two.", "Three.")] == [1, 1, 2, 1]


@pytest.mark.parametrize("item_id", ["msg_0123_0", "rs", "", "resp_1", "___"])
async def test_an_unknown_item_cannot_be_referred_to(gateway, sim, item_id):
    """Never a silent gap in the conversation either."""
    items = [{"role": "user", "content": "One."}, {"type": "item_reference", "id": item_id}]

    assert error_of(await asking(items).run(gateway()))[0::2] == (400, "input[1].id")
    assert sim.requests == ()


async def test_mistakes_are_placed_where_the_client_made_them(gateway):
    """Places in an error count what the client sent, not what was put before it."""
    app = gateway()
    one = await respond(app, "One.")
    items = [{"role": "user", "content": "Two."}, {"role": "emperor", "content": "Three."}]
    _, message, param, _ = error_of(await asking(items, previous_response_id=one["id"]).run(app))

    assert param == "input[1].role"
    assert message.startswith("input[1].role:")


@pytest.mark.parametrize("value", [7, {}, [], True])
async def test_other_types_are_the_parsers_to_refuse(gateway, value):
    """What is no id, or no input, is refused like any field of a wrong type."""
    assert (await asking("One.", previous_response_id=value).run(gateway())).status == 400
    assert (await asking(value or None, previous_response_id="resp_1").run(gateway())).status == 400
    assert (await post(PATH, value).run(gateway())).status == 400


# Who may.


async def test_nobody_reaches_what_is_anothers(gateway, sim):
    """Another client's response does not exist: it is not shown, listed, built on, referred to, cancelled, deleted."""
    app = gateway(**CLIENTS)
    mine = await respond(app, "A secret.")
    path = f"{PATH}/{mine['id']}"
    await respond(app, "Another.", key="other")
    sim.forget()
    tries = [
        get(path, key="other"),
        get(f"{path}/input_items", key="other"),
        post(f"{path}/cancel", {}, key="other"),
        delete(path, key="other"),
        asking("Go on.", key="other", previous_response_id=mine["id"]),
        asking([{"type": "item_reference", "id": mine["output"][0]["id"]}], key="other"),
    ]

    assert [(await each.run(app)).status for each in tries] == [404, 404, 404, 404, 400, 400]
    assert sim.requests == ()
    assert (await get(path).run(app)).json() == mine


async def test_no_key_no_response(gateway):
    """Whoever is nobody is told nothing, not even whether there is such a response."""
    app = gateway()
    one = await respond(app, "One.")

    assert (await get(f"{PATH}/{one['id']}", key=None).run(app)).status == 401
    assert (await get(f"{PATH}/resp_unknown", key=None).run(app)).status == 401


# Looking at it.


@BOTH_MODES
@pytest.mark.parametrize("prompt", ["sim:text", "sim:length", "sim:thinking", "sim:tool=get_weather"])
async def test_what_is_kept_is_what_was_given(gateway, stream, prompt):
    """The object that can be fetched is the one that the client was sent, streamed or not, complete or cut."""
    app = gateway()
    given = await respond(app, prompt, stream=stream, tools=[TOOL], metadata={"a": "b"})
    fetched = await get(f"{PATH}/{given['id']}").run(app)

    assert (fetched.status, fetched.json()) == (200, given)
    assert fetched.headers["content-type"] == "application/json"


@pytest.mark.parametrize("model", ["claude-sonnet-4.5", "openai/gpt-5"], ids=["translated", "through"])
@pytest.mark.parametrize("synthetic", [False, True])
@pytest.mark.parametrize("clock", [lambda: time.monotonic, slow], ids=["", "slow"])
async def test_it_is_kept_before_the_client_hears_of_the_end(service, clock, synthetic, model):
    """The client's next request may follow at once, however slow the machine is, and whoever made the events."""
    openai = {"endpoint": f"{service.url}/v1", "api_key": "sk-up", "api": "responses"}
    app = new_app(
        settings_for(service.url, {"stream": {"synthetic": synthetic}, "openai": openai}),
        internals=Internals(clocks=Clocks(clock())),
    )
    found = []

    async def look(message):
        if b"response.completed" in message.get("body", b""):
            [kept] = {*re.findall(r"resp_\w+", message["body"].decode())}
            found.append((await get(f"{PATH}/{kept}").run(app)).status)

    exchange = asking("One.", stream=True, model=model)
    exchange.on_send = look
    await exchange.run(app)
    await app.aclose()

    assert found == [200]


@BOTH_MODES
async def test_nothing_is_kept_that_is_not_to_be(gateway, stream):
    """``store: false`` keeps nothing."""
    app = gateway()
    given = await respond(app, "One.", store=False, stream=stream)

    assert given["store"] is False
    assert error_of(await get(f"{PATH}/{given['id']}").run(app))[:2] == (
        404,
        f"Response with id '{given['id']}' not found.",
    )


async def test_an_answer_that_failed_is_not_kept(gateway):
    """There is nothing in it to build on."""
    app = gateway(retry={"attempts": 1})
    exchange = await asking("sim:exception", stream=True).run(app)
    events = [json.loads(line[6:]) for line in exchange.content.split(b"\n") if line.startswith(b"data: {")]

    assert events[-1]["type"] == "response.failed"
    assert (await get(f"{PATH}/{events[-1]['response']['id']}").run(app)).status == 404


async def test_input_is_listed_a_page_at_a_time(gateway):
    """Newest first unless asked otherwise; every item has an id, and texts are parts."""
    app = gateway()
    one = await respond(app, "Zero.")
    items = [{"role": "user", "content": f"{number}."} for number in range(5)]
    two = await respond(app, items, previous_response_id=one["id"])

    async def listed(query: str) -> dict[str, Any]:
        exchange = await get(f"{PATH}/{two['id']}/input_items", query_string=query.encode()).run(app)
        assert exchange.status == 200, exchange.content
        return exchange.json()

    def texts(page):
        return [item["content"][0]["text"] for item in page["data"]]

    page = await listed("order=asc&limit=2")
    assert (page["object"], texts(page), page["has_more"]) == ("list", ["0.", "1."], True)
    assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][1]["id"])
    page = await listed(f"order=asc&limit=3&after={page['last_id']}")
    assert (texts(page), page["has_more"]) == (["2.", "3.", "4."], False)
    page = await listed(f"order=asc&after={page['last_id']}")
    assert (texts(page), page["first_id"], page["has_more"]) == ([], None, False)
    assert texts(await listed("")) == ["4.", "3.", "2.", "1.", "0."]


@pytest.mark.parametrize(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=x", "after")],
)
async def test_a_page_that_cannot_be_is_refused(gateway, query, param):
    """What the API does not take is a 400 that names the parameter."""
    app = gateway()
    one = await respond(app, "One.")
    refused = await get(f"{PATH}/{one['id']}/input_items", query_string=query.encode()).run(app)

    assert error_of(refused)[0::2] == (400, param)


async def test_a_kept_response_is_not_streamed(gateway):
    """A client that waits for events is told that there are none."""
    app = gateway()
    one = await respond(app, "One.")

    assert error_of(await get(f"{PATH}/{one['id']}", query_string=b"stream=true").run(app))[0::2] == (400, "stream")


async def test_delete(gateway):
    """What is deleted is gone, and can be deleted once."""
    app = gateway()
    one = await respond(app, "One.")
    path = f"{PATH}/{one['id']}"

    assert (await delete(path).run(app)).json() == {"id": one["id"], "object": "response", "deleted": True}
    assert [(await each(path).run(app)).status for each in (get, delete)] == [404, 404]


async def test_what_has_ended_cannot_be_cancelled(gateway):
    """Only what is made in the background can be."""
    app = gateway()
    one = await respond(app, "One.")

    assert error_of(await post(f"{PATH}/{one['id']}/cancel", {}).run(app))[0] == 400
    assert error_of(await post(f"{PATH}/resp_unknown/cancel", {}).run(app))[0] == 404


@pytest.mark.parametrize("path", ["unknown", "resp_1/unknown", "resp_1/input_items/x", "resp_/../x"])
async def test_other_paths_are_not_there(gateway, path):
    """What is called otherwise than a response of ours is none."""
    assert (await post(f"{PATH}/{path}", {}).run(gateway())).status == 404


async def test_input_is_counted_with_all_that_it_builds_on(gateway):
    """What is counted is what would be asked."""
    app = gateway()
    one = await respond(app, "word " * 500)
    body, counts = {"model": "claude-sonnet-4.5", "input": "Hello."}, []
    for more in ({}, {"previous_response_id": one["id"]}):
        exchange = await post(f"{PATH}/input_tokens", {**body, **more}).run(app)
        assert exchange.json()["object"] == "response.input_tokens"
        counts.append(exchange.json()["input_tokens"])

    assert counts[1] - counts[0] > 500


# Where, and how long.


async def test_several_processes_share_a_file(gateway, tmp_path, caplog):
    """What one keeps the other finds, with the thinking in it; without a key of ours only the seals are lost, and the
    log says so, once."""
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "seal_key": "a-key-of-ours"}
    one = await respond(gateway(fresh=True, state=state), "sim:thinking", reasoning={"effort": "high"})
    other = gateway(fresh=True, state=state)

    assert (await get(f"{PATH}/{one['id']}").run(other)).json() == one
    await respond(other, "Go on.", previous_response_id=one["id"])
    assert not caplog.records
    keyless = gateway(fresh=True, state={**state, "seal_key": ""})
    await respond(keyless, "Go on.", previous_response_id=one["id"])
    await respond(keyless, "Go on.", previous_response_id=one["id"])
    assert ["state.seal_key" in record.message for record in caplog.records] == [True]


@needs_server
async def test_several_machines_share_a_server(gateway):
    """A client that goes to another gateway at every turn loses nothing of its conversation, thinking included."""
    with running() as server:
        state = {"engine": "valkey", "url": server.url, "seal_key": "a-key-of-ours"}
        apps = [gateway(fresh=True, state=state) for _ in range(2)]
        response = await respond(apps[0], "sim:thinking", reasoning={"effort": "high"})
        for turn in range(1, 7):
            app = apps[turn % 2]
            assert (await get(f"{PATH}/{response['id']}").run(app)).json() == response
            response = await respond(app, "Go on.", previous_response_id=response["id"])
        for app in apps:
            await app.aclose()


@needs_server
async def test_a_server_that_is_lost_is_told_of_and_used_again(gateway):
    """What builds on it is refused with 503 meanwhile, and everything else is answered."""
    port = free_port()
    state = {"engine": "valkey", "url": f"valkey://127.0.0.1:{port}", "seal_key": "a-key-of-ours"}
    app = gateway(fresh=True, state=state)
    with running(port):
        one = await respond(app, "One.")
    two = await respond(app, "Two.")
    refused = await asking("Go on.", previous_response_id=one["id"]).run(app)
    assert refused.status == 503
    assert "retry-after" in dict(refused.headers)
    assert (await get(f"{PATH}/{two['id']}").run(app)).json() == two, "it waits in this process to be written"
    with running(port), anyio.fail_after(20):
        while (await get(f"{PATH}/{one['id']}").run(app)).status == 503:  # noqa: ASYNC110 - it is another process
            await anyio.sleep(0.1)
        assert (await get(f"{PATH}/{two['id']}").run(app)).json() == two
    await app.aclose()


@pytest.mark.parametrize("url", ["", "http://127.0.0.1"])
async def test_a_server_needs_an_address(gateway, url):
    with pytest.raises(ConfigError, match=r"state\.url"):
        gateway(fresh=True, state={"engine": "valkey", "url": url})


async def test_the_file_is_closed_with_the_application(gateway, tmp_path):
    """At the end of its life the application holds nothing; SQLite then removes the files beside the one that stays."""
    app = gateway(fresh=True, state={"engine": "sqlite", "path": str(tmp_path / "state.db"), "seal_key": "ours"})
    await respond(app, "One.")
    await app.aclose()

    assert [path.name for path in tmp_path.iterdir()] == ["state.db"]


async def test_a_file_needs_a_name(gateway):
    """An engine that cannot work is found out at the start."""
    with pytest.raises(ConfigError, match=r"state\.path"):
        gateway(fresh=True, state={"engine": "sqlite"})


async def test_without_its_store_the_gateway_goes_on(gateway, tmp_path, caplog):
    """A store that fails costs what is in it; answers are given all the same, and can be built on in this process."""
    path = tmp_path / "state.db"
    app = gateway(fresh=True, state={"engine": "sqlite", "path": str(path), "seal_key": "a-key-of-ours"})
    path.mkdir()
    one = await respond(app, "One.")
    await respond(app, "Two.", previous_response_id=one["id"])
    refused = await asking("Three.", previous_response_id="resp_1").run(app)

    assert (refused.status, refused.headers["retry-after"]) == (503, "2")
    assert any("waits in memory" in record.message for record in caplog.records)


@BOTH_MODES
async def test_no_answer_waits_for_a_locked_file(gateway, tmp_path, stream):
    """The issue: the final event waited for a file that another process had locked.  Now the answer does not, a client
    builds on it at once, what is not here is a 503 within a second, and in the end everything is in the file."""
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "seal_key": "a-key-of-ours"}
    app = gateway(fresh=True, state=state)
    old = await respond(app, "Zero.")
    await app.aclose()
    app = gateway(fresh=True, state=state)
    with held(tmp_path / "state.db"):
        started = time.monotonic()
        one = await respond(app, "One.", stream=stream)
        two = await respond(app, "Two.", previous_response_id=one["id"], stream=stream)
        assert time.monotonic() - started < 4.0  # signatures and cut answers are looked for once
        started = time.monotonic()
        refused = [await asking("Three.", previous_response_id=old["id"]).run(app) for _ in range(5)]
        assert time.monotonic() - started < 2.0
        assert {(each.status, each.headers["retry-after"]) for each in refused} <= {(503, "1"), (503, "2")}
        assert (await get(f"{PATH}/{two['id']}").run(app)).status == 200
    await app.aclose()

    other = gateway(fresh=True, state=state)
    for each in (old, one, two):
        assert (await get(f"{PATH}/{each['id']}").run(other)).json()["id"] == each["id"]


@pytest.mark.parametrize("there", ["link", "link to nothing", "folder"])
async def test_a_path_that_is_no_file_of_ours_is_refused(gateway, tmp_path, there):
    """A symbolic link is not followed, and nothing is changed at its end: the gateway does not start."""
    target, path = tmp_path / "target", tmp_path / "state.db"
    if there == "folder":
        path.mkdir()
    else:
        path.symlink_to(target)
    if there == "link":
        target.touch(mode=0o644)
    with pytest.raises(ConfigError, match=r"state\.path: .* is (a symbolic link|no ordinary file)"):
        gateway(fresh=True, state={"engine": "sqlite", "path": str(path)})

    assert not target.exists() or (target.stat().st_mode & 0o777, target.stat().st_size) == (0o644, 0)


def kept(number: int = 1, previous: str | None = None, items: Any = ({"role": "user", "content": "One."},)) -> bytes:
    """A response as the store holds it."""
    output = [{"type": "message", "id": f"msg_{number}_0"}]
    return record({"id": f"resp_{number}", "previous_response_id": previous, "output": output}, items)


KEPT = kept()


def line(**facts: Any) -> bytes:
    """A record without content, whose line says so."""
    return (
        b"%b\n{}[]null[][]{}" % json.dumps({"facts": facts, "parts": [[2, 0]] * 3 + [[4, 0]] + [[2, 0]] * 3}).encode()
    )


DAMAGED = {
    "nothing": b"",
    "no JSON": b"\xff\x00",
    "another type": b"[]",
    "a number": b"7",
    "null": b"null\n",
    "other members": b'{"a":1}\n',
    "an older format": b'{"response":{},"input":[],"seals":{}}',
    "no facts": line(),
    "an odd chain": line(id="a", status="", previous_response_id=7, background=False, in_conversation=False),
    "an odd status": line(id="a", status=7, previous_response_id=None, background=False, in_conversation=False),
    "odd sizes": KEPT.replace(b'"parts":[[', b'"parts":[[1'),
    "sizes of other types": KEPT.replace(b'"parts":[[', b'"parts":[[true,1],['),
    "cut": KEPT[:-1],
    "items of other types": KEPT.replace(b'{"role":"user","content":"One."}', b'["role","user","content","One."]'),
    "no items": KEPT.replace(b'{"role":"user","content":"One."}', b'{"role";"user","content":"One."}'),
    "an odd item": kept(items=[{"id": "a", "role": "x"}]),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
async def test_what_is_damaged_is_missing(gateway, sim, caplog, data):
    """Values that we did not write are told as values that are not there, never blamed on the client, and logged."""
    app = gateway(fresh=True)
    store = part_of(app, MemoryStore)
    identified = await part_of(app, Authenticator).identify(http_scope(headers=[("authorization", "Bearer k")]))
    await store.set(scoped(identified.principal, stored._KIND, "resp_1"), data, 60.0)
    refused = await asking("Two.", previous_response_id="resp_1").run(app)

    assert error_of(refused)[0::3] == (400, "previous_response_not_found")
    assert "resp_1" in error_of(refused)[1]
    assert any("is damaged, and counts as missing" in record.message for record in caplog.records)
    items = [{"role": "user", "content": "One."}, {"type": "item_reference", "id": "msg_1_0"}]
    assert error_of(await asking(items).run(app))[0::2] == (400, "input[1].id")
    assert sim.requests == ()
    items_odd = [DAMAGED[name] for name in ("items of other types", "no items", "an odd item")]
    assert (await get(f"{PATH}/resp_1").run(app)).status == (200 if data in items_odd else 404)


async def test_what_is_kept_passes_away():
    """After its time a response is as if it had never been."""
    clock = Clock()
    responses = Responses(MemoryStore(clock=clock), 60.0, 10_000)
    await responses.keep("alice", "resp_1", KEPT)
    clock.now += 59.0
    assert await responses.get(ALICE, "resp_1") == Kept.decode(KEPT)
    clock.now += 1.0
    with pytest.raises(RequestError) as caught:
        await responses.get(ALICE, "resp_1")

    assert caught.value.status == 404


async def test_a_conversation_has_an_end():
    """R47: one request costs no more than one that sends all of it; neither in bytes nor in steps."""
    responses = Responses(MemoryStore(entries=2_000), 60.0, 10_000_000)
    tight = Responses(responses._store, 60.0, 2_000)
    for number in range(1, 1_002):
        previous = f"resp_{number - 1}" if number > 1 else None
        await responses.keep("alice", f"resp_{number}", kept(number, previous))
    value = {"input": "Go on.", "previous_response_id": "resp_1000"}

    assert (await responses.complete(ALICE, value)).earlier == 2_000
    with pytest.raises(RequestError, match="more than 1000") as caught:
        await responses.complete(ALICE, {**value, "previous_response_id": "resp_1001"})
    assert caught.value.code == "previous_response_too_long"
    with pytest.raises(BodyTooLarge):
        await tight.complete(ALICE, value)


async def test_a_hundred_references_are_a_hundred_items():
    """R47: a small request cannot make a large one by naming the same item again and again."""
    responses = Responses(MemoryStore(), 60.0, 10_000)
    await responses.keep("alice", "resp_1", KEPT)

    async def complete(times: int):
        return await responses.complete(ALICE, {"input": [{"type": "item_reference", "id": "msg_1_i0"}] * times})

    assert (await complete(50)).value["input"] == [Kept.decode(KEPT).input[0]] * 50
    with pytest.raises(BodyTooLarge):
        await complete(100)


async def test_an_odd_id_of_an_item_is_no_obstacle(gateway):
    """What clients call their items is not looked at, unless they refer to one."""
    app = gateway()
    odd = {"type": "no_such_kind", "id": {"a": []}}
    one = await respond(app, [odd, {"role": "user", "content": "One."}])
    await respond(app, [{"id": one["output"][0]["id"]}, {"role": "user", "content": "Two."}])

    assert (await get(f"{PATH}/{one['id']}/input_items").run(app)).json()["data"][-1] == odd


async def test_many_clients_keep_little(gateway):
    """R47: 100,000 responses of as many clients fit into what is allowed; the oldest go."""
    store = MemoryStore(1_000, 1024 * 1024)
    responses = Responses(store, 60.0, 10_000)
    for number in range(100_000):
        await responses.keep(f"client {number}", "resp_1", KEPT)

    assert len(store) <= 1_000
    assert store.size_bytes <= 1024 * 1024
    assert await responses.get(Owner("client 99999"), "resp_1") == Kept.decode(KEPT)


async def test_the_first_response_that_is_missing_says_why(gateway, caplog):
    """Of several processes each may keep its own: who runs them is told once, where nobody has decided that."""
    for engine, lines in (("auto", 1), ("memory", 0)):
        app = gateway(fresh=True, state={"engine": engine})
        with caplog.at_level("WARNING", "kiro_asgi"):
            for _ in range(2):
                assert (await asking("hi", previous_response_id="resp_none").run(app)).status == 400
        assert caplog.text.count("set state.engine") == lines
        caplog.clear()
