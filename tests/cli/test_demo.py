"""``kiro-asgi demo``: one command, both ends, every API."""

from __future__ import annotations

from pathlib import Path

import pytest

from kiro_asgi.cli.demo import APIS
from tests.cli.processes import command, sse_names


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_shows_a_stream_of_each_api(loop: str, tmp_path: Path) -> None:
    """It needs no settings, shows names and texts of the events as they come, and ends with 0."""
    done = command("demo", "--loop", loop, "--question", "sim:count=3", cwd=tmp_path)
    lines = done.stdout.splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in lines if " POST " in line] == [f"{api.title}: POST {api.path}" for api in APIS]
    assert [line for line in lines if line.startswith("  =")] == ["  = 1 2 3 "] * len(APIS)
    assert sse_names(lines).count("message_stop") == 1


def test_every_upstream_is_simulated(tmp_path: Path) -> None:
    """A model of another upstream answers through the same APIs."""
    done = command("demo", "--model", "gemini/gemini-2.5-flash", "--question", "sim:count=3", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if line.startswith("  =")] == ["  = 1 2 3 "] * len(APIS)


def test_an_api_without_an_answer_is_a_failure(tmp_path: Path) -> None:
    """The status tells a script whether it worked."""
    done = command("demo", "--question", "sim:bad-request", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stdout.count("no answer text") == len(APIS)


def test_settings_of_the_environment_do_not_matter(tmp_path: Path) -> None:
    """A demonstration never asks the real service."""
    done = command("demo", cwd=tmp_path, KIRO_API_KEY="ksk_canary", KIRO_ASGI__KIRO__REGION="nowhere")

    assert done.returncode == 0
    assert "canary" not in done.stdout
