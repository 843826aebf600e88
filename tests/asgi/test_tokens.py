"""Whole requests whose token is not taken, or not to be had: what is renewed, who takes over, what clients are told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi import App, create_app
from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.simulator import RecordedRequest, refusal
from kiro_asgi.simulator.server import Simulator
from tests.asgi.answers import DIALECTS, error_of, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, get
from tests.parts import part_of

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
CHAT, REFRESH, SEARCH, LIST, LIMITS = (
    "GenerateAssistantResponse",
    "RefreshToken",
    "InvokeMCP",
    "ListAvailableModels",
    "GetUsageLimits",
)
ENDED, GOOD = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
HOSTED: dict[str, dict[str, Any]] = {
    "anthropic": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "openai": {"web_search_options": {}},
}
EU, US = (f"arn:aws:codewhisperer:{region}:123456789012:profile/P" for region in ("eu-central-1", "us-east-1"))


@pytest.fixture
async def signed_in(sim: Simulator, tmp_path: Path) -> AsyncIterator[Callable[..., App]]:
    """Makes a gateway with token files of its own, each described by what is special about it."""
    made: list[App] = []
    revoked, sim.accounts.revoked = sim.accounts.revoked, set()

    def make(*tokens: dict[str, Any], **kiro: Any) -> App:
        paths = []
        for number, fields in enumerate(tokens):
            path = tmp_path / f"{number}.json"
            refresh = f"aor{tmp_path.name}{number}"  # each works once, for all tests
            token = {"accessToken": f"aoaOld{number}", "refreshToken": refresh, "expiresAt": GOOD}
            path.write_text(json.dumps({**token, "profileArn": US, **fields}))
            path.chmod(0o600)
            paths.append(str(path))
        files = {"credentials_file": paths[0], "fallback_credentials_files": paths[1:]}
        made.append(
            create_app(settings_for(sim.url, {"kiro": {"api_key": "", "auth_endpoint": sim.url, **files, **kiro}}))
        )
        return made[-1]

    yield make
    for app in made:
        await app.aclose()
    sim.accounts.revoked, sim.accounts.refresh_answer = revoked, None
    sim.answer_with(None)


def asked(sim: Simulator) -> Counter[str]:
    """How often the service was asked what."""
    return Counter(request.operation for request in sim.requests)


# What else is asked.


@EACH_DIALECT
async def test_a_search_with_a_token_that_has_been_revoked(dialect, signed_in, sim):
    """What a model searches for is found, although its token was good when the model was asked, and is not now."""

    def revoke(request: RecordedRequest) -> None:
        if request.operation == SEARCH:
            sim.revoke("aoaOld0")

    sim.answer_with(revoke)
    exchange = await ask(dialect, "sim:tool=web_search fjords", stream=True, **HOSTED[dialect]).run(signed_in({}))

    assert "https://example.org/simulated" in text_of(dialect, exchange)
    assert asked(sim) == {CHAT: 1, SEARCH: 2, REFRESH: 1}


async def test_a_list_of_models_with_a_token_that_has_been_revoked(signed_in, sim):
    """The list does not depend on whether somebody has asked a model before."""
    sim.revoke("aoaOld0")
    exchange = await get("/v1/models").run(signed_in({}))

    assert len(exchange.json()["data"]) == len(sim.service.models)
    assert asked(sim) == {LIST: 2, REFRESH: 1}


async def test_a_gateway_that_is_signed_out_is_not_ready(signed_in, sim):
    """Its credential will not work before somebody signs in: requests may fare better elsewhere."""
    sim.accounts.refresh_answer = refusal(401, "Bad credentials")
    app = signed_in({"expiresAt": ENDED})
    before = await get("/ready").run(app)
    await ask("openai", "hi", stream=False).run(app)
    after = await get("/ready").run(app)

    assert before.status == 200
    assert (after.status, after.json()["reasons"]) == (503, ["credentials"])


async def test_a_token_that_stays_refused_is_renewed_once(signed_in, sim):
    """One new token is tried for a question, as for an answer; then there is no list."""
    sim.answer_with(lambda request: refusal(403, "The bearer token is invalid") if request.operation == LIST else None)
    exchange = await get("/v1/models").run(signed_in({}))

    assert exchange.status == 200
    assert asked(sim) == {LIST: 2, REFRESH: 1}


async def test_who_must_not_name_a_profile_learns_of_the_next_quota_all_the_same(signed_in, sim):
    """Some accounts are refused if they name their profile when they ask for their limits."""
    sim.enqueue(refusal(400, "x"), operation=LIMITS)
    exchange = await ask("anthropic", "sim:quota", stream=False).run(signed_in({}))
    queries = [request.query for request in sim.requests if request.operation == LIMITS]

    assert error_of("anthropic", exchange)["message"].endswith("; resets at 2096-10-02 07:06 UTC")
    assert ["profileArn" in query for query in queries] == [True, False]


# Several credentials.


@EACH_DIALECT
async def test_each_credential_has_its_own_new_token(dialect, signed_in, sim):
    """Who takes over may have a revoked token as well: it is renewed as the first one's would have been."""
    sim.revoke("aoaOld0")
    sim.revoke("aoaOld1")
    exchange = await ask(dialect, "sim:text", stream=True).run(signed_in({"refreshToken": ""}, {}))

    assert exchange.status == 200
    assert asked(sim) == {CHAT: 3, REFRESH: 1}


