"""The package itself, loaded by servers that the ordinary tests do not have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hosts.running import environment, started

COMMANDS = {
    "granian": (
        *("granian", "--interface", "asgi", "--log-level", "warning", "--host", "127.0.0.1", "--port", "{port}"),
        *("--factory", "kiro_asgi:create_app"),
    ),
    "gunicorn": (
        *("gunicorn", "--log-level", "warning", "--bind", "127.0.0.1:{port}"),
        *("--worker-class", "uvicorn_worker.UvicornWorker", "kiro_asgi:create_app()"),
    ),
    "daphne": ("daphne", "-b", "127.0.0.1", "-p", "{port}", "made:application"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_servers_run_the_package_itself(command: tuple[str, ...], tmp_path: Path) -> None:
    """Without an account; Daphne, which calls nothing, gets a module of one line."""
    (tmp_path / "made.py").write_text("from kiro_asgi import create_app\n\napplication = create_app()\n")
    environ = environment("http://canary.invalid", KIRO_ASGI__SIMULATE="true", PYTHONPATH=str(tmp_path))
    with started(command, environ, cwd=tmp_path) as server:
        ready = server.get("/ready", authorization="Bearer k")
        models = server.get("/v1/models", authorization="Bearer k")
        stranger = server.get("/v1/models")

    assert (ready.json()["ready"], ready.json()["degraded"]) == (True, ["simulated"])
    assert len(models.json()["data"]) > 10
    assert (stranger.status_code, json.loads(stranger.text)["error"]["code"]) == (401, "invalid_api_key")
