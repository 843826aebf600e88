"""R03, R04: the upstream's connection breaks, or its body ends, wherever it likes."""

from __future__ import annotations

import pytest

from kiro_asgi.simulator import CloseEarly, Event, HalfClose, Head, Pause, Reset, Stall, Step, TornFrame, text
from kiro_asgi.simulator.kiro.encoder import encode
from tests.e2e.faults.bench import ROUTES, closed_upstream, no_leak, said
from tests.e2e.faults.verdicts import broken, lost, whole

pytestmark = pytest.mark.anyio

BEFORE = text("What was ", "decoded ", "is delivered.")
CUT = Event("assistantResponseEvent", {"content": "This never arrives as a whole."})
SIZE = len(encode(CUT))
HEADERS = int.from_bytes(encode(CUT)[4:8], "big")

PLACES = {
    "between-frames": 0,
    "prelude": 5,
    "prelude-checksum": 10,
    "headers": 12 + HEADERS // 2,
    "payload": 12 + HEADERS + 4,
    "checksum": SIZE - 2,
}
"""How much of the last frame arrives."""

READ = Pause(0.02)
"""Time to read what was sent: a reset discards what is still in the buffers."""

ENDINGS: dict[str, tuple[Step, ...]] = {
    "rst": (Reset(),),
    "fin-in-chunked-body": (CloseEarly(),),
    "half-close": (HalfClose(),),
    "end-of-body": (),
}
"""How it ends."""


def places(ending: str) -> list[str]:
    """Where that ending breaks something: a body may end between two frames."""
    return [place for place in PLACES if (place, ending) != ("between-frames", "end-of-body")]


def cut_at(place: str, ending: str, *before: Event) -> tuple[Step, ...]:
    pause = (READ,) if before and ending == "rst" else ()
    return (Head(), *before, TornFrame(CUT, PLACES[place]), *pause, *ENDINGS[ending])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_stream_that_breaks_ends_in_one_error(gateway, route, ending):
    """R03/R04: what was decoded is delivered, then comes exactly one error in the API's own form, and no finish."""
    door = gateway()
    async with no_leak(door):
        for place in places(ending):
            door.simulator.forget()
            door.simulator.enqueue(cut_at(place, ending, *BEFORE))
            exchange = await door.ask(route, "x", stream=True)

            assert broken(route, exchange) == said(BEFORE), place
            assert len(door.simulator.requests) == 1, "an answer that has begun was asked for again"
            await door.works(route)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_collected_answer_that_breaks_has_a_status(gateway, route, ending):
    """R03/R04: without a stream nothing was sent yet, so the failure has a status; all tries are used up first."""
    door = gateway()
    async with no_leak(door):
        for place in places(ending):
            door.simulator.forget()
            door.simulator.enqueue(*[cut_at(place, ending, *BEFORE)] * 2)
            exchange = await door.ask(route, "x", stream=False)

            assert lost(route, exchange)
            assert len(door.simulator.requests) == 2
        await door.works(route)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_break_before_the_first_event_has_a_status(gateway, route, ending):
    """R03/R04: as long as nothing was said, a stream too is refused with a status, after all tries."""
    door = gateway()
    async with no_leak(door):
        for place in places(ending):
            for stream in (True, False):
                door.simulator.forget()
                door.simulator.enqueue(*[cut_at(place, ending)] * 2)
                exchange = await door.ask(route, "x", stream=stream)

                assert lost(route, exchange)
                assert len(door.simulator.requests) == 2


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_break_that_does_not_happen_again(gateway, route, stream):
    """R03: a failure before anything was sent is made good by the second try, and leaves no trace in the answer."""
    door = gateway()
    async with no_leak(door):
        for marker in ("once-reset-first", "once-reset-headers", "once-hang-up", "once-empty"):
            door.simulator.forget()
            exchange = await door.ask(route, f"sim:{marker}", stream=stream)

            assert whole(route, exchange, stream=stream).text == f"You said: sim:{marker}"
            assert len(door.simulator.requests) == 2


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_clean_end_without_a_trailer_is_an_answer(gateway, route, stream):
    """R04: some accounts never get a stop reason, so an end between two frames may be one."""
    door = gateway()
    door.simulator.enqueue((Head(), *BEFORE))
    exchange = await door.ask(route, "x", stream=stream)

    answer = whole(route, exchange, stream=stream)
    assert answer.text == said(BEFORE)
    assert answer.stop in ("end_turn", "stop")


@pytest.mark.parametrize("route", ROUTES)
async def test_a_broken_connection_is_never_used_again(gateway, route):
    """R12: neither a torn answer nor one that was left in the middle leaves a connection for the next request."""
    door = gateway()
    door.simulator.enqueue((Head(), *BEFORE, TornFrame(CUT, 20), Stall()), (Head(), *BEFORE, Reset()))
    cut_off = gateway(stream={"idle_timeout": 0.1})
    assert broken(route, await cut_off.ask(route, "x", stream=True)) == said(BEFORE)
    assert await closed_upstream(door.simulator, 0)
    await door.ask(route, "x", stream=True)
    assert await closed_upstream(door.simulator, 0)
    await door.works(route)
