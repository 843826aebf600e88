"""An account at fault: who is still asked, what the others are told, and when that ends."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from attrs import define

from kiro_asgi import App
from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.create import new_app
from kiro_asgi.dialects.errors import REFUSED
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.simulator import Head, Pause, answer, refusal, text
from kiro_asgi.simulator.openai.encoder import refusal as openai_refusal
from kiro_asgi.simulator.server import Simulator
from tests.asgi.answers import DIALECTS, comes_true, error_of, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask, get, post

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
CHAT = "/generateAssistantResponse"
RESTS = {"refused_base": 2.0, "refused_cap": 60.0, "quota_probe": 300.0, "suspicion": 1800.0}
SPENT = refusal(402, "You have reached the limit.", "MONTHLY_REQUEST_COUNT")
KEYS = {"api_key": "sk-first", "fallback_api_keys": ["sk-second"]}


@define
class Later:
    """A clock that can be put forward, and apps that read it."""

    service: Simulator
    apps: list[App]
    ahead: float = 0.0

    def app(self, **slices: Any) -> App:
        slices["retry"] = {**RESTS, **slices.get("retry", {})}
        made = new_app(
            settings_for(self.service.url, slices),
            internals=Internals(clocks=Clocks(lambda: time.monotonic() + self.ahead)),
        )
        self.apps.append(made)
        return made

    def asked(self, path: str = CHAT) -> int:
        """Answers that the service was asked for since the last time."""
        count = [request.path for request in self.service.requests].count(path)
        self.service.forget()
        return count


@pytest.fixture
async def later(sim: Simulator) -> AsyncIterator[Later]:
    made = Later(sim, [])
    yield made
    for app in made.apps:
        await app.aclose()


def told(dialect: str, exchange: Exchange) -> str:
    return str(error_of(dialect, exchange)["message"])


@EACH_DIALECT
async def test_a_refused_key_is_asked_again_soon(dialect, later, sim):
    """R36: the only credential never closes the gateway: for the model it rests 2 s, then 4, and is well again after an
    answer."""
    app = later.app()
    for pause in (2, 4):
        first = await ask(dialect, "sim:token-invalid", stream=True).run(app)
        assert (first.status, later.asked()) == (502, 1)
        resting = await ask(dialect, "sim:text", stream=True).run(app)
        assert (resting.status, later.asked()) == (502, 0)
        assert told(dialect, resting).startswith(REFUSED + "The bearer token")
        assert f"not asked again now, the next try is in {pause} s" in told(dialect, resting)
        assert "retry-after" not in resting.headers, "the key has to be put right before anything helps"
        later.ahead += pause
    calm = {"ready": True, "reasons": [], "degraded": [], "at_limit": [], "adapted": [], "lists": {"kiro": "unasked"}}
    ready = await get("/ready").run(app)
    assert (ready.status, ready.json()) == (200, calm | {"resting": []})
    assert (await ask(dialect, "sim:text", stream=True).run(app)).status == 200
    await ask(dialect, "sim:token-invalid", stream=True).run(app)
    ready, stranger = await get("/ready").run(app), await get("/ready", key=None).run(app)
    rests = ready.json()["resting"]
    assert ready.json() == calm | {"resting": rests}, "the others have the same credential: it stays ready"
    assert [rest["credential"].partition(" for ")[0] for rest in rests] == ["kiro.api_key"] * 2
    assert {(rest["reason"], rest["seconds"]) for rest in rests} == {("UpstreamTokenInvalid", 2)}
    assert (stranger.status, stranger.json()) == (200, {"ready": True})
    assert "in 2 s" in told(dialect, await ask(dialect, "sim:text", stream=True).run(app))


@EACH_DIALECT
async def test_a_refusal_without_a_reason_holds_nobody_up(dialect, later, sim):
    """403 and no word of the credential or the model: the next request is asked at once."""
    app = later.app()
    first = await ask(dialect, "sim:403", stream=True).run(app)
    assert (first.status, later.asked()) == (502, 1)
    assert not told(dialect, first).startswith(REFUSED)
    assert (await ask(dialect, "sim:text", stream=True).run(app)).status == 200


@EACH_DIALECT
async def test_a_spent_quota_is_tried_by_one_request(dialect, later, sim):
    """Until the renewal one request each five minutes may try; others are told without asking when the next try is,
    and served as soon as the one is."""
    app = later.app()
    assert (await ask(dialect, "sim:quota", stream=True).run(app)).status == 402
    refused = await ask(dialect, "sim:text", stream=True).run(app)
    assert (refused.status, later.asked()) == (402, 1)
    assert "; resets at 2096-10-02 07:06 UTC; not asked again now, the next try is in 300 s" in told(dialect, refused)
    later.ahead += 300

    sim.enqueue((Pause(0.2), *SPENT))
    crowd = [ask(dialect, "sim:text", stream=True) for _ in range(10)]
    async with anyio.create_task_group() as group:
        for each in crowd:
            group.start_soon(each.run, app)
    assert [each.status for each in crowd] == [402] * 10
    assert later.asked() == 1
    later.ahead += 300

    sim.enqueue((Head(), *text("some"), Pause(0.5), *text(" more")))
    first, second = (ask(dialect, "hi", stream=True) for _ in range(2))
    async with anyio.create_task_group() as group:
        group.start_soon(first.run, app)
        assert await comes_true(sim, lambda: first.messages)
        await second.run(app)
        assert second.status == 200
    assert first.status == 200


@EACH_DIALECT
@pytest.mark.parametrize(("marker", "words"), [("suspicious", "suspicious activity"), ("suspended", "We've locked it")])
async def test_suspicion_is_waited_for(dialect, marker, words, later, sim):
    """Decision 1.10: thirty minutes, the service's own words, and no try in between."""
    app = later.app()
    first = await ask(dialect, f"sim:{marker}", stream=True).run(app)
    later.ahead += 1799
    second = await ask(dialect, "sim:text", stream=True).run(app)
    assert [first.status, second.status, later.asked()] == [502, 502, 1]
    assert all(words in told(dialect, each) for each in (first, second))
    assert "the next try is in 1 s" in told(dialect, second)
    later.ahead += 1.1

    assert (await ask(dialect, "sim:text", stream=True).run(app)).status == 200


