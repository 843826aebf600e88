"""Looking changes nothing: log, ledger, metrics and tapes hold what happened, whatever a viewer opens."""

from __future__ import annotations

import logging

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kiro_asgi import create_app
from kiro_asgi.asgi.kept.usage import usage_rows
from kiro_asgi.inspector.site import _VIEWS
from kiro_asgi.observers.prometheus import PrometheusObserver
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask
from tests.inspector.test_recordings import Viewer
from tests.inspector.test_site import ON, asked, signed_in
from tests.tapes.recording import services

pytestmark = pytest.mark.anyio

CALLS = ("Hello", "sim:tool", "sim:cut-tool", "sim:token-invalid", "sim:quota", "sim:overloaded", "sim:torn", "sim:odd")


def everything(registry, settings, folder):
    """All that is kept of calls, but in the inspector itself."""
    tapes = {path.name: path.read_bytes() for path in folder.rglob("*.tape.jsonl")}
    found = usage_rows(settings, "2000-01-01", "2999-12-31")
    rows = sorted((row.key.day, row.key.model, tuple(sorted(row.amounts.items()))) for row in found)
    return generate_latest(registry), rows, tapes


async def test_no_look_leaves_a_trace(sim, tmp_path, caplog):
    """Every view of every call, whatever became of it: no record of any level, no row, no count, no tape."""
    registry = CollectorRegistry()
    kept = {
        "inspector": {**ON, "content": "full"},
        "state": {"engine": "sqlite", "path": str(tmp_path / "state.sqlite"), "usage": True},
        "tapes": {"path": str(tmp_path / "tapes"), "when": "all"},
        **services(sim),
    }
    settings = settings_for(sim.url, kept)
    app = create_app(settings, observers=[PrometheusObserver(registry)])
    for question in CALLS:
        await ask("anthropic", question, stream=True).run(app)
    viewer = Viewer(app, await signed_in(app))
    await app.aclose()  # writes what waits to be written
    before = everything(registry, settings, tmp_path)
    calls = (await asked("/api/calls", cookie=viewer.cookie).run(app)).json()["calls"]
    assert len(before[1]) == 1 and len(before[2]) == len(calls) == len(CALLS)

    caplog.clear()
    with caplog.at_level(logging.DEBUG, "kiro_asgi"):
        for call in calls:
            for view in _VIEWS:
                await viewer.raw(view, call["id"], index=0, set="stream.heartbeat=1", calls="1,2", text="a")
                await viewer.raw(view, call["id"], index=0, calls="1,2", text="a")

    assert [record.getMessage() for record in caplog.records if record.name.startswith("kiro_asgi")] == []
    assert everything(registry, settings, tmp_path) == before
