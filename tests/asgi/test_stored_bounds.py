"""What was stored earlier costs its owner: reads and what requests build on are counted, and nobody else pays."""

from __future__ import annotations

import json
import threading
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kiro_asgi import create_app
from kiro_asgi.apis.responses.owners import Owner, Turns
from kiro_asgi.apis.responses.stored import Responses
from kiro_asgi.asgi.exchange.call import Bodies, Share
from kiro_asgi.asgi.scheduling import Background
from kiro_asgi.errors import LimitReached, RequestError, StoreUnavailable, TooBusy
from kiro_asgi.limits import JSON_VALUES, REFERENCES, STORED_READS_WAITING
from kiro_asgi.state.base import owner_of, scoped
from kiro_asgi.state.memory import MemoryStore
from tests.asgi.conftest import settings_for
from tests.asgi.driver import get, post
from tests.asgi.test_named_conversations import PATH as CONVERSATIONS
from tests.asgi.test_named_conversations import delete, items_of, made
from tests.asgi.test_stored_responses import CLIENTS, PATH, asking, error_of, kept, respond
from tests.parts import part_of

pytestmark = pytest.mark.anyio

ALICE = Owner("alice")
PARTS = [{"type": "input_text", "text": "x"}]


class SlowStore(MemoryStore):
    """A store in which the values of some owners take long, and of some fail."""

    def __init__(self, *slow: str, fails: str = "") -> None:
        super().__init__(10_000, 10**9)
        self.slow, self.fails = {owner_of(scoped(each, "", "")) for each in slow}, owner_of(scoped(fails, "", ""))
        self.reads, self.most = 0, 0

    async def get(self, key: str) -> bytes | None:
        self.reads += 1
        self.most = max(self.most, self.reads)
        try:
            if owner_of(key) in self.slow:
                await anyio.sleep(60)
            if owner_of(key) == self.fails:
                raise StoreUnavailable(detail="this owner's disk", code="store")
            await anyio.sleep(0.01)
            return await super().get(key)
        finally:
            self.reads -= 1


# A share for each client.


def test_what_a_client_takes_up_leaves_room_for_others():
    """It holds no more than is left, its first bytes excepted; another one finds room; what ends is given back."""
    bodies = Bodies(100)
    with Share(bodies) as one, Share(bodies) as two, Share(bodies) as three:
        one.grow_stored(30, "alice")
        with pytest.raises(TooBusy) as caught:
            two.grow_stored(30, "alice")
        assert (caught.value.code, caught.value.retry_after) == ("stored_full", 1.0)
        two.grow_stored(20, "alice")
        three.grow_stored(25, "bob")
        three.grow(12)
        assert bodies.held == 87
        one.shrink_stored(30)
        assert bodies.held == 57
    assert (bodies.held, bodies._stored) == (0, {})
    with Share(bodies) as share:
        share.grow_stored(100, "alice")


@pytest.mark.parametrize("what", ["response", "input_items", "items"])
async def test_what_is_being_read_is_held(gateway, what):
    """A client that reads slowly holds what it reads; with more it is refused, and others read on."""
    app = gateway(fresh=True, limits={"body_bytes": 100_000, "body_bytes_in_flight": 200_000}, **CLIENTS)
    text = "x" * 60_000
    if what == "items":
        path = f"{await made(app, items=[{'role': 'user', 'content': text}])}/items"
    else:
        first = await respond(app, "One.", instructions=text) if what == "response" else await respond(app, text)
        path = f"{PATH}/{first['id']}" + ("" if what == "response" else "/input_items")
    other = await respond(app, "Mine.", key="other")
    statuses: list[int] = []

    async def meanwhile(message: Any) -> None:
        if message["type"] == "http.response.start" and not statuses:
            statuses.append(0)
            statuses.append((await get(path).run(app)).status)
            statuses.append((await get(f"{PATH}/{other['id']}", key="other").run(app)).status)

    slow = get(path)
    slow.on_send = meanwhile
    await slow.run(app)

    assert (slow.status, statuses) == (200, [0, 503, 200])
    assert len(slow.content) > 60_000
    assert (part_of(app, Bodies).held, (await get(path).run(app)).status) == (0, 200)


