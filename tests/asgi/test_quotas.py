"""What each client may take: through the whole gateway, in front of a simulated service."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import anyio
import pytest
from attrs import evolve

from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.asgi.routing import DESCRIPTION, GATEWAY, PROBES
from kiro_asgi.cli import main
from kiro_asgi.config import Settings
from kiro_asgi.create import new_app
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import WEBSOCKET
from kiro_asgi.errors import ConfigError
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.simulator import refusal
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, get, http_scope, post
from tests.helpers import at_once
from tests.valkey_server import free_port, needs_server, running

pytestmark = pytest.mark.anyio

MESSAGES = {"model": "claude-sonnet-4.5", "max_tokens": 100, "messages": [{"role": "user", "content": "sim:text"}]}
CHAT = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "sim:text"}]}
RESPONSES = {"model": "claude-sonnet-4.5", "input": "sim:text"}
PATHS = {"/v1/messages": MESSAGES, "/v1/chat/completions": CHAT, "/v1/responses": RESPONSES}


async def ask(app, path="/v1/messages", key="k", **more):
    return await post(path, {**PATHS[path], **more}, key=key).run(app)


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_is_told_when_to_come_back(gateway, sim, path):
    """429 in the words of its API, with the limit and the seconds; the service is not asked."""
    app = gateway(fresh=True, quotas={"requests_per_minute": 2})
    assert [(await ask(app, path)).status for _ in range(2)] == [200, 200]
    refused = await ask(app, path)

    error = refused.json()["error"]
    assert refused.status == 429
    assert "is reached: 2 requests a minute, of which 0 are left; try" in error["message"]
    assert error["type"] in {"rate_limit_error", "requests", "rate_limit_exceeded", "tokens"}
    assert 25 <= int(refused.headers["retry-after"]) <= 30
    assert len(sim.requests) == 2


async def test_each_client_has_its_own(gateway, sim):
    app = gateway(fresh=True, client={"api_keys": ["k", "l"]}, quotas={"requests_per_minute": 1})
    assert [(await ask(app, key=key)).status for key in "klkl"] == [200, 200, 429, 429]


async def test_each_api_tells_what_is_left(gateway, sim):
    """In the headers that its clients read."""
    app = gateway(fresh=True, quotas={"requests_per_minute": 10, "tokens_per_minute": 100_000})
    messages, chat = (await ask(app)).headers, (await ask(app, "/v1/chat/completions")).headers

    assert messages["anthropic-ratelimit-requests-limit"] == "10"
    assert messages["anthropic-ratelimit-requests-remaining"] == "9"
    assert messages["anthropic-ratelimit-tokens-reset"].endswith("Z")
    assert chat["x-ratelimit-limit-tokens"] == "100000"
    assert chat["x-ratelimit-remaining-requests"] == "8"
    assert chat["x-ratelimit-reset-requests"].endswith("s")


async def test_an_answer_counts_what_it_took_and_not_what_was_reserved(gateway, sim):
    app = gateway(fresh=True, quotas={"tokens_per_day": 10_000})
    statuses = [(await ask(app, max_tokens=4_000)).status for _ in range(6)]
    assert statuses == [200] * 6, "six reservations of 4,000 tokens would not fit"


SAID = "sim:text"
SAYING = {"messages": [{"role": "user", "content": SAID}]}
LENGTHS = {
    "messages": ("/v1/messages", SAYING, "max_tokens"),
    "chat": ("/v1/chat/completions", SAYING, "max_completion_tokens"),
    "chat-older": ("/v1/chat/completions", SAYING, "max_tokens"),
    "completions": ("/v1/completions", {"prompt": SAID}, "max_tokens"),
    "responses": ("/v1/responses", {"input": SAID}, "max_output_tokens"),
    "gemini": ("/v1beta/models/{}:generateContent", {"contents": [{"parts": [{"text": SAID}]}]}, "maxOutputTokens"),
}
"""Client API to its path, a request, and its own field for the greatest length."""

MODELS = {
    "kiro": "claude-sonnet-4.5",
    "gemini": "gemini/gemini-2.5-flash",
    "anthropic": "anthropic/claude-haiku-4-5",
    "openai": "openai/gpt-4o",
    "responses": "openai/gpt-5.1-codex-max",
    "custom": "copy/gpt-4o",
    "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}


ALLOWED = (None, 500, 100_000)
REMAINING = ("tokens-remaining", "remaining-tokens")
FIELD = 30
"""Tokens that the field itself adds, where a prompt is estimated by the bytes around it, or by its text."""


def allowing(api, model, most):
    """The path, and the request for an answer of *most* tokens; ``None``: it says nothing."""
    path, body, name = LENGTHS[api]
    longest = {} if most is None and api != "messages" else {name: most or 10_000}  # Messages wants a number
    if api == "gemini":
        return path.format(model), {**body, "generationConfig": longest}
    return path, {"model": model, **body, **longest}


@pytest.mark.parametrize("relay", ["auto", "never"])
@pytest.mark.parametrize("api", LENGTHS)
@pytest.mark.parametrize("target", MODELS)
async def test_a_reservation_counts_what_the_client_allows(gateway, sim, target, api, relay):
    """At most 4,096 tokens, which it is without the client's word, and no more than that, whoever answers, and whether
    the request is translated or goes on as it is."""
    direct = {"api_key": "key", "endpoint": sim.url}
    app = gateway(
        fresh=True,
        client={"api_keys": ["k0", "k1", "k2"]},
        quotas={"tokens_per_minute": 100_000},
        stream={"relay": relay},
        gemini=direct,
        anthropic=direct,
        openai={**direct, "endpoint": f"{sim.url}/v1"},
        custom={"copy": {**direct, "endpoint": f"{sim.url}/v1", "relay": relay}},
        bedrock={**direct, "region": "us-east-1"},
    )

    async def reserved(most):
        path, body = allowing(api, MODELS[target], most)
        answered = await post(path, body, key=f"k{ALLOWED.index(most)}").run(app)
        left = next(value for name, value in answered.headers.items() if name.endswith(REMAINING))
        return 100_000 - int(left)

    usual, short, long = [await reserved(most) for most in ALLOWED]
    assert usual - short == pytest.approx(4_096 - 500, abs=FIELD)
    assert long == pytest.approx(usual, abs=FIELD)


NOON, NEARLY_MIDNIGHT = (datetime(2026, 11, 25, *hour, tzinfo=UTC).timestamp() for hour in ((12,), (23, 59)))
SPENT = {"/v1/messages": (402, "billing_error"), "/v1/chat/completions": (402, "insufficient_quota")} | {
    "/v1/responses": (429, "insufficient_quota")
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_day_that_is_spent_is_a_spent_quota(sim, path):
    """Nothing is asked again, by no client: it is told as if the service's quota were spent, without a time to wait."""
    app = new_app(
        settings_for(sim.url, {"quotas": {"tokens_per_day": 30}}), internals=Internals(clocks=Clocks(wall=lambda: NOON))
    )
    assert (await ask(app, path)).status == 200
    refused = await ask(app, path)
    await app.aclose()

    assert (refused.status, refused.json()["error"]["type"]) == SPENT[path]
    assert re.search(
        "30 tokens a day; this request may need up to 30 tokens, [0-9]+ are left until 00:00 UTC",
        refused.json()["error"]["message"],
    )
    assert refused.headers["x-should-retry"] == "false"
    assert not {"retry-after", "retry-after-ms"} & refused.headers.keys()


