"""A copy of the state that is made while a gateway runs, as the page on deployment has it, brings everything back."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import anyio
import pytest

from kiro_asgi import create_app
from kiro_asgi.simulator import Simulator, running
from kiro_asgi.state.sqlite import SqliteStore
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "deployment.rst"


async def asked(app, **more) -> Exchange:
    return await post("/v1/responses", {"model": "claude-sonnet-4.5", "input": "sim:echo", **more}).run(app)


async def test_a_copy_of_a_running_gateway_brings_its_state_back(tmp_path):
    """What was stored before the copy is there after it was restored, and what came later is not."""
    (line,) = re.findall(r'python3 -c "(.*)"', PAGE.read_text())
    with running() as sim:
        store = SqliteStore(tmp_path / "state.db")
        before = create_app(settings(sim, tmp_path), store=store)
        kept = (await asked(before)).json()["id"]
        assert await store.flush(), "what was not written yet"
        await anyio.run_process([sys.executable, "-c", line], cwd=tmp_path)
        later = (await asked(before)).json()["id"]
        await before.aclose()
        for path in tmp_path.glob("state.db*"):
            path.unlink()
        shutil.move(tmp_path / "backup.db", tmp_path / "state.db")
        after = create_app(settings(sim, tmp_path))
        found, lost = [await asked(after, previous_response_id=each) for each in (kept, later)]
        await after.aclose()

    assert (found.status, lost.status) == (200, 400)


def settings(sim: Simulator, folder: Path):
    return settings_for(sim.url, {"state": {"engine": "sqlite", "path": str(folder / "state.db")}})
