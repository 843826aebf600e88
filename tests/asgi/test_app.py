"""The application from request to response: modes, refusals, models, counting, logs."""

from __future__ import annotations

import json
import logging
import re

import anyio
import pytest

from kiro_asgi import ConfigError, Settings, create_app, simulator
from kiro_asgi.apis.operations import Gateway
from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.door.door import Door, Router
from kiro_asgi.asgi.exchange.factory import ExchangeFactory
from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.asgi.exchange.reading import AnswerContext
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import ANSWER, COUNT
from kiro_asgi.simulator import answer, text
from tests.asgi.answers import DIALECTS, error_of, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import PATHS, Exchange, ask, get, http_scope, post
from tests.parts import part_of

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
FAMILY = {"/v1/messages": "anthropic", "/v1/messages/count_tokens": "anthropic"}
ASKED = [each.path for api in BUILTIN for each in api.endpoints if each.operation in (ANSWER, COUNT)]


# Two dialects, two modes.


@EACH_DIALECT
async def test_a_streamed_answer(dialect, gateway):
    """F001/F002/F007/F008/F009/F028: server-sent events in many body messages, uncached, unbuffered, of no length."""
    exchange = await ask(dialect, "sim:count=20 sim:slow=0.005", stream=True).run(gateway())

    assert text_of(dialect, exchange) == "".join(f"{n} " for n in range(1, 21))
    assert exchange.headers["content-type"] == "text/event-stream"
    assert exchange.headers["cache-control"] == "no-cache"
    assert exchange.headers["x-accel-buffering"] == "no"
    assert not {"content-length", "connection", "transfer-encoding", "content-encoding"} & set(exchange.headers)
    assert exchange.starts == 1
    assert exchange.complete
    assert [message["more_body"] for message in exchange.messages[1:-1]] == [True] * (len(exchange.messages) - 2)
    assert len(exchange.bodies) > 3


@EACH_DIALECT
async def test_a_streamed_answer_frame_by_frame(dialect, gateway):
    """F010/F011/F012/F014/F015: Chat has data lines and one sentinel, Anthropic names every event and has none."""
    frames = (await ask(dialect, "sim:parallel", stream=True).run(gateway())).content.decode().split("\n\n")

    assert frames.pop() == ""
    if dialect == "openai":
        assert all(re.fullmatch(r"data: .+", frame) for frame in frames)
        assert [frame for frame in frames if "[DONE]" in frame] == ["data: [DONE]"] == frames[-1:]
    else:
        named = [re.fullmatch(r"event: (\w+)\ndata: (.+)", frame) for frame in frames]
        assert all(match and json.loads(match[2])["type"] == match[1] for match in named)
        assert "[DONE]" not in "".join(frames)


@EACH_DIALECT
@pytest.mark.parametrize("how", [False, None], ids=["false", "absent"])
async def test_a_collected_answer(dialect, how, gateway):
    """F004: without ``stream`` there is one JSON body with its length, and no event."""
    exchange = ask(dialect, "sim:count=3", stream=False)
    if how is None:
        body = {name: value for name, value in json.loads(exchange.body[0]).items() if name != "stream"}
        exchange = post(PATHS[dialect], body)
    await exchange.run(gateway())

    assert text_of(dialect, exchange) == "1 2 3 "
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.headers["content-length"] == str(len(exchange.content))
    assert len(exchange.messages) == 2
    assert not exchange.content.startswith((b"data:", b"event:", b":"))


@EACH_DIALECT
@pytest.mark.parametrize("prompt", ["sim:text", "sim:unicode", "sim:tool", "sim:thinking", "Good morning!"])
async def test_the_modes_say_the_same(dialect, prompt, gateway):
    """F005: toggling ``stream`` changes how an answer is sent, not what it says."""
    app = gateway()
    streamed, collected = [await ask(dialect, prompt, stream=stream).run(app) for stream in (True, False)]

    assert text_of(dialect, streamed) == text_of(dialect, collected) != ""


@EACH_DIALECT
@EACH_MODE
async def test_what_the_service_is_asked(dialect, stream, gateway, sim):
    """F006/F053/F054: one JSON POST with our credential; nothing of the client's ``stream`` or key is in it."""
    await ask(dialect, "sim:text", stream=stream).run(gateway())

    (request,) = sim.requests
    assert (request.method, request.path) == ("POST", "/generateAssistantResponse")
    assert request.headers["content-type"].startswith("application/")
    assert request.headers["authorization"] == "Bearer ksk_test"
    assert request.json()["conversationState"]["currentMessage"]["userInputMessage"]["content"].endswith("sim:text")
    assert b'"stream"' not in request.body
    assert "Bearer k" not in {value for name, value in request.headers.items() if value == "Bearer k"}