def question(model: str) -> Exchange:
    asked = {"model": model, "messages": [{"role": "user", "content": "Count to 3"}]}
    return post("/v1/chat/completions", asked)


DEACTIVATED = openai_refusal(403, "invalid_request_error", "account_deactivated", "Deactivated.")
OPENAI_CHAT = "/v1/chat/completions"


async def test_no_other_account_of_the_service_is_asked_after_a_suspension(later, sim):
    """Decision 1.10: neither another key nor another upstream at the same address; another service may be."""
    url = f"{sim.url}/v1"
    rows = {"models": ["x=openai/gpt-4o>local/gpt-4o>kiro/claude-sonnet-4.5", "y=openai/gpt-4o>local/gpt-4o"]}
    slices = {"openai": {"endpoint": url, **KEYS}, "custom": {"local": {"endpoint": url, "api_key": "sk-third"}}}
    for model, status in (("y", 502), ("openai/gpt-4o", 502), ("x", 200)):
        app = later.app(**slices, routing=rows)
        sim.enqueue(DEACTIVATED, operation="openai.chat")
        exchange = await question(model).run(app)
        assert (exchange.status, later.asked(OPENAI_CHAT)) == (status, 1), model


async def test_another_account_is_asked_after_a_spent_quota(later, sim):
    """What is no suspicion may be walked around, by the operator's own other keys."""
    sim.enqueue(openai_refusal(429, "insufficient_quota", "insufficient_quota", "Spent."), operation="openai.chat")
    app = later.app(openai={"endpoint": f"{sim.url}/v1", **KEYS})
    exchange = await question("openai/gpt-4o").run(app)

    assert (exchange.status, later.asked(OPENAI_CHAT)) == (200, 2)


async def test_what_is_about_one_model_says_nothing_about_others(later, sim):
    """A quota of Gemini's that is one model's alone; OpenRouter's refusal of a request that is too large."""
    app = later.app(
        gemini={"api_key": "g", "endpoint": sim.url}, openai={"api_key": "sk-only", "endpoint": f"{sim.url}/v1"}
    )
    body = {"messages": [{"role": "user", "content": "sim:quota"}]}
    spent = await post("/v1/chat/completions", {"model": "gemini/gemini-2.5-pro", **body}).run(app)
    assert (spent.status, spent.json()["error"]["code"]) == (402, "insufficient_quota")
    sim.forget()
    again, other = [await question(f"gemini/gemini-2.5-{name}").run(app) for name in ("pro", "flash")]
    assert (again.status, other.status) == (402, 200)
    assert [request.operation for request in sim.requests].count("gemini.chat") == 1

    words = (
        "This request requires more credits, or fewer max_tokens. You requested up to 9 tokens, but can only afford 8."
    )
    sim.enqueue(openai_refusal(402, "", None, words), operation="openai.chat")
    costly, smaller = [await question("openai/gpt-4o").run(app) for _ in range(2)]
    assert (costly.status, smaller.status) == (402, 200)


async def test_the_access_log_says_what_rests(later, sim, caplog):
    """Every line, as long as something does, with the reason and the time; no line, where nothing does."""
    app = later.app()
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        await ask("openai", "sim:text", stream=True).run(app)
        await ask("openai", "sim:quota", stream=True).run(app)
        await get("/v1/models").run(app)
    lines = [record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access"]

    assert "resting=" not in lines[0]
    assert all(" resting=kiro.api_key:UpstreamQuotaSpent:300s" in line for line in lines[1:]), lines


async def test_a_late_answer_from_before_changes_nothing(later, sim):
    """Answers that began before the fault are read to their end, and are no sign that it is over."""
    app = later.app()
    sim.enqueue((Pause(0.3), *answer(*text("late"))))
    late = ask("openai", "hi", stream=True)
    async with anyio.create_task_group() as group:
        group.start_soon(late.run, app)
        assert await comes_true(sim, lambda: sim.requests)
        await ask("openai", "sim:suspicious", stream=True).run(app)
    assert text_of("openai", late) == "late"
    assert (await ask("openai", "sim:text", stream=True).run(app)).status == 502
