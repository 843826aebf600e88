"""A choice of tools is kept to: tries, signs of life and limits while an answer is held back for it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kiro_asgi.simulator import Event, Head, Pause, Reset, answer, refusal, text, tool_call
from tests.asgi.answers import ALL_DIALECTS, PINGS, cut_of, error_of, partial_text, text_of
from tests.asgi.driver import Exchange, ask

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
TOOLS: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "f", "description": "d", "input_schema": SCHEMA},
    "openai": {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA},
}
ANY = {"anthropic": {"type": "any"}, "openai": "required", "responses": "required"}
NONE = {"anthropic": {"type": "none"}, "openai": "none", "responses": "none"}
WRONG = answer(*text("I will not."))
RIGHT = answer(*tool_call("f", {"n": 1}, call_id="c1"))


def demand(dialect: str, *, stream: bool, choice: dict[str, Any] = ANY, **more: Any) -> Exchange:
    """A request that demands a call, or whatever *choice* says."""
    return ask(dialect, "do it", stream=stream, tools=[TOOLS[dialect]], tool_choice=choice[dialect], **more)


@EACH_DIALECT
@EACH_MODE
async def test_one_more_try_is_one_of_the_tries(dialect, stream, gateway, sim):
    """R41: where one is allowed, that is all; where two are, a failure that was met before has used the second."""
    sim.enqueue(WRONG, refusal(500, "Broken."), WRONG)
    alone = await demand(dialect, stream=stream).run(gateway(retry={"attempts": 1}))
    assert len(sim.requests) == 1
    second = await demand(dialect, stream=stream).run(gateway(retry={"attempts": 2}))

    assert len(sim.requests) == 3
    for exchange in (alone, second):
        assert exchange.status == 502
        assert exchange.headers["x-should-retry"] == "false"
        assert "called no tool" in error_of(dialect, exchange)["message"]


@EACH_DIALECT
@EACH_MODE
async def test_a_failure_of_the_second_answer_is_tried_again_with_the_complaint(dialect, stream, gateway, sim):
    """What the model was told stays told."""
    sim.enqueue(WRONG, (Head(), *text("No"), Reset()), RIGHT)
    exchange = await demand(dialect, stream=stream).run(gateway())

    assert exchange.status == 200
    assert b"I will not." not in exchange.content
    assert [b"Your answer was withheld" in chat.body for chat in sim.requests] == [False, True, True]


@EACH_DIALECT
async def test_signs_of_life_flow_while_an_answer_is_held_back(dialect, gateway, sim):
    """The head goes out early, heartbeats follow, and the second answer is told in the same stream."""
    sim.enqueue(answer(*text("I "), Pause(0.3), *text("will not.")), RIGHT)
    app = gateway(stream={"early_commit_after": 0.02, "heartbeat": 0.05}, kiro={"first_token_timeout": 5})
    exchange = await demand(dialect, stream=True).run(app)

    assert (exchange.status, len(sim.requests)) == (200, 2)
    assert partial_text(dialect, exchange.content) == ""
    assert exchange.content.count(b'"f"') >= 1


@EACH_DIALECT
async def test_after_an_early_commit_the_error_is_told_in_the_stream(dialect, gateway, sim):
    """There is no status left, and no text before the error."""
    sim.enqueue(answer(*text("I "), Pause(0.4), *text("will not.")), WRONG)
    app = gateway(stream={"early_commit_after": 0.1, "heartbeat": 0.1}, kiro={"first_token_timeout": 5})
    exchange = await demand(dialect, stream=True).run(app)

    assert "called no tool" in cut_of(dialect, exchange)["message"]
    assert (PINGS | {"responses": b"event: response.in_progress\n"})[dialect] in exchange.content
    assert exchange.content.count(b"event: response.in_progress\n") != 1, "that is no sign of life"
    assert partial_text(dialect, exchange.content) == ""


@EACH_DIALECT
@EACH_MODE
async def test_what_is_held_back_has_a_limit(dialect, stream, gateway, sim):
    """``limits.answer_bytes`` counts it, and such an answer is not tried again."""
    sim.enqueue(answer(*text(*["x" * 1000] * 200)))
    room = {"max_tokens": 10**6} if dialect == "anthropic" else {}
    exchange = await demand(dialect, stream=stream, **room).run(gateway(limits={"answer_bytes": 65_536}))

    assert (exchange.status, len(sim.requests)) == (502, 1)
    assert "limits.answer_bytes" in error_of(dialect, exchange)["message"]


async def test_what_was_withheld_is_in_the_log(gateway, sim, caplog):
    """By codes, without a word of the model's."""
    sim.enqueue(answer(*text("Secret."), *tool_call("f", {"n": 1}, call_id="c1")), RIGHT)
    with caplog.at_level(logging.WARNING):
        await demand("openai", stream=False).run(gateway())
        await demand("openai", stream=False, choice=NONE).run(gateway())

    assert [record.getMessage() for record in caplog.records] == [
        "answer complete, but: text.before_demanded_call (1)",
        "answer complete, but: tool_call.forbidden (1)",
    ]


