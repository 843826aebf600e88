"""Where one upstream fails, the next one answers: when that is right, and what is told of it (F080-F082)."""

from __future__ import annotations

import json
import logging
import re
from itertools import pairwise
from typing import Any

import anyio
import pytest

from kiro_asgi.simulator import Head, Pause, RawBytes, Stall, answer, refusal, text
from tests.asgi.answers import ALL_DIALECTS, comes_true, cut_of, error_of, text_of
from tests.asgi.driver import Exchange, get, post
from tests.asgi.test_upstreams import NOBODY, PATHS, WIRE_STYLES

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])

ROWS = {
    "kiro-first": "kiro/claude-sonnet-4.5>gemini/gemini-2.5-flash",
    "kiro-claude": "kiro/claude-sonnet-4.5>anthropic/claude-haiku-4-5-20251001",
    "claude-kiro": "anthropic/claude-haiku-4-5-20251001>kiro/claude-sonnet-4.5",
    "openai-local": "openai/gpt-4o>local/gpt-4o",
    "openai-kiro": "openai/gpt-4o>kiro/claude-sonnet-4.5",
    "three": "kiro/claude-sonnet-4.5>anthropic/nothing-of-the-kind>gemini/gemini-2.5-flash",
    "all-fail": "kiro/claude-sonnet-4.5>gone/x>anthropic/nothing-of-the-kind",
    "unknown-first": "anthropic/nothing-of-the-kind>gemini/gemini-2.5-flash",
}
CHAT = "GenerateAssistantResponse"


def ask(dialect: str, model: str, prompt: str = "Count to 3", *, stream: bool = True, **more: Any) -> Exchange:
    said = {"input": prompt} if dialect == "responses" else {"messages": [{"role": "user", "content": prompt}]}
    limit = {"max_tokens": 999} if dialect == "anthropic" else {}
    return post(PATHS[dialect], {"model": model, "stream": stream, **said, **limit, **more})


@pytest.fixture
def app(gateway, sim):
    """A gateway in front of all upstreams with a table of who stands in for whom; further slices go on top."""

    def make(*, fresh: bool = False, **slices: Any):
        defaults = {
            "anthropic": {"api_key": "sk-ant", "endpoint": sim.url},
            "openai": {"api_key": "sk-oai", "endpoint": f"{sim.url}/v1"},
            "gemini": {"api_key": "goo", "endpoint": sim.url},
            "custom": {"local": {"endpoint": f"{sim.url}/v1"}, "gone": {"endpoint": NOBODY}},
            "routing": {"models": [f"{name}={targets}" for name, targets in ROWS.items()]},
        }
        merged = {name: {**defaults.get(name, {}), **slices.get(name, {})} for name in {*defaults, *slices}}
        return gateway(**merged, fresh=fresh)

    yield make
    sim.service._queued.clear()


def asked(sim) -> list[str]:
    """The upstreams that were asked for an answer, in order."""
    return [name for request in sim.requests for name, door in WIRE_STYLES.items() if request.path == door]


def without_comments(exchange: Exchange) -> Exchange:
    """*exchange* as a client reads it, for the grammars that know of no comments."""
    for message in exchange.messages:
        message["body"] = message.get("body", b"").replace(b": ping\n\n", b"")
    return exchange


