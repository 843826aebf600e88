"""Answers that the service has not counted, or not yet: their tokens are estimated, marked as that, and never 0."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from kiro_asgi import App, create_app
from kiro_asgi.model.events import UsageSource
from kiro_asgi.simulator import CloseEarly, Layout, Stall
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask
from tests.asgi.test_observers import Recorder
from tests.asgi.test_passing import OPERATIONS, asking, collected, saying, upstreams
from tests.dialects.test_passthrough import CHUNK, DONE, FINISH, PIECE, START, event

pytestmark = pytest.mark.anyio

ESTIMATE, UPSTREAM = UsageSource.ESTIMATE, UsageSource.UPSTREAM
LONG = event({**CHUNK, "choices": [{"index": 0, "delta": {"content": "fjord and mountain " * 40}}]})
WHOLE = json.dumps(
    {**CHUNK, "choices": [{"index": 0, "message": {"content": "fjord and mountain " * 40}, "finish_reason": "stop"}]}
).encode()
ABOUT = range(150, 260)
"""Tokens of that text."""


@pytest.fixture
async def watched(service, sim):
    """An app in front of the simulated services, and what its observer is told."""
    apps: list[App] = []

    def make(**slices: Any) -> tuple[App, Recorder]:
        recorder = Recorder()
        settings = settings_for(service.url, {**upstreams(service.url), **slices})
        apps.append(create_app(settings, observers=[recorder]))
        return apps[-1], recorder

    yield make
    for app in apps:
        await app.aclose()


@pytest.mark.parametrize("chunk", [1, 10_000])
async def test_a_stream_without_counts_is_estimated(watched, sim, chunk):
    """Its bytes stay what they are; the ledger, the log and limits have about what it took."""
    app, recorder = watched()
    stream = LONG + FINISH + DONE
    sim.enqueue(saying(stream, layout=Layout(chunk=chunk)), operation=OPERATIONS["openai"])
    exchange = await asking("openai", stream=True).run(app)

    usage = recorder.end.usage
    assert exchange.content == stream
    assert usage.output_tokens in ABOUT and usage.input_tokens > 10
    assert (usage.input_source, usage.output_source) == (ESTIMATE, ESTIMATE)


async def test_a_whole_answer_without_counts_is_estimated(watched, sim):
    app, recorder = watched()
    sim.enqueue(collected(WHOLE), operation=OPERATIONS["openai"])
    exchange = await asking("openai", stream=False).run(app)

    assert exchange.content == WHOLE
    assert (recorder.end.usage.output_tokens in ABOUT, recorder.end.usage.output_source) == (True, ESTIMATE)


async def test_a_count_that_is_missing_is_estimated_alone(watched, sim):
    """What the service counts is its count."""
    app, recorder = watched()
    counts = event({**CHUNK, "choices": [], "usage": {"prompt_tokens": 7}})
    sim.enqueue(saying(LONG + FINISH + counts + DONE), operation=OPERATIONS["openai"])
    await asking("openai", stream=True).run(app)

    usage = recorder.end.usage
    assert (usage.input_tokens, usage.input_source) == (7, UPSTREAM)
    assert (usage.output_tokens in ABOUT, usage.output_source) == (True, ESTIMATE)


async def test_a_whole_answer_in_the_place_of_a_stream_is_counted(watched, sim):
    """It is encoded anew, and its counts are the service's."""
    app, recorder = watched()
    counted = {**json.loads(WHOLE), "usage": {"prompt_tokens": 7, "completion_tokens": 9}}
    sim.enqueue(collected(json.dumps(counted).encode()), operation=OPERATIONS["openai"])
    await asking("openai", stream=True).run(app)

    usage = recorder.end.usage
    assert (usage.input_tokens, usage.output_tokens, usage.output_source) == (7, 9, UPSTREAM)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_an_answer_that_breaks_off_has_taken_something(watched, sim, api):
    """Of one that goes through."""
    app, recorder = watched(retry={"attempts": 1})
    begin = START if api == "anthropic" else PIECE
    sim.enqueue(saying(begin, CloseEarly()), operation=OPERATIONS[api])
    await asking(api, stream=True).run(app)

    usage = recorder.end.usage
    assert recorder.end.outcome.value == "cut"
    assert usage.prompt_tokens > 0 and usage.output_tokens > 0


@pytest.mark.parametrize("marker", ["torn", "cut-tool"])
async def test_a_translated_answer_that_breaks_off_has_taken_something(watched, marker):
    """The same of one that is read."""
    app, recorder = watched(retry={"attempts": 1})
    await ask("anthropic", f"sim:{marker}", stream=True).run(app)

    usage = recorder.end.usage
    assert usage.prompt_tokens > 0 and usage.output_tokens > 0


async def test_a_client_that_leaves_has_taken_something(watched, sim):
    """What came until then is estimated."""
    app, recorder = watched()
    sim.enqueue(saying(LONG, Stall()), operation=OPERATIONS["openai"])
    exchange = asking("openai", stream=True)
    async with anyio.create_task_group() as group:
        group.start_soon(exchange.run, app)
        with anyio.fail_after(10):
            while not exchange.bodies:  # noqa: ASYNC110 - the driver has no event for it
                await anyio.sleep(0.005)
        exchange.leave.set()

    assert recorder.end.outcome.value == "disconnected"
    assert recorder.end.usage.output_tokens in ABOUT


async def test_what_was_refused_has_taken_nothing(watched, sim):
    """No answer, no tokens."""
    app, recorder = watched(retry={"attempts": 1})
    refused: Exchange = await ask("anthropic", "sim:500", stream=True).run(app)

    assert refused.status >= 500
    assert recorder.end.usage is None
