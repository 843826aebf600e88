"""Answers that are to be JSON: held back, watched, or refused."""

from __future__ import annotations

import pytest

from kiro_asgi.simulator import Pause, answer, text, thinking, tool_call
from kiro_asgi.stages import promises
from tests.asgi.answers import PINGS, cut_of, error_of, partial_text, text_of
from tests.asgi.driver import PATHS, post

pytestmark = pytest.mark.anyio

FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "required": ["a"]}}}
OBJECT = {"type": "json_object"}
UNCHECKED = {"structured": {"streaming": "unchecked"}}
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])


def asking(stream, form=FORMAT, **more):
    body = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "Hi."}], "response_format": form}
    return post(PATHS["openai"], {**body, "stream": stream, **more})


@EACH_MODE
async def test_without_a_schema_it_is_any_object(stream, gateway, sim):
    """``json_object`` is the same promise."""
    sim.enqueue(answer(*text("[1]")), answer(*text('```\n{"b": [1]}\n```')))

    assert text_of("openai", await asking(stream, OBJECT).run(gateway())) == '{"b": [1]}'
    assert len(sim.requests) == 2


@pytest.mark.parametrize(("said", "code"), [("Well, no.", "output.not_json"), ('{"a": 1}', "")])
async def test_a_stream_that_is_not_checked_is_watched(said, code, gateway, sim, caplog):
    """``structured.streaming``: the answer is delivered as it comes, and the log tells by a code, without the text."""
    sim.enqueue(answer(*text(said)))
    exchange = await asking(True).run(gateway(**UNCHECKED))

    assert text_of("openai", exchange) == said
    assert ("output." in caplog.text) == bool(code)
    assert code in caplog.text
    assert "Well" not in caplog.text


async def test_a_collected_answer_is_always_checked(gateway, sim):
    """That it would stream unchecked makes no difference."""
    sim.enqueue(answer(*text("No.")), answer(*text('{"a": 1}')))

    assert text_of("openai", await asking(False).run(gateway(**UNCHECKED))) == '{"a": 1}'


@EACH_MODE
async def test_a_tool_turn_is_not_json(stream, gateway, sim):
    """An answer with a call goes on as it is, its text before the call, too."""
    sim.enqueue(answer(*text("I look."), *tool_call("f", {"n": 1}, call_id="c")))
    tools = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]
    exchange = await asking(stream, tools=tools).run(gateway())

    assert text_of("openai", exchange) == "I look."
    assert len(sim.requests) == 1


async def test_thinking_of_an_answer_that_is_withheld_is_not_shown(gateway, sim):
    """The client has that of the answer that it gets."""
    sim.enqueue(answer(*thinking("First."), *text("No.")), answer(*thinking("Second."), *text('{"a": 1}')))
    exchange = await asking(True, reasoning_effort="high").run(gateway())

    assert text_of("openai", exchange) == '{"a": 1}'
    assert b"First." not in exchange.content
    assert b"Second." in exchange.content


async def test_signs_of_life_flow_and_a_late_failure_is_told_in_the_stream(gateway, sim):
    """After the head there is no status left; nothing of the answer stands before the error."""
    sim.enqueue(answer(*text("No"), Pause(0.4), *text(".")), answer(*text("No.")))
    app = gateway(stream={"early_commit_after": 0.1, "heartbeat": 0.1}, kiro={"first_token_timeout": 5})
    exchange = await asking(True).run(app)

    assert "not the JSON" in cut_of("openai", exchange)["message"]
    assert PINGS["openai"] in exchange.content
    assert partial_text("openai", exchange.content) == ""


@EACH_MODE
async def test_what_is_too_dear_to_decide(stream, gateway, sim, caplog, monkeypatch):
    """An object goes out where its schema takes too many steps, and the log tells; a text that is too long to be read
    is an error, as nobody knows whether it is JSON."""
    values = {"type": "object", "additionalProperties": {"enum": [*range(30_000)]}}
    dear = {"type": "json_schema", "json_schema": {"name": "n", "schema": values}}
    sim.enqueue(answer(*text('{"a": 0}')))
    assert text_of("openai", await asking(stream, dear).run(gateway())) == '{"a": 0}'
    assert "output.unchecked (1)" in caplog.text

    monkeypatch.setattr(promises, "STRUCTURED_CHARACTERS", 4)
    sim.enqueue(answer(*text('{"a": 0}')), answer(*text('{"a": 0}')))
    exchange = await asking(stream).run(gateway())
    assert (exchange.status, len(sim.requests)) == (502, 3)
    assert error_of("openai", exchange)["code"] == "structured_output_failed"


async def test_the_error_and_the_log_have_no_word_of_the_answer(gateway, sim, caplog):
    """Places in it are for the model alone."""
    sim.enqueue(*[answer(*text('{"a": 1, "secret": {}}'))] * 2)
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    exchange = await asking(False, form).run(gateway())

    assert "output.schema_mismatch" in error_of("openai", exchange)["message"]
    assert "secret" not in exchange.content.decode() + caplog.text
    assert b"$.secret" in sim.requests[1].body


@EACH_MODE
@pytest.mark.parametrize("tag", ["think", "thinking"])
async def test_a_tag_before_the_json_is_thinking(tag, stream, gateway, sim):
    """It can be nothing else, also where nobody asked for thinking; a tag within the JSON is text."""
    value = '{"a": "<think>no</think>"}'
    sim.enqueue(answer(*text(f'<{tag}>The schema is {{"a": 1}}.</{tag}>\n', value)))
    exchange = await asking(stream).run(gateway())

    assert text_of("openai", exchange) == value
    assert b"The schema is" in exchange.content
    assert len(sim.requests) == 1
