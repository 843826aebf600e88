"""R33 and R35: token files that several processes use, and that processes are killed over."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from kiro_asgi import simulator as simulators
from kiro_asgi.net.credentials.pool import Clocks
from tests.e2e.faults.renewing import SECONDS, credentials

POINTS = 100


@pytest.fixture
def simulator() -> Iterator[simulators.Simulator]:
    with simulators.running() as running:
        yield running


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token.json"
    path.write_text('{"accessToken": "aoaOld", "refreshToken": "aorOld", "expiresAt": "2020-01-01T00:00:00Z"}')
    path.chmod(0o600)
    return path


def start(what: str, token: Path, simulator: simulators.Simulator) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.e2e.faults.renewing", what, str(token), simulator.url]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def test_killed_at_any_point_no_token_is_lost(simulator, token):
    """R33: killed 100 times in the middle of renewing, the file is whole each time, and its token still renews.

    The service lets an old refresh token live until the new one is used.  So a process that used a new token before it
    was on disk would lose the sign-in here, and for good: nothing later would make up for it.
    """
    accounts, chance = simulator.accounts, random.Random(33)
    accounts.overlap = True
    with start("die", token, simulator) as parent:
        for _ in range(POINTS):
            before = accounts.refreshes
            print(file=parent.stdin, flush=True)
            child = int(parent.stdout.readline())
            assert simulator.wait_until(lambda before=before: accounts.refreshes > before, 10)
            time.sleep(chance.uniform(0, 0.01))
            os.kill(child, signal.SIGKILL)
            assert json.loads(token.read_bytes())["refreshToken"]
            assert token.stat().st_mode & 0o777 == 0o600
        parent.stdin.close()
    killed_in = accounts.refreshes

    later = Clocks(wall=lambda: time.time() + 10**7)
    credential = anyio.run(credentials(str(token), simulator.url, later).get)

    assert accounts.refreshes == killed_in + 1
    assert credential.secret == json.loads(token.read_bytes())["accessToken"]
    assert sorted(entry.name for entry in token.parent.iterdir()) == ["token.json", "token.json.lock"]


def test_two_processes_share_a_file(simulator, token):
    """R35: where each refresh token works once, two gateways with one file renew at most twice for each expiry, and
    both always have a token."""
    simulator.accounts.expires_in, life = 1, 0.5
    with start("use", token, simulator) as one, start("use", token, simulator) as other:
        results = [tuple(map(int, child.communicate(timeout=20)[0].split())) for child in (one, other)]

    assert [refused for _, refused in results] == [0, 0]
    assert all(served > 50 for served, _ in results)
    assert SECONDS / 2 < simulator.accounts.refreshes <= 2 * (1 + SECONDS / life)
    asked = [request for request in simulator.requests if request.operation == "RefreshToken"]
    assert len(asked) == simulator.accounts.refreshes
