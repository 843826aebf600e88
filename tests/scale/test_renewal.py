"""Two gateways with copies of one sign-in and one state, under load: it is renewed once each time that it ends."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import openai
import pytest

from kiro_asgi import simulator
from tests.cli.processes import serving
from tests.valkey_server import needs_server, running

pytestmark = needs_server

LIFE: Final = 20
"""Seconds that an access token lasts; a gateway renews it when half of them, or a fifth more, are left."""

MOST: Final = 1 + 3 * 20 // 8
"""Renewals of one gateway in three such lives: the first, and one each time that the least of a life is over."""

REQUESTS: Final = 40
"""Of which half goes to each gateway, time and again."""

SAID: Final = [{"role": "user", "content": "sim:text"}]


@pytest.mark.parametrize("engine", ["sqlite", "valkey"])
def test_one_renewal(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The refresh token rotates and the old one is dead at once, so a second renewal would sign a gateway out."""
    with simulator.running(keep=20_000) as service, running() as server:
        service.accounts.expires_in, service.accounts.delay = LIFE, 0.2
        place = {"PATH": str(tmp_path / "state.db")} if engine == "sqlite" else {"URL": server.url}
        gateways = []
        for number in range(2):
            path = tmp_path / f"token-{number}.json"
            path.write_text(json.dumps({"refreshToken": "aorFirst", "authMethod": "social"}))
            path.chmod(0o600)
            environ = {
                "KIRO_ASGI__CLIENT__API_KEYS": "k",
                "KIRO_ASGI__KIRO__CREDENTIALS_FILE": str(path),
                "KIRO_ASGI__KIRO__ENDPOINT": service.url,
                "KIRO_ASGI__KIRO__AUTH_ENDPOINT": service.url,
                "KIRO_ASGI__STATE__ENGINE": engine,
            } | {f"KIRO_ASGI__STATE__{name}": value for name, value in place.items()}
            gateways.append(serving("--log-level", "warning", cwd=tmp_path, **environ))
        with gateways[0] as one, gateways[1] as other, ThreadPoolExecutor(8) as pool:
            clients = [openai.OpenAI(base_url=f"{each.base}/v1", api_key="k", max_retries=0) for each in (one, other)]

            def ask(number: int) -> str:
                answer = clients[number % 2].chat.completions.create(model="claude-sonnet-4.5", messages=SAID)  # type: ignore[arg-type]
                return str(answer.choices[0].message.content)

            end = time.monotonic() + 3 * LIFE
            while time.monotonic() < end:
                assert all(pool.map(ask, range(REQUESTS)))
                time.sleep(0.5)
        asked = service.calls["RefreshToken"]
        stored = {json.loads((tmp_path / f"token-{number}.json").read_text())["refreshToken"] for number in range(2)}
    with capsys.disabled():
        print(f"\n{engine}: {asked} renewals asked for, {service.accounts.refreshes} made; {len(stored)} token left")
    assert asked == service.accounts.refreshes
    assert 3 <= asked <= MOST
