"""Google's SDK for Python, strict as it is, and LangChain's class for the Gemini API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi.simulator.answers import SENTENCE
from tests.clients.conftest import ROOM
from tests.clients.surroundings import KEY, Gateway
from tests.installing import installed, room

SCRIPTS = Path(__file__).with_name("google")
GIVEN = {
    "key": KEY,
    "model": "claude-sonnet-4.5",
    "text": "sim:text",
    "call": "sim:tool=now {}",
    "broken": "sim:exception",
}
CALLED = "The tool says: noon"
VERSIONS = ("v1beta", "default")
"""The second is ``v1`` since 3.0."""


def asked(gateway: Gateway, requirements: str, script: str, home: Path) -> dict[str, Any]:
    """What came of every question of a script."""
    python = str(installed(SCRIPTS / requirements, room(ROOM)) / "python")
    given = json.dumps({**GIVEN, "base": gateway.base})
    output = gateway.run(python, str(SCRIPTS / script), folder=home, home=home, given=given)
    return {line["name"]: line for line in map(json.loads, output.splitlines())}


@pytest.fixture(scope="module")
def genai(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return asked(gateway, "requirements.txt", "with_genai.py", tmp_path_factory.mktemp("genai"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("collected", SENTENCE),
        ("streamed", [SENTENCE, "STOP", True]),
        ("awaited", [SENTENCE, SENTENCE]),
        ("counted", True),
        ("listed", True),
        ("chat", [CALLED, True]),
        ("streamed chat", [f"Let me check.{CALLED}", True]),
    ],
)
def test_answers(genai: dict[str, Any], version: str, question: str, value: Any) -> None:
    """As users see them; a chat keeps all of itself, which it does not where a piece is not to its liking."""
    assert genai[f"{version} {question}"].get("value") == value, genai[f"{version} {question}"]


@pytest.mark.parametrize("version", VERSIONS)
def test_errors(genai: dict[str, Any], version: str) -> None:
    """With status and word, before an answer and within one."""
    assert genai[f"{version} unknown"]["thrown"] == ["ClientError", 404, "NOT_FOUND"]
    assert genai[f"{version} broken"]["thrown"][0] == "ServerError"


@pytest.mark.parametrize("version", VERSIONS)
def test_embeddings_are_asked_for_elsewhere(genai: dict[str, Any], version: str) -> None:
    """A client of this API is told where."""
    refused = genai[f"{version} embedded"]
    assert refused["thrown"] == ["ServerError", 501, "UNIMPLEMENTED"]
    assert "ask for them there (embeddings, below /v1)" in refused["message"]


def test_langchain(gateway: Gateway, home: Path) -> None:
    """Text whole and in pieces, and an agent with a tool."""
    seen = asked(gateway, "langchain.txt", "with_langchain.py", home)
    values = {name: line["value"] for name, line in seen.items()}
    assert values == {"collected": SENTENCE, "streamed": SENTENCE, "agent": ["noon", CALLED]}