# Refusals before anything was asked.


def too_large(path: str) -> Exchange:
    return post(path, b"x" * 2000)


def never_sent(path: str) -> Exchange:
    exchange = post(path, b"{}")
    exchange.body.clear()
    return exchange


def compressed(path: str) -> Exchange:
    exchange = post(path, b"{}")
    exchange.scope["headers"].append((b"content-encoding", b"compress"))
    return exchange


REFUSED = [
    pytest.param(lambda path: post(path, {}, key=None), 401, id="F031-no-key"),
    pytest.param(lambda path: post(path, {}, key="wrong"), 401, id="F029-wrong-key"),
    pytest.param(lambda path: get(path), 405, id="C14-method"),
    pytest.param(never_sent, 408, id="R43-stalling-body"),
    pytest.param(too_large, 413, id="C15-large-body"),
    pytest.param(compressed, 415, id="R22-compressed-body"),
    pytest.param(lambda path: post(path, b""), 400, id="F030-no-body"),
    pytest.param(lambda path: post(path, b"{"), 400, id="F030-not-json"),
    pytest.param(lambda path: post(path, b"[]"), 400, id="F030-no-object"),
    pytest.param(lambda path: post(path, b'"\xff"'), 400, id="R20-not-utf8"),
    pytest.param(lambda path: post(path, b"[" * 1500), 400, id="R19-deep"),
]


@pytest.mark.parametrize(("make", "status"), REFUSED)
@pytest.mark.parametrize("path", ASKED)
async def test_a_refusal_is_plain_json(path, make, status, gateway, sim):
    """F030/F031/F033: a status and the path's own envelope, and the service hears nothing of it."""
    exchange = await make(path).run(gateway(limits={"body_bytes": 1600, "body_timeout": 0.05}))

    assert exchange.status == status
    assert error_of(FAMILY.get(path, "openai"), exchange)["message"]
    assert exchange.complete
    assert sim.requests == ()


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        (method, path, allowed)
        for path, allowed in {**dict.fromkeys(ASKED, "POST"), "/v1/models": "GET", "/health": "GET, HEAD"}.items()
        for method in ("DELETE", "PUT", "OPTIONS")
    ],
)
async def test_a_wrong_method_is_told_the_right_one(method, path, allow, gateway):
    """C14: 405 with ``Allow``, in the path's envelope, also without a key."""
    exchange = await Exchange(http_scope(method, path)).run(gateway())

    assert exchange.status == 405
    assert exchange.headers["allow"] == allow
    assert error_of(FAMILY.get(path, "openai"), exchange)["message"]


@pytest.mark.parametrize(
    ("path", "headers", "dialect"),
    [
        pytest.param("/v1", [], "openai", id="above-all"),
        pytest.param("/v1/nothing", [], "openai", id="unknown"),
        pytest.param("/v1/messages/nothing", [], "anthropic", id="below-messages"),
        pytest.param("/v1/models//", [("anthropic-version", "2023-06-01")], "anthropic", id="anthropic-client"),
    ],
)
async def test_an_unknown_path_is_404_in_the_likely_envelope(path, headers, dialect, gateway):
    """C14: whoever asks gets an error that its library can read."""
    exchange = await Exchange(http_scope("GET", path, headers)).run(gateway())

    assert exchange.status == 404
    assert error_of(dialect, exchange)["message"].startswith(f"there is nothing at GET {path}; ")


@EACH_DIALECT
@EACH_MODE
@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"messages": None}, "messages", id="F033-null"),
        pytest.param({"messages": "hi"}, "messages", id="F033-type"),
        pytest.param({"messages": [{"role": "user", "content": 1}]}, "messages[0].content", id="F033-deep"),
        pytest.param({"temperature": 9}, "temperature", id="F036-temperature"),
        pytest.param({"top_p": -1}, "top_p", id="F036-top-p"),
        pytest.param({"max_tokens": -1}, "max_tokens", id="F036-max-tokens"),
        pytest.param({"model": 3}, "model", id="F033-model"),
    ],
)
async def test_a_bad_field_is_named(dialect, stream, change, words, gateway, sim):
    """F033/F036: 400 naming the place, before any event and before any call."""
    exchange = await ask(dialect, "hi", **{"stream": stream, **change}).run(gateway())

    assert exchange.status == 400
    error = error_of(dialect, exchange)
    assert words in error["message"] + str(error.get("param"))
    assert sim.requests == ()


