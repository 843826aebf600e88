"""gemini-cli and Google's SDK for JavaScript work with the gateway as the page on clients tells to set them up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi.simulator.answers import SENTENCE
from tests.clients.surroundings import KEY, Gateway, running

MODEL = "claude-sonnet-4.5"
SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"disableAutoUpdate": True},
    "privacy": {"usageStatisticsEnabled": False},
}
"""What gemini-cli asks its user on a terminal, and what it would tell others."""


SERVICES = {
    "kiro": MODEL,
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-4o",
    "gemini": "gemini/gemini-2.5-flash",
    "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
"""Service to what gemini-cli is told to ask.  Its requests have tools and ask for thoughts, so Gemini's are translated,
too: `kiro_asgi.asgi.exchange.passthrough`."""

SIMULATED = {
    "KIRO_ASGI__ROUTING__MODELS": "claude-*=kiro,gemini-*=kiro/claude-sonnet-4.5",
    "KIRO_ASGI__RETRY__ATTEMPTS": "1",
}
"""Where Google's own names go, as the page says; and nothing is tried again on the client's behalf."""

TOLD = "told.txt"
"""In the home: what gemini-cli wrote to standard error."""

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def served(secluded: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway for gemini-cli."""
    with running(tmp_path_factory.mktemp("served"), secluded=secluded, **SIMULATED) as found:
        yield found


@pytest.fixture
def gemini(served: Gateway, packages: Path, home: Path, project: Path) -> Ask:
    """Asks gemini-cli in *project*; what it reports."""
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))

    def ask(question: str, model: str = MODEL) -> Any:
        command = str(packages / "node_modules" / ".bin" / "gemini")
        output = served.run(
            "sh", "-c", f'exec "$@" 2>"$HOME/{TOLD}"', "sh",
            command, "-m", model, "-p", question, "--output-format", "json", "--skip-trust",
            folder=project, home=home, GOOGLE_GEMINI_BASE_URL=served.base, GEMINI_API_KEY=KEY,
        )  # fmt: skip
        return json.loads(output[output.index("{") :])

    return ask


def test_gemini_cli_gets_text(gemini: Ask) -> None:
    """One request, no errors, and counts of tokens."""
    report = gemini("sim:text")
    stats = report["stats"]["models"][MODEL]
    assert report["response"] == SENTENCE
    assert (stats["api"]["totalRequests"], stats["api"]["totalErrors"]) == (1, 0)
    assert stats["tokens"]["prompt"] > 0


@pytest.mark.parametrize("service", SERVICES)
def test_gemini_cli_runs_tools(gemini: Ask, service: str) -> None:
    """It runs the tool that was called, and its result leads to text, whoever answers."""
    report = gemini('sim:tool=list_directory {"dir_path": "."}', SERVICES[service])
    assert "notes.txt" in report["response"]
    assert (report["stats"]["tools"]["totalCalls"], report["stats"]["tools"]["totalFail"]) == (1, 0)
    api = report["stats"]["models"][SERVICES[service]]["api"]
    assert (api["totalRequests"], api["totalErrors"]) == (2, 0)


def test_gemini_cli_asks_its_utility_models(gemini: Ask) -> None:
    """Where no model is named, it asks a small one by a schema which to take: the names that it knows are routed."""
    report = gemini("What is a gateway?", "auto")
    roles = {role: stats["api"] for stats in report["stats"]["models"].values() for role in stats["roles"]}
    assert "What is a gateway?" in report["response"]
    assert {role: (api["totalRequests"], api["totalErrors"]) for role, api in roles.items()} == {
        "utility_router": (1, 0),
        "main": (1, 0),
    }


def test_gemini_cli_comes_back_when_it_is_told_to(gemini: Ask, home: Path) -> None:
    """It reads ``RetryInfo``, waits, and gets its answer."""
    report = gemini("sim:once-429-retry-after=1")
    api = report["stats"]["models"][MODEL]["api"]
    assert (api["totalRequests"], api["totalErrors"]) == (2, 1)
    assert "Suggested retry after 1s" in (home / TOLD).read_text()


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("sim:exception", "Encountered an unexpected error when processing the request"),
        ("sim:quota", "You have exhausted your daily quota on this model"),
    ],
)
def test_gemini_cli_says_what_went_wrong(
    question: str, words: str, served: Gateway, packages: Path, home: Path, project: Path
) -> None:
    """In the middle of an answer, in the gateway's words; of a spent quota, in its own."""
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
    told = served.run(
        "sh", "-c", '"$@" 2>&1; test $? != 0', "sh",
        str(packages / "node_modules" / ".bin" / "gemini"), "-m", MODEL, "-p", question, "--skip-trust",
        folder=project, home=home, GOOGLE_GEMINI_BASE_URL=served.base, GEMINI_API_KEY=KEY,
    )  # fmt: skip

    assert words in told
    assert "Incomplete JSON" not in told


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
