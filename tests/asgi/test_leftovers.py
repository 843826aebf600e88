"""What an exchange has held is free when it has ended, and not only when the garbage collector comes by."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from kiro_asgi import create_app
from kiro_asgi.asgi.exchange.embeddings import EmbeddingExchange, EmbeddingReading
from kiro_asgi.asgi.exchange.relay import Attempts, Relay
from kiro_asgi.asgi.exchange.translated import TranslatedExchange, TranslatedReading
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.simulator import Reset, answer, json_answer, refusal, text
from kiro_asgi.upstreams.vectors import VectorReader
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask, post

pytestmark = pytest.mark.anyio

LARGE = (
    Attempts,
    EmbeddingExchange,
    EmbeddingReading,
    Prompt,
    Relay,
    TranslatedExchange,
    TranslatedReading,
    VectorReader,
)
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


@pytest.mark.parametrize(
    ("script", "limits", "status"),
    [
        pytest.param((), {}, 200, id="whole"),
        pytest.param((refusal(400, "no"),), {}, 400, id="refused"),
        pytest.param((json_answer(200, {"data": []}),), {}, 502, id="none"),
        pytest.param((), {"answer_bytes": 65_536}, 502, id="too-large"),
        pytest.param((), {"body_bytes_in_flight": 131_072, "body_bytes": 65_536}, 503, id="no-room"),
    ],
)
async def test_ended_embeddings_hold_nothing(script, limits, status, sim):
    """Vectors take the most room of all, and nothing that the collector counts."""
    server = {"endpoint": f"{sim.url}/v1", "api_key": "k"}
    app = create_app(settings_for(sim.url, {"openai": server, "limits": limits, "retry": {"attempts": 1}}))
    before = left()
    sim.enqueue(*script, operation="openai.embed")
    request = post("/v1/embeddings", {"model": "openai/text-embedding-3-small", "input": ["a"] * 100})
    exchange: Exchange | None = await request.run(app)
    assert exchange.status == status
    request = exchange = None

    assert left() == before
    await app.aclose()
