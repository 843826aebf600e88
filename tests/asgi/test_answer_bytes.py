"""What is kept of one answer has a limit; what goes out as it comes has none."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.simulator import answer, json_answer, text, thinking, tool_call
from kiro_asgi.simulator.pieces import CallPart, Piece, Sealed, Words
from tests.asgi.answers import ALL_DIALECTS, DIALECTS, cut_of, error_of, partial_text
from tests.asgi.driver import Exchange, ask

pytestmark = pytest.mark.anyio

EVERY_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)
EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)

KIB = 1024
ROOM = 64 * KIB
LIMITS = {"limits": {"answer_bytes": ROOM}}
TOOLS: dict[str, Any] = {
    "anthropic": [{"name": "f", "input_schema": {"type": "object"}}],
    "openai": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "responses": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
}


def open_calls(number: int, size: int) -> list[Piece]:
    """Calls that have not ended, each with so many bytes of arguments."""
    begun = [CallPart(f"c{n}", "f", '{"a":"') for n in range(number)]
    rest = [CallPart(f"c{n}", "f", "x" * size) for n in range(number)]
    return begun + rest


def redacted(number: int, size: int) -> list[Piece]:
    return [Sealed("x" * size) for _ in range(number)]


LONG: dict[str, list[Piece]] = {
    "text": [*text(*["x" * KIB] * 100)],
    "small-pieces": [*text(*["xy"] * 1_500)],
    "thinking": [*thinking(*["x" * KIB] * 100), *text("so")],
    "calls": [step for n in range(175) for step in tool_call("f", {"n": n}, call_id=f"c{n}")],
    "redacted": [*redacted(100, KIB), *text("so")],
}
"""More than there is room for, but nothing that could not go out at once."""

HELD: dict[str, list[Piece]] = {
    "open-calls": [*text("so"), *open_calls(10, 10 * KIB)],
    "many-open-calls": [*text("so"), *open_calls(175, 1)],
    "redacted-behind-a-call": [*text("so"), *open_calls(1, 10), *redacted(100, KIB)],
}
"""More than there is room for that cannot go out."""


async def asked(app: Any, sim: Any, dialect: str, steps: list[Piece], *, stream: bool) -> Exchange:
    sim.enqueue(answer(*steps))
    limit = {"max_tokens": 10**6} if dialect == "anthropic" else {}
    exchange = await ask(dialect, "hi", stream=stream, tools=TOOLS[dialect], **limit).run(app)
    assert len(sim.requests) == 1, "it was tried again"
    return exchange


@EVERY_DIALECT
@pytest.mark.parametrize("shape", LONG)
async def test_a_collected_answer_that_is_too_large_is_an_error(dialect, shape, gateway, sim):
    """502 and no second try, be it large for its text or for the number of its blocks."""
    exchange = await asked(gateway(**LIMITS), sim, dialect, LONG[shape], stream=False)

    assert exchange.status == 502
    assert f"{ROOM} bytes" in error_of(dialect, exchange)["message"]


@pytest.mark.parametrize("shape", LONG)
async def test_a_stream_that_repeats_everything_ends_with_an_error(shape, gateway, sim):
    """The Responses API says the whole answer at the end, so it is kept; what was said before the limit was sent."""
    exchange = await asked(gateway(**LIMITS), sim, "responses", LONG[shape], stream=True)

    assert cut_of("responses", exchange)["type"] == "server_error"
    assert len(exchange.content) > ROOM // 8


@EACH_DIALECT
@pytest.mark.parametrize("shape", LONG)
async def test_a_synthetic_stream_that_is_too_large_is_an_error(dialect, shape, gateway, sim):
    """Nothing was sent of it, so it has a status."""
    app = gateway(**LIMITS, stream={"synthetic": True})
    exchange = await asked(app, sim, dialect, LONG[shape], stream=True)

    assert exchange.status == 502


@EACH_DIALECT
@pytest.mark.parametrize("shape", ["text", "small-pieces", "thinking"])
async def test_a_stream_that_is_not_kept_has_no_limit(dialect, shape, gateway, sim):
    """What goes out as it comes costs nothing."""
    exchange = await asked(gateway(**LIMITS), sim, dialect, LONG[shape], stream=True)

    assert b"error" not in exchange.content
    assert partial_text(dialect, exchange.content) == "".join(
        step.text for step in LONG[shape] if isinstance(step, Words)
    )


@EACH_DIALECT
@pytest.mark.parametrize("emission", ["complete", "end", "incremental"])
@pytest.mark.parametrize("shape", HELD)
async def test_what_cannot_go_out_has_a_limit_in_every_stream(dialect, emission, shape, gateway, sim):
    """Calls that have not ended, and what waits behind them; the text before them has been sent."""
    if shape == "redacted-behind-a-call" and emission != "incremental":
        pytest.skip("nothing waits behind a call")
    app = gateway(**LIMITS, stream={"tool_emission": emission})
    exchange = await asked(app, sim, dialect, HELD[shape], stream=True)

    assert cut_of(dialect, exchange)["type"] == "api_error"
    assert partial_text(dialect, exchange.content) == "so"


@EACH_DIALECT
async def test_calls_that_have_ended_leave_only_what_knows_them_again(dialect, gateway, sim):
    """Arguments of more than the limit together go through, one call after the other."""
    calls = [tool_call("f", {"n": n, "a": "x" * 10 * KIB}, call_id=f"c{n}", fragment=KIB) for n in range(40)]
    steps = [step for call in calls for step in call]
    exchange = await asked(gateway(**LIMITS), sim, dialect, steps, stream=True)

    assert b"error" not in exchange.content
    assert exchange.content.count(b"x" * 10 * KIB) == 40


async def test_a_body_that_goes_through_has_the_same_limit(service, sim, gateway):
    """A collected answer of a service that speaks the client's API is kept until it is whole."""
    app = gateway(**LIMITS, openai={"api_key": "sk", "endpoint": f"{service.url}/v1"})
    choice = {"index": 0, "message": {"role": "assistant", "content": "x" * ROOM}, "finish_reason": "stop"}
    sim.enqueue(json_answer(200, {"object": "chat.completion", "choices": [choice]}), operation="openai.chat")
    exchange = ask("openai", "hi", stream=False)
    exchange.body[0] = exchange.body[0].replace(b"claude-sonnet-4.5", b"gpt-4o")
    exchange.scope["headers"] = [pair for pair in exchange.scope["headers"] if pair[0] != b"content-length"]
    await exchange.run(app)

    assert exchange.status == 502
    assert f"{ROOM} bytes" in error_of("openai", exchange)["message"]
    assert [request.operation for request in sim.requests].count("openai.chat") == 1


@EVERY_DIALECT
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_an_ordinary_answer_is_far_from_the_limit(dialect, stream, gateway, sim):
    """Token by token it takes some 80 bytes for each: 400,000 tokens fit, and no model gives as many."""
    app = gateway(limits={"answer_bytes": 80 * 2_000})
    exchange = await asked(app, sim, dialect, [*text(*["tok "] * 2_000)], stream=stream)

    assert exchange.status == 200
    assert b'"error":{' not in exchange.content