@EACH_DIALECT
async def test_a_client_that_leaves_while_it_asks_is_not_answered(dialect, gateway, sim):
    """C15: a disconnect within the body asks nobody; the host gets a status, lest its middlewares miss a response."""
    exchange = Exchange(post(PATHS[dialect], b"").scope, [])
    exchange.leave.set()
    await exchange.run(gateway())

    assert exchange.unanswered
    assert sim.requests == ()


# Every response says which request it belongs to.


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: get("/health", key=None), id="health"),
        pytest.param(lambda: get("/v1/models"), id="models"),
        pytest.param(lambda: get("/v1/models/claude-sonnet-4.5"), id="model"),
        pytest.param(lambda: get("/v1/models/nope"), id="unknown-model"),
        pytest.param(lambda: get("/nothing"), id="404"),
        pytest.param(lambda: get("/v1/messages"), id="405"),
        pytest.param(lambda: post("/v1/messages", {}, key=None), id="401"),
        pytest.param(lambda: post("/v1/chat/completions", b"{"), id="400"),
        pytest.param(lambda: ask("openai", "sim:text", stream=True), id="chat-stream"),
        pytest.param(lambda: ask("openai", "sim:text", stream=False), id="chat"),
        pytest.param(lambda: ask("anthropic", "sim:text", stream=True), id="messages-stream"),
        pytest.param(lambda: ask("anthropic", "sim:403", stream=True), id="403"),
        pytest.param(lambda: ask("openai", "sim:exception-first", stream=False), id="502"),
    ],
)
async def test_every_response_carries_its_id(make, gateway):
    """Both names that the client families look for hold the same fresh id."""
    app = gateway()
    first, second = [(await make().run(app)).headers for _ in range(2)]

    assert re.fullmatch(r"req_[0-9a-f]{24}", first["x-request-id"])
    assert first["x-request-id"] == first["request-id"] != second["request-id"]


# Models, counting, health.


async def test_models_are_listed_in_a_shape_for_both_families(gateway, sim):
    """One list that both official libraries take, made of what the service offers."""
    listed = (await get("/v1/models").run(gateway())).json()

    assert [card["id"] for card in listed["data"]] == [model.id for model in simulator.MODELS]
    assert listed["object"] == "list" and listed["has_more"] is False
    assert {"id", "object", "created", "owned_by", "type", "display_name", "created_at"} <= set(listed["data"][0])


async def test_the_list_is_fetched_once(gateway, sim):
    """The service is asked for its models once, however many clients ask at the same time."""
    app = gateway(kiro={"models_ttl": 60.0}, fresh=True)
    async with anyio.create_task_group() as clients:
        for _ in range(5):
            clients.start_soon(get("/v1/models").run, app)

    assert [request.operation for request in sim.requests] == ["ListAvailableModels"]


@pytest.mark.parametrize("name", ["claude-sonnet-4.5", "claude-sonnet-4-5-20250929"], ids=["id", "alias"])
async def test_one_model(name, gateway):
    """A model is found by any spelling that requests may use."""
    exchange = await get(f"/v1/models/{name}").run(gateway(fresh=True))

    assert exchange.status == 200
    assert exchange.json()["id"] == "claude-sonnet-4.5"


@EACH_DIALECT
@EACH_MODE
async def test_an_unknown_model_is_404_with_a_hint(dialect, stream, gateway, sim):
    """F032/F035: the name is in the error, something near it too, and no answer was asked for."""
    exchange = await ask(dialect, "hi", stream=stream, model="claude-sonet-4.5").run(gateway(fresh=True))

    assert exchange.status == 404
    error = error_of(dialect, exchange)
    assert "claude-sonet-4.5" in error["message"]
    assert "did you mean claude-sonnet-4.5" in error["message"]
    assert (error.get("code"), error["type"]) in [
        ("model_not_found", "invalid_request_error"),
        (None, "not_found_error"),
    ]
    assert {request.operation for request in sim.requests} == {"ListAvailableModels"}