async def test_what_is_built_on_is_held(gateway, sim):
    """Until the answer has ended, as if the client had sent it."""
    app = gateway(fresh=True)
    one = await respond(app, "x" * 50_000)
    held: list[int] = []

    async def look(message: Any) -> None:
        held.append(part_of(app, Bodies).held)

    exchange = asking("Go on.", previous_response_id=one["id"])
    exchange.on_send = look
    await exchange.run(app)

    assert max(held) > 50_000
    assert part_of(app, Bodies).held == 0


@pytest.mark.parametrize("trouble", ["slow", "fails"])
async def test_trouble_of_one_client_is_no_other_ones(trouble):
    """Whoever reads what takes long, or fails, is the only one who waits, or is refused."""
    store = SlowStore("mallory") if trouble == "slow" else SlowStore(fails="mallory")
    responses = Responses(store, 60.0, 10**6)
    for principal in ("mallory", "alice"):
        await responses.keep(principal, "resp_1", kept())
    refused: list[Exception] = []

    async def read() -> None:
        try:
            await responses.get(Owner("mallory"), "resp_1")
        except StoreUnavailable as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(read)
        await anyio.sleep(0.05)
        with anyio.fail_after(2):
            for _ in range(10):
                assert (await responses.get(ALICE, "resp_1")).id == "resp_1"
        group.cancel_scope.cancel()

    assert len(refused) == (20 if trouble == "fails" else 0)
    assert store.most <= 2


async def test_reads_of_a_client_wait_in_a_line_with_an_end(monkeypatch):
    """One reads at a time, so that it is counted before the next; too many, or too long a wait, are refused."""
    store, turns = SlowStore(), Turns()
    responses = Responses(store, 60.0, 10**6, turns=turns)
    await responses.keep("alice", "resp_1", kept())
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(responses.get, ALICE, "resp_1")
    assert store.most == 1

    monkeypatch.setattr("kiro_asgi.apis.responses.owners._LONGEST", 0.2)
    async with anyio.create_task_group() as group:
        store.slow = {owner_of(scoped("alice", "", ""))}
        group.start_soon(responses.get, ALICE, "resp_1")
        await anyio.sleep(0.05)
        with pytest.raises(StoreUnavailable) as caught:
            await responses.get(ALICE, "resp_1")
        assert caught.value.code == "state.slow"
        turns._waiting["alice"] += STORED_READS_WAITING
        with pytest.raises(TooBusy):
            await responses.get(ALICE, "resp_1")
        turns._waiting["alice"] -= STORED_READS_WAITING
        group.cancel_scope.cancel()
    store.slow = set()
    assert not turns._waiting
    assert (await responses.get(ALICE, "resp_1")).id == "resp_1"


async def test_background_has_a_share_for_each_client():
    """A sole client has half; others find room, down to the last; whose work has ended may begin again."""
    background, over = Background(8, lambda: None, checkpoint), threading.Event()
    ends: list[Any] = []

    async def work() -> None:
        while not over.is_set():  # noqa: ASYNC110 - no event spans two loops
            await anyio.sleep(0.01)

    def start(principal: str) -> bool:
        try:
            background.start(work, principal)
        except LimitReached as error:
            ends.append(error.message)
            return False
        return True

    assert [start("alice") for _ in range(5)] == [True] * 4 + [False]
    assert [start("bob") for _ in range(3)] == [True] * 2 + [False]
    assert [start(name) for name in ("carol", "dave", "erin")] == [True, True, False]
    assert "of this client" in ends[0] and "of this client" not in ends[-1]
    over.set()
    await background.idle()
    assert start("alice")
    await background.idle()


# Counted before it is decoded.


