"""R31: answers of every shape, and errors at every point, are legal streams and legal messages."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.simulator import (
    Event,
    ExceptionFrame,
    Script,
    Trailers,
    answer,
    tagged_thinking,
    text,
    thinking,
    tool_call,
    tool_calls_interleaved,
)
from kiro_asgi.simulator.pieces import CallPart, Sealed
from tests.e2e.faults.bench import ALL_ROUTES
from tests.e2e.faults.verdicts import broken, refused, whole

pytestmark = pytest.mark.anyio

ROUTE = pytest.mark.parametrize("route", ALL_ROUTES)

CALL = tool_call("f", {"a": 1}, call_id="one")
OTHER = tool_call("g", {"b": "two"}, call_id="two")
OPEN = tool_call("h", '{"c": "thr', call_id="three", stop=False)
SAID = text("He", "llo")
THOUGHT = thinking("Hm", "m")
ASKED: dict[str, dict[str, Any]] = {
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
    "openai": {"reasoning_effort": "low"},
    "responses": {"reasoning": {"effort": "low"}},
}

END = ("end_turn", "stop", "completed")
CALLED = ("tool_use", "tool_calls", "completed")
CUT = ("max_tokens", "length", "incomplete")

SHAPES: dict[str, tuple[tuple[Event, ...], str, str, list[str], tuple[str, str, str]]] = {
    "text": (SAID, "Hello", "", [], END),
    "thinking-only": (THOUGHT, "", "Hmm", [], END),
    "thinking-without-seal": (thinking("Hm", signature=""), "", "Hm", [], END),
    "redacted-text": ((Sealed("c2VhbGVk"), *SAID), "Hello", "", [], END),
    "empty": ((), "", "", [], END),
    "empty-text": (text(""), "", "", [], END),
    "call-only": (CALL, "", "", ["f"], CALLED),
    "calls-only": ((*CALL, *OTHER), "", "", ["f", "g"], CALLED),
    "calls-interleaved": (tool_calls_interleaved(CALL, OTHER), "", "", ["f", "g"], CALLED),
    "text-call": ((*SAID, *CALL), "Hello", "", ["f"], CALLED),
    "call-text": ((*CALL, *SAID), "Hello", "", ["f"], CALLED),
    "call-text-call": ((*CALL, *SAID, *OTHER), "Hello", "", ["f", "g"], CALLED),
    "all-three": ((*THOUGHT, *SAID, *CALL), "Hello", "Hmm", ["f"], CALLED),
    "text-thinking": ((*SAID, *THOUGHT), "Hello", "Hmm", [], END),
    "call-thinking": ((*CALL, *THOUGHT), "", "Hmm", ["f"], CALLED),
    "in-turns": ((*THOUGHT, *SAID, *THOUGHT, *SAID), "HelloHello", "HmmHmm", [], END),
    "cut-call-only": (OPEN, "", "", [], CUT),
    "text-cut-call": ((*SAID, *OPEN), "Hello", "", [], CUT),
    "call-cut-call": ((*CALL, *OPEN), "", "", ["f"], CUT),
    "cut-call-text": ((*OPEN, *SAID), "Hello", "", [], CUT),
}
"""What the upstream says; the answer's text, its thoughts, the names of its calls, its stop reason in each API."""


def ended(steps: tuple[Event, ...]) -> Script:
    """*steps* with the trailers that the service sends after them."""
    called = any(isinstance(step, CallPart) for step in steps)
    return answer(*steps, trailers=Trailers("TOOL_USE" if called else "END_TURN"))


@ROUTE
@pytest.mark.parametrize("emission", ["complete", "end", "incremental"])
async def test_every_shape_of_an_answer(gateway, route, emission):
    """R31: one start, every block closed, one end, nothing after it; both modes say the same."""
    door = gateway(stream={"tool_emission": emission})
    for name, (steps, said, thought, calls, stops) in SHAPES.items():
        for stream in (True, False):
            if emission == "incremental" and stream and stops is CUT:
                continue  # half of the call has been sent, so its arguments cannot be read
            door.simulator.enqueue(ended(steps))
            exchange = await door.ask(route, "x", stream=stream, **ASKED[route])

            given = whole(route, exchange, stream=stream)
            assert (given.text, given.thinking) == (said, thought), (name, stream)
            assert [name for _, name, _ in given.calls] == calls, (name, stream)
            assert given.stop == stops[ALL_ROUTES.index(route)], (name, stream)


@ROUTE
@pytest.mark.parametrize("emission", ["complete", "end", "incremental"])
async def test_an_error_at_every_point(gateway, route, emission):
    """R31: an exception after any number of events ends the stream in one error, and a collected answer in a 502;
    before anything was said, both are refused."""
    door = gateway(stream={"tool_emission": emission}, retry={"attempts": 1})
    steps = (*THOUGHT, *SAID, *CALL, *OTHER, *SAID)
    failure = ExceptionFrame("InternalServerException", "It broke.")
    for at in range(len(steps) + 1):
        door.simulator.enqueue(*[(*steps[:at], failure)] * 2)
        streamed = await door.ask(route, "x", stream=True, **ASKED[route])
        if at:
            assert "HelloHello".startswith(broken(route, streamed)), at
        else:
            assert refused(route, streamed, 502)
        assert refused(route, await door.ask(route, "x", stream=False, **ASKED[route]), 502)


@ROUTE
async def test_thinking_in_tags_at_the_end_of_its_means(gateway, route):
    """R31: tags that are cut, empty, or never closed leave a legal stream."""
    door = gateway()
    for pieces in (
        tagged_thinking("Hm"),
        text("<thinking>"),
        text("<thinking></thinking>"),
        text("<thin"),
        text("</thinking>"),
    ):
        for stream in (True, False):
            door.simulator.enqueue(ended(pieces))
            exchange = await door.ask(route, "x", stream=stream, **ASKED[route])
            whole(route, exchange, stream=stream)
