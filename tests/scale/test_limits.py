"""A limit of one key holds over two gateways, however many ask at once, and the ledger has what was answered."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections import Counter
from pathlib import Path
from typing import Final

import anyio
import httpcore
import pytest

from tests.cli.processes import Serving, command, serving
from tests.valkey_server import needs_server, running

pytestmark = needs_server

REQUESTS: Final = 500
LIMIT: Final = 20
"""Requests a minute."""

KEY: Final = "ka_of_alice"
TIMEOUTS: Final = {"pool": 120, "connect": 60, "read": 120, "write": 60}


async def ask(gateways: tuple[Serving, ...]) -> Counter[int]:
    """The statuses of `REQUESTS` at once, which go to each of *gateways* in turn."""
    statuses = Counter[int]()
    body = {"model": "claude-sonnet-4.5", "max_tokens": 100, "messages": [{"role": "user", "content": "sim:text"}]}
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    async with httpcore.AsyncConnectionPool(max_connections=REQUESTS) as pool, anyio.create_task_group() as group:

        async def one(base: str) -> None:
            content, extensions = json.dumps(body).encode(), {"timeout": TIMEOUTS}
            url = f"{base}/v1/messages"
            answer = await pool.request("POST", url, headers=headers, content=content, extensions=extensions)
            statuses[answer.status] += 1

        for number in range(REQUESTS):
            group.start_soon(one, gateways[number % len(gateways)].base)
    return statuses


@pytest.mark.parametrize("engine", ["sqlite", "valkey"])
def test_five_hundred_at_once(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many are answered as the limit allows, and as it has allowed anew until the last; each is in the ledger."""
    with running() as server:
        environ = {
            "KIRO_ASGI__STATE__ENGINE": engine,
            "KIRO_ASGI__STATE__USAGE": "true",
            "KIRO_ASGI__QUOTAS__ON_STORE_FAILURE": "closed",
            "KIRO_ASGI__KEYS__ALICE__HASH": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest(),
            "KIRO_ASGI__KEYS__ALICE__REQUESTS_PER_MINUTE": str(LIMIT),
        }
        place = {"PATH": str(tmp_path / "state.db")} if engine == "sqlite" else {"URL": server.url}
        environ |= {f"KIRO_ASGI__STATE__{name}": value for name, value in place.items()}
        simulated = ("--simulate", "--log-level", "error")
        with (
            serving(*simulated, cwd=tmp_path, lines=5, **environ) as one,
            serving(*simulated, cwd=tmp_path, lines=5, **environ) as another,
        ):
            started = time.monotonic()
            statuses = anyio.run(ask, (one, another))
            seconds = time.monotonic() - started
            one.stop()
            another.stop()
        done = command("usage", "--by", "key", "--csv", cwd=tmp_path, **environ)
    assert statuses.keys() == {200, 429}
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(io.StringIO(done.stdout))

    most = LIMIT + int(seconds * LIMIT / 60)
    with capsys.disabled():
        print(f"\n{engine}: {dict(statuses)} in {seconds:.1f} s, at most {most}; ledger: {row['requests']}")
    assert LIMIT <= statuses[200] <= most
    assert int(row["requests"]) == statuses[200]
