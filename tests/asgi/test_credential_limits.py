"""What each of the gateway's own credentials may take: another is asked, and a client refused where none has room."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from attrs import define, evolve, field

from kiro_asgi.asgi.exchange.admission import LimitedCredentials, Reservation, Reservations
from kiro_asgi.errors import ConfigError, StoreUnavailable, UpstreamLimitReached
from kiro_asgi.model.charge import Charge
from kiro_asgi.model.events import Usage
from kiro_asgi.quota.claims import Budget, Claim, Cost, Granted, Rate, Refused
from kiro_asgi.quota.memory import MemoryCounters
from kiro_asgi.quota.settings import QuotaSettings
from kiro_asgi.simulator import Head, Pause, Reset, text
from kiro_asgi.simulator.openai.encoder import refusal
from tests.asgi.driver import get, post
from tests.state.engines import Clock
from tests.valkey_server import needs_server, running

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
FIRST, SECOND = "openai.api_key", "openai.fallback_api_keys[0]"


def question(model: str = "openai/gpt-4o", **more: Any):
    return post(CHAT, {"model": model, "messages": [{"role": "user", "content": "Count to 3"}], **more})


@pytest.fixture
def app(gateway, sim):
    """A gateway with two keys of one service, and limits of each by the name that it has in ``/ready``."""

    def make(limits: dict[str, dict[str, Any]], **slices: Any):
        tables = {f"l{at}": {"credential": name, **each} for at, (name, each) in enumerate(limits.items())}
        keys = {"endpoint": f"{sim.url}/v1", "api_key": "sk-first", "fallback_api_keys": ["sk-second"]}
        return gateway(fresh=True, openai=keys, credentials=tables, **slices)

    yield make
    sim.service._queued.clear()


def asked(sim) -> list[str]:
    """The keys that the service was asked with, in order."""
    return [dict(request.headers)["authorization"][-6:] for request in sim.requests if request.path == CHAT]


async def at_limit(app) -> dict[str, Any]:
    ready = (await get("/ready").run(app)).json()
    assert (ready["ready"], ready["resting"]) == (True, []), "a limit is no fault"
    return {each["credential"]: each["limit"] for each in ready["at_limit"]}


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
async def test_the_next_credential_is_asked_and_then_nobody(app, sim, tmp_path, engine, caplog):
    """The refusal names the one that is free soonest, with its wait, and no secret; no attempt was made for it."""
    state = {"state": {"engine": engine, "path": str(tmp_path / "state.db")}} if engine == "sqlite" else {}
    made = app({FIRST: {"requests_per_minute": 1}, "openai.*": {"requests_per_minute": 2}}, **state)
    answers = [await question().run(made) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert asked(sim) == ["-first", "second", "second"]

    refused = answers[-1]
    error = refused.json()["error"]
    assert error["message"].startswith(f"the limit of {SECOND} is reached: 2 requests a minute, of which ")
    assert error["type"] == "rate_limit_error"
    assert 25 <= int(refused.headers["retry-after"]) <= 30
    assert "x-should-retry" not in refused.headers
    assert "sk-" not in caplog.text
    assert "failed" not in caplog.text, "nobody failed"
    assert await at_limit(made) == {FIRST: "1 request a minute", SECOND: "2 requests a minute"}
    await made.aclose()


async def test_tokens_are_those_of_the_answer(app, sim):
    """Not those that were reserved; and a day that is spent goes on with the next credential."""
    made = app({FIRST: {"tokens_per_day": 10_000}})
    assert [(await question().run(made)).status for _ in range(6)] == [200] * 6
    assert set(asked(sim)) == {"-first"}, "six reservations of 4,000 tokens would not fit"
    sim.forget()
    made = app({FIRST: {"tokens_per_day": 10}, SECOND: {"credits_per_month": 0.001}})
    assert [(await question().run(made)).status for _ in range(3)] == [200] * 3
    assert asked(sim) == ["-first", "second", "second"], "the service tells no credits"


async def test_what_one_credential_was_refused_is_free_again(app, sim):
    """A request that goes on with another credential holds nothing of the first; a refusal takes no tokens."""
    sim.enqueue(refusal(429, "insufficient_quota", "insufficient_quota", "Spent."), operation="openai.chat")
    made = app({FIRST: {"tokens_per_day": 10, "streams": 1}}, retry={"quota_probe": 0.0})
    assert [(await question().run(made)).status for _ in range(3)] == [200] * 3
    assert asked(sim) == ["-first", "second", "-first", "second"]


async def test_an_answer_that_breaks_off_is_not_free(app, sim):
    """It had begun, so the tokens that were reserved stay taken: the day is spent, and the next credential is asked."""
    sim.enqueue((Head(), *text("1, 2"), Reset()), operation="openai.chat")
    made = app({FIRST: {"tokens_per_day": 10}}, retry={"attempts": 1})
    statuses = [(await question().run(made)).status for _ in range(2)]
    assert statuses == [503, 200]
    assert asked(sim) == ["-first", "second"]


async def test_answers_at_once(app, sim):
    """A stream holds its place until it has ended, or its client has left."""
    made = app({"openai.*": {"streams": 1}})
    slow = (Head(), *text("some"), Pause(30), *text(" more"))
    streams = [question(stream=True) for _ in range(2)]
    for _ in streams:
        sim.enqueue(slow, operation="openai.chat")
    async with anyio.create_task_group() as group:
        for stream in streams:
            group.start_soon(stream.run, made)
            with anyio.fail_after(5):
                while not stream.messages:  # noqa: ASYNC110 - the driver has no event for it
                    await anyio.sleep(0.005)
        refused = await question().run(made)
        assert (refused.status, asked(sim)) == (429, ["-first", "second"])
        assert "1 answer at once" in refused.json()["error"]["message"]
        for stream in streams:
            stream.leave.set()
    assert (await question().run(made)).status == 200
    assert await at_limit(made) == {SECOND: "1 answer at once"}


async def test_another_upstream_that_the_operator_wrote_down(app, sim):
    routing = {"models": ["x=openai/gpt-4o>kiro/claude-sonnet-4.5"]}
    made = app({"openai.*": {"requests_per_minute": 1}}, routing=routing)
    assert [(await question("x").run(made)).status for _ in range(3)] == [200] * 3
    assert asked(sim) == ["-first", "second"]


async def test_a_limit_of_nobody(app):
    """The message has the names that there are."""
    with pytest.raises(ConfigError, match=rf"credentials\.l0\.credential: fits no .*kiro\.api_key, {FIRST}"):
        app({"openai.key": {"streams": 1}})
    with pytest.raises(ConfigError, match=r"credentials\.l0\.credential: must name"):
        app({"": {"streams": 1}})


@needs_server
async def test_limits_are_exact_over_two_gateways(app, sim):
    with running() as server:
        shared = {"engine": "valkey", "url": server.url}
        apps = [app({"openai.*": {"requests_per_minute": 10}}, state=shared) for _ in range(2)]
        statuses: list[int] = []

        async def one(at: int) -> None:
            statuses.append((await question().run(apps[at])).status)

        started = anyio.current_time()
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(one, number % 2)
        anew = 2 * int((anyio.current_time() - started) * 10 / 60)
        for each in apps:
            await each.aclose()
    assert set(statuses) == {200, 429}
    assert 20 <= statuses.count(200) <= 20 + anew


@define
class LosableCounters(MemoryCounters):
    """Counters that can be lost."""

    lost: bool = field(default=False, kw_only=True)

    async def take(self, claims: Sequence[Claim]) -> Granted | Refused:
        if self.lost:
            raise StoreUnavailable(detail="gone")
        return await MemoryCounters.take(self, claims)

    async def correct(self, claims: Sequence[Rate | Budget]) -> None:
        if self.lost:
            raise StoreUnavailable(detail="gone")
        await MemoryCounters.correct(self, claims)


async def test_each_loss_of_the_counters_is_told_once(caplog):
    """Lost, found, lost: a line for each, however many requests meet it."""
    clock = Clock()
    counters = LosableCounters(clock)
    quotas = evolve(QuotaSettings(), requests_per_minute=100)
    reservations = Reservations(quotas, counters, clock, False)
    told = []
    for lost in (True, False, True):
        counters.lost = lost
        for number in range(3):
            assert isinstance(await reservations.take("alice", quotas, Cost(1), f"req_{number}"), Reservation)
        told.append((caplog.text.count("limits are not shared: gone"), caplog.text.count("limits are shared again")))

    assert told == [(1, 0), (1, 1), (2, 1)]


async def test_a_limit_is_told_once_in_its_time(caplog):
    """However many requests meet it: one line, and one more when it is met again after there was room."""
    clock = Clock()
    quotas = QuotaSettings()
    reservations = Reservations(quotas, MemoryCounters(clock), clock, False)
    limits = LimitedCredentials({"a key": evolve(quotas, requests_per_minute=1)}, reservations, clock)
    route, upstream = SimpleNamespace(model=SimpleNamespace(id="m")), SimpleNamespace(name="u")
    credential = SimpleNamespace(source="a key")
    exchange: Any = SimpleNamespace(credential=credential, expected=Usage(1), route=route, upstream=upstream)
    call: Any = SimpleNamespace(request_id="req_1", leases={}, charges=[], reserved=None)
    counts = []
    with caplog.at_level("INFO", "kiro_asgi"):
        for _ in range(2):
            async with limits.reserved(call, exchange):
                pass
            for _ in range(3):
                with pytest.raises(UpstreamLimitReached):
                    async with limits.reserved(call, exchange):
                        pass
            counts.append(caplog.text.count("a key is at its limit of 1 request a minute"))
            clock.now += 61.0

    assert counts == [1, 2]


async def test_what_ends_while_the_counters_are_away_is_taken_when_they_are_back():
    """Once, and all of it: an answer is not free because a server was gone when it ended."""
    clock = Clock()
    counters = LosableCounters(clock)
    quotas = evolve(QuotaSettings(), tokens_per_day=1_000)
    reservations = Reservations(quotas, counters, clock, False)
    call: Any = SimpleNamespace(leases={}, charges=[], reserved=None)
    for _ in range(2):
        held = await reservations.take("alice", quotas, Cost(10), "req_1")
        assert isinstance(held, Reservation)
        async with reservations.holding(call, held):
            call.charges.append(Charge(Usage(100, 200)))
            counters.lost = True
        counters.lost = False

    left = []
    for _ in range(3):
        held = await reservations.take("alice", quotas, Cost(0), "req_2")
        assert isinstance(held, Reservation)
        left.append(held.standings[0].remaining)
    assert left[1:] == [400, 400]
