"""What a server refused is not asked of it again: not for the same model, and as long as the process lives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi import App, create_app
from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.failures.members import Place
from kiro_asgi.failures.remedies import Remedy
from kiro_asgi.limits import ADAPTED_MODELS
from kiro_asgi.simulator import Head, RawBytes, Step
from kiro_asgi.upstreams.base import ModelCard, Rendered, UpstreamRequest
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from kiro_asgi.upstreams.settings import Setup
from tests.asgi.conftest import settings_for
from tests.asgi.driver import post

CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
ANSWER: tuple[Step, ...] = (
    Head(content_type="text/event-stream"),
    RawBytes(b"data: " + json.dumps(CHUNK).encode() + b"\n\ndata: [DONE]\n\n"),
)


def refusal(message: str) -> tuple[Step, ...]:
    return (
        Head(status=400, content_type="application/json"),
        RawBytes(json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()),
    )


REFUSED = refusal("Unrecognized request argument supplied: top_k")


@pytest.fixture
async def app(service):
    """A gateway in front of a server that is not OpenAI's."""
    made: App = create_app(
        settings_for(service.url, {"custom": {"local": {"endpoint": f"{service.url}/v1", "api_key": "sk"}}})
    )
    yield made
    await made.aclose()


async def ask(app: App, model: str = "gpt-4o") -> int:
    body: dict[str, Any] = {"model": f"local/{model}", "max_tokens": 9, "top_k": 4}
    exchange = await post("/v1/messages", {**body, "messages": [{"role": "user", "content": "Hi"}]}).run(app)
    return exchange.status


def had_top_k(sim) -> list[bool]:
    """Of each request to the server, whether it had the field."""
    return ["top_k" in request.json() for request in sim.requests if request.operation == "openai.chat"]


@pytest.mark.anyio
async def test_a_field_is_refused_once(app, sim):
    """Once for each model of a server, not once for each request."""
    sim.enqueue(REFUSED, ANSWER, ANSWER, REFUSED, ANSWER, operation="openai.chat")
    statuses = [await ask(app), await ask(app), await ask(app, "gpt-5")]

    assert statuses == [200, 200, 200]
    assert had_top_k(sim) == [True, False, False, True, False]


@pytest.mark.anyio
async def test_what_did_not_help_is_not_learnt(app, sim):
    """A refusal is believed when the request without the field is answered."""
    sim.enqueue(REFUSED, refusal("no"), ANSWER, operation="openai.chat")
    statuses = [await ask(app), await ask(app)]

    assert statuses == [400, 200]
    assert had_top_k(sim) == [True, False, True]


def test_what_is_learnt_is_bounded():
    """The model that was learnt first is forgotten first."""
    none: Any = None
    upstream = OpenAIUpstream(name="local", endpoint="http://localhost/v1")
    setup = Setup(upstream=upstream, access=none, answer_options=none, account="")
    provider = Provider(setup=setup, transport=none, credentials=none, catalogue=none, toolbox=none)
    other = upstream.with_remedies((Remedy("top_k", place=Place("top_k")),))
    for number in range(ADAPTED_MODELS + 1):
        provider.learn(ModelCard(str(number)), other, rendered=Rendered(UpstreamRequest("POST", "", ())))

    assert provider.asking(ModelCard("0")) == upstream
    assert provider.asking(ModelCard("1")) == other
    assert provider.asking(ModelCard(str(ADAPTED_MODELS))) == other