@pytest.mark.parametrize("path", PATHS)
async def test_a_day_that_is_nearly_over_is_waited_for(sim, path):
    """What a minute heals is a limit like any other."""
    app = new_app(
        settings_for(sim.url, {"quotas": {"tokens_per_day": 30}}),
        internals=Internals(clocks=Clocks(wall=lambda: NEARLY_MIDNIGHT)),
    )
    assert (await ask(app, path)).status == 200
    refused = await ask(app, path)
    await app.aclose()

    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    assert "x-should-retry" not in refused.headers


async def test_a_failure_costs_no_tokens(gateway, sim):
    app = gateway(fresh=True, quotas={"tokens_per_day": 5_000}, retry={"attempts": 1})
    failing = {"max_tokens": 4_000, "messages": [{"role": "user", "content": "sim:500"}]}
    for _ in range(3):
        assert (await ask(app, **failing)).status >= 500
    assert (await ask(app)).status == 200


async def test_answers_at_once(gateway, sim):
    """A stream that runs holds its place, one that has ended does not, and neither does one whose client left."""
    app = gateway(fresh=True, quotas={"streams": 1})
    slow = post(
        "/v1/messages", {**MESSAGES, "stream": True, "messages": [{"role": "user", "content": "sim:slow"}]}, key="k"
    )
    async with anyio.create_task_group() as group:
        group.start_soon(slow.run, app)
        with anyio.fail_after(5):
            while not slow.messages:  # noqa: ASYNC110 - the driver has no event for it
                await anyio.sleep(0.005)
        assert (await ask(app)).status == 429
        slow.leave.set()
    assert (await ask(app)).status == 200


