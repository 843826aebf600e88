"""What an exchange has held is free when it has ended, and not only when the garbage collector comes by."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from kiro_asgi.asgi.exchange.relay import Attempts, Relay
from kiro_asgi.asgi.exchange.translated import TranslatedExchange, TranslatedReading
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.simulator import Reset, answer, refusal, text
from tests.asgi.driver import Exchange, ask

pytestmark = pytest.mark.anyio

LARGE = (Attempts, Prompt, Relay, TranslatedExchange, TranslatedReading)
"""What holds a request, or an answer."""

SCRIPTS: dict[str, Any] = {
    "whole": answer(*text("a")),
    "refused": refusal(400, "Improperly formed request."),
    "broken-off": (*text("a"), Reset()),
    "lost-at-once": (Reset(),),
}


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def left() -> list[str]:
    """Names of what is still there of `LARGE`."""
    return [type(each).__name__ for each in gc.get_objects() if type(each) in LARGE]


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_an_ended_exchange_holds_nothing(name, stream, gateway, sim):
    """Prompt, answer and stages are in no circle of references: a hundred large requests do not add up."""
    app = gateway(retry={"attempts": 1})
    before = left()
    for dialect in ("anthropic", "openai", "responses"):
        sim.enqueue(SCRIPTS[name])
        exchange: Exchange | None = await ask(dialect, "x", stream=stream).run(app)
        assert exchange.messages
        exchange = None

    assert left() == before


async def test_an_exchange_whose_client_left_holds_nothing(gateway, sim):
    """The same where the client leaves in the middle; on trio, what cancels a task keeps the frames of who did it."""
    app = gateway()
    before = left()
    exchange: Exchange | None = ask("openai", "sim:count=50 sim:slow", stream=True)

    async def leave(message: Any) -> None:
        exchange.leave.set()

    exchange.on_send = leave
    await exchange.run(app)
    exchange = None

    assert left() == before