async def test_a_try_that_is_made_again_is_in_the_log(gateway, sim, caplog):
    """The reason is told."""
    sim.enqueue(WRONG, RIGHT)
    with caplog.at_level(logging.WARNING):
        await demand("openai", stream=False).run(gateway())

    (record,) = caplog.records
    assert record.getMessage().startswith("attempt 1 failed, reminding the model: UnmetPromise(")


async def test_the_operators_words_before_a_call_stay(gateway, sim):
    """``stream.lead_in`` is not the model's text."""
    sim.enqueue(answer(*text("I do it."), *tool_call("f", {"n": 1}, call_id="c1")))
    exchange = await demand("anthropic", stream=False).run(gateway(stream={"lead_in": "So: "}))

    lead, call = exchange.json()["content"]
    assert (lead["text"], call["input"]) == ("So: ", {"n": 1})


ASKED = {"promises": {"tool_choice": "ask"}}
NOTICE = b"[Notice from the gateway] The model called no tool"


@EACH_DIALECT
@EACH_MODE
async def test_a_call_that_is_only_asked_for(dialect, stream, gateway, sim, caplog):
    """The answer that was paid for goes out, with a notice to client and operator; the model is asked once."""
    sim.enqueue(WRONG)
    with caplog.at_level(logging.INFO):
        exchange = await demand(dialect, stream=stream).run(gateway(**ASKED))

    assert (exchange.status, len(sim.requests)) == (200, 1)
    assert text_of(dialect, exchange).startswith("I will not.")
    assert NOTICE in exchange.content
    assert "tool_choice.unmet" in caplog.text


@EACH_DIALECT
@EACH_MODE
async def test_an_answer_with_the_call_has_no_notice(dialect, stream, gateway, sim):
    """Text before the call goes out, too."""
    sim.enqueue(answer(*text("Well. "), *tool_call("f", {"n": 1}, call_id="c1")))
    exchange = await demand(dialect, stream=stream).run(gateway(**ASKED))

    assert text_of(dialect, exchange) == "Well. "
    assert b'"c1"' in exchange.content and NOTICE not in exchange.content


@EACH_MODE
async def test_what_is_forbidden_stays_forbidden(stream, gateway, sim):
    """No client is given a call of a tool that it does not allow; that is no call that it demands."""
    tools = [TOOLS["openai"], {"type": "function", "function": {**TOOLS["openai"]["function"], "name": "g"}}]
    only = {"type": "function", "function": {"name": "g"}}
    sim.enqueue(RIGHT)
    exchange = await ask("openai", "do it", stream=stream, tools=tools, tool_choice=only).run(gateway(**ASKED))

    assert b'"c1"' not in exchange.content and NOTICE in exchange.content


async def test_an_answer_that_was_cut_is_not_judged(gateway, sim):
    """The call may still have been to come."""
    sim.enqueue((Head(), *text("I "), Event("metadataEvent", {"stopReason": "MAX_TOKENS"})))
    exchange = await demand("anthropic", stream=False).run(gateway(**ASKED))

    assert exchange.json()["stop_reason"] == "max_tokens"
    assert NOTICE not in exchange.content
