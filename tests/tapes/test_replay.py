"""A tape that is played again gives the same bytes, however the service's are cut, and says where each comes from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from itertools import count, cycle
from typing import Any

import anyio.to_thread
import pytest
from attrs import evolve

from kiro_asgi import simulator
from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.create import new_app
from kiro_asgi.limits import TAPE_STEPS
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.replay import Replay, derive, steps
from kiro_asgi.replay.script import read_rechunk
from kiro_asgi.simulator.server import Simulator
from kiro_asgi.tapes import Line, Tape, TapeError
from kiro_asgi.tapes.exports import as_curl
from tests.asgi.conftest import settings_for
from tests.tapes.recording import MODELS, PATHS, question, read_all, services, tapes_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    async with simulator.serve() as running:
        yield running


async def replayed(tape: Tape, **more: Any) -> Replay:
    return await anyio.to_thread.run_sync(partial(derive, tape, **more))


FAULTS = ("sim:thinking", "sim:once-429", "sim:torn", "Count to 5")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a replay has a loop of its own
async def test_byte_for_byte(sim, tmp_path):
    """Calls of every service, thinking, a refusal, a torn stream; as they came and byte by byte."""
    calls = [question(api, "sim:tool", model, tools=True) for model, api in zip(MODELS.values(), cycle(PATHS))]
    asked = [*calls, *(question("anthropic", fault) for fault in FAULTS)]
    tapes = await tapes_of(sim, tmp_path, asked, tapes={"when": "all", "content": "full"}, **services(sim))

    for tape, exchange in zip(tapes, asked, strict=True):
        played = await replayed(tape)
        assert (played.status, played.missing, played.difference) == (200, 0, None)
        assert tape.sent == exchange.content and exchange.status == 200
        if len(tape.sent) < 1500:  # the pieces of each are read one by one
            assert (await replayed(tape, rechunk="1")).sent == played.sent


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_dates(sim, tmp_path):
    """An answer has the dates that it had, also where the work took longer than its replay."""
    seconds = count(1_795_000_000.5)
    asked = question("responses", "Hi")

    (tape,) = await tapes_of(sim, tmp_path, [asked], seconds.__next__, tapes={"when": "all", "content": "full"})

    assert (await replayed(tape)).difference is None


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_learnt_estimates(sim, tmp_path):
    """A prompt is counted as it was, by what the gateway had learnt from calls before."""
    long = "".join(f"{number} words. " for number in range(4_000))
    counted = question("anthropic", long)
    counted.scope.update(path="/v1/messages/count_tokens", raw_path=b"/v1/messages/count_tokens")
    asked = [question("anthropic", long), counted]

    *_, tape = await tapes_of(sim, tmp_path, asked, tapes={"when": "all", "content": "full"})

    [factor] = tape.of("factor")
    assert factor.number("value") != 1
    played = await replayed(tape)
    assert (played.status, played.difference, played.sent) == (200, None, counted.content)


async def test_steps(sim, tmp_path):
    """Each item names what led to it, back to a read; and a tape in which something is missing is not played."""
    asked = question("openai", "sim:tool", tools=True)
    (tape,) = await tapes_of(sim, tmp_path, [asked], tapes={"when": "all", "content": "full"})

    played = (await replayed(tape)).steps

    reads = [step for step in played if step.kind == "read"]
    assert b"".join(step.value for step in reads) == b"".join(line.data for line in tape.of("up.bytes"))
    assert [step.offset for step in reads][:2] == [0, len(reads[0].value)]
    sends = [step for step in played if step.kind == "send"]
    assert b"".join(step.value for step in sends) == tape.sent
    for index, step in enumerate(played):
        assert step.cause < index
        seen = step
        while seen.cause >= 0:
            seen = played[seen.cause]
        assert seen.kind == "read" or step.stage in ("BlockFramer", "EndOfStream")
    assert {"FrameDecoder", "ToolCallAssembler", "BlockFramer"} <= {step.stage for step in played}
    with pytest.raises(TapeError):
        derive(Tape((*tape.lines, Line("cut", 1.0, {"why": "over 1 bytes"}))))


@pytest.mark.parametrize("text", ["", "0", "-1", "recorded:1", "9" * 5000], ids=lambda text: text[:12])
async def test_another_way_to_cut_is_refused(text):
    """Also a number with more digits than Python reads."""
    with pytest.raises(TapeError) as caught:
        read_rechunk(text)
    assert caught.value.code == "replay.rechunk"


async def test_other_settings_and_other_bytes(sim, tmp_path, monkeypatch):
    """What differs is named by its place; hours pass at once; steps are capped, and the rest counted."""
    (tape,) = await tapes_of(sim, tmp_path, [question("anthropic", "Hi")], tapes={"when": "all", "content": "full"})
    late = {"up.bytes": 3000.0, "up.end": 3000.0, "client.bytes": 3000.0}
    slow = Tape(tuple(evolve(line, t=line.t + late.get(line.kind, 0.0)) for line in tape.lines))
    patient = {"kiro.first_token_timeout": 3600, "limits.request_timeout": 7200, "stream.heartbeat": 1000}

    beaten = await replayed(slow, changed=patient)

    assert beaten.sent.count(b"event: ping") >= 2
    assert beaten.difference is not None and beaten.difference.actual.startswith(b"ping")
    assert b"event: error" in (await replayed(slow)).sent
    monkeypatch.setattr(steps, "TAPE_STEPS", 5)
    few = await replayed(tape)
    assert len(few.steps) == 5 and few.dropped > 0 and few.sent == tape.sent and TAPE_STEPS > 5


@pytest.mark.parametrize(
    "given",
    [
        {"root_path": "/tools/llm", "path": "/tools/llm/v1/messages"},
        {"root_path": "/tools/llm"},
        {"path_remaining": "v1/messages", "path": "/tools/llm/v1/messages"},
    ],
    ids=["asgi", "stripped", "channels"],
)
async def test_below_a_prefix(sim, tmp_path, given):
    """However the host says so, an exchange of a mounted gateway is done again, and its command has the whole path."""
    asked = question("anthropic", "Hi")
    asked.scope.update(given)
    (tape,) = await tapes_of(sim, tmp_path, [asked], tapes={"when": "all"})

    played = await replayed(tape)

    assert played.status == 200 and played.difference is None
    assert "http://h/tools/llm/v1/messages " in as_curl(tape, "http://h")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_as_long_a_pause(sim, tmp_path):
    """The pause before another try is as long as it was: its jitter was drawn once."""
    retry = {"capacity_base": 0.3, "jitter": 1}
    tapes = {"path": str(tmp_path), "when": "all", "content": "full"}
    settings = settings_for(sim.url, {"tapes": tapes, "retry": retry})
    app = new_app(settings, internals=Internals(clocks=Clocks(draw=lambda: 0.0)))
    await question("anthropic", "sim:once-500").run(app)
    await app.aclose()
    (tape,) = read_all(tmp_path)
    came = next(line.t for line in tape.of("client.bytes"))

    played = await replayed(tape)

    sent = next(step.t for step in played.steps if step.kind == "send")
    assert abs(sent - came) < 0.05


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_date_just_before_the_next_second(sim, tmp_path):
    """It is that second's: a moment is on the tape as it was told, and not rounded."""
    asked = question("responses", "Hi")
    (tape,) = await tapes_of(sim, tmp_path, [asked], lambda: 1_795_494_860.9999998, tapes={"when": "all"})

    assert b'"created_at":1795494860,' in tape.sent
    assert (await replayed(tape)).difference is None
