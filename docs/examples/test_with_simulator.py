"""What an application's own test may look like."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from asgiref.testing import ApplicationCommunicator

from kiro_asgi import Settings, create_app, simulator


def gateway_at(url: str) -> Any:
    settings = {"client": {"allow_anonymous": True}, "kiro": {"endpoint": url, "api_key": "ksk_test"}}
    return create_app(Settings.from_mapping(settings))


async def ask(app: Any, question: str) -> dict[str, Any]:
    body = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": question}]}
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": [], "query_string": b""}
    client = ApplicationCommunicator(app, scope)
    await client.send_input({"type": "http.request", "body": json.dumps(body).encode()})
    start, answer = await client.receive_output(5), await client.receive_output(5)
    assert start["status"] == 200, answer
    return dict(json.loads(answer["body"]))


def test_the_model_is_asked() -> None:
    """An answer comes back, and says that it is complete."""
    with simulator.running() as sim:
        answer = asyncio.run(ask(gateway_at(sim.url), "Good morning!"))

    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["message"]["content"]
