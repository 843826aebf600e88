"""Conversations that are named instead of sent: what is told of them, to whom, and what is left of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from kiro_asgi.apis.responses.conversations import Conversations
from kiro_asgi.apis.responses.owners import Owner
from kiro_asgi.apis.responses.stored import Responses
from kiro_asgi.dialects.openai_responses.kept import Conversation
from kiro_asgi.errors import BodyTooLarge, RequestError
from kiro_asgi.state.memory import MemoryStore
from tests.asgi.driver import Exchange, get, http_scope, post
from tests.parts import part_of
from tests.valkey_server import needs_server, running

pytestmark = pytest.mark.anyio

PATH = "/v1/conversations"
USER = {"type": "message", "role": "user", "content": "My name is Ada."}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "rain"}


def delete(path: str, *, key: str = "k") -> Exchange:
    return Exchange(http_scope("DELETE", path, [("authorization", f"Bearer {key}")]))


async def made(app: Any, **body: Any) -> str:
    return f"{PATH}/{(await post(PATH, body).run(app)).json()['id']}"


def asking(text: Any, conversation: str, *, key: str = "k", **more: Any) -> Exchange:
    named = {"id": conversation.removeprefix(f"{PATH}/")}
    body = {"model": "claude-sonnet-4.5", "input": text, "conversation": named}
    return post("/v1/responses", body | more, key=key)


async def items_of(app: Any, path: str, query: bytes = b"order=asc") -> list[dict[str, Any]]:
    return (await get(f"{path}/items", query_string=query).run(app)).json()["data"]


async def test_what_was_said_is_told_again(gateway, sim):
    """Also what was not to be stored as a response; sealed thinking comes back, and is shown where it is asked for."""
    app = gateway()
    path = await made(app, items=[USER])
    for text in ("sim:thinking", "Who am I?"):
        exchange = await asking(text, path, store=False, reasoning={"effort": "high"}).run(app)
        assert exchange.status == 200, exchange.content
    told = json.dumps(sim.requests[-1].json())
    sealed = b"order=asc&include=reasoning.encrypted_content"

    assert ("My name is Ada." in told, '"signature"' in told) == (True, True)
    assert exchange.json()["conversation"] == {"id": path.removeprefix(f"{PATH}/")}
    for query, has in ((b"order=asc", False), (sealed, True)):
        thought = next(item for item in await items_of(app, path, query) if item["type"] == "reasoning")
        assert ("encrypted_content" in thought) is has


async def test_an_answer_that_fails_leaves_nothing(gateway):
    """The next request finds the conversation as it was."""
    app = gateway(retry={"attempts": 1})
    path = await made(app, items=[USER])
    await asking("sim:exception", path).run(app)

    assert len(await items_of(app, path)) == 1


async def test_deleting_leaves_nothing(gateway):
    """Neither items nor responses, nor an answer that is on its way; the store holds no byte of it."""
    app = gateway(fresh=True)
    path = await made(app, items=[USER])
    first = (await asking("One.", path).run(app)).json()
    late = asking("Two.", path, stream=True)

    async def meanwhile(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert (await delete(path).run(app)).json()["deleted"] is True

    late.on_send = meanwhile
    await late.run(app)
    paths = (path, f"{path}/items", f"/v1/responses/{first['id']}")

    assert [(await get(each).run(app)).status for each in paths] == [404, 404, 404]
    assert (await delete(path).run(app)).status == 404
    assert len(part_of(app, MemoryStore)) == 0


async def test_nobody_reaches_what_is_anothers(gateway, sim):
    """Another client's conversation does not exist."""
    app = gateway(client={"api_keys": ["k", "other"]})
    path = await made(app, items=[USER])
    (item,) = await items_of(app, path)
    sim.forget()
    tries = [
        get(path, key="other"),
        post(path, {"metadata": {}}, key="other"),
        delete(path, key="other"),
        get(f"{path}/items", key="other"),
        post(f"{path}/items", {"items": [USER]}, key="other"),
        get(f"{path}/items/{item['id']}", key="other"),
        delete(f"{path}/items/{item['id']}", key="other"),
        asking("Hi.", path, key="other"),
    ]

    assert [(await each.run(app)).status for each in tries] == [404] * 8
    assert sim.requests == ()
    assert await items_of(app, path) == [item]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"items": [{"role": "emperor", "content": "x"}]}, "items[0].role"),
        ({"items": [{"type": "local_shell_call_output", "call_id": "none", "output": "x"}]}, "items[0].call_id"),
        ({"items": [USER, {"type": "item_reference", "id": "msg_1"}]}, "items[1].id"),
        ({"items": [USER] * 21}, "items"),
        ({"items": 7}, "items"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
    ],
)
async def test_what_cannot_be_told_is_not_kept(gateway, body, param):
    """The place is the one where the client wrote it, also behind items that are there."""
    app = gateway()
    path = await made(app, items=[USER, USER])
    refusals = [await post(PATH, body).run(app)]
    refusals += [await post(f"{path}/items", body).run(app)] if "items" in body else []

    for refused in refusals:
        assert (refused.status, refused.json()["error"]["param"]) == (400, param), refused.content
    assert len(await items_of(app, path)) == 2


