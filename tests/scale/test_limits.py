"""Limits of a key and a credential hold over two gateways, however many ask at once; the ledger has what they took."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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

BUDGET: Final = 3_000
"""Tokens a day of the only credential; an answer takes 15, and reserves less than `RESERVED`."""

RESERVED: Final = 200

STREAMS: Final = 5
"""Answers at once of the only credential."""

KEY: Final = "ka_of_alice"
TIMEOUTS: Final = {"pool": 120, "connect": 60, "read": 120, "write": 60}


def shared(engine: str, folder: Path, url: str) -> dict[str, str]:
    """Settings of gateways that share what they count, and the key of the one client."""
    place = {"PATH": str(folder / "state.db")} if engine == "sqlite" else {"URL": url}
    return {
        "KIRO_ASGI__STATE__ENGINE": engine,
        "KIRO_ASGI__STATE__USAGE": "true",
        "KIRO_ASGI__QUOTAS__ON_STORE_FAILURE": "closed",
        "KIRO_ASGI__KEYS__ALICE__HASH": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest(),
        **{f"KIRO_ASGI__STATE__{name}": value for name, value in place.items()},
    }


def limited(name: str, most: int) -> dict[str, str]:
    """A limit of the only credential."""
    table = "KIRO_ASGI__CREDENTIALS__MAIN__"
    return {f"{table}CREDENTIAL": "kiro.api_key", f"{table}{name.upper()}": str(most)}


@contextmanager
def two_gateways(folder: Path, environ: dict[str, str]) -> Iterator[tuple[Serving, ...]]:
    """Two processes in front of a simulated service; they have ended, and written what was used, in the end."""
    simulated = ("--simulate", "--log-level", "error")
    with (
        serving(*simulated, cwd=folder, **environ) as one,
        serving(*simulated, cwd=folder, **environ) as another,
    ):
        yield one, another
        one.stop()
        another.stop()


async def ask(gateways: tuple[Serving, ...], prompt: str = "sim:text", times: int = REQUESTS) -> Counter[int]:
    """The statuses of so many requests at once, which go to each of *gateways* in turn."""
    statuses = Counter[int]()
    body = {"model": "claude-sonnet-4.5", "max_tokens": 100, "messages": [{"role": "user", "content": prompt}]}
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    async with httpcore.AsyncConnectionPool(max_connections=times) as pool, anyio.create_task_group() as group:

        async def one(base: str) -> None:
            content, extensions = json.dumps(body).encode(), {"timeout": TIMEOUTS}
            url = f"{base}/v1/messages"
            answer = await pool.request("POST", url, headers=headers, content=content, extensions=extensions)
            statuses[answer.status] += 1

        for number in range(times):
            group.start_soon(one, gateways[number % len(gateways)].base)
    return statuses


@pytest.mark.parametrize("engine", ["sqlite", "valkey"])
def test_five_hundred_at_once(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many are answered as the limit allows, and as it has allowed anew until the last; each is in the ledger."""
    with running() as server:
        environ = shared(engine, tmp_path, server.url) | {"KIRO_ASGI__KEYS__ALICE__REQUESTS_PER_MINUTE": str(LIMIT)}
        with two_gateways(tmp_path, environ) as gateways:
            started = time.monotonic()
            statuses = anyio.run(ask, gateways)
            seconds = time.monotonic() - started
        done = command("usage", "--by", "key", "--csv", cwd=tmp_path, **environ)
    assert statuses.keys() == {200, 429}
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(io.StringIO(done.stdout))

    most = LIMIT + int(seconds * LIMIT / 60)
    with capsys.disabled():
        print(f"\n{engine}: {dict(statuses)} in {seconds:.1f} s, at most {most}; ledger: {row['requests']}")
    assert LIMIT <= statuses[200] <= most
    assert int(row["requests"]) == statuses[200]


@pytest.mark.parametrize("engine", ["sqlite", "valkey"])
def test_a_credential_is_never_asked_for_more_than_its_day(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """500 requests at once, then as many as it takes until none is answered: all that was answered is within the
    budget, of which less than one reservation is left."""
    with running() as server:
        environ = shared(engine, tmp_path, server.url) | limited("tokens_per_day", BUDGET)
        with two_gateways(tmp_path, environ) as gateways:
            burst = anyio.run(ask, gateways)
            statuses = Counter(burst)
            while (more := anyio.run(ask, gateways, "sim:text", 20))[200]:
                statuses += more
        done = command("usage", "--by", "key", "--csv", cwd=tmp_path, **environ)
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    used = sum(int(float(amount)) for name, amount in row.items() if name and name.endswith("put_tokens") and amount)
    answered = statuses[200]
    with capsys.disabled():
        print(f"\n{engine}: {dict(burst)} at once; {used} of {BUDGET} tokens in {answered} answers")
    assert statuses.keys() == {200, 402}
    assert int(row["requests"]) == answered
    assert BUDGET - RESERVED <= used <= BUDGET


@pytest.mark.parametrize("engine", ["sqlite", "valkey"])
@pytest.mark.parametrize("owner", ["key", "group"])
def test_money_is_never_more_than_the_budget(
    engine: str, owner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `test_a_credential_is_never_asked_for_more_than_its_day`, of a key's and of a group's money of a month, at one
    unit of money a token: the sum of what the ledger has, counted and estimated, is within the budget to a
    reservation."""
    budget = {
        "key": {"KIRO_ASGI__KEYS__ALICE__COST_PER_MONTH": str(BUDGET)},
        "group": {"KIRO_ASGI__KEYS__ALICE__GROUP": "team", "KIRO_ASGI__GROUPS__TEAM__COST_PER_MONTH": str(BUDGET)},
    }[owner]
    with running() as server:
        environ = shared(engine, tmp_path, server.url) | budget
        environ |= {"KIRO_ASGI__PRICES__MODELS": "claude-*=1000000/1000000"}
        with two_gateways(tmp_path, environ) as gateways:
            burst = anyio.run(ask, gateways)
            statuses = Counter(burst)
            while (more := anyio.run(ask, gateways, "sim:text", 20))[200]:
                statuses += more
        done = command("usage", "--by", "key,group", "--csv", cwd=tmp_path, **environ)
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    spent = float(row["cost"]) + float(row["estimated_cost"])
    with capsys.disabled():
        print(f"\n{engine}, {owner}: {dict(burst)} at once; {spent} of {BUDGET} in {statuses[200]} answers")
    assert statuses.keys() == {200, 402}
    assert int(row["requests"]) == statuses[200]
    assert row["group"] == ("team" if owner == "group" else "")
    assert BUDGET - RESERVED <= spent <= BUDGET


@pytest.mark.parametrize("engine", ["sqlite", "valkey"])
def test_a_credential_has_no_more_answers_at_once(engine: str, tmp_path: Path) -> None:
    """Each stream takes longer than all requests take to come."""
    with running() as server:
        environ = shared(engine, tmp_path, server.url) | limited("streams", STREAMS)
        with two_gateways(tmp_path, environ) as gateways:
            statuses = [anyio.run(ask, gateways, "sim:count=40 sim:slow=0.25", 40) for _ in range(2)]
    assert statuses == [Counter({200: STREAMS, 429: 40 - STREAMS})] * 2, "their places are free again"
