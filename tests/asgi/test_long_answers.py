"""An answer of megabytes is made and sent in parts, and others have their turns in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kiro_asgi.asgi.exchange.output import Collected, Streamed, Synthetic
from kiro_asgi.asgi.protocol import respond_in_pieces
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.model.message import LONG, Message, TextBlock, ToolCallBlock, replay, split_sentences
from tests.dialects.openai_responses import grammar

pytestmark = pytest.mark.anyio

PIECE = 256 * 1024
TEXT = "word " * (4 * LONG)
CALLS = 100
MESSAGES = {"text": Message((TextBlock(TEXT),)), "calls": Message((ToolCallBlock("c", "f", "{}"),) * CALLS)}


class Sent:
    """What a server is handed, which takes all of it at once, and the turns that another task had until then."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.turns = 0
        self.beside: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, message: Any) -> None:
        self.messages.append((self.turns, message))

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for _, message in self.messages)

    async def during(self, work: Callable[[], Any]) -> None:
        """Do *work*, and count turns."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._count)
            await work()
            tasks.cancel_scope.cancel()

    async def _count(self) -> None:
        while True:
            await checkpoint()
            self.turns += 1
            if self.beside is not None:
                await self.beside()


def slow() -> Callable[[], float]:
    """A clock of which every look is 10 ms after the one before."""
    ticks = count()
    return lambda: next(ticks) / 100


def encoder() -> Any:
    return OpenAIResponses().encoder(ResponseMeta("resp_x", "m", 1, ResponsesOptions(input_items=(), store=False)))


async def test_a_body_is_made_in_parts() -> None:
    """Another task has a turn after each slice, and the length that is announced is that of the whole."""
    sent, seen = Sent(), []

    def render(message: Message) -> Iterator[bytes]:
        for _ in range(50):
            seen.append(sent.turns)
            yield b"xy"

    output = Collected(sent, tuple, slow(), render)
    output.put(replay(Message()))
    await sent.during(output.finish)

    assert len(set(seen)) > 15
    assert sent.body == b"xy" * 50
    assert (b"content-length", b"100") in sent.messages[0][1]["headers"]


async def test_a_small_body_is_made_at_once() -> None:
    """Nobody waits for turns that others do not need."""
    sent = Sent()
    output = Collected(sent, tuple, lambda: 0.0, lambda message: iter((b"{", b"}")))
    output.put(replay(Message()))
    await sent.during(output.finish)

    assert [message["type"] for _, message in sent.messages] == ["http.response.start", "http.response.body"]
    assert sent.turns == 0


@pytest.mark.parametrize("cut", [None, split_sentences])
@pytest.mark.parametrize("kind", MESSAGES)
async def test_a_message_is_streamed_in_parts(kind: str, cut: Any) -> None:
    """Where all of it is known before: as in parts, so at once."""
    bodies = []
    for clock in (slow(), lambda: 0.0):
        sent = Sent()
        output = Synthetic(sent, tuple, clock, encoder, *([cut] if cut else []))
        output.put(replay(MESSAGES[kind]))
        await sent.during(output.finish)
        bodies.append(sent.body)
        if clock() > 0:
            assert sent.turns > (5 if kind == "text" else CALLS // 2)

    assert bodies[0] == bodies[1]
    assert grammar.check(bodies[0])


async def test_a_long_body_is_sent_in_parts() -> None:
    """Also where the server takes everything at once; what is sent is what the pieces are, however they are cut."""
    sent = Sent()
    pieces = [b"a", b"b" * PIECE, b"", b"c" * (3 * PIECE + 1), *[b"d"] * 1000, b"e" * (PIECE - 1), b"f"]
    await sent.during(partial(respond_in_pieces, sent, 200, pieces, ()))
    bodies = [message["body"] for _, message in sent.messages[1:]]

    assert sent.body == b"".join(pieces)
    assert all(0 < len(body) <= PIECE for body in bodies)
    assert [message["more_body"] for _, message in sent.messages[1:]] == [True] * (len(bodies) - 1) + [False]
    assert sent.turns >= len(bodies) // 3


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 2 * PIECE])
async def test_a_body_goes_out_in_as_few_messages_as_may_be(size: int) -> None:
    """One, even where there is nothing in it."""
    sent = Sent()
    await respond_in_pieces(sent, 200, [b"x" * size], ())

    assert len(sent.messages) == 1 + max(-(-size // PIECE), 1)
    assert sent.body == b"x" * size


async def test_no_heartbeat_within_an_event() -> None:
    """A long event goes out in many messages; a heartbeat that is due meanwhile waits, or is left out."""
    sent = Sent()
    output = Streamed(sent, tuple, slow(), encoder)
    sent.beside = output.beat

    async def answer() -> None:
        for event in replay(MESSAGES["text"]):
            output.put((event,))
            await output.push()
            await checkpoint()
        await output.finish()

    await sent.during(answer)

    assert len(sent.messages) > 8
    assert sent.body.count(b'"delta":""') + sent.body.count(b"event: response.in_progress") > 1
    assert grammar.check(sent.body)
    assert all(part in (b"", b": ping") or part.startswith(b"event: ") for part in sent.body.split(b"\n\n"))
