"""Prices through the whole gateway: what an answer costs, in the ledger and for observers, and limits in money."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import anyio
import pytest

from kiro_asgi import Observer, create_app
from kiro_asgi.asgi.door.parts import Additions, Internals
from kiro_asgi.asgi.kept.usage import new_ledger
from kiro_asgi.cli import main
from kiro_asgi.create import new_app
from kiro_asgi.errors import ConfigError
from kiro_asgi.model.prices import Money
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.observers import CallFacts, EndFacts, Outcome
from kiro_asgi.simulator import Simulator, refusal
from kiro_asgi.tapes import Tape, read_tape
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post
from tests.valkey_server import needs_server, running

pytestmark = pytest.mark.anyio

CHAT = {"model": "openai/gpt-4o", "max_completion_tokens": 50, "messages": [{"role": "user", "content": "sim:count=5"}]}
PRICES = {"models": ["gpt-4o*=2/10", "text-embedding-*=1/0"], "credits": ["kiro/*=0.5"]}
EVER = "2000-01-01", "9998-01-01"


class Told(Observer):
    """What observers are told."""

    def __init__(self) -> None:
        self.ends: list[EndFacts] = []

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        self.ends.append(end)

    def money(self) -> tuple[float, float]:
        """Cost of all calls: what the services counted, and what was estimated."""
        known = [end.cost for end in self.ends if end.cost is not None]
        return sum(each.counted for each in known), sum(each.estimated for each in known)


def hashed(key: str) -> str:
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def services(sim: Simulator, **slices: Any) -> dict[str, Any]:
    openai = {"endpoint": f"{sim.url}/v1", "api_key": "k"}
    return {"openai": openai, "gemini": {"endpoint": sim.url, "api_key": "k"}, "prices": PRICES, **slices}


async def ask(app: Any, key: str = "k", path: str = "/v1/chat/completions", **more: Any) -> Exchange:
    return await post(path, {**CHAT, **more}, key=key).run(app)


async def test_an_answer_costs_what_its_tokens_do(sim):
    """By the service's counts, which the client is told, too; credits cost beside them or alone."""
    told = Told()
    app = create_app(settings_for(sim.url, services(sim)), observers=[told])
    usage = (await ask(app)).json()["usage"]
    await ask(app, model="claude-sonnet-4.5")
    await app.aclose()
    counted, metered = told.ends

    assert counted.cost.counted == pytest.approx(2e-06 * usage["prompt_tokens"] + 1e-05 * usage["completion_tokens"])
    assert counted.cost.estimated == 0
    assert metered.usage.metering is not None
    assert metered.cost == Money(metered.usage.metering.amount * 0.5)


async def test_a_cost_that_is_not_known_is_none(sim):
    """Neither for a model without a price, nor for an answer that there was not."""
    told = Told()
    app = create_app(settings_for(sim.url, services(sim, retry={"attempts": 1})), observers=[told])
    await ask(app, model="openai/gpt-5")
    sim.enqueue(refusal(500, "Broken."), operation="openai.chat")
    await ask(app)
    await app.aclose()

    assert [end.cost for end in told.ends] == [None, None]