@needs_server
async def test_limits_are_exact_over_two_gateways(gateway, sim):
    """Of 100 requests at once to two gateways that share a server, as many are answered as are allowed, and as are
    allowed anew until the last."""
    with running() as server:
        shared = {"engine": "valkey", "url": server.url}
        apps = [gateway(fresh=True, state=shared, quotas={"requests_per_minute": 40}) for _ in range(2)]
        statuses = []

        async def one(app):
            statuses.append((await ask(app)).status)

        started = anyio.current_time()
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(one, apps[number % 2])
        anew = int((anyio.current_time() - started) * 40 / 60)
        for app in apps:
            await app.aclose()
    assert set(statuses) == {200, 429}
    assert 40 <= statuses.count(200) <= 40 + anew


@pytest.mark.parametrize(("policy", "statuses"), [("local", [200, 429]), ("closed", [503, 503]), ("open", [200, 200])])
async def test_counters_that_are_lost(gateway, sim, caplog, policy, statuses):
    state = {"engine": "valkey", "url": f"valkey://127.0.0.1:{free_port()}"}
    quotas = {"requests_per_minute": 1, "on_store_failure": policy}
    app = gateway(fresh=True, state=state, quotas=quotas)
    assert [(await ask(app)).status for _ in range(2)] == statuses
    told = [record for record in caplog.records if "limits are not shared" in record.message]
    assert len(told) == (policy != "closed")


async def test_a_time_zone_that_there_is_not(gateway):
    with pytest.raises(ConfigError, match=r"quotas\.timezone"):
        gateway(fresh=True, quotas={"timezone": "Europe/Atlantis"})


def hashed(key: str) -> str:
    return f"sha256:{sha256(key.encode()).hexdigest()}"


async def test_a_named_key(gateway, sim, caplog):
    """Its own limits and models, by its hash; others have theirs, and no line holds the key."""
    alice = {"hash": hashed("ka_alice"), "requests_per_minute": 1, "models": ["kiro/claude-sonnet-*"]}
    app = gateway(fresh=True, keys={"alice": alice, "bob": {"hash": hashed("ka_bob")}})
    with caplog.at_level("INFO", "kiro_asgi.access"):
        forbidden = await ask(app, key="ka_alice", model="claude-haiku-4.5")
        statuses = [(await ask(app, key=key)).status for key in ("ka_alice", "ka_alice", "ka_bob", "ka_bob", "k", "x")]
    assert (forbidden.status, statuses) == (404, [200, 429, 200, 200, 200, 401])
    assert "may not ask for this model" in forbidden.json()["error"]["message"]
    assert "key:alice" in caplog.text
    assert "ka_" not in caplog.text


async def test_a_named_key_has_the_usual_limits_where_it_has_none_of_its_own(gateway, sim):
    keys = {"alice": {"hash": hashed("a"), "requests_per_minute": 2}, "bob": {"hash": hashed("b"), "streams": 5}}
    app = gateway(fresh=True, keys=keys, quotas={"requests_per_minute": 1})
    assert [(await ask(app, key=key)).status for key in "abab"] == [200, 200, 200, 429]


def test_no_table_has_the_name_of_an_unnamed_key():
    """They would be one client, and read what the other has stored."""
    digits = hashed("a").removeprefix("sha256:")[:8]
    given = {"client": {"api_keys": ["a"]}, "keys": {f"x{digits}": {"hash": hashed("b")}}}
    Authenticator(Settings.from_mapping(given))
    letters = next(it for it in map(str, range(1_000)) if hashed(it)[7].isalpha())
    digits = hashed(letters).removeprefix("sha256:")[:8]
    given = {"client": {"api_keys": [letters]}, "keys": {digits: {"hash": hashed("b")}}}
    with pytest.raises(ConfigError, match=rf"keys\.{digits}: a key of client.api_keys has this name"):
        Authenticator(Settings.from_mapping(given))


