"""Codex signed in with ChatGPT, at the simulated service; and the gateway with the same sign-in, from every API."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import serving
from tests.clients.surroundings import KEY, SECLUDED, Gateway
from tests.codex_files import jwt, signed_in, write

MODEL = "gpt-5.2"
CONFIG = """
cli_auth_credentials_store = "file"
chatgpt_base_url = "{url}/backend-api"
model_provider = "simulated"

[model_providers.simulated]
name = "Simulated"
base_url = "{url}/backend-api/codex"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = false
"""

ASK = """
import sys, urllib.request
url, key, body = sys.argv[1:]
headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
print(urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers), timeout=60).read().decode())
"""
MESSAGES = [{"role": "user", "content": "Count to 3"}]
CONTENTS = [{"role": "user", "parts": [{"text": "Count to 3"}]}]
STREAMED, WHOLE = (
    f"/v1beta/models/openai/{MODEL}:{how}" for how in ("streamGenerateContent?alt=sse", "generateContent")
)
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    *(("/v1/chat/completions", {"messages": MESSAGES, "stream": stream}) for stream in (True, False)),
    *(("/v1/responses", {"input": MESSAGES, "stream": stream}) for stream in (True, False)),
    *(("/v1/messages", {"messages": MESSAGES, "max_tokens": 99, "stream": stream}) for stream in (True, False)),
    *((path, {"contents": CONTENTS}) for path in (STREAMED, WHOLE)),
]


@pytest.fixture
def service(secluded: bool) -> Iterator[Gateway]:
    """The simulator, where nothing else can be reached."""
    command = [
        *(SECLUDED if secluded else ()),
        sys.executable,
        "-m",
        "kiro_asgi.simulator",
        "--port",
        "0",
        "--pace",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            target = f"--target={process.pid}"
            enter = ("nsenter", target, "--user", "--net", "--preserve-credentials") if secluded else ()
            yield Gateway(process.stdout.readline().strip(), enter)
        finally:
            process.kill()


def test_signed_in(service: Gateway, packages: Path, home: Path, project: Path, tmp_path: Path) -> None:
    """The command's own request is what the simulated service takes; the gateway uses the file, and leaves it alone."""
    settings = home / ".codex"
    settings.mkdir()
    (settings / "config.toml").write_text(CONFIG.format(url=service.base))
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    file = write(settings / "auth.json", {**signed_in(jwt()), "last_refresh": now})
    before = file.read_bytes()

    command = str(packages / "node_modules" / ".bin" / "codex")
    options = ("exec", "--json", "--skip-git-repo-check", "--model", MODEL, "sim:text")
    output = service.run(command, *options, folder=project, home=home, CODEX_HOME=str(settings))
    items = [it["item"] for it in map(json.loads, output.splitlines()) if it["type"] == "item.completed"]
    assert items[-1]["text"] == "This is a simulated answer, and it is streamed in small pieces."

    openai = {"CREDENTIALS_FILE": str(file), "ENDPOINT": f"{service.base}/backend-api/codex"}
    environ = {
        "KIRO_ASGI__CLIENT__API_KEYS": KEY,
        **{f"KIRO_ASGI__OPENAI__{name}": value for name, value in openai.items()},
    }
    with serving(cwd=tmp_path, within=service.enter, **environ) as gateway:
        for path, body in REQUESTS:
            sent = json.dumps({"model": f"openai/{MODEL}", **body})
            answer = service.run(sys.executable, "-c", ASK, gateway.base + path, KEY, sent, folder=project, home=home)
            assert "3" in answer
    assert file.read_bytes() == before
