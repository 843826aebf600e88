"""Requests that refer to what another server holds, in every client API and at each of its doors."""

from __future__ import annotations

import pytest

from kiro_asgi.dialects.references import REFERENCES
from tests.asgi.driver import post
from tests.asgi.test_websocket import connected

pytestmark = pytest.mark.anyio

MODEL = "claude-sonnet-4.5"
SAID = {"model": MODEL, "messages": [{"role": "user", "content": "sim:text"}]}
INPUT = {"model": MODEL, "input": "sim:text"}
CONTENTS = {"contents": [{"parts": [{"text": "sim:text"}]}]}
DOORS = {
    "messages": ("/v1/messages", {**SAID, "max_tokens": 99}),
    "messages-streamed": ("/v1/messages", {**SAID, "max_tokens": 99, "stream": True}),
    "count_tokens": ("/v1/messages/count_tokens", SAID),
    "chat": ("/v1/chat/completions", SAID),
    "chat-streamed": ("/v1/chat/completions", {**SAID, "stream": True}),
    "completions": ("/v1/completions", {"model": MODEL, "prompt": "sim:text"}),
    "responses": ("/v1/responses", INPUT),
    "responses-streamed": ("/v1/responses", {**INPUT, "stream": True}),
    "background": ("/v1/responses", {**INPUT, "background": True}),
    "compact": ("/v1/responses/compact", INPUT),
    "gemini": (f"/v1beta/models/{MODEL}:generateContent", CONTENTS),
    "gemini-streamed": (f"/v1beta/models/{MODEL}:streamGenerateContent", CONTENTS),
    "countTokens": (f"/v1beta/models/{MODEL}:countTokens", CONTENTS),
}
VALUES = {
    "thread": {"type": "continue", "previous_message_id": "msg_1"},
    "conversation": "conv_1",
    "container": {"id": "container_1"},
}


def plain(text):
    """*text* in one spelling."""
    return text.lower().replace("_", "")


EACH_REFERENCE = pytest.mark.parametrize("name", REFERENCES)


@EACH_REFERENCE
@pytest.mark.parametrize("door", DOORS)
async def test_what_is_held_elsewhere_is_never_dropped(door, name, gateway, sim):
    """The client gets an error that names the field, before any service is asked; what the gateway itself might hold
    is looked for first."""
    path, body = DOORS[door]
    answered = await post(path, {**body, name: VALUES.get(name, "resp_1")}, key="k").run(gateway())

    assert answered.status in (400, 404)
    assert plain(name) in plain(answered.content.decode())
    assert sim.requests == ()


@pytest.mark.parametrize("door", DOORS)
async def test_without_it_the_same_request_is_answered(door, gateway, sim):
    """So it was the field."""
    path, body = DOORS[door]
    assert (await post(path, body, key="k").run(gateway())).status == 200


@EACH_REFERENCE
async def test_what_is_held_elsewhere_is_never_dropped_over_websocket(name, gateway, sim):
    """As over HTTP."""
    async with connected(gateway()) as peer:
        await peer.say({"type": "response.create", **INPUT, name: VALUES.get(name, "resp_1")})
        [frame] = await peer.answer(0)

    assert (frame["type"], frame["status"] in (400, 404)) == ("error", True)
    assert plain(name).removesuffix("id") in plain(frame["error"]["message"]).replace(" ", "")
    assert sim.requests == ()


async def test_a_thread_is_refused_in_words_that_both_sdks_know(gateway, sim):
    """The API's own code, and that there is no use in trying again."""
    path, body = DOORS["messages"]
    refused = await post(path, {**body, "thread": {"type": "create"}}, key="k").run(gateway())

    details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert refused.json()["error"]["details"] == details
    assert refused.headers["x-should-retry"] == "false"
    assert "details" not in (await post(path, {**body, "container": "c"}, key="k").run(gateway())).json()["error"]
