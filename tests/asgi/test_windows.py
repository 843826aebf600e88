"""Marks of clients behind models' names, and what only some models of a service can be asked for."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

KEYS = {"api_key": "k"}
CLAUDE = "us.anthropic.claude-opus-4-6-v1"
SERVICES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "kiro": ("kiro/claude-sonnet-4.5", "claude-sonnet-4.5", {}),
    "anthropic": ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5", {"anthropic": KEYS}),
    "bedrock": (f"bedrock/{CLAUDE}", CLAUDE, {"bedrock": KEYS}),
    "openai": ("openai/gpt-4o", "gpt-4o", {"openai": KEYS}),
    "gemini": ("gemini/gemini-2.5-pro", "gemini-2.5-pro", {"gemini": KEYS}),
    "custom": ("local/gpt-4o", "gpt-4o", {}),
}


@pytest.mark.parametrize("mark", ["[1m]", " [1M]", "[200k]"])
@pytest.mark.parametrize("name", SERVICES)
async def test_no_service_sees_the_mark_of_a_window(name: str, mark: str, gateway, sim) -> None:
    """Claude Code writes it behind any name that it is given."""
    model, sent, slices = SERVICES[name]
    endpoint = f"{sim.url}/v1" if name == "openai" else sim.url
    slices = {key: {**value, "endpoint": endpoint} for key, value in slices.items()}
    app = gateway(**slices, custom={"local": {"endpoint": f"{sim.url}/v1", "api_key": "sk"}})
    body = {"model": model + mark, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
    await post("/v1/messages", body).run(app)
    request = next(request for request in sim.requests if request.method == "POST")

    assert sent in unquote(request.path) + request.body.decode()
    assert mark.strip().lower() not in (unquote(request.path) + request.body.decode()).lower()


@pytest.mark.parametrize("container", ["c1", {"id": "c1", "skills": [{"type": "anthropic", "skill_id": "pptx"}]}])
async def test_a_container_is_refused_where_the_model_has_none(container: Any, gateway, sim) -> None:
    """By Converse, too, although another model of the service is asked by the client's API."""
    app = gateway(bedrock={**KEYS, "endpoint": sim.url})
    body = {"max_tokens": 50, "messages": [{"role": "user", "content": "hi"}], "container": container}
    told = await post("/v1/messages", {**body, "model": "bedrock/amazon.nova-pro-v1:0"}).run(app)

    assert told.status == 400 and "container" in told.json()["error"]["message"]
    assert not any(request.method == "POST" for request in sim.requests)
