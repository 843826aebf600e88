"""What comes to one large thing is worked on beside the event loop, and is what it would have been there."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from kiro_asgi.asgi.exchange.output import Collected, Streamed
from kiro_asgi.simulator import Event, answer, text
from tests.asgi.answers import ALL_DIALECTS, text_of
from tests.asgi.driver import ask

pytestmark = pytest.mark.anyio

PIECE = 64 * 1024
LARGE = "word " * (2 * 1024 * 1024 // 5)
NO_LIMIT = {"anthropic": {"max_tokens": 10**9}}
"""What its driver sets to less."""

TOOL = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each put of an answer was done in the thread of the event loop."""
    here, seen = threading.get_ident(), []
    for kind in (Streamed, Collected):
        put = kind.put

        def noted(self: Any, items: Any, /, put: Any = put) -> Any:
            seen.append(threading.get_ident() == here)
            return put(self, items)

        monkeypatch.setattr(kind, "put", noted)
    return seen


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_an_event_of_megabytes(dialect, stream, threads, gateway, sim):
    """Nothing can go out before all of it is there."""
    sim.enqueue(answer(*text(LARGE)))

    exchange = await ask(dialect, "x", stream=stream, **NO_LIMIT.get(dialect, {})).run(gateway())

    assert text_of(dialect, exchange) == LARGE
    assert False in threads


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_many_small_events(dialect, threads, gateway, sim):
    """However many there are: the client has each soon."""
    sim.enqueue(answer(*text(*[LARGE[:PIECE]] * 40)))

    exchange = await ask(dialect, "x", stream=True, **NO_LIMIT.get(dialect, {})).run(gateway())

    assert text_of(dialect, exchange) == LARGE[:PIECE] * 40
    assert set(threads) == {True}


async def test_a_call_of_megabytes(threads, gateway, sim):
    """Its arguments are one JSON text, which is read when it is whole."""
    arguments = json.dumps({"city": LARGE})
    pieces = [arguments[start : start + PIECE] for start in range(0, len(arguments), PIECE)]
    call = {"name": "get_weather", "toolUseId": "tooluse_0"}
    events = [Event("toolUseEvent", {**call, "input": piece}) for piece in pieces]
    sim.enqueue(answer(*events, Event("toolUseEvent", {**call, "stop": True})))

    tools = [{"name": "get_weather", "input_schema": TOOL}]
    exchange = await ask("anthropic", "x", stream=False, tools=tools, max_tokens=10**9).run(gateway())

    [block] = [block for block in json.loads(exchange.content)["content"] if block["type"] == "tool_use"]
    assert block["input"] == {"city": LARGE}
    assert False in threads


async def test_no_early_commit_comes_between(monkeypatch, gateway, sim):
    """The start of the message is not put while a thread puts something."""
    here, within, overlaps = threading.get_ident(), [], []
    put = Streamed.put

    def slow(self: Any, items: Any, /) -> Any:
        overlaps.extend(within)
        if threading.get_ident() == here:
            return put(self, items)
        within.append(1)
        time.sleep(0.05)
        error = put(self, items)
        within.clear()
        return error

    monkeypatch.setattr(Streamed, "put", slow)
    sim.enqueue(answer(*text(LARGE)))

    exchange = await ask("openai", "x", stream=True).run(gateway(stream={"early_commit_after": 0.1}))

    assert text_of("openai", exchange) == LARGE
    assert not overlaps
