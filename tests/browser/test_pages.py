"""What pages can do with a gateway of another origin."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.processes import serving

ALLOWED_HOST: Final = "127.0.0.1"
FOREIGN_HOST: Final = "localhost"
"""The same pages under another name, which is another origin."""

Report = dict[str, dict[str, Any]]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def port(scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port at which the page is."""
    folder = tmp_path_factory.mktemp("pages")
    bundler = scripts.parent / "node_modules" / ".bin" / "esbuild"
    command = [
        str(bundler),
        str(scripts / "page.mjs"),
        "--bundle",
        f"--outfile={folder / 'page.js'}",
        "--log-level=error",
    ]
    subprocess.run([*command, "--format=esm", "--keep-names"], check=True, timeout=120)
    (folder / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><script type="module" src="page.js"></script>'
    )
    with ThreadingHTTPServer((ALLOWED_HOST, 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def reports(browser: str, scripts: Path, port: int, tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Report]:
    """What the page saw: as one of an origin that is allowed, and of one that is not."""
    environ = {
        "KIRO_ASGI__CORS__ORIGINS": f"http://{ALLOWED_HOST}:{port}",
        "KIRO_ASGI__CLIENT__API_KEYS": "k",
        "KIRO_ASGI__LIMITS__BODY_BYTES": "30000",
        "KIRO_ASGI__RETRY__ATTEMPTS": "1",
    }
    with serving("--simulate", cwd=tmp_path_factory.mktemp("gateway"), **environ) as server:
        urls = [f"http://{host}:{port}/?gateway={server.base}" for host in (ALLOWED_HOST, FOREIGN_HOST)]
        command = ["node", str(scripts / "drive.mjs"), browser, *urls]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    allowed, foreign = json.loads(done.stdout)
    return allowed, foreign


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_a_page_streams(api, reports):
    """Text arrives piece by piece in the page, by both SDKs and in all three APIs."""
    pieces = reports[0][api]["value"]

    assert len(pieces) > 2
    assert pieces[-1]["at"] - pieces[0]["at"] > 50, pieces


def test_a_page_uses_other_methods_and_reads_headers(reports):
    """``DELETE`` is preflighted by its own, and a request's id can be read."""
    seen = reports[0]

    assert seen["collected"]["value"].startswith("req_")
    assert seen["deleted"]["value"].startswith("resp_")
    assert seen["models"]["value"] > 1


@pytest.mark.parametrize(
    ("question", "error", "status"),
    [
        ("wrong key", "AuthenticationError", 401),
        ("wrong key, messages", "AuthenticationError", 401),
        ("too long", "APIError", 413),
        ("rate limit", "RateLimitError", 429),
    ],
)
def test_a_page_reads_errors(question, error, status, reports):
    """An error is the SDK's own, with status, id and advice; not a connection that failed."""
    seen = reports[0][question]

    assert seen["status"] == status
    assert seen["error"] == error
    assert seen["id"].startswith("req_")


def test_a_page_of_another_origin_learns_nothing(reports):
    """The same page under another name: its browser shows it no answer at all."""
    assert {seen.get("error") for seen in reports[1].values()} == {"APIConnectionError"}
