"""Gemini ends some answers without a word, and for no reason that it gives."""

from __future__ import annotations

import json

import pytest

from kiro_asgi import create_app
from kiro_asgi.simulator import Head, RawBytes, Step
from tests.asgi.answers import DIALECTS, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import PATHS, post

pytestmark = pytest.mark.anyio


def saying(*texts: str) -> tuple[Step, ...]:
    """An answer of these texts that ends with ``STOP``."""
    parts = [{"text": text} for text in texts]
    chunk = {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4},
        "modelVersion": "gemini-2.5-flash",
    }
    return (Head(content_type="text/event-stream"), RawBytes(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n"))


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("answers", "told"), [((saying(), saying("Hi")), "Hi"), ((saying(), saying()), "")])
async def test_an_empty_stop_is_tried_once_more(answers, told, dialect, stream, service, sim):
    """Nothing was sent, so the client sees one answer; a second one without a word is believed."""
    app = create_app(settings_for(service.url, {"gemini": {"api_key": "goo", "endpoint": service.url}}))
    sim.enqueue(*answers, operation="gemini.chat")
    said = {"messages": [{"role": "user", "content": "Hi"}]} if dialect != "responses" else {"input": "Hi"}
    body = {"model": "gemini/gemini-2.5-flash", "stream": stream, **said}
    exchange = await post(PATHS[dialect], {**body, **({"max_tokens": 9} if dialect == "anthropic" else {})}).run(app)
    await app.aclose()

    assert exchange.status == 200
    assert text_of(dialect, exchange) == told
    assert len([request for request in sim.requests if request.operation == "gemini.chat"]) == 2
