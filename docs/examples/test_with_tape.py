"""What a test of an application may look like whose services are a tape."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator

from kiro_asgi import Settings, create_app
from kiro_asgi.tapes import Tape


async def ask(app: Any, question: str) -> dict[str, Any]:
    body = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": question}]}
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": [], "query_string": b""}
    client = ApplicationCommunicator(app, scope)
    await client.send_input({"type": "http.request", "body": json.dumps(body).encode()})
    start, answer = await client.receive_output(5), await client.receive_output(5)
    await app.aclose()
    assert start["status"] == 200, answer
    return dict(json.loads(answer["body"]))


@pytest.mark.tape("morning")
def test_the_model_says_good_morning(taped_settings: Settings) -> None:
    """The answer is what the service has said once; nobody is asked."""
    answer = asyncio.run(ask(create_app(taped_settings), "Good morning!"))

    assert answer["choices"][0]["finish_reason"] == "stop"
    assert "Good morning" in answer["choices"][0]["message"]["content"]


@pytest.mark.tape("morning")
def test_nothing_was_retried(tape: Tape) -> None:
    """The tape itself can be looked at."""
    assert len(tape.attempts) == 1