async def test_the_ledger_holds_the_money_of_all_calls(sim, tmp_path, monkeypatch, capsys):
    """The same as all calls told one by one, what is estimated in a sum of its own, and how many have no price."""
    told = Told()
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "usage": True}
    prices = {**PRICES, "models": [*PRICES["models"], "gemini-*=1/2"]}
    settings = settings_for(sim.url, services(sim, state=state, prices=prices))
    app = create_app(settings, observers=[told])
    for model in ("openai/gpt-4o", "openai/gpt-5", "claude-sonnet-4.5", "openai/gpt-4o-mini"):
        assert (await ask(app, model=model)).status == 200
    for model in ("openai/text-embedding-3-small", "gemini/gemini-embedding-001"):
        assert (await ask(app, path="/v1/embeddings", model=model, input="a cat")).status == 200
    await app.aclose()
    ledger = new_ledger(settings)
    rows = [*ledger.rows(*EVER)]
    ledger.close()
    counted, estimated = told.money()

    assert counted > 0 < estimated
    assert sum(row.amounts.get("cost", 0) for row in rows) == pytest.approx(counted, rel=1e-12)
    assert sum(row.amounts.get("estimated_cost", 0) for row in rows) == pytest.approx(estimated, rel=1e-12)
    assert {row.key.model: row.amounts.get("unpriced") for row in rows}["gpt-5"] == 1
    assert [row.key.model for row in rows if row.amounts.get("estimated_cost")] == ["gemini-embedding-001"]
    monkeypatch.setenv("KIRO_ASGI__STATE__ENGINE", "sqlite")
    monkeypatch.setenv("KIRO_ASGI__STATE__PATH", state["path"])
    assert main(["usage", "--by", "upstream", "--json"]) == 0
    lines = {line["upstream"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["openai"]["unpriced"] == 1
    assert lines["kiro"]["cost"] > 0 == lines["kiro"]["estimated_cost"]


async def test_without_prices_nothing_is_said_of_money(sim, tmp_path):
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "usage": True}
    settings = settings_for(sim.url, services(sim, state=state, prices={}))
    app = create_app(settings)
    await ask(app)
    await app.aclose()
    ledger = new_ledger(settings)

    assert all(not {"cost", "estimated_cost", "unpriced"} & row.amounts.keys() for row in ledger.rows(*EVER))
    ledger.close()


async def test_an_answer_that_breaks_off_costs_what_has_come_of_it(sim, tmp_path):
    """By estimate, in a sum of its own: it has a price, so it is not among those whose cost is not known."""
    told = Told()
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "usage": True}
    settings = settings_for(sim.url, services(sim, state=state, retry={"attempts": 1}))
    app = create_app(settings, observers=[told])
    torn = await ask(app, stream=True, messages=[{"role": "user", "content": "sim:torn"}])
    await app.aclose()
    ledger = new_ledger(settings)
    (row,) = ledger.rows(*EVER)
    ledger.close()
    (cost,) = (end.cost for end in told.ends)

    assert torn.status == 200
    assert told.ends[0].outcome is Outcome.CUT
    assert cost.estimated > 0 == cost.counted
    assert (row.amounts.get("cost"), row.amounts["estimated_cost"]) == (None, cost.estimated)
    assert "unpriced" not in row.amounts


COSTS = "x-kiro-asgi-cost", "x-kiro-asgi-estimated-cost"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/chat/completions", {}, id="chat"),
        pytest.param("/v1/messages", {"max_tokens": 9}, id="messages"),
        pytest.param("/v1/responses", {"input": "sim:text"}, id="responses"),
        pytest.param("/v1/embeddings", {"model": "openai/text-embedding-3-small", "input": "a"}, id="embeddings"),
        pytest.param(
            "/v1/embeddings", {"model": "gemini/gemini-embedding-001", "input": "a cat on it"}, id="counted-here"
        ),
    ],
)
async def test_a_client_is_told_the_cost_where_the_operator_says_so(sim, path, body):
    """In the head of an answer that is sent whole: both sums, each by itself, as observers are told them."""
    told = Told()
    prices = {"models": ["gpt-4o*=2/10", "*embedding-*=1/0"], "header": True}
    app = create_app(settings_for(sim.url, services(sim, prices=prices)), observers=[told])
    asked = {"model": "openai/gpt-4o", **({"messages": CHAT["messages"]} if "input" not in body else {}), **body}
    answer = await post(path, asked).run(app)
    await app.aclose()

    assert answer.status == 200
    assert tuple(float(answer.headers[name]) for name in COSTS) == pytest.approx(told.money())
    assert sum(told.money()) > 0


@pytest.mark.parametrize(
    ("more", "prices"),
    [
        pytest.param({}, {}, id="off"),
        pytest.param({"stream": True}, {"header": True}, id="stream"),
        pytest.param({"model": "openai/gpt-5"}, {"header": True}, id="no-price"),
    ],
)
async def test_no_client_is_told_a_cost_that_is_nobodys_to_know(sim, more, prices):
    """Unasked, before it is known, and where there is no price: 0 would be a lie."""
    app = create_app(settings_for(sim.url, services(sim, prices={**PRICES, **prices})))
    answer = await ask(app, **more)
    await app.aclose()

    assert answer.status == 200
    assert not {*COSTS} & answer.headers.keys()


