"""Work that takes long is done in parts, and others have their turns in between."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from attrs import frozen

from kiro_asgi import App
from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.create import new_app
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.simulator import CloseEarly, Event, RawBytes, answer, text, tool_call
from kiro_asgi.simulator.kiro.encoder import encode
from kiro_asgi.simulator.server import Simulator
from tests.asgi.answers import ALL_DIALECTS, cut_of, partial_text
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask

pytestmark = pytest.mark.anyio

EVERY_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)

KIB = 1024
UNKNOWN = 600
"""Events."""

CALLS = 300
STEPS: list[Event] = [step for n in range(CALLS) for step in tool_call("f", {"n": n}, call_id=f"c{n}")]
"""So many calls."""

AT_ONCE = RawBytes(b"".join(map(encode, STEPS)))
"""The same in one write, so that one read from the network has hundreds."""

TOOLS: dict[str, Any] = {
    "anthropic": {"name": "f", "input_schema": {"type": "object"}},
    "openai": {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "f", "parameters": {"type": "object"}},
}


@pytest.fixture
async def slow(service: Simulator) -> AsyncIterator[Callable[..., App]]:
    """Gateways whose every look at the clock is some ms after the one before."""
    ticks = count()
    made: list[App] = []

    def make(apart: float = 0.01, **slices: Any) -> App:
        clocks = Clocks(lambda: next(ticks) * apart)
        made.append(new_app(settings_for(service.url, slices), internals=Internals(clocks=clocks)))
        return made[-1]

    yield make
    for app in made:
        await app.aclose()


@frozen
class Turns:
    """Those that another task had before an answer was over."""

    all: int
    told: int
    """In which the client was sent something."""


async def turns_beside(exchange: Exchange, app: App) -> Turns:
    """Run *exchange*, and count."""
    turns = told = seen = 0

    async def beside() -> None:
        nonlocal turns, told, seen
        while True:
            await checkpoint()
            turns += 1
            told += len(exchange.messages) != seen
            seen = len(exchange.messages)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beside)
        await exchange.run(app)
        tasks.cancel_scope.cancel()
    return Turns(turns, told)


def calls_of(dialect: str, content: bytes) -> str:
    """The arguments of all calls of a stream, in their order."""
    said = []
    for line in content.splitlines():
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            if dialect == "openai":
                calls = [call for choice in event["choices"] for call in choice["delta"].get("tool_calls", ())]
                said += [call["function"].get("arguments", "") for call in calls]
            elif dialect == "anthropic":
                said.append(event.get("delta", {}).get("partial_json", ""))
            elif event["type"] == "response.function_call_arguments.delta":
                said.append(event["delta"])
    return "".join(said)


@EVERY_DIALECT
async def test_others_are_served_between_the_parts_of_one_read(dialect, slow, sim):
    """Hundreds of calls in one read go out in as many parts as the clock asks for, and another task runs meanwhile."""
    sim.enqueue(answer(AT_ONCE))
    exchange = ask(dialect, "hi", stream=True, tools=[TOOLS[dialect]])
    turns = await turns_beside(exchange, slow())

    assert calls_of(dialect, exchange.content) == "".join(f'{{"n": {n}}}' for n in range(CALLS))
    assert turns.told > CALLS // 8


async def test_a_short_request_does_not_wait_for_as_many_parts_as_it_takes_turns(slow, sim):
    """Others have several turns between two parts."""
    sim.enqueue(answer(AT_ONCE))
    turns = await turns_beside(ask("openai", "hi", stream=True, tools=[TOOLS["openai"]]), slow())

    assert turns.all > 3 * turns.told


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_what_leads_to_nothing_is_read_in_parts_too(stream, slow, sim):
    """A service's events that nobody knows: the longer they take, the fewer of them at once."""
    unknown = b"".join(encode(Event(f"hologram{n}Event", {"of": "x" * 64})) for n in range(UNKNOWN))
    sim.enqueue(answer(RawBytes(unknown), *text("so")))
    exchange = ask("openai", "hi", stream=stream)
    turns = await turns_beside(exchange, slow())

    assert exchange.status == 200
    assert turns.all > 3 * len(unknown) // (4 * KIB)


async def test_many_short_parts_are_together_as_long_as_one_long_one(slow, sim):
    """Others have turns by what was worked since they had the last, not by what one part took."""
    unknown = b"".join(encode(Event(f"hologram{n}Event", {"of": "x" * 64})) for n in range(4 * UNKNOWN))
    sim.enqueue(*[answer(RawBytes(unknown), *text("so"))] * 2)
    turns = [await turns_beside(ask("openai", "hi", stream=True), slow(apart)) for apart in (0.000_001, 0.000_8)]

    assert turns[1].all > turns[0].all + 8


@EVERY_DIALECT
async def test_what_was_held_to_the_end_goes_out_in_parts_too(dialect, slow, sim):
    """Calls that are not sent before the answer is over."""
    sim.enqueue(answer(*STEPS))
    exchange = ask(dialect, "hi", stream=True, tools=[TOOLS[dialect]])
    turns = await turns_beside(exchange, slow(stream={"tool_emission": "end"}))

    assert calls_of(dialect, exchange.content) == "".join(f'{{"n": {n}}}' for n in range(CALLS))
    assert turns.told > CALLS // 8


@EVERY_DIALECT
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_an_answer_does_not_depend_on_its_parts(dialect, stream, slow, gateway, sim):
    """As many bytes, whether each part is eight events or everything that one read brought."""
    sizes = []
    for app in (slow(), gateway()):
        sim.enqueue(answer(*text("so"), AT_ONCE))
        exchange = await ask(dialect, "hi", stream=stream, tools=[TOOLS[dialect]]).run(app)
        assert exchange.status == 200
        sizes.append(len(exchange.content))

    assert sizes[0] == pytest.approx(sizes[1], abs=CALLS)  # ids, and times, differ


@EVERY_DIALECT
async def test_a_failure_comes_behind_all_parts(dialect, slow, sim):
    """All that was said before a break in the same read is sent, and then the error."""
    sim.enqueue(answer(RawBytes(b"".join(map(encode, text(*["word "] * 100)))), CloseEarly()))
    exchange = await ask(dialect, "hi", stream=True).run(slow())

    assert cut_of(dialect, exchange)
    assert partial_text(dialect, exchange.content) == "word " * 100
