"""R32 and R36 through the whole gateway: requests that meet a token which has ended, or which the service refuses."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from kiro_asgi import create_app
from tests.asgi.driver import ask
from tests.e2e.faults.bench import ROUTES, WATCHDOG, Gateway, settings_for

pytestmark = pytest.mark.anyio

REQUESTS = 200
REFRESH, CHAT = "RefreshToken", "GenerateAssistantResponse"
ENDED, GOOD = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"


@pytest.fixture
def signed_in(simulator, tmp_path: Path):
    """Makes a gateway with a token file of its own, whose token ends at a given time."""
    path = tmp_path / "token.json"

    def make(ends: str) -> Gateway:
        token = {"accessToken": "aoaOld", "refreshToken": "aorOld", "expiresAt": ends, "profileArn": "arn:x"}
        path.write_text(json.dumps(token))
        path.chmod(0o600)
        kiro = {"api_key": "", "credentials_file": str(path), "auth_endpoint": simulator.url}
        settings = settings_for(simulator, {"kiro": kiro, "limits": {"connections": 64}})
        return Gateway(create_app(settings), simulator)

    return make


def asked(door: Gateway, operation: str) -> int:
    return sum(request.operation == operation for request in door.simulator.requests)


async def test_a_stampede(signed_in):
    """R32: 200 requests with an expired token are served after one refresh, although who asked first breaks off."""
    door = signed_in(ENDED)
    door.simulator.accounts.delay = 0.3
    exchanges = [ask(ROUTES[number % 2], "sim:count=1", stream=bool(number % 3)) for number in range(REQUESTS)]

    async def broken_off() -> None:
        with anyio.move_on_after(0.1):
            await ask("anthropic", "sim:count=1", stream=True).run(door.app)

    with anyio.fail_after(WATCHDOG):
        async with anyio.create_task_group() as group:
            group.start_soon(broken_off)
            await anyio.sleep(0.05)
            for exchange in exchanges:
                group.start_soon(exchange.run, door.app)
    await door.app.aclose()

    assert asked(door, REFRESH) == door.simulator.accounts.refreshes == 1
    assert {exchange.status for exchange in exchanges} == {200}
    assert all(exchange.complete for exchange in exchanges)


@pytest.mark.parametrize("route", ROUTES)
async def test_a_token_that_is_refused_once(signed_in, route):
    """R36: a token that looks valid and is not costs one refresh and one more try; the client sees an answer."""
    door = signed_in(GOOD)
    door.simulator.revoke("aoaOld")
    exchange = await door.ask(route, "sim:count=1", stream=True)
    await door.app.aclose()

    assert (exchange.status, asked(door, REFRESH), asked(door, CHAT)) == (200, 1, 2)


@pytest.mark.parametrize("route", ROUTES)
async def test_a_service_that_refuses_every_token(signed_in, route):
    """R36: two tries in all, then the client is told; a refusal that stays is no reason for more refreshes."""
    door = signed_in(GOOD)
    first = await door.ask(route, "sim:token-invalid", stream=True)
    second = await door.ask(route, "sim:token-invalid", stream=True)
    await door.app.aclose()

    assert first.status == second.status == 502
    assert (asked(door, REFRESH), asked(door, CHAT)) == (1, 3)
