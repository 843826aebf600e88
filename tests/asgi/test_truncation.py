"""``truncation`` of the Responses API: an input that does not fit loses its oldest turns, or is refused."""

from __future__ import annotations

import pytest

from kiro_asgi.simulator import answer, refusal, text
from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

LONG = "word " * 60_000
TOO_LONG = refusal(400, "Input is too long.", "CONTENT_LENGTH_EXCEEDS_THRESHOLD")


def ask(truncation, *texts):
    """A conversation, of each of whose texts but the last the model has said that it is fine."""
    sides = [({"role": "user", "content": each}, {"role": "assistant", "content": "Fine."}) for each in texts]
    items = [item for side in sides for item in side][:-1]
    exchange = post("/v1/responses", {"model": "claude-sonnet-4.5", "input": items, "truncation": truncation})
    exchange.scope["headers"].append((b"x-kiro-asgi-rules", b"1"))
    return exchange


async def test_the_oldest_turns_are_left_out(gateway, sim):
    """As few as may be, and the client can read of it; without its word the request is refused."""
    texts = ("the first", *(f"{number} {LONG}" for number in range(5)), "the last")
    app = gateway()
    sim.enqueue(answer(*text("Hi.")))
    kept, refused = await ask("auto", *texts).run(app), await ask("disabled", *texts).run(app)
    sent = sim.requests[0].body

    assert (kept.status, kept.json()["truncation"]) == (200, "auto")
    assert "turns.oldest_dropped" in kept.headers["x-kiro-asgi-rules"]
    assert b"the first" not in sent and b"the last" in sent and b"4 word" in sent
    assert (refused.status, refused.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_where_the_service_finds_it_too_long_more_is_left_out(gateway, sim):
    """Half of what there is, each time; with one turn left the client is told."""
    app = gateway()
    sim.enqueue(TOO_LONG, TOO_LONG, answer(*text("Hi.")))
    kept = await ask("auto", *(f"<{number}>" for number in range(8))).run(app)
    sent = [[number for number in range(8) if f"<{number}>" in request.body.decode()] for request in sim.requests]
    sim.forget()
    sim.enqueue(*[TOO_LONG] * 5)
    refused = await ask("auto", "one", "two").run(app)

    assert kept.status == 200
    assert sent == [[0, 1, 2, 3, 4, 5, 6, 7], [4, 5, 6, 7], [6, 7]]
    assert (refused.status, len(sim.requests)) == (400, 2)
