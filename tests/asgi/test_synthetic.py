"""Streams that are made of whole answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kiro_asgi.testing.grammar.messages as anthropic_grammar
import tests.dialects.openai_chat.grammar as openai_grammar
from kiro_asgi.simulator import ExceptionFrame, Head, Pause, Reset, Stall, answer, text
from tests.asgi.answers import DIALECTS, error_of, partial_text, text_of
from tests.asgi.driver import Exchange, ask
from tests.asgi.test_output import Watch

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)

SYNTHETIC = {"synthetic": True, "heartbeat": 0.05, "early_commit_after": 0.05}
SENTENCES = {"synthetic": True, "sentences": True}


def folded(dialect: str, exchange: Exchange) -> Any:
    """What a client makes of the stream, without what differs from answer to answer."""
    whole = (
        anthropic_grammar.check(exchange.content)
        if dialect == "anthropic"
        else openai_grammar.fold(openai_grammar.check(exchange.content))
    )
    return json.loads(json.dumps(whole, default=str), object_hook=_without_ids)


def _without_ids(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in ("id", "created")}


def text_deltas(dialect: str, exchange: Exchange) -> list[str]:
    pieces = [partial_text(dialect, line) for line in exchange.content.split(b"\n")]
    return [piece for piece in pieces if piece]


@EACH_DIALECT
@pytest.mark.parametrize(
    "question", ["sim:text", "sim:tool", "sim:parallel", "sim:thinking", "sim:unicode", "sim:max-tokens"]
)
async def test_a_synthetic_stream_says_what_a_real_one_does(dialect, question, gateway, sim):
    """After joining deltas both are the same; text is one delta (F285, F286, F288, F289, F391)."""
    real = await ask(dialect, f"sim:{question}", stream=True).run(gateway())
    made = await ask(dialect, f"sim:{question}", stream=True).run(gateway(stream=SYNTHETIC))

    assert folded(dialect, made) == folded(dialect, real)
    assert len(text_deltas(dialect, made)) <= 1
    assert made.headers["content-type"] == "text/event-stream"


@EACH_DIALECT
async def test_text_comes_by_sentences_on_demand(dialect, gateway, sim):
    """Several deltas then, which join to the text (F287)."""
    sim.enqueue(answer(*text("One. T", "wo!  Three")))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(stream=SENTENCES))

    assert text_deltas(dialect, exchange) == ["One. ", "Two!  ", "Three"]


@EACH_DIALECT
async def test_nothing_is_sent_before_the_answer_is_complete(dialect, gateway, sim):
    """No head, no start, no heartbeat, however long it takes; then all of it at once (F392)."""
    sim.enqueue(answer(*text("one "), Pause(0.3), *text("two")))
    exchange = ask(dialect, "hi", stream=True)
    watch = Watch(exchange)
    await exchange.run(gateway(stream=SYNTHETIC))

    assert text_of(dialect, exchange) == "one two"
    assert watch.times[-1] - watch.times[0] < 0.3
    assert b"ping" not in exchange.content


@EACH_DIALECT
async def test_an_answer_that_fails_late_is_a_plain_error(dialect, gateway, sim):
    """Words that had come are not sent, and the status tells of the failure (F089, F392)."""
    sim.enqueue((Head(), *text("one"), Stall()))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(stream={**SYNTHETIC, "idle_timeout": 0.1}))

    assert exchange.status == 504
    assert error_of(dialect, exchange)["message"]


@EACH_DIALECT
async def test_an_answer_that_fails_is_asked_for_again(dialect, gateway, sim):
    """The second try leaves no trace of the first, since nothing of that was sent (F392)."""
    sim.enqueue((Head(), *text("one"), ExceptionFrame("ThrottlingException", "slow")), answer(*text("two")))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(stream=SYNTHETIC))

    assert text_of(dialect, exchange) == "two"


@EACH_DIALECT
async def test_calls_are_whole(dialect, gateway, sim):
    """Of a call that is cut nothing is sent, even where pieces of calls would be (F391)."""
    app = gateway(stream={"synthetic": True, "tool_emission": "incremental"})
    exchange = await ask(dialect, "sim:cut-tool", stream=True).run(app)

    assert text_of(dialect, exchange) == "I write the file."
    assert b"tool_use" not in exchange.content.replace(b"tool_use_id", b"")
    assert b"tool_calls" not in exchange.content


@EACH_DIALECT
async def test_a_try_after_the_time_for_signs_of_life(dialect, gateway, sim):
    """F080: nothing was shown of the try that failed, so the next answer has a start of its own."""
    sim.enqueue((Pause(0.2), Reset()), answer(*text("good")))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(stream=SYNTHETIC))

    assert text_of(dialect, exchange) == "good"
