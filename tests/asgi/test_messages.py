"""What a client reads when it is refused: what is wrong, and what to do about it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attrs import fields

from kiro_asgi import create_app
from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.asgi.exchange.admission import LimitRefusal
from kiro_asgi.create import new_app
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.quota.claims import Cost, Standing, claims
from kiro_asgi.quota.settings import Allowance
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask, get, http_scope, post
from tests.asgi.test_state_faults import damaged

pytestmark = pytest.mark.anyio

NONE = (
    "the request shows no API key; send one key of the gateway's, as Authorization: Bearer KEY or x-api-key: KEY or "
    "x-goog-api-key: KEY"
)
WRONG = "this API key is none of the gateway's; ask its operator for one: keys of services do not open it"


def message(exchange: Exchange) -> str:
    return str(exchange.json()["error"]["message"])


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        pytest.param([], NONE, id="none"),
        pytest.param([("authorization", "Basic azo=")], NONE, id="another-scheme"),
        pytest.param([("x-api-key", "k"), ("x-api-key", "k")], NONE, id="twice"),
        pytest.param([("authorization", "Bearer sk-of-a-service")], WRONG, id="wrong"),
        pytest.param([("x-api-key", "sk-ant-of-a-service")], WRONG, id="wrong-in-another-header"),
    ],
)
async def test_no_key_is_not_a_wrong_key(gateway, headers, words):
    refused = await Exchange(http_scope("GET", "/v1/models", headers)).run(gateway())

    assert (refused.status, message(refused)) == (401, words)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "no user is signed in at the application that the gateway is part of; sign in there"),
        ("k", "this key is none that the application knows which the gateway is part of; ask its operator for one"),
    ],
)
async def test_a_user_whom_the_host_does_not_know(sim, key, words):
    """Nobody who has signed in, or a program with a wrong token, which cannot."""
    app = create_app(settings_for(sim.url, {"client": {"trust_host": True}}))
    refused = await get("/v1/models", key=key).run(app)
    await app.aclose()

    assert (refused.status, message(refused)) == (401, words)


NOON = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()


async def refused_by(sim, quotas, *, max_tokens=4_000, asked=2):
    """The message of the request that *quotas* refuse first, at noon."""
    settings = settings_for(sim.url, {"quotas": quotas})
    app = new_app(settings, internals=Internals(clocks=Clocks(wall=lambda: NOON)))
    for _ in range(asked):
        answer = await ask("anthropic", "sim:text", stream=False, max_tokens=max_tokens).run(app)
    await app.aclose()
    return message(answer)


@pytest.mark.parametrize(
    ("quotas", "pattern"),
    [
        pytest.param(
            {"tokens_per_day": 4_010},
            r"the limit of this client is reached: 4,010 tokens a day; this request may need up to 4,00\d tokens, "
            r"3,9\d\d are left until 00:00 UTC",
            id="day",
        ),
        pytest.param(
            {"tokens_per_day": 4_010, "timezone": "Europe/Berlin"},
            r".* tokens, 3,9\d\d are left until 00:00 CET",
            id="zone",
        ),
        pytest.param(
            {"tokens_per_month": 4_010},
            r".*: 4,010 tokens a month; .* are left until 2026-12-01 00:00 UTC",
            id="month",
        ),
        pytest.param(
            {"tokens_per_minute": 4_010},
            r".*: 4,010 tokens a minute; this request .* 4,00\d tokens, 3,9\d\d are left; try again in \d+ s",
            id="minute",
        ),
        pytest.param(
            {"requests_per_minute": 1},
            r"the limit of this client is reached: 1 request a minute, of which 0 are left; try again in 60 s",
            id="requests",
        ),
    ],
)
async def test_a_limit_says_what_was_needed_and_what_is_left(sim, quotas, pattern):
    """Else "296 are left" reads as enough for a small question."""
    words = await refused_by(sim, quotas)

    assert re.fullmatch(pattern, words), words


@pytest.mark.parametrize("limit", [1, 3, 10_000])
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.004, 0.3, 0.999_999])
@pytest.mark.parametrize("kind", [it.name for it in fields(Allowance)])
def test_every_limit_tells_what_is_needed_from_what_is_left(kind, share, limit):
    """In the number of its amount, and never so rounded that what is left would do, or is none."""
    (claim,) = claims(
        "owner", Allowance(**{kind: limit}), Cost(10**6, money=10**6), "holder", datetime.fromtimestamp(NOON, UTC)
    )
    refusal = LimitRefusal(
        claim, Standing(limit, limit * share, 60.0), 60.0, "owner", "EUR", datetime.fromtimestamp(NOON, UTC)
    )
    words = refusal.message("this client")
    told = re.fullmatch(
        r"the limit of this client is reached: ([\d,.]+) (\w+) .*?"
        r"(?:of which|; this request may need up to ([\d,.]+) (\w+),) ([\d,.]+) (is|are) left.*",
        words,
    )
    assert told, words
    whole, unit, needed, needed_unit, left, verb = told.groups()

    assert float(whole.replace(",", "")) == limit
    assert unit.endswith("s") == (limit != 1 and unit != "EUR")
    assert needed_unit in {None, unit}
    assert (verb == "is") == (left == "1")
    assert (needed is not None) == kind.startswith(("tokens", "cost"))
    assert float(left.replace(",", "")) <= limit * share < float((needed or whole).replace(",", ""))
    if kind.startswith(("cost", "credits")) and limit * share > 1e-6:
        assert float(left.replace(",", "")) > 0


@pytest.mark.parametrize(
    "scope",
    [
        pytest.param({"path": "/llm{}", "root_path": "/llm"}, id="path-includes-the-prefix"),
        pytest.param({"path": "{}", "root_path": "/llm"}, id="prefix-stripped"),
        pytest.param({"path": "/llm{}", "path_remaining": "{}"}, id="remaining"),
    ],
)
async def test_a_path_is_told_with_its_prefix(gateway, scope):
    """As the client knows it, however the host says where the gateway is."""

    async def asked(path):
        values = {name: value.format(path) for name, value in scope.items()}
        values |= {"path_remaining": values["path_remaining"][1:]} if "path_remaining" in values else {}
        return message(await get(values.pop("path"), **values).run(gateway()))

    assert (await asked("/v1/foo")).startswith(
        "there is nothing at GET /llm/v1/foo; the APIs are /llm/v1/chat/completions, /llm/v1/responses, "
    )
    assert await asked("/chat/completions") == (
        "there is nothing at GET /llm/chat/completions; did you mean /llm/v1/chat/completions?"
    )
    assert (await asked("/v1/messages")) == "/llm/v1/messages takes POST only"
    assert (await asked("/v1/v1/messages")).endswith("so that it asks for /llm/v1/messages")


async def test_a_prefix_of_anybodys_is_not_repeated_whole(gateway):
    """A front may take it from a header."""
    refused = await get("/x/nothing", root_path="/" + "x" * 100_000).run(gateway())

    assert refused.status == 404
    assert len(refused.content) < 2_000


async def test_ready_says_why_the_state_cannot_be_used(gateway, tmp_path: Path, caplog):
    """To a client with a key, without the path, which is in the log."""
    path = tmp_path / "state.db"
    damaged(path)
    app = gateway(fresh=True, state={"engine": "sqlite", "path": str(path), "seal_key": "a-key-of-ours"})
    await app.check_state()
    told, stranger = (await get("/ready").run(app)).json(), (await get("/ready", key=None).run(app)).json()
    await app.aclose()

    assert told["degraded"] == ["store"]
    assert told["store"] == "the state file is damaged; the gateway's log has more"
    assert f"the state file {path} is damaged; move it away, and a new one is made" in caplog.text
    assert stranger == {"ready": True}
    healthy = (await get("/ready").run(gateway())).json()
    assert "store" not in healthy


async def test_a_wrong_method_has_the_prefix(gateway):
    refused = await post("/v1/models", {}, root_path="/llm").run(gateway())

    assert (refused.status, message(refused)) == (405, "/llm/v1/models takes GET only")
