"""No secret in a repr: what a debugger, an error reporter or a careless log line shows of any object of ours."""

from __future__ import annotations

import gc
import json
import logging
import traceback
from pathlib import Path

import anyio
import pytest

from kiro_asgi import create_app
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.asgi.exchange.relay import Relay
from kiro_asgi.net.credentials.state import CredentialState
from kiro_asgi.net.transport import Transport
from kiro_asgi.simulator import refusal
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, post
from tests.parts import part_of

pytestmark = pytest.mark.anyio

CANARY = "CaNaRy"


@pytest.fixture(autouse=True)
def nothing_of_before():
    """Hide what other tests left alive from `ours`: their inputs may be too deep to be shown."""
    gc.freeze()
    yield
    gc.unfreeze()


def ours() -> list[object]:
    """Every object of the gateway's that came to life in this test; the simulator is another party."""
    modules = ((each, type(each).__module__) for each in gc.get_objects())
    return [each for each, module in modules if module.startswith("kiro_asgi.") and "simulator" not in module]


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token.json"
    token = {
        "accessToken": f"aoa{CANARY}Access",
        "refreshToken": f"aor{CANARY}Refresh",
        "clientId": f"{CANARY}-client",
        "clientSecret": f"{CANARY}-secret",
        "authMethod": "IdC",
        "expiresAt": "2020-01-01T00:00:00Z",
        "profileArn": "arn:x",
    }
    path.write_text(json.dumps(token))
    path.chmod(0o600)
    return path


async def test_nothing_that_is_alive_shows_a_secret(sim, token_file):
    """While a request with secrets of every kind waits for its answer, no object's repr holds one of them."""
    secrets = {"conversation_salt": CANARY, "auth_endpoint": sim.url}
    slices = {
        "client": {"api_keys": [f"{CANARY}-key"]},
        "kiro": {"api_key": "", "credentials_file": str(token_file), **secrets},
    }
    app = create_app(settings_for(sim.url, slices))
    body = {"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": "sim:stall"}]}
    exchange = post("/v1/messages", body, key=f"{CANARY}-key")

    async def receive():
        return await exchange.receive()

    async def send(message):
        await exchange.send(message)

    async with anyio.create_task_group() as group:
        group.start_soon(app, exchange.scope, receive, send)
        while not any(request.path == "/generateAssistantResponse" for request in sim.requests):  # noqa: ASYNC110 - no event
            await anyio.sleep(0.01)
        alive = ours()
        shown = [type(each) for each in alive if CANARY in repr(each)]
        group.cancel_scope.cancel()
    await app.aclose()

    assert {Call, Relay, CredentialState, Transport} <= {type(each) for each in alive}
    assert shown == []


async def test_no_failure_of_a_renewal_tells_a_secret(sim, token_file, caplog):
    """Whatever the sign-in service quotes, neither the log nor a traceback nor the client hears of it."""
    sim.accounts.refresh_answer = refusal(500, f"no such token: aor{CANARY}RefreshRefreshRefresh")
    app = create_app(
        settings_for(sim.url, {"kiro": {"api_key": "", "credentials_file": str(token_file), "auth_endpoint": sim.url}})
    )
    with caplog.at_level(logging.DEBUG, "kiro_asgi"):
        exchange = await ask("anthropic", "sim:text", stream=False).run(app)
    sim.accounts.refresh_answer = None
    failures = [state._failure for state in part_of(app, Provider).credentials._states]
    await app.aclose()

    assert exchange.status == 502 and failures[0] is not None
    told = "".join(traceback.format_exception(failures[0]))
    assert CANARY not in told + caplog.text + exchange.content.decode()


async def test_nothing_that_is_alive_shows_a_key_of_any_service(sim):
    """The same for services that are asked with a key, one after the other, for requests that go through and others."""
    keys = {"api_key": f"{CANARY}-key", "headers": [f"x-secret={CANARY}"], "first_token_timeout": 9}
    slices = {
        "anthropic": {**keys, "endpoint": sim.url},
        "openai": {**keys, "endpoint": f"{sim.url}/v1", "fallback_api_keys": [f"{CANARY}-2"]},
        "gemini": {**keys, "endpoint": sim.url},
    }
    app = create_app(settings_for(sim.url, slices))
    shown: dict[str, list[type]] = {}
    for model in ("anthropic/claude-haiku-4-5-20251001", "openai/gpt-4o", "gemini/gemini-2.5-flash"):
        sim.forget()
        body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "sim:stall"}]}
        exchange = post("/v1/chat/completions", body)
        async with anyio.create_task_group() as group:
            group.start_soon(exchange.run, app)
            while not any(request.operation.endswith(".chat") for request in sim.requests):  # noqa: ASYNC110 - no event
                await anyio.sleep(0.01)
            shown[model] = [type(each) for each in ours() if CANARY in repr(each)]
            group.cancel_scope.cancel()
    await app.aclose()

    assert not any(shown.values()), shown
