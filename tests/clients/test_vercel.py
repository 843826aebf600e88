"""The Vercel AI SDK gets text, tools and thinking through every provider that speaks one of our APIs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi.simulator.answers import SENTENCE, THOUGHT
from tests.clients.surroundings import KEY, Gateway
from tests.conformance.node import SOURCES, Seen

MODEL = "claude-sonnet-4.5"
CALL = 'sim:tool=get_weather {"city": "Bergen"}'
PROVIDERS = ("responses", "unstored", "chat", "messages")
WAYS = ("streamed", "whole")
FAILURE = "Encountered an unexpected error when processing the request"
"""What the simulated service says where it breaks off."""

Reports = dict[str, Seen]


@pytest.fixture(scope="module")
def reports(gateway: Gateway, scripts: Path) -> Reports:
    """What came of every question."""
    for source in (Path(__file__).with_name("vercel.mjs"), SOURCES / "report.mjs"):
        shutil.copy(source, scripts)
    given = json.dumps({"base": gateway.base, "key": KEY, "model": MODEL, "call": CALL})
    output = gateway.run("node", "vercel.mjs", folder=scripts, home=scripts, given=given)
    lines = [json.loads(line) for line in output.splitlines()]
    return {line.pop("name"): Seen(**line) for line in lines}


def value(reports: Reports, name: str) -> Any:
    """What came of one question that had an answer."""
    assert reports[name].thrown is None, reports[name].thrown
    return reports[name].value


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_text(reports: Reports, provider: str, way: str) -> None:
    """The text arrives whole, with the reason of its end and the counts of tokens."""
    (step,) = value(reports, f"{provider} {way} text")

    assert (step["text"], step["finish"], step["calls"]) == (SENTENCE, "stop", [])
    assert min(step["tokens"]) > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_tools_over_two_turns(reports: Reports, provider: str, way: str) -> None:
    """It runs the tool that was called, and its result leads to text; what was stored is known by its id."""
    first, second = value(reports, f"{provider} {way} tools")

    assert (first["text"], first["finish"]) == ("Let me check.", "tool-calls")
    assert first["calls"] == [["get_weather", {"city": "Bergen"}]]
    assert (second["text"], second["finish"]) == ("The tool says: 4 C in Bergen", "stop")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_thinking(reports: Reports, provider: str, way: str) -> None:
    """Thinking is apart from the text, where the provider knows such a thing."""
    (step,) = value(reports, f"{provider} {way} thinking")

    assert (step["text"], step["reasoning"]) == (SENTENCE, None if provider == "chat" else THOUGHT)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refusal_is_an_error(reports: Reports, provider: str, way: str) -> None:
    """What cannot be answered is thrown, with the gateway's words."""
    thrown = reports[f"{provider} {way} refused"].thrown

    assert thrown
    assert thrown["name"] == "APICallError"
    assert "no-such-model" in thrown["message"]


@pytest.mark.parametrize("provider", [*PROVIDERS, "completion"])
def test_a_broken_answer_is_an_error(reports: Reports, provider: str) -> None:
    """An answer that breaks off is not taken for a whole one, and its user reads why."""
    thrown = reports[f"{provider} streamed broken"].thrown

    assert thrown
    assert FAILURE in thrown["message"]