async def test_a_request_says_once_what_it_goes_on_with(gateway, sim):
    """A conversation or a response; and of a response in a conversation, nobody can go on without the conversation."""
    app = gateway()
    path = await made(app)
    first = (await asking("One.", path).run(app)).json()
    sim.forget()
    both = await asking("Two.", path, previous_response_id=first["id"]).run(app)
    alone = await post("/v1/responses", {"model": "m", "input": "x", "previous_response_id": first["id"]}).run(app)

    assert (both.status, both.json()["error"]["param"]) == (400, "conversation")
    assert (alone.status, alone.json()["error"]["code"]) == (400, "previous_response_in_conversation")
    assert (await asking("Two.", "conv_unknown").run(app)).status == 404
    assert (await post("/v1/responses", {"model": "m", "input": "x", "conversation": {"id": 7}}).run(app)).status == 400
    assert sim.requests == ()


async def test_a_result_without_its_call(gateway):
    """Whoever deletes the call is told which item is in the way."""
    app = gateway()
    path = await made(app, items=[USER, CALL, RESULT])
    call = (await items_of(app, path))[1]
    assert (await delete(f"{path}/items/{call['id']}").run(app)).status == 200
    refused = await asking("Go on.", path).run(app)

    assert (refused.status, refused.json()["error"]["param"]) == (400, "conversation")


async def test_two_gateways_on_one_file(gateway, tmp_path: Path):
    """Both add at once, and neither loses what the other has added."""
    await two_gateways(gateway, {"engine": "sqlite", "path": str(tmp_path / "state.db")})


@needs_server
async def test_two_gateways_on_one_server(gateway):
    """The same on a server that several machines share."""
    with running() as server:
        for app in await two_gateways(gateway, {"engine": "valkey", "url": server.url}):
            await app.aclose()


async def two_gateways(gateway: Any, engine: dict[str, str]) -> tuple[Any, Any]:
    state = {**engine, "seal_key": "a-key-of-ours"}
    one, two = (gateway(fresh=True, state=state) for _ in range(2))
    path = await made(one)
    async with anyio.create_task_group() as group:
        for app in (one, two, one, two):
            group.start_soon(asking("Hello.", path).run, app)

    assert len(await items_of(one, path)) == 8
    assert await items_of(two, path) == await items_of(one, path)
    await delete(path).run(two)
    assert (await get(path).run(one)).status == 404
    return one, two


async def test_a_conversation_has_bounds():
    """R47: in items and in bytes; what would be beyond them is refused, and what was there stays."""
    store = MemoryStore()
    responses = Responses(store, 60.0, 10_000_000)
    whole = Conversation("conv_1", 0, {}).with_items([USER] * 2_000, "a")
    await Conversations(responses, 10_000_000).keep("alice", lambda: whole, 0)
    tight = Conversations(responses, 1_000)

    whole.without(whole.entries[0].id).require_room("items")
    with pytest.raises(RequestError, match="no room for more"):
        whole.require_room("items")
    with pytest.raises(BodyTooLarge):
        await tight.change(Owner("alice"), "conv_1", lambda found: found)
    assert (await tight.get(Owner("alice"), "conv_1"))[0].items == whole.items


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"id":1}', b'{"id":"a","created_at":1,"metadata":{},"items":[{}],"responses":[]}']
)
async def test_what_is_damaged_counts_as_missing(gateway, data):
    """It is told like one that never was."""
    app = gateway(fresh=True)
    path = await made(app)
    ((key, _),) = part_of(app, MemoryStore)._kept
    await part_of(app, MemoryStore).set(key, data, 60.0)

    assert (await get(path).run(app)).status == 404


async def test_conversations_count_as_requests(gateway, sim):
    """Each operation on one: whoever stores takes from the limits, too, though no service is asked."""
    app = gateway(fresh=True, quotas={"requests_per_minute": 4})
    made = await post(PATH, {}).run(app)
    assert made.status == 200
    assert made.headers["x-ratelimit-remaining-requests"] == "3"
    place = f"{PATH}/{made.json()['id']}"
    items = {"items": [{"role": "user", "content": "hi"}]}
    statuses = [(await each.run(app)).status for each in (get(place), post(f"{place}/items", items), get(place))]
    refused = await post(PATH, {}).run(app)
    assert statuses == [200, 200, 200]
    assert (refused.status, refused.headers["retry-after"].isdecimal()) == (429, True)