async def test_the_ledger_has_the_group_of_whoever_asked(sim, tmp_path, monkeypatch, capsys):
    """At the time of asking: a key that changes its group leaves what it has spent with the one before."""
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "usage": True}
    for group in ("lab", "team"):
        keys = {"alice": {"hash": hashed("a"), "group": group}, "bob": {"hash": hashed("b")}}
        groups = {name: {"requests_per_minute": 100} for name in ("lab", "team")}
        app = create_app(settings_for(sim.url, services(sim, state=state, keys=keys, groups=groups)))
        assert [(await ask(app, key)).status for key in "ab"] == [200, 200]
        await app.aclose()
    monkeypatch.setenv("KIRO_ASGI__STATE__ENGINE", "sqlite")
    monkeypatch.setenv("KIRO_ASGI__STATE__PATH", state["path"])
    assert main(["usage", "--by", "key,group", "--json"]) == 0
    lines = {(line["key"], line["group"]): line for line in json.loads(capsys.readouterr().out)}

    assert lines.keys() == {("key:alice", "lab"), ("key:alice", "team"), ("key:bob", "")}
    assert lines["key:alice", "lab"]["cost"] == lines["key:alice", "team"]["cost"] > 0
    assert lines["key:bob", ""]["requests"] == 2


async def test_the_money_of_a_month_is_that_of_its_tapes(sim, tmp_path):
    """Reckoned anew from what the services have written, as somebody would who has their bill: each day, streamed and
    collected, by each API, retried and failed calls among them."""
    days = [datetime(2026, 11, day, 12, tzinfo=UTC).timestamp() for day in range(1, 31, 6)]
    now, told = days[0], Told()
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "usage": True}
    tapes = {"path": str(tmp_path / "tapes"), "when": "all", "content": "full"}
    prices = {"models": ["gpt-4o*=2/10", "text-embedding-*=1/0"], "requests": ["gpt-4o=0.001"]}
    settings = settings_for(sim.url, services(sim, state=state, tapes=tapes, prices=prices, retry={"base": 0.0}))
    app = new_app(settings, Additions(observers=(told,)), Internals(clocks=Clocks(wall=lambda: now)))
    for now in days:  # noqa: B007 - the clock reads it
        sim.enqueue(refusal(503, "Busy."), operation="openai.chat")
        assert (await ask(app)).status == 200
        assert (await ask(app, stream=True, stream_options={"include_usage": True})).status == 200
        assert (await ask(app, path="/v1/messages", max_tokens=9, stream=True)).status == 200
        assert (await ask(app, path="/v1/embeddings", model="openai/text-embedding-3-small", input="a b")).status == 200
        sim.enqueue(refusal(400, "Bad."), operation="openai.chat")
        assert (await ask(app)).status == 400
    await app.aclose()
    ledger = new_ledger(settings)
    rows = [*ledger.rows("2026-11-01", "2026-11-30")]
    ledger.close()
    files = [*(tmp_path / "tapes").iterdir()]
    billed = sum(_bill(read_tape([file.read_bytes()])) for file in files)

    assert len(files) == 5 * len(days)
    assert {row.key.day for row in rows} == {f"2026-11-{day:02d}" for day in range(1, 31, 6)}
    assert billed > 0 == sum(row.amounts.get("estimated_cost", 0) for row in rows)
    assert sum(row.amounts.get("cost", 0) for row in rows) == pytest.approx(billed, rel=1e-12)


def _bill(tape: Tape) -> float:
    """What the service asks for an exchange, by the last counts in its own bytes."""
    read = b"".join(line.data for attempt in tape.attempts for answer in attempt.answers for _, line in answer.reads)
    counts = re.findall(rb'"usage": ?(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})', read)
    if not counts:
        return 0.0
    usage = json.loads(counts[-1])
    if b'"object":"embedding"' in read.replace(b" ", b""):
        return usage["prompt_tokens"] / 1e6
    return 0.001 + (2 * usage["prompt_tokens"] + 10 * usage["completion_tokens"]) / 1e6


NOON = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()
"""Far from the end of a day: shortly before it, a limit for one is worth waiting for, and the answer another one."""