def test_keys_by_the_environment():
    """No file is needed; a name may be an upstream's; nobody is let in by another's hash."""
    named = Settings.from_env({"KIRO_ASGI__KEYS__OPENAI__HASH": hashed("o"), "KIRO_ASGI__KEYS__OPENAI__STREAMS": "3"})
    assert at_once(Authenticator(named).identify(shown("o"))).principal == "key:openai"
    assert hashed("o") not in repr(named)
    with pytest.raises(ConfigError, match=r"keys\.b\.hash: is the hash of another key"):
        Authenticator(evolve(named, keys={**named.keys, "b": named.keys["openai"]}))
    for wrong, words in (({"streams": 3}, "hash: must be set"), ({"hash": "sha256:AB"}, "64 hexadecimal")):
        with pytest.raises(ConfigError, match=words):
            Settings.from_mapping({"keys": {"a": wrong}})


def shown(key: str) -> dict[str, object]:
    return {"type": "http", "headers": [(b"x-api-key", key.encode())]}


def test_a_new_key_is_let_in_by_the_lines_that_are_printed(capsys):
    assert main(["keys", "new", "alice"]) == 0
    printed = capsys.readouterr().out
    key = re.search(r"ka_[\w-]{43}", printed)[0]
    line = re.search(r"KIRO_ASGI__KEYS__ALICE__HASH=(\S+)", printed)[1]
    settings = Settings.from_mapping({"keys": {"alice": {"hash": line}}})
    assert at_once(Authenticator(settings).identify(shown(key))).principal == "key:alice"
    with pytest.raises(SystemExit):
        main(["keys", "new", "Alice Smith"])


def test_the_log_has_the_end_of_a_key_that_is_used(caplog):
    """From two weeks before on, once a day: a gateway that runs for months is not started meanwhile."""
    end = datetime(2026, 12, 31, tzinfo=UTC)
    keys = {"soon": {"hash": hashed("s"), "expires": end}, "never": {"hash": hashed("n")}}
    now = 0.0
    authenticator = Authenticator(Settings.from_mapping({"keys": keys}), clocks=Clocks(wall=lambda: now))
    for left in (20, 14.5, 13.9, 13.9, 13.2, 0.5):
        now = end.timestamp() - left * 86_400
        for key in "sn":
            at_once(authenticator.identify(shown(key)))

    assert [record.message for record in caplog.records] == [
        "key:soon expires in 14 days, and is used",
        "key:soon expires in 1 days, and is used",
    ]


async def test_a_key_that_ends(gateway, sim):
    """It is 401 afterwards, in words that tell it from a key that there is not; TOML writes moments without quotes."""
    keys = {
        "old": {"hash": hashed("ka_old"), "expires": datetime(2026, 1, 1, tzinfo=UTC)},
        "new": {"hash": hashed("ka_new"), "expires": "9999-12-31T00:00:00+01:00"},
    }
    app = gateway(fresh=True, keys=keys)
    old, new = await ask(app, key="ka_old"), await ask(app, key="ka_new")
    assert (old.status, new.status) == (401, 200)
    assert old.json()["error"]["message"].endswith("this API key has expired; ask for a new one")
    with pytest.raises(ConfigError, match=r"keys\.a\.expires: must be a date and a time with its offset"):
        Settings.from_mapping({"keys": {"a": {"hash": hashed("a"), "expires": "2026-12-31"}}})


async def test_a_key_asks_and_sees_only_what_it_may(gateway, sim):
    """In the list of each API, by the name of a model, and where one service stands in for another."""
    keys = {
        "alice": {"hash": hashed("ka_a"), "upstreams": ["kiro"], "models": ["*/claude-sonnet-*"]},
        "bob": {"hash": hashed("ka_b"), "upstreams": ["openai"]},
    }
    rows = ["x=kiro/claude-sonnet-4.5>openai/gpt-4o"]
    openai = {"api_key": "sk", "endpoint": f"{sim.url}/v1"}
    app = gateway(fresh=True, keys=keys, openai=openai, routing={"models": rows}, retry={"attempts": 1})

    async def status(path, key):
        return (await get(path, key=key).run(app)).status

    seen = {}
    for key in ("k", "ka_a", "ka_b"):
        listed = (await get("/v1/models", key=key).run(app)).json()["data"]
        seen[key] = {model["id"] for model in listed if model["output_modalities"] == ["text"]}
        gemini = (await get("/v1beta/models", key=key).run(app)).json()["models"]
        assert {model["name"].removeprefix("models/") for model in gemini} == seen[key]
    assert seen["ka_a"] and all("claude-sonnet-" in name for name in seen["ka_a"])
    assert seen["ka_b"] and not seen["ka_a"] & seen["ka_b"]
    assert seen["k"] >= seen["ka_a"] | seen["ka_b"]
    assert [await status("/v1/models/claude-haiku-4.5", key) for key in ("k", "ka_a", "ka_b")] == [200, 404, 404]

    failing = {"model": "x", "messages": [{"role": "user", "content": "hi"}]}
    answered = []
    for key in ("k", "ka_a"):
        sim.enqueue(refusal(500, "Broken."))
        answered.append((await ask(app, "/v1/chat/completions", key, **failing)).status)
    assert answered[0] == 200, "another service stands in"
    assert answered[1] >= 500, "which this key may not ask"
    sim.forget()
    assert (await ask(app, "/v1/chat/completions", "ka_b", **failing)).status == 200
    assert [request.path for request in sim.requests] == ["/v1/chat/completions"], "the first one, it may not"


