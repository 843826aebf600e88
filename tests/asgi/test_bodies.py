"""Request bodies that are held at once: how many bytes of them, and that they leave room for others."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import pytest

from kiro_asgi import App, ConfigError, Settings, create_app
from kiro_asgi.asgi.exchange.call import Bodies, Share
from kiro_asgi.asgi.protocol import _collect, read_body
from kiro_asgi.errors import TooBusy
from tests.asgi.answers import ALL_DIALECTS, error_of, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import PATHS, ask, http_scope, post
from tests.growth import assert_linear
from tests.parts import part_of

pytestmark = pytest.mark.anyio

KIB = 1024


def grown(share: Share, step: int) -> int:
    """How far *share* comes, in steps."""
    size = 0
    try:
        while True:
            share.grow(step)
            size += step
    except TooBusy:
        return size


@pytest.mark.parametrize("senders", [1, 2, 10, 100])
async def test_whoever_sends_much_leaves_room(senders):
    """However many bodies grow without end, as much is free as the largest of them has, and so an ordinary one fits."""
    bodies = Bodies(1_000_000)
    shares = [Share(bodies) for _ in range(senders)]
    sizes = [0] * senders
    for _ in range(1_000_000 // 100):
        for at, share in enumerate(shares):
            try:
                share.grow(100)
                sizes[at] += 100
            except TooBusy:
                continue

    free = 1_000_000 - bodies.held
    assert bodies.held == sum(sizes)
    assert max(sizes) <= free
    assert free - max(sizes) <= 100 * senders
    with Share(bodies) as other:
        assert grown(other, 1) >= free // 2 - 1


async def test_one_body_may_have_half_of_all():
    """So a request as large as allowed can be answered when nothing else is there."""
    assert grown(Share(Bodies(1000)), 1) == 500


async def test_what_is_given_back_is_there_again():
    """A share ends with its request, whatever the end was."""
    bodies = Bodies(100)
    with pytest.raises(ZeroDivisionError), Share(bodies) as share:
        share.grow(50)
        raise ZeroDivisionError
    with Share(bodies) as share:
        assert grown(share, 1) == 50
    assert bodies.held == 0


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"body_bytes": 1000, "body_bytes_in_flight": 1999}, "in_flight: must be at least twice limits"),
        ({"body_bytes_in_flight": 2**20}, "in_flight: must be at least twice limits"),
        ({"body_bytes": 2**30}, "body_bytes: must be at most half of limits"),
    ],
)
async def test_a_body_of_the_largest_size_must_fit(limits, words):
    """Settings under which a request that is allowed could never be answered are refused, in words."""
    with pytest.raises(ConfigError, match=words):
        Settings.from_mapping({"limits": limits})


class HalfSent:
    """A client that sends so many bytes of a body, and then nothing."""

    def __init__(self, size: int, path: str = "/v1/messages") -> None:
        self.exchange = post(path, b"")
        self.exchange.body = []
        self.left = size
        self.stalled = anyio.Event()
        self.stop = anyio.Event()

    async def receive(self):
        if self.left > 0:
            size = min(self.left, 16 * KIB)
            self.left -= size
            return {"type": "http.request", "body": bytes(size), "more_body": True}
        self.stalled.set()
        await self.stop.wait()
        return {"type": "http.disconnect"}

    async def run(self, app: App) -> None:
        try:
            await app(self.exchange.scope, self.receive, self.send)
        finally:
            self.stalled.set()

    async def send(self, message: Any) -> None:
        await self.exchange.send(message)


class SlowToTake(HalfSent):
    """The same, which takes no answer before it is to stop."""

    async def send(self, message: Any) -> None:
        self.stalled.set()
        await self.stop.wait()
        await super().send(message)


@pytest.fixture
async def small(sim) -> AsyncIterator[Callable[..., App]]:
    apps = []

    def make(**slices) -> App:
        limits = {"body_bytes": 512 * KIB, "body_bytes_in_flight": 1024 * KIB, "body_timeout": 5.0}
        apps.append(create_app(settings_for(sim.url, {"limits": limits, **slices})))
        return apps[-1]

    yield make
    for app in apps:
        await app.aclose()


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_half_sent_bodies_hold_no_more_than_the_limit(dialect, small):
    """Ten bodies of half a MiB, none of which ends, hold less than the one MiB that is allowed; those beyond it are 503
    with ``retry-after``; another client is answered meanwhile, and all is free in the end."""
    app, clients = small(), [HalfSent(500 * KIB, PATHS[dialect]) for _ in range(10)]
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.run, app)
        for client in clients:
            await client.stalled.wait()
        refused = [client.exchange for client in clients if client.exchange.messages]
        held = part_of(app, Bodies).held
        other = await ask(dialect, "sim:count=3 " + "x" * 50 * KIB, stream=False).run(app)
        for client in clients:
            client.stop.set()

    assert refused
    for exchange in refused:
        assert exchange.status == 503 and int(exchange.headers["retry-after"]) >= 1
        assert "too many bytes" in error_of(dialect, exchange)["message"]
    assert 0 < held <= 1024 * KIB - 50 * KIB
    assert text_of(dialect, other) == "1 2 3 "
    assert part_of(app, Bodies).held == 0


async def test_a_length_reserves_nothing(small):
    """Bodies that are only announced take no room from others."""
    app, clients = small(), [HalfSent(0) for _ in range(50)]
    for client in clients:
        client.exchange.scope["headers"] = [(b"authorization", b"Bearer k"), (b"content-length", b"500000")]
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.run, app)
        for client in clients:
            await client.stalled.wait()
        assert part_of(app, Bodies).held == 0
        assert (await ask("openai", "sim:count=1 " + "x" * 400 * KIB, stream=False).run(app)).status == 200
        for client in clients:
            client.stop.set()


async def test_too_large_is_said_before_too_busy(small):
    """What will never be taken is 413, however busy it is: 503 would make the client try again."""
    app, first, second = small(), HalfSent(500 * KIB), HalfSent(20 * KIB)
    third = post("/v1/messages", b"x" * (513 * KIB))
    async with anyio.create_task_group() as tasks:
        for client in (first, second):
            tasks.start_soon(client.run, app)
            await client.stalled.wait()
        await third.run(app)
        first.stop.set()
        second.stop.set()

    assert third.status == 413


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_a_refused_request_holds_nothing_while_it_is_told_so(dialect, small):
    """Clients that take their refusal slowly do not have others refused for want of what they had sent."""
    app, clients, held = small(), [SlowToTake(500 * KIB, PATHS[dialect]) for _ in range(3)], []
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.run, app)
            await client.stalled.wait()
            held.append(part_of(app, Bodies).held)
        for client in clients:
            client.stop.set()

    assert [client.exchange.status for client in clients[1:]] == [503, 503]
    assert held == [500 * KIB] * 3, "the first one's, which goes on, and no other's"


async def test_a_body_is_held_until_its_answer_ends(small, sim):
    """What may have to be sent again is held; a cancelled request holds nothing."""
    app = small()
    with anyio.move_on_after(5) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask("openai", "sim:stall " + "x" * 10 * KIB, stream=True).run, app)
            while not sim.requests:  # noqa: ASYNC110 - nothing sets an event
                await anyio.sleep(0.01)
            assert part_of(app, Bodies).held > 10 * KIB
            tasks.cancel_scope.cancel()

    assert not scope.cancelled_caught
    assert part_of(app, Bodies).held == 0


async def test_a_body_is_in_memory_once():
    """Gathering a body of 8 MiB takes no second copy of it."""
    size, chunk = 8 * KIB * KIB, bytes(64 * KIB)

    async def receive():
        nonlocal size
        size -= len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": size > 0}

    tracemalloc.start()
    try:
        body = await read_body(http_scope("POST", "/"), receive, max_bytes=2**30, seconds=5, hold=abs, release=abs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert len(body) == 8 * KIB * KIB
    assert peak < 1.3 * len(body)


def run_at_once(work: Coroutine[Any, Any, bytes]) -> bytes:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return bytes(end.value)
    raise AssertionError("it waits")


async def test_bodies_in_single_bytes_take_linear_work():
    """A body may come in messages of one byte, or of none."""

    def make(size: int) -> Callable[[], object]:
        messages = iter([b"x", b""] * size)

        async def receive():
            chunk = next(messages, None)
            return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

        share = Share(Bodies(10**9))
        return lambda: run_at_once(_collect(receive, 10**9, share.grow))

    assert_linear(make, 2_000)