@pytest.mark.parametrize("path", ["/v1/models/claude-sonet-4.5", "/v1/models/vendor/model"])
async def test_an_unknown_model_is_not_invented(path, gateway):
    """What is not listed has no page."""
    exchange = await get(path).run(gateway())

    assert exchange.status == 404
    assert exchange.json()["error"]["code"] == "model_not_found"


async def test_a_model_that_the_service_does_not_list_has_no_page():
    """What is known without asking counts only where the service lists nothing."""
    pages = []
    async with simulator.serve(models=simulator.MODELS[:1]) as sim:
        settings = {"client": {"api_keys": ["k"]}, "kiro": {"endpoint": sim.url, "api_key": "ksk_test"}}
        app = create_app(Settings.from_mapping(settings))
        for name in ("auto", "claude-sonnet-4.5"):
            pages.append((await get(f"/v1/models/{name}").run(app)).status)
        await app.aclose()

    assert pages == [200, 404]


@EACH_DIALECT
async def test_names_pass_through_where_nothing_is_listed(dialect):
    """A service without a list decides itself about names; ours are only those known without asking."""
    async with simulator.serve(models=None) as sim:
        settings = {"client": {"api_keys": ["k"]}, "kiro": {"endpoint": sim.url, "api_key": "ksk_test"}}
        app = create_app(Settings.from_mapping(settings))
        exchange = await ask(dialect, "sim:count=2", stream=True, model="brand-new-7").run(app)
        asked = sim.requests[-1].json()["conversationState"]["currentMessage"]["userInputMessage"]["modelId"]
        listed = await get("/v1/models").run(app)
        await app.aclose()

    assert text_of(dialect, exchange) == "1 2 "
    assert asked == "brand-new-7"
    assert listed.status == 200 and "claude-sonnet-4.5" in [card["id"] for card in listed.json()["data"]]


async def test_counting_asks_nobody(gateway, sim):
    """``count_tokens`` is an estimate of our own; a longer prompt has more tokens."""
    app, counts = gateway(), []
    for words in ("one", "one " * 500):
        body = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": words}]}
        counts.append((await post("/v1/messages/count_tokens", body).run(app)).json())

    assert [set(count) for count in counts] == [{"input_tokens"}] * 2
    assert 0 < counts[0]["input_tokens"] < 20 < 300 < counts[1]["input_tokens"] < 1000
    assert sim.requests == ()


async def test_health_needs_no_key_and_asks_nobody(gateway, sim):
    """R37: the only page for everybody."""
    exchange = await get("/health", key=None).run(gateway())

    assert (exchange.status, exchange.json()) == (200, {"status": "ok"})
    assert sim.requests == ()


# Hosts.


async def test_the_middleware_form_falls_through(gateway, sim):
    """C07: what is not ours goes to the inner application untouched, what is ours does not."""
    seen = []

    async def inner(scope, receive, send):
        seen.append(scope)
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b"inner"})

    settings = Settings.from_mapping({"client": {"api_keys": ["k"]}, "kiro": {"endpoint": sim.url, "api_key": "x"}})
    app = create_app(settings, inner=inner)
    beyond, ours = get("/elsewhere", key=None), get("/health", key=None)
    await beyond.run(app)
    await ours.run(app)

    assert (beyond.status, beyond.content) == (299, b"inner")
    assert seen == [beyond.scope]
    assert ours.json() == {"status": "ok"}


@pytest.mark.parametrize("kind", ["ftp", "", "HTTP"])
async def test_an_unknown_scope_is_no_request(kind, gateway):
    """ASGI wants an exception for a protocol that an application does not know."""
    with pytest.raises(ValueError, match="scope"):
        await Exchange({"type": kind}).run(gateway())


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"kiro": {"api_key": "ksk_x"}}, id="R37-nobody-may-ask"),
        pytest.param({"client": {"api_keys": ["k"]}}, id="no-credential"),
    ],
)
async def test_settings_that_cannot_work_are_refused_at_once(settings):
    """R46: at construction, not at the first request."""
    with pytest.raises(ConfigError):
        create_app(Settings.from_mapping(settings))


# Logs.


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.DEBUG)
    return caplog


