"""gemini-cli and Google's SDK for JavaScript work with the gateway as the page on clients tells to set them up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi.simulator.answers import SENTENCE
from tests.clients.surroundings import KEY, Gateway

MODEL = "claude-sonnet-4.5"
SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"disableAutoUpdate": True},
    "privacy": {"usageStatisticsEnabled": False},
}
"""What gemini-cli asks its user on a terminal, and what it would tell others."""


@pytest.fixture
def gemini(gateway: Gateway, packages: Path, home: Path, project: Path) -> Any:
    """Asks gemini-cli in *project*; what it reports."""
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))

    def ask(question: str, *options: str) -> Any:
        command = str(packages / "node_modules" / ".bin" / "gemini")
        output = gateway.run(
            command, "-m", MODEL, "-p", question, "--output-format", "json", "--skip-trust", *options,
            folder=project, home=home, GOOGLE_GEMINI_BASE_URL=gateway.base, GEMINI_API_KEY=KEY,
        )  # fmt: skip
        return json.loads(output[output.index("{") :])

    return ask


def test_gemini_cli_gets_text(gemini: Any) -> None:
    """One request, no errors, and counts of tokens."""
    report = gemini("sim:text")
    stats = report["stats"]["models"][MODEL]
    assert report["response"] == SENTENCE
    assert (stats["api"]["totalRequests"], stats["api"]["totalErrors"]) == (1, 0)
    assert stats["tokens"]["prompt"] > 0


def test_gemini_cli_runs_tools(gemini: Any) -> None:
    """It runs the tool that was called, and its result leads to text."""
    report = gemini('sim:tool=list_directory {"dir_path": "."}')
    assert "notes.txt" in report["response"]
    assert (report["stats"]["tools"]["totalCalls"], report["stats"]["tools"]["totalFail"]) == (1, 0)
    assert report["stats"]["models"][MODEL]["api"]["totalErrors"] == 0


@pytest.fixture(scope="module")
def reports(gateway: Gateway, scripts: Path) -> dict[str, Any]:
    """What came of every question to the SDK."""
    shutil.copy(Path(__file__).with_name("gemini.mjs"), scripts)
    given = {
        "base": gateway.base,
        "key": KEY,
        "model": MODEL,
        "text": "sim:text",
        "call": "sim:tool=now {}",
        "broken": "sim:exception",
    }
    output = gateway.run("node", "gemini.mjs", folder=scripts, home=scripts, given=json.dumps(given))
    return {line["name"]: line for line in map(json.loads, output.splitlines())}


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("collected", SENTENCE),
        ("streamed", [SENTENCE, "STOP", True]),
        ("counted", True),
        ("listed", True),
        ("called", [["now"], "The tool says: noon"]),
    ],
)
def test_the_sdk_for_javascript_sees_answers(reports: dict[str, Any], question: str, value: Any) -> None:
    """As its users see them."""
    assert reports[question].get("thrown") is None, reports[question]
    assert reports[question]["value"] == value


@pytest.mark.parametrize(("question", "status"), [("broken", None), ("unknown", 404)])
def test_the_sdk_for_javascript_sees_errors(reports: dict[str, Any], question: str, status: int | None) -> None:
    """Before an answer with the status, and within one at all."""
    thrown = reports[question]["thrown"]
    assert thrown["name"] == "ApiError"
    assert status is None or thrown["status"] == status