DEAR = {"models": ["gpt-4o*=1000000/1000000", "text-embedding-*=1000000/0"]}
"""One token costs one, so that a limit in money is one of tokens."""


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
async def test_a_budget_that_is_spent_is_a_spent_quota(sim, path):
    """What a client is told of tokens that are spent, in money and with the currency."""
    prices = {**DEAR, "currency": "EUR"}
    settings = settings_for(sim.url, services(sim, prices=prices, quotas={"cost_per_day": 30.0}))
    app = new_app(settings, internals=Internals(clocks=Clocks(wall=lambda: NOON)))
    asked = {"model": "openai/gpt-4o", "input": "sim:text", "max_tokens": 9, "messages": CHAT["messages"]}
    body = {name: asked[name] for name in ("model", "input" if path == "/v1/responses" else "messages")}
    more = {"max_tokens": 9} if path == "/v1/messages" else {}
    answers = [await post(path, {**body, **more}).run(app) for _ in range(6)]
    await app.aclose()
    refused = answers[-1]

    assert (answers[0].status, refused.status) == (200, 429 if path == "/v1/responses" else 402)
    told = r"30 EUR a day; this request may need up to [\d.]+ EUR, [\d.]+ are left until"
    assert re.search(told, refused.json()["error"]["message"])
    assert refused.headers["x-should-retry"] == "false"


async def test_what_is_reserved_is_put_right(sim):
    """Twenty answers that might cost fifty each, and cost a tenth, fit a budget of a few of them."""
    app = create_app(settings_for(sim.url, services(sim, prices=DEAR, quotas={"cost_per_month": 600.0})))
    statuses = [(await ask(app)).status for _ in range(20)]
    await app.aclose()

    assert statuses == [200] * 20


async def test_a_failure_costs_nothing(sim):
    slices = services(sim, prices=DEAR, quotas={"cost_per_day": 100.0}, retry={"attempts": 1})
    app = create_app(settings_for(sim.url, slices))
    for _ in range(5):
        sim.enqueue(refusal(500, "Broken."), operation="openai.chat")
        assert (await ask(app)).status >= 500
    assert (await ask(app)).status == 200
    await app.aclose()


@pytest.mark.parametrize("owner", ["quotas", "keys", "groups"])
async def test_a_model_without_a_price_is_not_paid_from_a_limit_in_money(sim, owner):
    """Whoever's limit it is: what it costs is not known, and that is not nothing."""
    limit = {"cost_per_day": 100.0}
    slices = {
        "quotas": {"quotas": limit},
        "keys": {"keys": {"alice": {"hash": hashed("k"), **limit}}},
        "groups": {"keys": {"alice": {"hash": hashed("k"), "group": "team"}}, "groups": {"team": limit}},
    }[owner]
    client = {} if owner == "quotas" else {"client": {"api_keys": []}}
    app = create_app(settings_for(sim.url, services(sim, **slices, **client)))
    priced, unpriced = await ask(app), await ask(app, model="openai/gpt-5")
    await app.aclose()

    assert (priced.status, unpriced.status) == (200, 400)
    error = unpriced.json()["error"]
    assert (error["code"], error["param"]) == ("price_unknown", "model")
    assert "openai/gpt-5 has no price" in error["message"]
    assert len([request for request in sim.requests if b"gpt-5" in request.body]) == 0


async def test_a_credential_with_a_limit_in_money_leaves_models_without_a_price_to_others(sim):
    """Where there is another; else the client is told why."""
    openai = {"endpoint": f"{sim.url}/v1", "api_key": "k", "fallback_api_keys": ["l"]}
    limits = {"main": {"credential": "openai.api_key", "cost_per_day": 100.0}}
    app = create_app(settings_for(sim.url, services(sim, openai=openai, credentials=limits)))
    alone = create_app(settings_for(sim.url, services(sim, credentials=limits)))
    used = []
    for model in ("openai/gpt-4o", "openai/gpt-5"):
        assert (await ask(app, model=model)).status == 200
        used.append(sim.last_request.headers["authorization"])
    refused = await ask(alone, model="openai/gpt-5")
    await app.aclose()
    await alone.aclose()

    assert used == ["Bearer k", "Bearer l"]
    assert (refused.status, "openai/gpt-5 has no price" in refused.json()["error"]["message"]) == (402, True)


async def test_headers_tell_of_the_limit_of_which_least_is_left(sim):
    """That of the key or that of its group, and each once."""
    keys = {"alice": {"hash": hashed("a"), "group": "team", "requests_per_minute": 5}}
    app = create_app(settings_for(sim.url, services(sim, keys=keys, groups={"team": {"requests_per_minute": 3}})))
    answer = await ask(app, "a")
    await app.aclose()
    told = [value for name, value in answer.messages[0]["headers"] if name == b"x-ratelimit-limit-requests"]

    assert told == [b"3"]