def access_lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: get("/nothing"), "GET /nothing 404", id="404"),
        pytest.param(lambda: post("/v1/messages", {}, key=None), "POST /v1/messages 401", id="401"),
        pytest.param(
            lambda: ask("openai", "sim:text", stream=True), "POST /v1/chat/completions 200 complete", id="stream"
        ),
        pytest.param(
            lambda: ask("anthropic", "sim:text", stream=False), "POST /v1/messages 200 complete", id="collect"
        ),
        pytest.param(lambda: ask("anthropic", "sim:reset", stream=True), "POST /v1/messages 200 cut", id="F079-cut"),
        pytest.param(lambda: ask("anthropic", "sim:html", stream=True), "POST /v1/messages 502", id="502"),
    ],
)
async def test_one_access_line_a_request(make, words, gateway, logged):
    """What was asked and what became of it, with the id that the client was told."""
    exchange = await make().run(gateway())

    (line,) = access_lines(logged)
    assert line.startswith(words)
    assert line.endswith(exchange.headers["request-id"])


async def test_the_access_line_names_model_and_principal(gateway, logged):
    """The principal tells keys apart without telling them."""
    await ask("openai", "sim:text", stream=False).run(gateway())

    (line,) = access_lines(logged)
    assert re.search(r" model=claude-sonnet-4\.5 upstream=kiro principal=key:[0-9a-f]{8} error=- tokens=", line)


async def test_the_access_line_tells_what_the_answer_took_and_how_that_is_known(gateway, sim, logged):
    """Decisions 1.14: every count is written down with its source, and the price in the service's own unit."""
    await ask("openai", "sim:usage", stream=True).run(gateway())

    (line,) = access_lines(logged)
    assert re.search(
        r" tokens=\d+\+\d+ input=upstream output=upstream .*credits=0\.\d+ first=\d+ms.* \d+ ms req_",
        line,
    )


async def test_the_access_line_tells_what_broke_the_answer_off(gateway, sim, logged):
    """F079: a failure that the client was told of within the answer is known outside of it too."""
    sim.enqueue(answer(*text("some"), simulator.ExceptionFrame("ThrottlingException", "slow down")))
    await ask("openai", "hi", stream=True).run(gateway())

    (line,) = access_lines(logged)
    assert " 200 cut " in line and " error=UpstreamThrottled:throttled " in line


async def test_a_line_stays_a_line(gateway, logged):
    """R29: control characters are escaped and fields are bounded, wherever they come from."""
    nasty = "\r\n\x1b[31m\x00\u2028" + "x" * 5000
    app = gateway()
    await get("/" + nasty).run(app)
    await ask("openai", "hi", stream=True, model=nasty).run(app)

    lines = access_lines(logged)
    assert len(lines) == 2
    assert all(line.isascii() and line.isprintable() and len(line) < 1200 for line in lines)
    assert not [record for record in logged.records if re.search(r"[\x00-\x1f\u2028]", record.getMessage())]


SECRETS = {
    "client key": "canary-client-key",
    "credential": "ksk_canaryCredential",
    "prompt": "canary-prompt",
    "host cookie": "canary-cookie",
    "tool": "canary_tool",
}


@EACH_DIALECT
@EACH_MODE
@pytest.mark.parametrize(
    "marker",
    ["text", "tool", "500", "403", "429", "bad-request", "bad-crc", "torn", "reset-first", "reset", "html", "stall"],
)
async def test_no_log_line_and_no_error_holds_a_secret(dialect, stream, marker, sim, gateway, logged):
    """R28/F054: keys, credentials, prompts, tools and cookies are in no record at any level, nor in any error body."""
    # Connecting counts too, so the time is short only where it is to pass: a busy machine does not connect in a tenth.
    patience = 1.0 if marker == "stall" else 15.0
    app = gateway(
        client={"api_keys": [SECRETS["client key"]]},
        kiro={"api_key": SECRETS["credential"], "first_token_timeout": patience},
    )
    exchange = ask(dialect, f"{SECRETS['prompt']} sim:{marker}", stream=stream)
    exchange.scope["headers"] = [
        (b"authorization", f"Bearer {SECRETS['client key']}".encode()),
        (b"cookie", SECRETS["host cookie"].encode()),
    ]
    await exchange.run(app)

    assert exchange.complete
    assert sim.requests, "the service was not asked at all"
    told = exchange.content.decode() + "".join(f"{record.getMessage()} {record.__dict__}" for record in logged.records)
    assert not [name for name, canary in SECRETS.items() if canary in told]
    assert len(access_lines(logged)) == 1


