"""The loop that heals itself: an answer is cut, the next request says so, and it is not cut the same way again."""

from __future__ import annotations

import json

import pytest

from kiro_asgi.simulator import Trailers, answer, text, tool_call
from tests.asgi.answers import DIALECTS, text_of
from tests.asgi.driver import PATHS, post

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
NOTICE = "[Notice from the gateway]"

ASK = {"role": "user", "content": "Write the file."}
GO_ON = {"role": "user", "content": "Go on."}
ARGUMENTS = '{"path": "a.py", "content": "import os'
SILENT = Trailers(None, None, 0, None, None)
CUT = answer(*text("I write it.\n\n"), *tool_call("write_file", ARGUMENTS, call_id="c1", stop=False), trailers=SILENT)
BARE = answer(*tool_call("write_file", ARGUMENTS, call_id="c1", stop=False), trailers=SILENT)
TEXT = answer(*text("A long story"), trailers=Trailers("MAX_TOKENS"))
WHOLE = answer(*text("In parts, then."))

TOOLS = {
    "anthropic": [{"name": "write_file", "input_schema": {"type": "object"}}],
    "openai": [{"type": "function", "function": {"name": "write_file", "parameters": {"type": "object"}}}],
}


def request(dialect, *messages, stream=False, key="k"):
    body = {"model": "claude-sonnet-4.5", "messages": [*messages], "tools": TOOLS[dialect], "stream": stream}
    return post(PATHS[dialect], {**body, "max_tokens": 9_000}, key=key)


def said(content):
    return {"role": "assistant", "content": content}


def notices(sim):
    """How often the service was told, request by request."""
    return [request.body.decode().count(NOTICE) for request in sim.requests]


def current(sim):
    """What the service was told last: the newest turn."""
    return json.dumps(sim.requests[-1].json()["conversationState"]["currentMessage"], ensure_ascii=False)


@EACH_DIALECT
@EACH_MODE
async def test_a_cut_call_is_told_of_in_the_next_request(dialect, stream, gateway, sim):
    """F249/F250/F252: the client hears "length", sends back what it got, and the model reads of the rest."""
    app = gateway(fresh=True)
    sim.enqueue(CUT, WHOLE, WHOLE)
    first = await request(dialect, ASK, stream=stream).run(app)
    second = await request(dialect, ASK, said(text_of(dialect, first).strip()), GO_ON, stream=stream).run(app)
    third = [ASK, said("I write it."), GO_ON, said("In parts, then."), GO_ON]
    await request(dialect, *third, stream=stream).run(app)

    assert ("max_tokens" if dialect == "anthropic" else "length") in first.content.decode()
    assert text_of(dialect, second) == "In parts, then."
    assert notices(sim) == [0, 1, 0]


@EACH_DIALECT
async def test_the_notice_stands_before_what_the_user_says(dialect, gateway, sim):
    """F251: tool, size and what to do, in the newest turn."""
    app = gateway(fresh=True)
    sim.enqueue(CUT, WHOLE)
    await request(dialect, ASK).run(app)
    await request(dialect, ASK, said("I write it."), GO_ON).run(app)

    told = current(sim)
    assert all(words in told for words in ("write_file", f"{len(ARGUMENTS)} bytes", "NOT executed", "smaller"))
    assert told.index(NOTICE) < told.index("Go on.")


@EACH_DIALECT
@pytest.mark.parametrize("dropped", [False, True], ids=["sent-back", "dropped"])
async def test_an_answer_of_nothing_but_the_cut_call_is_known_again(dialect, dropped, gateway, sim):
    """F252: where the client was shown nothing, the question tells which answer it was."""
    app = gateway(fresh=True)
    sim.enqueue(BARE, WHOLE)
    await request(dialect, ASK).run(app)
    await request(dialect, ASK, *([] if dropped else [said("")]), GO_ON).run(app)

    assert notices(sim) == [0, 1]


@EACH_DIALECT
async def test_a_call_shown_in_part_is_told_of_in_its_result(dialect, gateway, sim):
    """5.8: in incremental mode the client has a part of the call, and may answer it."""
    app = gateway(fresh=True, stream={"tool_emission": "incremental"})
    call = {"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": ARGUMENTS}}
    echoes = {
        "anthropic": (
            said([{"type": "tool_use", "id": "c1", "name": "write_file", "input": {}}]),
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "bad input"}]},
        ),
        "openai": (
            {**said(None), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "bad input"},
        ),
    }
    sim.enqueue(BARE, WHOLE)
    await request(dialect, ASK, stream=True).run(app)
    await request(dialect, ASK, *echoes[dialect], stream=True).run(app)

    told = current(sim)
    assert notices(sim) == [0, 1]
    assert told.index("toolResults") < told.index(NOTICE) < told.index("bad input")


@EACH_DIALECT
async def test_text_that_the_service_cut_is_told_of(dialect, gateway, sim):
    """F248: text is known again by its hash."""
    app = gateway(fresh=True)
    sim.enqueue(TEXT, WHOLE)
    await request(dialect, ASK).run(app)
    await request(dialect, ASK, said("A long story"), GO_ON).run(app)

    assert notices(sim) == [0, 1]


@EACH_DIALECT
async def test_a_request_that_fails_says_the_same_when_it_is_sent_again(dialect, gateway, sim):
    """R47: a record is used up by an answer, not by a try."""
    app = gateway(fresh=True)
    sim.enqueue(CUT)
    await request(dialect, ASK).run(app)
    again = {"role": "user", "content": "sim:bad-request"}
    for _ in range(2):
        await request(dialect, ASK, said("I write it."), again).run(app)

    assert notices(sim)[0] == 0
    assert set(notices(sim)[1:]) == {1}
    assert len(notices(sim)) >= 3


@EACH_DIALECT
async def test_unrelated_requests_are_unchanged(dialect, gateway, sim):
    """F253/F254: not another conversation, not another client, and nobody where it is switched off."""
    app = gateway(fresh=True, client={"api_keys": ["k", "other"]})
    off = gateway(fresh=True, recovery={"enabled": False})
    sim.enqueue(CUT, WHOLE, WHOLE, CUT, WHOLE)
    await request(dialect, ASK).run(app)
    await request(dialect, ASK, said("I read it."), GO_ON).run(app)
    await request(dialect, ASK, said("I write it."), GO_ON, key="other").run(app)
    await request(dialect, ASK).run(off)
    await request(dialect, ASK, said("I write it."), GO_ON).run(off)

    assert notices(sim) == [0] * 5