async def test_a_group_shares_what_it_may_spend(sim):
    """What one key has taken, the others have not; each key keeps a limit of its own beside it."""
    keys = {
        "alice": {"hash": hashed("a"), "group": "team"},
        "bob": {"hash": hashed("b"), "group": "team"},
        "carol": {"hash": hashed("c"), "requests_per_minute": 1},
    }
    groups = {"team": {"requests_per_minute": 3}}
    app = create_app(settings_for(sim.url, services(sim, keys=keys, groups=groups)))
    answers = [await ask(app, key) for key in "abab"]
    carol = [(await ask(app, "c")).status for _ in range(2)]
    await app.aclose()

    assert [each.status for each in answers] == [200, 200, 200, 429]
    assert "the limit of the group team is reached: 3 requests a minute" in answers[-1].json()["error"]["message"]
    assert carol == [200, 429]


async def test_a_key_with_the_name_of_its_group_has_counts_of_its_own(sim):
    keys = {"team": {"hash": hashed("a"), "group": "team", "requests_per_minute": 2}}
    app = create_app(settings_for(sim.url, services(sim, keys=keys, groups={"team": {"requests_per_minute": 3}})))
    answers = [await ask(app, "a") for _ in range(3)]
    await app.aclose()

    assert [each.status for each in answers] == [200, 200, 429]
    assert "the limit of this client is reached: 2 requests" in answers[-1].json()["error"]["message"]


def test_a_group_that_there_is_not(sim):
    keys = {"alice": {"hash": hashed("a"), "group": "teem"}}
    with pytest.raises(ConfigError, match=r"keys\.alice\.group: there is no table groups\.teem; there are: team"):
        create_app(settings_for(sim.url, services(sim, keys=keys, groups={"team": {"streams": 1}})))


@needs_server
async def test_money_is_exact_over_two_gateways(sim):
    """Of many requests at once to two gateways that share a server, no more is reserved than there is, and the budget
    has what the answers cost in the end."""
    with running() as server:
        slices = services(
            sim, prices=DEAR, state={"engine": "valkey", "url": server.url}, quotas={"cost_per_month": 1_000.0}
        )
        told = Told()
        apps = [create_app(settings_for(sim.url, slices), observers=[told]) for _ in range(2)]
        statuses: list[int] = []

        async def one(number: int) -> None:
            statuses.append((await ask(apps[number % 2])).status)

        async with anyio.create_task_group() as group:
            for number in range(120):
                group.start_soon(one, number)
        left = 1_000.0 - told.money()[0]
        refused = next(end for end in reversed(told.ends) if end.error)
        for app in apps:
            await app.aclose()

    assert {*statuses} == {200, 402}
    assert refused.code == "quota.cost_month"
    assert left > -60, "answers cost no more than was reserved for each"


TABLE = {"gpt-4o": {"input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05, "litellm_provider": "openai"}}


async def test_prices_come_from_a_file(sim, tmp_path):
    """In the public form of LiteLLM's; a row of the settings wins over it."""
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(TABLE))
    told = Told()
    app = create_app(settings_for(sim.url, services(sim, prices={"file": str(path)})), observers=[told])
    usage = (await ask(app)).json()["usage"]
    await app.aclose()

    assert told.ends[0].cost == Money(2.5e-06 * usage["prompt_tokens"] + 1e-05 * usage["completion_tokens"])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(None, "cannot be read: No such file", id="missing"),
        pytest.param(b"{", "invalid JSON", id="torn"),
        pytest.param(b"[]", "is not an object", id="list"),
        pytest.param(b'{"gpt": {"input_cost_per_token": "free"}}', "gpt.input_cost_per_token: is no price", id="text"),
        pytest.param(b" " * (16 * 1024 * 1024 + 2), "larger|16777216|bytes", id="endless"),
        pytest.param(b'{"a":[' + b"0," * 1_000_001 + b"0]}", "values", id="too-many"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(sim, tmp_path, data, words):
    path = tmp_path / "prices.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigError, match=rf"prices\.file: .*prices\.json: .*({words})"):
        create_app(settings_for(sim.url, services(sim, prices={"file": str(path)})))


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ({"models": ["gpt=1"]}, r"prices\.models: must be written as model=input/output"),
        ({"credits": ["kiro/*=1/2"]}, r"prices\.credits: must be written as model=price"),
        ({"currency": "€"}, r"prices\.currency: must be a word"),
    ],
)
def test_rows_that_cannot_be_used_are_named(sim, prices, words):
    with pytest.raises(ConfigError, match=words):
        settings_for(sim.url, {"prices": prices})
