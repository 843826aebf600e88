"""Two tries at one request never come out mixed, wherever the network cut the first one."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from kiro_asgi.asgi.exchange.output import Streamed
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.model.events import MessageStart, Usage
from kiro_asgi.model.message import Message, TextBlock, replay
from kiro_asgi.simulator import Head, RawBytes
from kiro_asgi.wire.eventstream import encode_frame
from tests.asgi.answers import ALL_DIALECTS, cut_of, partial_text, text_of, told_as
from tests.asgi.driver import Exchange, ask

pytestmark = pytest.mark.anyio

EVERY_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)
MAKERS = {"anthropic": AnthropicMessages, "openai": OpenAIChat, "responses": OpenAIResponses}

EVENT_STREAM = b"content-type", b"text/event-stream"


def streamed(name: str, exchange: Exchange) -> Streamed:
    dialect: Any = MAKERS[name]()
    parsed = dialect.parse(ask(name, "hi", stream=True).body[0])
    meta = dialect.meta(parsed, lambda: "0" * 24, 0)
    return Streamed(exchange.send, lambda: (EVENT_STREAM,), anyio.current_time, lambda: dialect.encoder(meta))


def events(words: str) -> list[Any]:
    return [*replay(Message((TextBlock(words),)))]


@EVERY_DIALECT
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("opened", [False, True], ids=["unopened", "opened"])
async def test_a_restart_forgets_what_was_put(dialect, count, opened):
    """Bytes that were encoded and not sent are gone after it, and the encoder begins anew; the start of a message that
    the client has been shown stays the only one."""
    exchange = ask(dialect, "hi", stream=True)
    output = streamed(dialect, exchange)
    begin = 1 if opened else 0
    if opened:
        await output.open([MessageStart(Usage())])
    output.put(events("first")[begin:count])
    output.restart()
    output.put(events("second")[begin:])
    await output.finish()

    assert text_of(dialect, exchange) == "second"
    assert b"first" not in exchange.content


async def test_an_answer_that_has_begun_is_not_begun_anew():
    """Once the client has something of an answer, a restart is a bug of ours, and says so."""
    output = streamed("openai", ask("openai", "hi", stream=True))
    output.put(events("first")[:3])
    await output.push()

    with pytest.raises(AssertionError):
        output.restart()


def frame(words: str) -> bytes:
    headers = {":message-type": "event", ":event-type": "assistantResponseEvent", ":content-type": "application/json"}
    return encode_frame(headers, json.dumps({"content": words}).encode())


def in_one_read(body: bytes) -> tuple[Any, ...]:
    """An answer whose body is one write, and ends where it says: nothing is read after it."""
    return (Head(length=len(body)), RawBytes(body))


@EVERY_DIALECT
async def test_text_and_a_break_in_one_read_are_text_and_an_error(dialect, gateway, sim):
    """R04/R13: the first text and a torn frame that arrive together, at the end of the body, are what they are when
    they arrive apart: the text is sent, the failure told in the stream, and nobody is asked again."""
    sim.enqueue(in_one_read(frame("one ") + frame("two ") + frame("never")[:40]))
    exchange = await ask(dialect, "hi", stream=True).run(gateway())

    assert partial_text(dialect, exchange.content) == "one two "
    assert cut_of(dialect, exchange)["type"] == told_as(dialect, "api_error")
    assert (exchange.starts, exchange.complete, len(sim.requests)) == (1, True, 1)