def line(caplog: pytest.LogCaptureFixture) -> str:
    return [record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access"][-1]


# Who is asked.


@EACH_MODE
async def test_tries_are_counted_for_each_upstream(stream, app, sim):
    """Each has as many as the policy allows, and its delays begin anew."""
    sim.enqueue(*[refusal(503, "no")] * 2)
    sim.enqueue(refusal(503, "no"), operation="gemini.chat")
    door = app(retry={"attempts": 2, "base": 0.2, "capacity_base": 0.2})
    exchange = await ask("openai", "kiro-first", stream=stream).run(door)

    times = [request.received_at for request in sim.requests if request.path in WIRE_STYLES.values()]
    delays = [later - earlier for earlier, later in pairwise(times)]
    assert "3" in text_of("openai", exchange)
    assert asked(sim) == ["kiro", "kiro", "gemini", "gemini"]
    assert [delay > 0.15 for delay in delays] == [True, False, True]


async def test_an_upstream_that_rests_is_not_asked(app, sim):
    """While the only key's quota is spent, requests go on at once."""
    sim.enqueue(refusal(402, "no", "MONTHLY_REQUEST_COUNT"))
    door = app(retry={"quota_probe": 600.0}, fresh=True)
    for _ in range(2):
        assert "3" in text_of("openai", await ask("openai", "kiro-first").run(door))

    assert asked(sim) == ["kiro", "gemini", "gemini"]


async def test_tokens_are_counted_where_the_answer_would_come_from(app, sim):
    """A resting upstream does not keep a client from counting."""
    sim.enqueue(refusal(402, "no", "MONTHLY_REQUEST_COUNT"))
    door = app(retry={"quota_probe": 600.0}, fresh=True)
    await ask("openai", "kiro-first").run(door)
    body = {"model": "kiro-first", "messages": [{"role": "user", "content": "Count to 3"}]}

    assert (await post("/v1/messages/count_tokens", body).run(door)).json()["input_tokens"] > 2


@pytest.mark.parametrize("model", ["three", "unknown-first"])
async def test_a_target_that_cannot_be_asked_is_passed_over(model, app, sim):
    """A model that is not there, at the first place or at a later one, is no end of the row."""
    sim.enqueue(refusal(503, "no"))
    exchange = await ask("openai", model).run(app(retry={"attempts": 1}))

    assert "3" in text_of("openai", exchange)
    assert asked(sim)[-1] == "gemini"


@EACH_DIALECT
async def test_where_no_other_helps_the_first_reason_is_told(dialect, app, sim):
    """A stand-in that cannot be asked does not hide why there was need of one, be it a request that it cannot carry."""
    sim.enqueue(refusal(429, "Slow down.", retry_after="7"))
    exchange = await ask(dialect, "all-fail").run(app(retry={"attempts": 1}))

    assert exchange.status == 503  # nobody listens at the second, which was asked, so its reason counts
    sim.enqueue(refusal(429, "Slow down.", retry_after="7"))
    rows = {"models": ["x=kiro/claude-sonnet-4.5>anthropic/nothing-of-the-kind"]}
    exchange = await ask(dialect, "x").run(app(retry={"attempts": 1}, routing=rows))
    assert (exchange.status, exchange.headers["retry-after"]) == (429, "7")
    assert "Slow down." in error_of(dialect, exchange)["message"]


async def test_a_stand_in_that_cannot_carry_the_request(app, sim):
    """What only the second upstream refuses is not the client's fault."""
    sim.enqueue(refusal(503, "no"))
    document = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    rows = {"models": ["x=anthropic/claude-haiku-4-5-20251001>kiro/claude-sonnet-4.5"]}
    sim.enqueue(refusal(503, "not now"), operation="anthropic.chat")
    request = {"model": "x", "max_tokens": 9, "messages": [{"role": "user", "content": [document]}]}
    exchange = await post("/v1/messages", request).run(app(retry={"attempts": 1}, routing=rows))

    assert exchange.status >= 500
    assert "not now" in exchange.json()["error"]["message"]


# What is told.


@EACH_DIALECT
@EACH_MODE
async def test_one_answer_with_one_head(dialect, stream, app, sim, caplog):
    """The client sees one id; the rules are those of the request that was answered, and the log names who did."""
    sim.enqueue(refusal(503, "no"))
    exchange = ask(dialect, "kiro-first", stream=stream, **({} if dialect == "responses" else {"top_p": 0.5}))
    exchange.scope["headers"].append((b"x-kiro-asgi-rules", b"1"))
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        await exchange.run(app(retry={"attempts": 1}))
    ids = re.findall(rb'"id": ?"((?:msg|chatcmpl|resp)[^"]+)"', exchange.content)

    assert "3" in text_of(dialect, exchange)
    assert len(set(ids) - {each for each in ids if each.startswith(b"msg") and dialect == "responses"}) == 1
    assert "sampling" not in exchange.headers["x-kiro-asgi-rules"]  # Gemini takes it, Kiro does not
    assert " model=kiro-first upstream=gemini " in line(caplog)


@pytest.mark.parametrize(("model", "upstream"), [("kiro-first", "gemini"), ("no-such-model", "-")])
async def test_the_access_log_of_a_failure(model, upstream, app, sim, caplog):
    """It names who was asked last, or nobody."""
    sim.enqueue(refusal(503, "no"))
    sim.enqueue(refusal(503, "no"), operation="gemini.chat")
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        await ask("anthropic", model).run(app(retry={"attempts": 1}))

    assert f" upstream={upstream} " in line(caplog)


# The head has gone out early.

EARLY = {"stream": {"early_commit_after": 0.1, "heartbeat": 0.05}, "retry": {"attempts": 1}}
SILENT = {name: {"first_token_timeout": 0.6} for name in ("kiro", "anthropic", "openai")}


@pytest.mark.parametrize(
    ("dialect", "model", "operation"),
    [
        pytest.param("anthropic", "kiro-first", CHAT, id="translated"),
        pytest.param("openai", "kiro-first", CHAT, id="translated-chat"),
        pytest.param("responses", "kiro-first", CHAT, id="translated-responses"),
        pytest.param("anthropic", "claude-kiro", "anthropic.chat", id="passed-then-translated"),
        pytest.param("openai", "openai-kiro", "openai.chat", id="passed-then-translated-chat"),
        pytest.param("openai", "openai-local", "openai.chat", id="passed-twice"),
        pytest.param("anthropic", "kiro-claude", CHAT, id="translated-then-passed"),
    ],
)
@pytest.mark.parametrize("head", [(), None], ids=["no-head", "head"])
async def test_an_upstream_that_hangs_is_passed_over_though_the_head_is_out(dialect, model, operation, head, app, sim):
    """Signs of life are no answer: as long as there is none of it, the next upstream is asked, and its answer follows
    behind them, whole and once, in whatever way it comes."""
    kind = "application/vnd.amazon.eventstream" if operation == CHAT else "text/event-stream"
    sim.enqueue((*([] if head == () else [Head(content_type=kind)]), Stall()), operation=operation)
    exchange = await ask(dialect, model).run(app(**EARLY, **SILENT))

    assert exchange.starts == 1
    assert (b"response.in_progress" if dialect == "responses" else b"ping") in exchange.bodies[0]
    assert "3" in text_of(dialect, without_comments(exchange))
    assert len(asked(sim)) == 2


@EACH_DIALECT
async def test_a_failure_after_signs_of_life_is_told_in_the_stream(dialect, app, sim):
    """F082: where nobody stands in any more the status is gone, so the error comes after the head, once."""
    sim.enqueue((Stall(),))
    sim.enqueue((Pause(0.1), *refusal(503, "no")), operation="gemini.chat")
    exchange = await ask(dialect, "kiro-first").run(app(**EARLY, **SILENT))

    assert cut_of(dialect, exchange)
    assert (exchange.starts, exchange.complete, asked(sim)) == (1, True, ["kiro", "gemini"])


@EACH_DIALECT
async def test_an_answer_that_has_begun_is_never_begun_again(dialect, app, sim):
    """F080, F082: no text is said twice; what is there stays, then comes the error."""
    sim.enqueue((Head(), *text("Half an "), Stall()))
    door = app(stream={"idle_timeout": 0.2, "early_commit_after": 0.05, "heartbeat": 0.05}, **SILENT)
    exchange = await ask(dialect, "kiro-first").run(door)

    assert cut_of(dialect, exchange)
    assert exchange.content.count(b"Half an ") >= 1
    assert asked(sim) == ["kiro"]


async def test_a_slow_client_does_not_get_two_sends_at_once(app, sim):
    """A heartbeat that is still on its way when the next upstream answers is waited for."""
    sim.enqueue((Stall(),), operation="anthropic.chat")
    sim.enqueue(answer(*text("from Kiro")))
    exchange, under_way, most = ask("anthropic", "claude-kiro"), 0, 0

    async def slowly(message: Any) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await anyio.sleep(0.12)
        under_way -= 1

    exchange.on_send = slowly
    await exchange.run(app(**EARLY, **SILENT))

    assert text_of("anthropic", without_comments(exchange)) == "from Kiro"
    assert most == 1


# Bytes that go through.

BUSY = b'data: {"error": {"message": "busy", "type": "server_error", "code": null, "param": null}}'


@pytest.mark.parametrize("end", [b"\n\n", b"\n", b""], ids=["whole", "line", "cut"])
@pytest.mark.parametrize("comments", [b"", b": PROCESSING\n\n: PROCESSING\n\n"], ids=["at-once", "after-comments"])
async def test_comments_before_an_error_do_not_rule_out_another_upstream(end, comments, app, sim):
    """Some services send comments while a request waits; nothing of the failed answer reaches the client."""
    script = (Head(content_type="text/event-stream"), RawBytes(comments), Pause(0.02), RawBytes(BUSY + end))
    sim.enqueue(script, operation="openai.chat")
    exchange = await ask("openai", "openai-local").run(app(retry={"attempts": 1}))

    assert "3" in text_of("openai", exchange)
    assert b"PROCESSING" not in exchange.content and b"busy" not in exchange.content


async def test_comments_before_an_answer_arrive_with_it(app, sim):
    """The service's bytes are the client's."""
    said = b': PROCESSING\n\ndata: {"id": "x", "choices": []}\n\ndata: [DONE]\n\n'
    sim.enqueue((Head(content_type="text/event-stream"), RawBytes(said)), operation="openai.chat")
    exchange = await ask("openai", "openai/gpt-4o").run(app())

    assert exchange.content.replace(b"openai/gpt-4o", b"gpt-4o") == said


@pytest.mark.parametrize(
    ("member", "model"),
    [('"model"', '"m\\u0069ne"'), ('"mo\\u0064el"', '"mine"'), ('"model"', '"mine\\"\\u00e9\\n"')],
)
async def test_a_model_however_it_is_written(member, model, app, sim):
    """The service reads its own name for the model, at the top only, and everything else as it was."""
    rows = {"models": ["mine*=openai/gpt-4o"]}
    rest = '"messages": [{"role": "user", "content": "\\"model\\": \\"x\\""}], "metadata": {"model": "other"}'
    exchange = post(PATHS["openai"], f'{{{member}: {model}, "seed": 1.0, {rest}}}'.encode())
    await exchange.run(app(routing=rows))
    body = json.loads(next(request.body for request in sim.requests if request.path == WIRE_STYLES["openai"]))

    assert exchange.status == 200
    assert body == {**json.loads(f"{{{rest}}}"), "model": "gpt-4o", "seed": 1.0}
    assert exchange.json()["model"] == json.loads(model)


@pytest.mark.parametrize("stream", ['"true"', "1", "[]"])
async def test_a_stream_that_is_no_boolean(stream, app, sim):
    """How to answer cannot be guessed."""
    body = f'{{"model": "openai/gpt-4o", "stream": {stream}, "messages": []}}'.encode()
    exchange = await post(PATHS["openai"], body).run(app())

    assert exchange.status == 400
    assert error_of("openai", exchange)["param"] == "stream"
    assert asked(sim) == []


async def test_the_clients_own_secrets_stay_here(app, sim):
    """Neither key nor cookie nor hop-by-hop header of a client reaches a service."""
    exchange = ask("anthropic", "anthropic/claude-haiku-4-5-20251001")
    secret = {b"x-api-key": b"k", b"cookie": b"c=1", b"proxy-authorization": b"p"}
    hop = {b"te": b"trailers", b"connection": b"x-gone", b"x-gone": b"1", b"accept-encoding": b"gzip"}
    exchange.scope["headers"] += [*secret.items(), *hop.items()]
    await exchange.run(app())
    sent = next(request.headers for request in sim.requests if request.path == WIRE_STYLES["anthropic"])

    assert sent["x-api-key"] == "sk-ant" and sent["accept-encoding"] == "identity"
    assert not {"authorization", "cookie", "te", "x-gone", "proxy-authorization"} & set(sent)


# Keys.


@EACH_MODE
@pytest.mark.parametrize("name", ["anthropic", "openai", "gemini"])
async def test_another_key_stands_in(name, stream, app, sim):
    """A key that is not taken rests, the next one serves, and none of them is told to anybody."""
    models = {"anthropic": "claude-haiku-4-5-20251001", "openai": "gpt-4o", "gemini": "gemini-2.5-flash"}
    keys = {"api_key": f"first-canary-{name}-{stream}", "fallback_api_keys": ["second-canary"]}
    sim.revoke(keys["api_key"])
    exchange = await ask("openai", f"{name}/{models[name]}", stream=stream).run(app(**{name: keys}, fresh=True))

    assert "3" in text_of("openai", exchange)
    assert asked(sim) == [name, name]


@EACH_MODE
@pytest.mark.parametrize("name", ["kiro", "anthropic", "openai", "gemini"])
async def test_a_service_that_quotes_our_key(name, stream, app, sim, caplog):
    """Neither the client nor the log reads it, whatever it looks like."""
    operation = CHAT if name == "kiro" else f"{name}.chat"
    models = {"kiro": "claude-sonnet-4.5", "anthropic": "claude-haiku-4-5-20251001", "openai": "gpt-4o"}
    words = refusal(400, "you sent the key plainwordscanary, which is odd")
    sim.enqueue(words, operation=operation)
    with caplog.at_level(logging.DEBUG, "kiro_asgi"):
        door = app(**{name: {"api_key": "plainwordscanary"}}, fresh=True)
        exchange = await ask("openai", f"{name}/{models.get(name, 'gemini-2.5-flash')}", stream=stream).run(door)

    assert exchange.status == 400
    assert b"which is odd" in exchange.content
    assert "plainwordscanary" not in caplog.text + exchange.content.decode()


# Lists of models.


async def test_a_list_that_hangs_is_waited_for_once(app, sim, monkeypatch):
    """However many ask, side by side or after one another, and the others' models are there."""
    monkeypatch.setattr("kiro_asgi.net.catalogue.LIST_TIMEOUT", 0.4)
    sim.enqueue(*[(Stall(),)] * 3, operation="gemini.models")
    door, began = app(fresh=True), anyio.current_time()
    exchanges = [get("/v1/models"), get("/v1/models"), ask("openai", "no-such-name"), ask("openai", "nor-such-a-name")]
    async with anyio.create_task_group() as group:
        for exchange in exchanges:
            group.start_soon(exchange.run, door)
    first, began = anyio.current_time() - began, anyio.current_time()
    again = await get("/v1/models").run(door)
    late = await ask("openai", "no-such-name").run(door)
    second = anyio.current_time() - began

    assert first >= 0.4 > second
    assert [request.operation for request in sim.requests].count("gemini.models") == 1
    assert exchanges[0].json() == again.json()
    assert {"kiro", "anthropic", "openai"} <= {model["owned_by"] for model in again.json()["data"]}
    assert late.status == exchanges[2].status


async def test_who_asks_first_for_a_list_may_leave(app, sim):
    """The next one asks in its place."""
    sim.enqueue((Stall(),), operation="gemini.models")
    door = app(fresh=True)
    exchange = get("/v1/models")
    async with anyio.create_task_group() as group:
        group.start_soon(exchange.run, door)
        assert await comes_true(sim, lambda: any(request.operation == "gemini.models" for request in sim.requests))
        group.cancel_scope.cancel()
    with anyio.fail_after(5):
        listed = await get("/v1/models").run(door)

    assert "gemini" in {model["owned_by"] for model in listed.json()["data"]}


# A conversation that moves on.

THINKERS = {
    "kiro": "kiro/claude-sonnet-4.5",
    "gemini": "gemini/gemini-3-pro-preview",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5",
}


@pytest.mark.parametrize("first", THINKERS)
async def test_a_kept_conversation_goes_on_with_another_upstream(first, app, sim):
    """What one model thought is of no use to another: it is left behind, not refused, and the text goes along."""
    more = {"reasoning": {"effort": "high"}, "stream": False}
    begun = await ask("responses", THINKERS[first], "sim:thinking", **more).run(app())
    for second, model in THINKERS.items():
        sim.forget()
        again = await ask("responses", model, "And?", **more, previous_response_id=begun.json()["id"]).run(app())

        assert text_of("responses", again), second
        assert asked(sim) in ([second], []), second  # Kiro is asked once, the others at the doors that tests know
        assert b"sim:thinking" in sim.requests[-1].body
