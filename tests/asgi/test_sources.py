"""Sources that a client's API has no place for."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kiro_asgi.simulator import Head, RawBytes
from tests.asgi.driver import ask

FILED = {"type": "char_location", "document_index": 0, "document_title": "notes", "cited_text": "deep"}
DOCUMENT = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5",
    "content": [{"type": "text", "text": word, "citations": [FILED, FILED]} for word in ("Deep", ", and deep.")],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 9},
}


@pytest.mark.parametrize(("dialect", "said"), [("anthropic", 0), ("openai", 1), ("responses", 1)])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
async def test_the_log_says_once_that_they_were_left_out(
    dialect: str, said: int, stream: bool, gateway: Any, sim: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """By its code; Messages has a place for every source."""
    sim.enqueue(
        (Head(content_type="application/json"), RawBytes(json.dumps(DOCUMENT).encode())), operation="anthropic.chat"
    )
    app = gateway(anthropic={"api_key": "key", "endpoint": sim.url}, stream={"relay": "never"})
    with caplog.at_level(logging.WARNING):
        exchange = await ask(dialect, "How deep?", stream=stream, model="anthropic/claude-haiku-4-5").run(app)

    assert (exchange.status, b"char_location" in exchange.content) == (200, not said)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["answer complete, but: citation.without_address (1)"] * said
