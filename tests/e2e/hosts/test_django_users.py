"""Django's users, who may have to be looked up before anybody knows who they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import clean_environment

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_lazy_user_is_looked_up(loop: str, tmp_path: Path) -> None:
    """C06: whoever has a session is let in (and finds nothing at that id), a made-up session and none are 401; no
    connection to the database stays open, as none does after Django's own requests."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.hosts.django_users", loop],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stderr == ""
    assert json.loads(done.stdout) == {"statuses": [404, 401, 401], "open": 0}
