"""Compaction: a summary, sealed, in the place of a conversation; at every service, for clients of every habit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.dialects.openai_responses.compaction import INSTRUCTION
from tests.asgi.driver import Exchange, get, post
from tests.asgi.test_background import polled
from tests.asgi.test_stored_responses import CLIENTS, PATH, asked, asking, error_of, respond, response_of

pytestmark = pytest.mark.anyio

TRIGGER = {"type": "compaction_trigger"}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
TALK: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "My name is Ada."},
    {"role": "assistant", "content": "Good day, Ada."},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "a secret garden"},
    {"type": "function_call", "call_id": "open", "name": "look", "arguments": "{}"},
]
ANSWERED = {"type": "function_call_output", "call_id": "open", "output": "a door"}


def compacting(content: Any, *, key: str = "k", **more: Any) -> Exchange:
    return post(f"{PATH}/compact", {"model": "claude-sonnet-4.5", "input": content, **more}, key=key)


async def test_a_conversation_is_compacted(gateway, sim):
    """The model is asked for a summary, with all that was said and no tool to call; what it writes stands for that
    from then on, beside what the user said and what waits for a result."""
    app = gateway()
    exchange = await compacting(TALK, tools=[TOOL], instructions="Speak like a pirate.").run(app)
    compacted = response_of(exchange)
    summarised = json.dumps(asked(sim))
    *said, item = compacted["output"]
    await respond(app, [*compacted["output"], TALK[-1], ANSWERED, {"role": "user", "content": "Who am I?"}])
    told = json.dumps(asked(sim))

    assert (compacted["object"], [each["role"] for each in said]) == ("response.compaction", ["user"])
    assert compacted["usage"]["total_tokens"] > 0
    assert (item["type"], item["id"].startswith("cmp_")) == ("compaction", True)
    assert json.dumps(INSTRUCTION)[1:-1] in summarised
    assert all(text in summarised for text in ("a secret garden", "Good day, Ada.", "pirate"))
    assert "Summary of the conversation" in told and "My name is Ada." in told and "a door" in told
    assert "a secret garden" not in told and "pirate" not in told.replace(json.dumps(INSTRUCTION), "")


@pytest.mark.parametrize("stream", [False, True], ids=["collected", "streamed"])
async def test_what_ends_with_a_trigger_is_compacted(gateway, sim, stream):
    """The answer is one compaction, told in two events, with the summary's own usage; a stored one is gone on with by
    its id, and a conversation with one holds it."""
    app = gateway()
    conversation = (await post("/v1/conversations", {"items": TALK[1:3]}).run(app)).json()["id"]
    one = await respond(app, [TRIGGER], conversation=conversation, stream=stream, tools=[TOOL])
    await respond(app, "And now?", conversation=conversation)
    in_talk = json.dumps(asked(sim))
    two = await respond(app, [*TALK[:3], TRIGGER], stream=stream)
    await respond(app, [], previous_response_id=two["id"])
    stored = json.dumps(asked(sim))

    assert [item["type"] for item in one["output"]] == ["compaction"]
    assert one["usage"]["output_tokens"] > 0
    for told in (in_talk, stored):
        assert "Summary of the conversation" in told and "My name is Ada." in told
        assert '"Good day, Ada."' not in told
    assert ("Go on from there." in in_talk, "Go on from there." in stored) == (False, True)


async def test_the_newest_compaction_counts(gateway, sim):
    """Compactions can be compacted: of several the newest stands for all that was said, and none is told twice."""
    app = gateway()
    one = (await compacting("sim:echo first").run(app)).json()["output"]
    two = (await compacting([*one, {"role": "user", "content": "second"}]).run(app)).json()["output"]
    await respond(app, [*one, *two, {"role": "user", "content": "third"}])

    assert json.dumps(asked(sim)).count("Summary of the conversation up to here") == 1


@pytest.mark.parametrize(
    ("change", "place"),
    [
        pytest.param({"encrypted_content": "gAAAA-foreign"}, "input[1].encrypted_content", id="foreign"),
        pytest.param({"type": "context_compaction"}, "", id="alias"),
        pytest.param({"type": "compaction_summary"}, "", id="former"),
        pytest.param({"type": "context_compaction", "encrypted_content": None}, "", id="empty"),
    ],
)
async def test_what_cannot_be_read_is_an_error(gateway, change, place):
    """It has the whole conversation in it, so it is never passed over; under other names it is the same."""
    app = gateway()
    item = (await compacting("hi").run(app)).json()["output"][-1]
    exchange = await asking([{"role": "user", "content": "hi"}, {**item, **change}]).run(app)

    if place:
        assert error_of(exchange)[::2] == (400, place)
        assert error_of(exchange)[3] == "invalid_encrypted_content"
    else:
        assert exchange.status == 200


async def test_it_is_one_clients_own(gateway):
    """Nobody else can go on with it."""
    app = gateway(**CLIENTS)
    item = (await compacting("hi").run(app)).json()["output"][-1]

    assert (await asking([item, {"role": "user", "content": "hi"}]).run(app)).status == 200
    assert error_of(await asking([item], key="other").run(app))[3] == "invalid_encrypted_content"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"input": "hi"}, "model"),
        ({"model": "claude-sonnet-4.5"}, "input"),
        ({"model": "claude-sonnet-4.5", "input": []}, "input"),
        ({"model": "claude-sonnet-4.5", "input": 5}, "input"),
        ({"model": "claude-sonnet-4.5", "input": [TRIGGER, {"role": "user", "content": "hi"}]}, "input[0]"),
        ({"model": "claude-sonnet-4.5", "previous_response_id": "resp_unknown"}, "previous_response_id"),
    ],
)
async def test_what_cannot_be_compacted(gateway, body, place):
    """The error names what is missing."""
    assert error_of(await post(f"{PATH}/compact", body).run(gateway()))[::2] == (400, place)


async def test_what_the_user_said_last_stays(gateway, sim):
    """Of long words of the user's only the latest stay beside the summary, up to 80,000 characters."""
    app = gateway()
    said = [{"role": "user", "content": f"<{letter}>" + letter * 30_000} for letter in "abcd"]
    *kept, _ = (await compacting(said).run(app)).json()["output"]

    assert [each["content"][0]["text"][:3] for each in kept] == ["<c>", "<d>"]

    alone = gateway(responses={"compact_output": "item"})
    assert [each["type"] for each in (await compacting(said).run(alone)).json()["output"]] == ["compaction"]


