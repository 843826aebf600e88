"""What each client API is told of a service that is away, or has nothing left: every service, every API."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.simulator import Reset
from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

MODELS = {
    "kiro": "kiro/claude-sonnet-4.5",
    "gemini": "gemini/gemini-2.5-flash",
    "anthropic": "anthropic/claude-haiku-4-5-20251001",
    "openai": "openai/gpt-4o",
    "custom": "local/gpt-4o",
}
EACH_SERVICE = pytest.mark.parametrize("upstream", MODELS)


def request_of(api: str, model: str, prompt: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    """The path and the body of one question."""
    said = [{"role": "user", "content": prompt}]
    return {
        "messages": ("/v1/messages", {"model": model, "max_tokens": 50, "messages": said, "stream": stream}),
        "chat": ("/v1/chat/completions", {"model": model, "messages": said, "stream": stream}),
        "completions": ("/v1/completions", {"model": model, "prompt": prompt, "stream": stream}),
        "responses": ("/v1/responses", {"model": model, "input": prompt, "stream": stream}),
        "compact": ("/v1/responses/compact", {"model": model, "input": prompt}),
        "gemini": (
            f"/v1beta/models/{model}:{'streamGenerateContent' if stream else 'generateContent'}",
            {"contents": [{"role": "user", "parts": [{"text": prompt}]}]},
        ),
    }[api]


APIS = ("messages", "chat", "completions", "responses", "compact", "gemini")
EACH_API = pytest.mark.parametrize("api", APIS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])


@pytest.fixture
def app(gateway: Any, sim: Any) -> Any:
    """In front of all services, each of which is asked once."""
    own = {name: {"api_key": "key", "endpoint": sim.url} for name in ("gemini", "anthropic")}
    openai = {"api_key": "key", "endpoint": f"{sim.url}/v1"}
    return gateway(**own, openai=openai, custom={"local": openai}, retry={"attempts": 1})


AWAY = {
    "messages": {("overloaded_error", 529), ("overloaded_error", 503)},
    "chat": {("server_error", 503)},
    "completions": {("server_error", 503)},
    "responses": {("server_error", 503)},
    "compact": {("server_error", 503)},
    "gemini": {("UNAVAILABLE", 503)},
}


@EACH_SERVICE
@EACH_API
@EACH_MODE
@pytest.mark.parametrize("fault", ["503", "reset"])
async def test_a_service_that_is_away(app, sim, upstream, api, stream, fault):
    """F087: before anything is sent, its 503, whatever it says of it, and a connection that breaks are an overload or
    unavailability in the API's own words, with a time to come back; never a fault of the API."""
    if fault == "reset":
        sim.answer_with(lambda request: (Reset(),))
    path, body = request_of(api, MODELS[upstream], "sim:503", stream=stream)
    exchange = await post(path, body).run(app)
    sim.answer_with(None)
    error = exchange.json()["error"]

    assert (error.get("type") or error["status"], exchange.status) in AWAY[api]
    assert int(exchange.headers["retry-after"]) >= 1


SPENT = {
    "messages": ("billing_error", 402),
    "chat": ("insufficient_quota", 402),
    "completions": ("insufficient_quota", 402),
    "responses": ("insufficient_quota", 429),
    "compact": ("insufficient_quota", 429),
    "gemini": ("RESOURCE_EXHAUSTED", 429),
}


@EACH_SERVICE
@EACH_API
@EACH_MODE
async def test_a_service_whose_quota_is_spent(app, sim, upstream, api, stream):
    """Nobody is told when to come back, however often it is asked: Codex would wait, and ask again."""
    for _ in range(2):
        path, body = request_of(api, MODELS[upstream], "sim:quota", stream=stream)
        exchange = await post(path, body).run(app)
        error = exchange.json()["error"]

        assert (error.get("type") or error["status"], exchange.status) == SPENT[api]
        assert error.get("code") in (("insufficient_quota",) if "insufficient_quota" in SPENT[api] else (None, 429))
        assert exchange.headers["x-should-retry"] == "false"
        assert not {"retry-after", "retry-after-ms"} & exchange.headers.keys()
        assert "RetryInfo" not in str(error)