async def test_no_part_shows_a_secret(gateway):
    """R28/F054: a part that is printed, in a traceback or by a debugger, names no key, no credential, no prompt."""
    app = gateway(client={"api_keys": [SECRETS["client key"]]}, kiro={"api_key": SECRETS["credential"]})
    exchange = ask("openai", SECRETS["prompt"], stream=False)
    exchange.scope["headers"] = [
        (b"authorization", f"Bearer {SECRETS['client key']}".encode()),
        (b"cookie", SECRETS["host cookie"].encode()),
    ]
    await exchange.run(app)

    assert exchange.status == 200
    parts = (Door, Router, Provider, Authenticator, Gateway, AnswerContext, ExchangeFactory, Settings)
    shown = repr(app) + "".join(repr(part_of(app, kind)) for kind in parts)
    assert not [name for name, canary in SECRETS.items() if canary in shown]


async def test_a_wrong_key_is_not_repeated(gateway, logged):
    """R28: not even a key that opens nothing is written down or sent back."""
    exchange = await post("/v1/messages", {}, key="canary-wrong-key").run(gateway())

    assert exchange.status == 401
    assert "canary" not in exchange.content.decode() + logged.text


# What can be put in.


class Letters:
    """A tokenizer for which every letter is a token."""

    def estimate_tokens(self, text: str, /) -> float:
        return float(len(text))

    def count(self, text: str, /) -> int:
        return len(text)


async def test_a_tokenizer_can_be_put_in(sim):
    """F414: counts that the service does not give come from the tokenizer, before, while and after it answers."""
    settings = settings_for(sim.url, {})
    app = create_app(settings, estimator=Letters())
    try:
        sim.enqueue(simulator.answer(*simulator.text("four"), trailers=simulator.Trailers(input_tokens=None)))
        whole = await ask("anthropic", "abcdefghij", stream=False).run(app)
        sim.enqueue(simulator.answer(*simulator.text("four", "five")))
        cut = await ask("anthropic", "hi", stream=False, max_tokens=6).run(app)
    finally:
        await app.aclose()

    assert whole.json()["usage"]["output_tokens"] == 4
    assert cut.json()["stop_reason"] == "max_tokens"
    assert text_of("anthropic", cut) == "fourfi"


@EACH_DIALECT
@EACH_MODE
async def test_a_lead_in_before_a_leading_tool_call(dialect, stream, sim, gateway):
    """F217/F218: where a lead-in is set it precedes an answer that begins with a tool call, and no other."""
    app = gateway(stream={"lead_in": "I will call a tool to help with this:"})
    sim.enqueue(simulator.answer(*simulator.tool_call("f", {})), simulator.answer(*simulator.text("Hello.")))
    leading = await ask(dialect, "hi", stream=stream).run(app)
    other = await ask(dialect, "hi", stream=stream).run(app)

    assert text_of(dialect, leading) == "I will call a tool to help with this:"
    assert text_of(dialect, other) == "Hello."


@EACH_DIALECT
async def test_tags_are_text_where_thinking_in_tags_is_off(dialect, sim, gateway):
    """F171: with the setting off the content is not inspected for tags at all, though thinking was asked for."""
    app = gateway(kiro={"fake_reasoning_enabled": False})
    asked = (
        {"thinking": {"type": "enabled", "budget_tokens": 2000}}
        if dialect == "anthropic"
        else {"reasoning_effort": "high"}
    )
    sim.enqueue(simulator.answer(*simulator.text("<thinking>hm</thinking>yes")))
    exchange = await ask(dialect, "hi", stream=False, model="claude-haiku-4.5", **asked).run(app)

    assert text_of(dialect, exchange) == "<thinking>hm</thinking>yes"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_the_access_line_tells_how_fast_the_answer_came(stream, gateway, sim, logged):
    """F442: the time to the first content, told once, and the time from one token to the next."""
    sim.enqueue(answer(simulator.Pause(0.05), *text("some"), simulator.Pause(0.1), *text(" more words to be counted")))
    await ask("openai", "hi", stream=stream).run(gateway())

    (line,) = access_lines(logged)
    found = re.findall(r" first=(\d+)ms per_token=(\d+\.\d)ms ", line)
    assert len(found) == 1
    first, between = map(float, found[0])
    assert 50 <= first < 5000
    assert between >= 100 / 20


async def test_nothing_is_told_of_the_speed_of_an_answer_that_never_came(gateway, sim, logged):
    """F442: without content there is no first one."""
    sim.enqueue(simulator.refusal(400, "No.", error_type="ValidationException"))
    await ask("openai", "hi", stream=True).run(gateway())

    (line,) = access_lines(logged)
    assert "first=" not in line and "per_token=" not in line