@pytest.mark.parametrize("path", [PATH, f"{PATH}/compact"])
async def test_an_answer_without_a_summary_is_a_failure(gateway, path):
    """Nothing may stand for a conversation that holds nothing of it."""
    body = {"model": "claude-sonnet-4.5", "input": [{"role": "user", "content": "sim:empty"}]}
    if path == PATH:
        body["input"].append(TRIGGER)
    exchange = await post(path, body).run(gateway(retry={"attempts": 1}))

    assert exchange.status == 502, exchange.content


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"background": True}], ids=["whole", "stream", "background"])
async def test_a_long_input_is_compacted_first(gateway, sim, more):
    """Beyond the threshold a compaction is made, told as the first item, and counted by itself; what the user has just
    said is asked behind it.  What is gone on with by its id begins with it, and is short."""
    app = gateway()
    long = [*TALK[:3], {"role": "assistant", "content": "word " * 3000}]
    wanted = {"context_management": [{"type": "compaction", "compact_threshold": 2000}]}
    asking_now = [*long, {"role": "user", "content": "Who am I?"}]
    exchange = await asking(asking_now, **wanted, **more).run(app)
    one = await polled(app, exchange.json()["id"]) if "background" in more else response_of(exchange)
    told = json.dumps(asked(sim))
    short = await respond(app, "And now?", previous_response_id=one["id"], **wanted)
    input_items = (await get(f"{PATH}/{one['id']}/input_items").run(app)).json()["data"]

    assert [item["type"] for item in one["output"]] == ["compaction", "message"]
    assert one["usage"]["compaction"]["input_tokens"] > 2000 > one["usage"]["input_tokens"]
    assert asked(sim)["currentMessage"]["userInputMessage"]["content"].endswith("And now?")
    assert "word word" not in told.replace(one["output"][0]["encrypted_content"], "")
    assert [item["type"] for item in short["output"]] == ["message"]
    assert "compaction" not in [item["type"] for item in input_items]


async def test_a_threshold_has_to_be_a_number(gateway):
    """Others are refused, and a request without one is answered as ever."""
    wanted = [{"type": "compaction", "compact_threshold": "x"}]
    refused = await asking("hi", context_management=wanted).run(gateway())

    assert error_of(refused)[2] == "context_management[0].compact_threshold"
    assert len((await respond(gateway(), "hi", context_management=[{"type": "compaction"}]))["output"]) == 1