async def test_values_are_counted_with_what_is_built_on():
    """Of a chain, of references, and with those of the request itself: 400 that names the place, nothing decoded."""
    responses = Responses(MemoryStore(1_000, 10**9), 60.0, 10**9)
    half = [{"role": "user", "content": PARTS * (JSON_VALUES // 6)}]
    for number in range(1, 4):
        await responses.keep(
            "alice", f"resp_{number}", kept(number, f"resp_{number - 1}" if number > 1 else None, half)
        )
    whole = {"input": "Go on.", "previous_response_id": "resp_1"}
    assert (await responses.complete(ALICE, whole)).earlier == 2

    named = [{"type": "item_reference", "id": f"msg_{number}_i0"} for number in range(1, 4)]
    for value, place in (
        ({**whole, "previous_response_id": "resp_3"}, "previous_response_id"),
        ({**whole, "input": half * 2}, "previous_response_id"),
        ({"input": named}, "input[1]"),
    ):
        with pytest.raises(RequestError, match=f"more than {JSON_VALUES} values") as caught:
            await responses.complete(ALICE, value)
        assert caught.value.param.startswith(place.removesuffix("[1]")), caught.value.param


async def test_references_have_a_limit_and_one_look(gateway, sim):
    """However many are stale, those who may find them elsewhere look once more for all of them together."""
    store = SlowStore()
    responses = Responses(store, 60.0, 10**6, 0.5)
    items = [{"type": "item_reference", "id": f"msg_{number:024}_0"} for number in range(20)]
    started = anyio.current_time()
    with anyio.fail_after(5):
        await responses.complete(ALICE, {"input": items})
    assert anyio.current_time() - started < 20 * 0.5 / 2
    refused = await asking([{"id": f"msg_{number}_0"} for number in range(REFERENCES + 1)]).run(gateway())

    assert error_of(refused)[::2] == (400, f"input[{REFERENCES}]")
    assert sim.requests == ()


@pytest.mark.parametrize("large", [False, True], ids=["many", "parts"])
async def test_what_is_accepted_is_read_and_deleted(gateway, large):
    """20,000 short messages, or as many parts as a request may have: shown, listed, gone on with, and deleted."""
    app = gateway(fresh=True)
    message = {"role": "user", "content": "x"}
    items = [{"role": "user", "content": PARTS * 33_000}] if large else [message] * 20_000
    one = await respond(app, items)
    path = f"{PATH}/{one['id']}"

    assert (await get(path).run(app)).json() == one
    listed = (await get(f"{path}/input_items", query_string=b"order=asc&limit=1").run(app)).json()
    assert (listed["data"][0]["content"][:1], listed["has_more"]) == (PARTS, not large)
    assert (await asking("Go on.", previous_response_id=one["id"]).run(app)).status == 200
    assert (await delete(path).run(app)).status == 200


async def test_a_conversation_takes_no_more_than_can_be_read(gateway):
    """The add that is too much is refused, and names the limit; the others are listed, and deleted."""
    app = gateway(fresh=True)
    path = await made(app)
    add = {"items": [{"role": "user", "content": PARTS * 800}] * 20}
    statuses = [await post(f"{path}/items", add).run(app) for _ in range(3)]

    assert [each.status for each in statuses] == [200, 200, 400]
    assert f"at most {JSON_VALUES} values" in statuses[-1].json()["error"]["message"]
    assert len(await items_of(app, path, b"order=asc&limit=100")) == 40
    assert (await delete(path).run(app)).status == 200
    assert (await get(path).run(app)).status == 404


@pytest.mark.parametrize("state", [{"entries": 0}, {"bytes": 2_000}], ids=["nothing", "little"])
async def test_a_conversation_that_the_store_would_not_keep_is_refused(state, service):
    """What is accepted is there: what would not fit into the store is 413."""
    app = create_app(settings_for(service.url, {"state": {"engine": "memory", **state}}))
    refused = await post(CONVERSATIONS, {"items": [{"role": "user", "content": "x" * 3_000}]}).run(app)
    await app.aclose()

    assert (refused.status, "at most" in json.dumps(refused.json())) == (413, True)


async def test_a_conversation_that_just_fits_is_kept(service):
    """Up to the largest that is accepted, each is there afterwards."""
    app = create_app(settings_for(service.url, {"state": {"engine": "memory", "bytes": 4_000}}))
    found = {}
    for size in range(2_000, 4_200, 100):
        answer = await post(CONVERSATIONS, {"items": [{"role": "user", "content": "x" * size}]}).run(app)
        path = f"{CONVERSATIONS}/{answer.json().get('id')}"
        found[size] = answer.status, (await get(path).run(app)).status if answer.status == 200 else None
    await app.aclose()

    assert {*found.values()} == {(200, 200), (413, None)}