@EACH_DIALECT
async def test_no_credential_is_used_twice_for_one_request(dialect, signed_in, sim):
    """Where credentials do not rest at all, a request still ends: each is tried once, and once with a new token."""
    app = signed_in({}, {}, {})
    spent = await ask(dialect, "sim:quota", stream=True).run(app)
    assert (spent.status, asked(sim)[CHAT]) == (402, 3)
    sim.forget()
    refused = await ask(dialect, "sim:token-invalid", stream=True).run(app)

    assert (refused.status, asked(sim)[CHAT], asked(sim)[REFRESH]) == (502, 6, 3)


async def test_who_takes_over_does_so_with_its_own_profile(signed_in, sim):
    """Answers, searches and questions about limits name the profile of the credential they are asked with."""
    sim.enqueue(refusal(402, "spent", "MONTHLY_REQUEST_COUNT"))
    app = signed_in({"profileArn": US}, {"profileArn": EU})
    exchange = await ask("anthropic", "sim:tool=web_search", stream=True, **HOSTED["anthropic"]).run(app)
    first, limits, second, search = sim.requests

    assert exchange.status == 200
    assert [json.loads(request.body)["profileArn"] for request in (first, second)] == [US, EU]
    assert "us-east-1" in limits.query
    assert search.headers["x-amzn-kiro-profile-arn"] == US  # it does not rest here, so it is the best again


# What clients are told.


@EACH_DIALECT
@pytest.mark.parametrize(
    ("answer", "kiro", "status", "type_", "wait"),
    [
        pytest.param(refusal(503, "out of order"), {}, 503, "overloaded_error", ("1", "2", "3"), id="out-of-order"),
        pytest.param(refusal(429, "slower"), {}, 429, "rate_limit_error", ("2", "3"), id="throttled"),
        pytest.param(
            None, {"auth_endpoint": "http://127.0.0.1:1"}, 503, "overloaded_error", ("1", "2", "3"), id="unreachable"
        ),
        pytest.param(refusal(400, "invalid_grant"), {}, 502, "api_error", (None,), id="ended"),
    ],
)
async def test_a_sign_in_service_that_gives_no_token(dialect, answer, kiro, status, type_, wait, signed_in, sim):
    """The client learns whose failure it is, and when trying again makes sense; the service itself is not asked."""
    sim.accounts.refresh_answer = answer
    app = signed_in({"expiresAt": ENDED}, **kiro)
    for _ in range(2):
        exchange = await ask(dialect, "sim:text", stream=True).run(app)
        error = error_of(dialect, exchange)

        assert (exchange.status, asked(sim)[CHAT]) == (status, 0)
        assert exchange.headers.get("retry-after") in wait
        assert dialect == "openai" or error["type"] == type_
    assert asked(sim)[REFRESH] == (0 if kiro else 1)


@EACH_DIALECT
async def test_nobody_waits_for_a_token_without_end(dialect, signed_in, sim, monkeypatch):
    """A sign-in service that takes its time is a time-out for the client; the token arrives all the same."""
    monkeypatch.setattr("kiro_asgi.net.credentials.state._LONGEST_WAIT", 0.05)
    sim.accounts.delay = 0.4
    app = signed_in({"expiresAt": ENDED})
    try:
        first = await ask(dialect, "sim:text", stream=True).run(app)
        await part_of(app, Provider).credentials.aclose()
    finally:
        sim.accounts.delay = 0.0
    second = await ask(dialect, "sim:text", stream=True).run(app)

    assert (first.status, second.status) == (504, 200)
    assert asked(sim)[REFRESH] == 1