async def test_a_key_that_is_switched_off(gateway, sim):
    """It is 401, in words of its own, and all others are let in."""
    keys = {"off": {"hash": hashed("ka_off"), "disabled": True}, "on": {"hash": hashed("ka_on")}}
    app = gateway(fresh=True, keys=keys)
    off, on = await ask(app, key="ka_off"), await ask(app, key="ka_on")

    assert (off.status, on.status) == (401, 200)
    assert off.json()["error"]["message"].endswith("this API key is disabled; ask for another one")


async def connected():
    return {"type": "websocket.connect"}


NOT_GOOD: dict[str, tuple[list[tuple[bytes, bytes]], bytes]] = {
    "none": ([], b""),
    "unknown": ([(b"authorization", b"Bearer x")], b""),
    "disabled": ([(b"authorization", b"Bearer off")], b""),
    "expired": ([(b"x-api-key", b"old")], b""),
    "expired, Google's": ([(b"x-goog-api-key", b"old")], b""),
    "expired, in the query": ([], b"key=old"),
    "a good one behind it": ([], b"key=old&key=ka"),
    "cut": ([(b"x-api-key", b"ka\0")], b""),
    "no text": ([(b"authorization", b"Bearer \xff\xfe")], b""),
}
"""What a request shows, as headers and query."""


@pytest.mark.parametrize("shown", NOT_GOOD)
async def test_no_door_is_open_to_a_key_that_is_not_good(shown, gateway):
    """Whatever stands behind it: every path of every API, a WebSocket's handshake, the lists and the description."""
    keys = {
        "off": {"hash": hashed("off"), "disabled": True},
        "old": {"hash": hashed("old"), "expires": "2020-01-01T00:00:00Z"},
        "good": {"hash": hashed("ka")},
    }
    app = gateway(fresh=True, keys=keys, openapi="on")
    own = [it for it in (*GATEWAY, DESCRIPTION) if it not in PROBES]
    headers, query = NOT_GOOD[shown]
    opened = []
    for endpoint in [*(route for api in BUILTIN for route in api.routes), *own]:
        path = re.sub(r"\{[^}]*\}", "some", endpoint.path)
        scope = {**http_scope(endpoint.method, path), "headers": headers, "query_string": query}
        if endpoint.method == WEBSOCKET:
            scope |= {"type": "websocket", "subprotocols": [], "extensions": {"websocket.http.response": {}}}
        exchange = Exchange(scope, [b"{}"])
        await app(scope, connected if endpoint.method == WEBSOCKET else exchange.receive, exchange.send)
        if exchange.messages[0].get("status") != 401:
            opened.append(endpoint)
    assert opened == []


async def test_the_end_of_a_key_is_told_before_it_comes(gateway, caplog):
    """Two weeks before, once at the start; not of a key that was switched off."""
    now = datetime.now(UTC)
    keys = {
        name: {"hash": hashed(name), "expires": now + timedelta(days=days), "disabled": name == "off"}
        for name, days in (("soon", 13.5), ("later", 15), ("gone", -1), ("off", 1))
    }
    gateway(fresh=True, keys=keys)
    told = [record.message for record in caplog.records if record.message.startswith("the key")]

    assert told == [
        "the key soon expires in 14 days; kiro-asgi keys rotate soon makes another one",
        "the key gone expired; kiro-asgi keys rotate gone makes another one",
    ]
