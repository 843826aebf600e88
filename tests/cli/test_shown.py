"""What the pages show of ``login`` and ``doctor`` is what they print."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kiro_asgi import simulator
from kiro_asgi.net.credentials.sources import write_private
from kiro_asgi.simulator import PROFILE_ARN, Simulator
from kiro_asgi.upstreams.base import Token
from kiro_asgi.upstreams.kiro.tokens import render_token
from tests.cli.processes import command

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
VARYING = (
    (r"127\.0\.0\.1:\d+", "127.0.0.1:9999"),
    (r"\d+ ms", "1 ms"),
    (r"59 min \d+ s", "59 min 58 s"),
    (r"1 h \d+ s ago", "1 h ago"),
    (r"after \d+\.\d+ s", "after 0.01 s"),
)
"""What differs from run to run, and what the pages have in its place."""


def shown(page: str) -> list[list[str]]:
    """The outputs on a page, line by line."""
    text = (PAGES / page).read_text("utf-8")
    blocks = re.findall(r"^\.\. code-block:: text\n   :caption: .*\n\n((?:\n|   .*\n)+)", text, re.MULTILINE)
    return [[line[3:] for line in block.rstrip("\n").splitlines()] for block in blocks]


def printed(output: str, home: Path) -> list[str]:
    """An output as a page would show it."""
    output = output.replace(str(home), "/home/you")
    for pattern, instead in VARYING:
        output = re.sub(pattern, instead, output)
    return output.splitlines()


def signed_in(left: float) -> bytes:
    """A token file as ``login --provider google`` writes it; *left* in seconds."""
    return render_token(Token("aoa", "aor", time.time() + left, region="us-east-1", profile_arn=PROFILE_ARN), "Google")


def several(url: str) -> dict[str, str]:
    """Settings of two upstreams, none of them Kiro; nobody listens where one of them should."""
    return {
        "KIRO_ASGI__CLIENT__API_KEYS": "key",
        "KIRO_ASGI__GEMINI__ENDPOINT": url,
        "KIRO_ASGI__GEMINI__API_KEY": "goo-1",
        "KIRO_ASGI__GEMINI__FALLBACK_API_KEYS": "goo-2,goo-3",
        "KIRO_ASGI__CUSTOM__OLLAMA__ENDPOINT": "http://127.0.0.1:9/v1",
        "HTTPS_PROXY": "",
        "HTTP_PROXY": "",
    }


@pytest.fixture
def service() -> Iterator[Simulator]:
    with simulator.running() as running:
        running.accounts.devices.interval = 0.02
        yield running


def test_outputs_on_the_pages_are_real(service: Simulator, tmp_path: Path) -> None:
    """Whoever follows the pages sees what they show, ports and times apart."""
    endpoints = {"KIRO_ASGI__KIRO__ENDPOINT": service.url, "KIRO_ASGI__KIRO__AUTH_ENDPOINT": service.url}
    file = tmp_path / "credentials.json"
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": ""}
    login = command("login", "--no-browser", cwd=tmp_path, **endpoints, **home)
    write_private(file, signed_in(3600))
    named = {"KIRO_ASGI__KIRO__CREDENTIALS_FILE": str(file), "KIRO_ASGI__CLIENT__API_KEYS": "key"}
    asked = {**endpoints, **named, "HTTPS_PROXY": "", "HTTP_PROXY": ""}
    good = command("doctor", cwd=tmp_path, **asked)
    file.write_bytes(signed_in(-3600))
    file.chmod(0o644)
    service.accounts.refresh_answer = simulator.json_answer(
        400, {"error": "invalid_grant", "error_description": "Invalid refresh token provided"}
    )
    broken = command("doctor", cwd=tmp_path, **asked)
    others = command("doctor", cwd=tmp_path, **several(service.url))
    (signing_in,) = shown("sign-in.rst")

    assert [it.returncode for it in (login, good, broken, others)] == [0, 0, 1, 1]
    assert [line for line in printed(login.stdout, tmp_path) if "AUTH_ENDPOINT" not in line] == signing_in
    assert [printed(it.stdout, tmp_path) for it in (good, broken, others)] == shown("doctor.rst")
