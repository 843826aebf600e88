"""Calls that are ended because their process ends: told so, and ended as their API ends a failure."""

from __future__ import annotations

import logging

import anyio
import pytest

from kiro_asgi.simulator import Head, Pause, Stall, text
from tests.asgi.answers import ALL_DIALECTS, comes_true, cut_of, error_of, partial_text, text_of, told_as
from tests.asgi.driver import ask

pytestmark = pytest.mark.anyio

EVERY_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)


async def interrupted(app, exchange, when) -> None:
    """Run *exchange* until *when* is true, interrupt the application, and wait for the end."""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as clients:
            clients.start_soon(exchange.run, app)
            while not when():  # noqa: ASYNC110 - of what is watched nothing can set an event
                await anyio.sleep(0.005)
            app.interrupt()


@EVERY_DIALECT
async def test_a_stream_ends_with_an_error_of_its_api(dialect, gateway, sim, caplog):
    """R45: what came stays, one error event and the end of the body follow; the service is hung up on."""
    sim.enqueue((Head(), *text("one ", "two "), Stall()))
    app, exchange = gateway(fresh=True, limits={"connections": 1}), ask(dialect, "hi", stream=True)
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        await interrupted(app, exchange, lambda: "two " in partial_text(dialect, exchange.content))

    assert partial_text(dialect, exchange.content) == "one two "
    assert cut_of(dialect, exchange)["type"] == told_as(dialect, "overloaded_error")
    assert (exchange.starts, exchange.complete) == (1, True)
    assert await comes_true(sim, lambda: sim.requests[0].peer_closed_at)
    assert " cut " in caplog.text and "error=TooBusy:shutting_down" in caplog.text
    assert text_of(dialect, await ask(dialect, "sim:count=2", stream=True).run(app)) == "1 2 "


@EVERY_DIALECT
async def test_a_head_that_went_out_early_is_followed_by_the_error(dialect, gateway, sim):
    """R45: a stream that holds signs of life only is ended the same way."""
    exchange = ask(dialect, "sim:stall", stream=True)
    await interrupted(gateway(stream={"early_commit_after": 0.05}), exchange, lambda: len(exchange.messages) == 2)

    assert cut_of(dialect, exchange)["type"] == told_as(dialect, "overloaded_error")
    assert exchange.complete


@EVERY_DIALECT
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_what_has_not_begun_is_a_503(dialect, stream, gateway, sim):
    """R45: a collected answer, and a stream before its head, are refused with a time to come back."""
    exchange = ask(dialect, "sim:stall" if stream else "sim:stall-mid", stream=stream)
    await interrupted(gateway(), exchange, lambda: sim.requests)

    assert exchange.status == 503
    assert exchange.headers["retry-after"] == "1"
    assert "being stopped" in error_of(dialect, exchange)["message"]


async def test_a_body_that_is_still_to_come_is_a_503(gateway, sim):
    """R45: nothing is waited for on behalf of a client that is still sending."""
    exchange, asked = ask("openai", "hi", stream=True), 0

    async def half():
        nonlocal asked
        asked += 1
        if asked == 2:
            await anyio.sleep_forever()
        return {"type": "http.request", "body": exchange.body[0][:10], "more_body": True}

    async def halved(scope, receive, send):
        await app(scope, half, send)

    app = gateway()
    halved.interrupt = app.interrupt
    await interrupted(halved, exchange, lambda: asked == 2)

    assert exchange.status == 503


@EVERY_DIALECT
async def test_a_message_is_never_cut_in_the_middle(dialect, gateway, sim):
    """R45: a send that is under way comes to its end before the error follows; bytes cannot be taken back."""
    sim.enqueue((Head(), *text("one "), Pause(0.02), *text("two "), Stall()))
    exchange = ask(dialect, "hi", stream=True)
    entered, left = [], []

    async def slow(message):
        entered.append(message)
        await anyio.sleep(0.2 if "one " in partial_text(dialect, message.get("body", b"")) else 0)
        left.append(message)

    exchange.on_send = slow
    await interrupted(gateway(), exchange, lambda: len(entered) == 2)

    assert entered == left
    assert partial_text(dialect, exchange.content) == "one "
    assert cut_of(dialect, exchange)["type"] == told_as(dialect, "overloaded_error")


@EVERY_DIALECT
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_what_is_nearly_sent_is_sent(dialect, stream, gateway, sim, caplog):
    """R45: an answer whose last message is on its way counts as complete, and is."""
    exchange = ask(dialect, "sim:count=3", stream=stream)
    last = []

    async def slow(message):
        if message["type"] == "http.response.body" and not message["more_body"]:
            last.append(message)
            await anyio.sleep(0.1)

    exchange.on_send = slow
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        await interrupted(gateway(), exchange, lambda: last)

    assert text_of(dialect, exchange) == "1 2 3 "
    assert " complete " in caplog.text
