"""Responses made in the background: polled, streamed again from anywhere, cancelled; here and at another gateway."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from kiro_asgi import create_app
from kiro_asgi.apis.responses import background
from kiro_asgi.state.memory import MemoryStore
from tests.asgi.conftest import settings_for
from tests.asgi.driver import get, post
from tests.asgi.test_stored_responses import PATH, asking, delete, error_of, response_of

pytestmark = pytest.mark.anyio

SLOW = "sim:slow=0.3 Tell me a story."


async def begun(app: Any, prompt: Any = "hi", **more: Any) -> dict[str, Any]:
    response = (await asking(prompt, background=True, **more).run(app)).json()
    assert (response["object"], response["status"], response["background"]) == ("response", "queued", True), response
    return dict(response)


async def polled(app: Any, response_id: str) -> dict[str, Any]:
    """The response, when it has ended."""
    with anyio.fail_after(20):
        while True:
            response = (await get(f"{PATH}/{response_id}").run(app)).json()
            if response["status"] not in ("queued", "in_progress"):
                return dict(response)
            await anyio.sleep(0.02)


async def events(app: Any, response_id: str, query: str = "") -> list[dict[str, Any]]:
    exchange = get(f"{PATH}/{response_id}")
    exchange.scope["query_string"] = f"stream=true{query}".encode()
    await exchange.run(app)
    assert exchange.headers["content-type"] == "text/event-stream", exchange.content
    return [json.loads(line[6:]) for line in exchange.content.split(b"\n") if line.startswith(b"data: {")]


async def test_it_goes_on_without_its_client(gateway):
    """It waits, and is complete in the end; its events are there to be streamed, from any number on, without a gap;
    it can be gone on with, and is deleted with all of them."""
    app = gateway()
    queued = await begun(app, "What is 2 + 3?")
    done = await polled(app, queued["id"])
    told = await events(app, queued["id"])
    rest = await events(app, queued["id"], "&starting_after=3")
    goes_on = await asking("And now?", previous_response_id=queued["id"]).run(app)

    assert (done["status"], done["output"][0]["content"][0]["text"]) == ("completed", "You said: What is 2 + 3?")
    assert [each["sequence_number"] for each in told] == [*range(len(told))]
    assert (told[-1]["type"], told[-1]["response"]) == ("response.completed", done)
    assert rest == told[4:]
    assert response_of(goes_on)["previous_response_id"] == queued["id"]
    assert (await delete(f"{PATH}/{queued['id']}").run(app)).status == 200
    assert (await get(f"{PATH}/{queued['id']}").run(app)).status == 404


async def test_deleted_it_leaves_nothing(service):
    """Neither while it is made nor afterwards: no event, and no note on how it proceeds."""
    store = MemoryStore(1000, 10**7)
    app = create_app(settings_for(service.url, {}), store=store)
    for prompt in (SLOW, "hi"):
        queued = await begun(app, prompt)
        if prompt == SLOW:
            await anyio.sleep(0.5)
        else:
            await polled(app, queued["id"])
        assert (await delete(f"{PATH}/{queued['id']}").run(app)).status == 200
    with anyio.fail_after(10):
        await app.idle()

    await app.aclose()

    assert len(store) == 0


async def test_what_cannot_be(gateway):
    """A response that is not stored could not be polled; others were not made in the background."""
    app = gateway()
    plain = response_of(await asking("hi").run(app))

    assert error_of(await asking("hi", background=True, store=False).run(app))[::2] == (400, "background")
    assert error_of(await asking("hi", background=True).run(gateway(responses={"background": 0})))[2] == "background"
    for query, place in (("stream=true", "stream"), ("stream=true&starting_after=x", "starting_after")):
        exchange = get(f"{PATH}/{plain['id']}")
        exchange.scope["query_string"] = query.encode()
        assert error_of(await exchange.run(app))[::2] == (400, place)


async def test_two_gateways_share_it(gateway, tmp_path):
    """While one makes it, the other tells how it stands, streams it to its end, and cancels it."""
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "seal_key": "a-key-of-ours"}
    maker, other = (gateway(fresh=True, state=state) for _ in range(2))
    queued = await begun(maker, "sim:slow=0.1 One.")
    early = await post(PATH, {"model": "m", "input": "And?", "previous_response_id": queued["id"]}).run(other)
    told = await events(other, queued["id"])
    running = await begun(maker, SLOW)
    cancelled = (await post(f"{PATH}/{running['id']}/cancel", {}).run(other)).json()
    await maker.aclose()

    assert error_of(early)[3] == "previous_response_not_finished"
    assert [each["sequence_number"] for each in told] == [*range(len(told))]
    assert told[-1]["response"] == (await get(f"{PATH}/{queued['id']}").run(other)).json()
    assert (cancelled["status"], cancelled["id"]) == ("cancelled", running["id"])
    assert (await polled(other, running["id"])) == cancelled
    assert (await post(f"{PATH}/{queued['id']}/cancel", {}).run(other)).json()["status"] == "completed"


async def test_one_whose_process_is_gone_has_failed(gateway, tmp_path, monkeypatch):
    """Who looks notices: nobody says any more that it is being made.  Streamed again, it ends with that."""
    monkeypatch.setattr(background, "_LEASE", -1.0)
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db")}
    maker, other = (gateway(fresh=True, state=state) for _ in range(2))
    queued = await begun(maker, SLOW)
    lost = await polled(other, queued["id"])
    told = await events(other, queued["id"])
    await maker.aclose()

    assert (lost["status"], lost["error"]["code"]) == ("failed", "server_error")
    assert "ended" in lost["error"]["message"]
    assert [told[-1]["type"], told[-1]["response"]] == ["response.failed", lost]


@pytest.mark.parametrize(
    ("responses", "why"),
    [
        ({"background_timeout": 0.3}, "background_timeout"),
        ({"background_bytes": 1}, "background_bytes"),
        ({}, "being stopped"),
    ],
)
async def test_what_is_broken_off_says_why(gateway, responses, why):
    """Too long, too large, or the gateway is being stopped: it has failed for that, and its stream has an end."""
    app = gateway(fresh=True, responses={**responses, "background": 1})
    queued = await begun(app, SLOW)
    full = await asking(SLOW, background=True).run(app)
    if not responses:
        await anyio.sleep(0.3)
        app.interrupt()
    failed = await polled(app, queued["id"])
    with anyio.fail_after(10):
        await app.idle()

    assert (full.status, "in the background already" in full.json()["error"]["message"]) == (429, True)
    assert (failed["status"], why in failed["error"]["message"]) == ("failed", True), failed
    assert (await events(app, queued["id"]))[-1]["type"] == "response.failed"


async def test_a_refusal_is_told_in_the_response(gateway):
    """A service that refuses is an error of the response, and its stream begins and ends as every other."""
    app = gateway(retry={"attempts": 1})
    queued = await begun(app, "sim:500 hi")
    failed = await polled(app, queued["id"])
    kinds = [each["type"] for each in await events(app, queued["id"])]

    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert (kinds[0], kinds[-1]) == ("response.created", "response.failed")


async def test_a_stream_that_is_left_goes_on(gateway):
    """Whoever streams it while it is made may leave, and come back behind the last event that was seen."""
    app = gateway()
    exchange = asking("sim:slow=0.1 One.", background=True, stream=True)
    with anyio.move_on_after(0.5):
        await exchange.run(app)
    seen = [json.loads(line[6:]) for line in exchange.content.split(b"\n") if line.startswith(b"data: {")]
    rest = await events(app, seen[0]["response"]["id"], f"&starting_after={seen[-1]['sequence_number']}")

    assert [each["sequence_number"] for each in (*seen, *rest)] == [*range(len(seen) + len(rest))]
    assert rest[-1]["type"] == "response.completed"
