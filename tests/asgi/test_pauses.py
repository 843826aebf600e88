"""Turns in several messages (``pause_turn``): limits, failures, and clients that leave in the middle."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest

from kiro_asgi.simulator import Head, Pause, RawBytes, Stall
from kiro_asgi.simulator.scripts import Script
from tests.asgi.answers import comes_true, partial_text, text_of
from tests.asgi.driver import Exchange, post
from tests.pauses import INPUT, OUTPUT, PARTS, TEXT, Pausing, streamed

pytestmark = pytest.mark.anyio

TOOLS = [{"type": "web_search_20250305", "name": "web_search"}]
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])


def ask(*, stream: bool = True, **more: Any) -> Exchange:
    body = {
        "model": "anthropic/claude-haiku-4-5",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "fjords"}],
    }
    return post("/v1/messages", {**body, "tools": TOOLS, "stream": stream, **more})


@pytest.fixture
def app(gateway, sim):
    """A gateway that translates what Anthropic says."""

    def make(**slices: Any):
        anthropic = {"api_key": "sk-ant", "endpoint": sim.url, **slices.pop("anthropic", {})}
        return gateway(anthropic=anthropic, stream={"relay": "never", **slices.pop("stream", {})}, **slices)

    yield make
    sim.answer_with(None)
    sim.service._queued.clear()


def parts(*scripts: Script) -> tuple[Script, ...]:
    """The first part of a turn, which pauses, and *scripts*."""
    first = Head(content_type="text/event-stream"), RawBytes(streamed(PARTS[0], "pause_turn"))
    return (first, *scripts)


@EACH_MODE
async def test_whole_messages(app, sim, stream):
    """A service that answers in one document pauses, too."""
    service = Pausing(whole=True)
    sim.answer_with(service.answer)
    exchange = await ask(stream=stream).run(app())

    assert text_of("anthropic", exchange) == TEXT
    assert len(service.asked) == 3


async def test_one_line_in_the_log(app, sim, caplog):
    """One request, whose tokens are those of all calls."""
    sim.answer_with(Pausing().answer)
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        await ask().run(app())
    (line,) = [record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access"]

    assert " 200 complete " in line
    assert f"tokens={3 * INPUT}+{3 * OUTPUT} " in line


async def test_the_log_tells_of_an_answer_that_is_not_whole(app, sim, caplog):
    """Five times is enough."""
    service = Pausing(endless=True)
    sim.answer_with(service.answer)
    exchange = await ask(stream=False).run(app())

    assert len(service.asked) == 1 + 5
    assert exchange.json()["stop_reason"] == "pause_turn"
    assert "answer complete, but: turn.paused (1)" in caplog.text


async def test_a_limit_of_the_answer_ends_it(app, sim):
    """All parts of an answer have the room of one."""
    sim.answer_with(Pausing(endless=True).answer)
    exchange = await ask(stream=False).run(app(limits={"answer_bytes": 2000}))

    assert exchange.status == 502
    assert "answer_bytes" in exchange.content.decode()


async def test_a_failure_behind_content_ends_the_stream(app, sim):
    """As any failure does."""
    broken = Head(content_type="text/event-stream"), RawBytes(streamed(PARTS[1], None))
    sim.enqueue(*parts(broken), operation="anthropic.chat")
    exchange = await ask().run(app())

    assert exchange.status == 200
    assert exchange.content.rstrip().rpartition(b"event: ")[2].startswith(b"error")
    assert partial_text("anthropic", exchange.content) == "Let me look. Fjords are deep"


async def test_a_refusal_behind_content_ends_the_stream(app, sim):
    """The second call may be refused, and what was sent stays sent."""
    overloaded = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).encode()
    script = Head(status=529, content_type="application/json"), RawBytes(overloaded)
    sim.enqueue(*parts(script), operation="anthropic.chat")
    exchange = await ask().run(app())

    assert exchange.content.rstrip().rpartition(b"event: ")[2].startswith(b"error")
    assert exchange.content.count(b"event: message_start") == 1


async def test_a_failure_before_content_is_one_more_try(app, sim):
    """Nothing was sent of an answer that is collected: it begins anew, and tells nothing twice."""
    broken = Head(content_type="text/event-stream"), RawBytes(streamed(PARTS[1], None))
    whole = [
        (Head(content_type="text/event-stream"), RawBytes(streamed(part, reason)))
        for part, reason in zip(PARTS, ("pause_turn", "pause_turn", "end_turn"), strict=True)
    ]
    sim.enqueue(*parts(broken), *whole, operation="anthropic.chat")
    exchange = await ask(stream=False).run(app())

    assert text_of("anthropic", exchange) == TEXT
    assert exchange.json()["usage"]["output_tokens"] == 3 * OUTPUT


@pytest.mark.parametrize("slices", [{"limits": {"request_timeout": 1.5}}, {"stream": {"idle_timeout": 0.8}}])
async def test_time_counts_on(app, sim, slices):
    """The whole answer has the time of one answer, and silence is silence."""
    sim.enqueue(
        *parts((Head(content_type="text/event-stream"), RawBytes(streamed(PARTS[1], None)), Stall())),
        operation="anthropic.chat",
    )
    with anyio.fail_after(5):
        exchange = await ask().run(app(**slices))

    assert exchange.content.rstrip().rpartition(b"event: ")[2].startswith(b"error")


async def test_all_calls_share_the_time_of_one_answer(app, sim):
    """Each call by itself would be in time."""
    head, rest = Head(content_type="text/event-stream"), RawBytes(streamed(PARTS[2], "end_turn"))
    first = head, Pause(0.6), RawBytes(streamed(PARTS[0], "pause_turn"))
    sim.enqueue(first, (head, Pause(0.6), rest), operation="anthropic.chat")
    exchange = await ask().run(app(limits={"request_timeout": 0.9}))

    assert exchange.content.rstrip().rpartition(b"event: ")[2].startswith(b"error")


async def test_a_client_that_leaves_ends_the_second_call(app, sim):
    """Its connection is closed at once."""
    sim.enqueue(*parts((Head(content_type="text/event-stream"), Stall())), operation="anthropic.chat")
    exchange = ask()
    async with anyio.create_task_group() as group:
        group.start_soon(exchange.run, app())
        assert await comes_true(sim, lambda: len(sim.requests) == 2)
        exchange.leave.set()
    assert await comes_true(sim, lambda: sim.requests[1].peer_closed_at)
