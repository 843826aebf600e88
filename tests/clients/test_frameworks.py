"""LangChain, Pydantic AI and OpenAI's Agents SDK: agents with tools, structured output, streams, and their own retries.

Each asks through its class for each API, of a model of every service; where API and service fit, bytes go through.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import frozen

from kiro_asgi.simulator.answers import SENTENCE, THOUGHT
from tests.clients import surroundings
from tests.conformance.asking import MODEL
from tests.conformance.callers import FAILURES
from tests.conformance.gateways import EVERY_SERVICE, KEY, TRANSIENT_RETRIES, Gateway, watched

SCRIPTS: Final = Path(__file__).parent / "frameworks"
MODELS: Final = ("claude-sonnet-4.5", "openai/gpt-4o", "gemini/gemini-2.5-flash", "anthropic/claude-sonnet-4-5")
APIS: Final = ("chat", "responses", "messages")
OPENAI: Final = APIS[:2]
WAYS: Final = ("streamed", "collected")
FRAMEWORKS: Final = {"langchain": APIS, "pydantic_ai": APIS, "openai_agents": OPENAI}

ATTEMPTS: Final = 3
"""``retry.attempts`` where nobody says otherwise."""

NOWHERE: Final = "http://127.0.0.1:9"
"""No proxy, so that nothing leaves the machine."""

EVERYWHERE: Final[Mapping[str, Any]] = {
    f"{way} {question}": [results, text]
    for way in WAYS
    for question, results, text in (
        ("text", [], SENTENCE),
        ("tool", ["4 C in Bergen"], "The tool says: 4 C in Bergen"),
        ("parallel", ["4 C in Oslo", "4 C in Oslo 2"], "The tool says: 4 C in Oslo; 4 C in Oslo 2"),
    )
}
"""What the tools return, and the last text."""

THOUGHTFUL: Final = {"thinking": [["4 C in Oslo"], "The tool says: 4 C in Oslo", THOUGHT]}
HANDED_OVER: Final = ["Greeter", 'The tool says: {"assistant": "Greeter"}']
"""Who answered last, and what."""


def form(name: str) -> dict[str, Any]:
    """The form, as the simulated model fills it in."""
    return {"name": name, "population": 1, "sights": [name]}


DESCRIBED: Final = form("Describe Bergen.")
MADE_UP: Final = form("example")
"""Where there is a tool's result and no question."""

TOLD: Final = form("Describe Bergen. Answer in JSON by this schema:")


def _structured(value: Any, *ways: str) -> dict[str, Any]:
    return {f"structured {way}": value for way in ways}


LOOP: Final = [EVERYWHERE["collected tool"], EVERYWHERE["collected text"]]
KINDS: Final = ["message", "message", "function_call", "function_call_output", "message", "message", "message"]
"""Items of a conversation with that."""

ROWS: Final[tuple[tuple[str, tuple[str, ...], Mapping[str, Any]], ...]] = (
    *((framework, apis, EVERYWHERE) for framework, apis in FRAMEWORKS.items()),
    ("langchain", APIS, _structured(DESCRIBED, "function_calling", "json_schema", "stream", "ProviderStrategy")),
    ("langchain", APIS, _structured(MADE_UP, "ToolStrategy")),
    ("langchain", OPENAI, _structured(TOLD, "json_mode")),
    ("langchain", APIS[1:], THOUGHTFUL),
    ("pydantic_ai", APIS, _structured(DESCRIBED, "tool", "native", "prompted", "stream")),
    ("pydantic_ai", APIS, _structured(["4 C in Bergen", "Final result processed.", MADE_UP], "agent")),
    ("pydantic_ai", APIS, THOUGHTFUL),
    ("openai_agents", OPENAI, _structured(DESCRIBED, *WAYS)),
    (
        "openai_agents",
        OPENAI,
        {f"handoff {way}": ["Greeter", 'The tool says: {"assistant": "Greeter"}'] for way in WAYS},
    ),
    ("openai_agents", OPENAI, THOUGHTFUL),
    ("openai_agents", ("responses",), {"websocket": LOOP, "conversation": [LOOP, KINDS]}),
)
"""Framework, the APIs, and each question's result."""

EXPECTED: Final = {
    framework: {
        f"{model} {api} {question}": value
        for name, apis, questions in ROWS
        if name == framework
        for model in MODELS
        for api in apis
        for question, value in questions.items()
    }
    for framework in FRAMEWORKS
}


@frozen
class Reports:
    """What one framework reported."""

    results: Mapping[str, Any]
    """By question."""

    calls: Mapping[str, int]
    """Failed question to the calls that the service got for it."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose defaults hold, but for how long is waited between two tries."""
    settings = {**EVERY_SERVICE, **TRANSIENT_RETRIES, "KIRO_ASGI__STREAM__RELAY": "auto"}
    with watched(tmp_path_factory.mktemp("frameworks"), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def reports(served: Gateway, frameworks: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Reports]:
    """Run a framework's script, once."""
    known: dict[str, Reports] = {}

    def of(framework: str) -> Reports:
        if framework not in known:
            known[framework] = _run(served, frameworks, framework, tmp_path_factory.mktemp(framework))
        return known[framework]

    return of


def _run(served: Gateway, python: Path, framework: str, home: Path) -> Reports:
    given = {"base": served.base, "key": KEY, "models": MODELS, "failing": MODEL, "failures": FAILURES}
    output = surroundings.Gateway(served.base).run(
        str(python), str(SCRIPTS / f"with_{framework}.py"),
        folder=home, home=home, given=json.dumps(given),
        HTTP_PROXY=NOWHERE, HTTPS_PROXY=NOWHERE, NO_PROXY="127.0.0.1", PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    lines = map(json.loads, output.splitlines())
    calls = {
        f"{api} {way} {failure}": len(served.asked(f"sim:{failure} {api} {way} {framework}"))
        for api in FRAMEWORKS[framework]
        for way in WAYS
        for failure in FAILURES
    }
    return Reports({line.pop("name"): line for line in lines}, calls)


@pytest.mark.parametrize(
    ("framework", "question"), [(framework, question) for framework, rows in EXPECTED.items() for question in rows]
)
def test_what_it_makes_of_the_answer(reports: Callable[[str], Reports], framework: str, question: str) -> None:
    """Tools run and their results lead to text, forms are filled in, thinking goes along; whole and in pieces."""
    assert reports(framework).results[question] == {"value": EXPECTED[framework][question]}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_question_has_its_row(reports: Callable[[str], Reports], framework: str) -> None:
    """Nothing is asked whose result nobody looks at."""
    asked = reports(framework)

    assert asked.results.keys() == {*EXPECTED[framework], *asked.calls}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("framework", "api"), [(name, api) for name, apis in FRAMEWORKS.items() for api in apis])
def test_one_call_costs_no_more_than_the_gateways_tries(
    reports: Callable[[str], Reports], framework: str, api: str, way: str, failure: str
) -> None:
    """R41: a failure that stays is met as often as the gateway tries, whatever the framework and its SDK do then."""
    asked = reports(framework)

    assert "Exception" in asked.results[f"{api} {way} {failure}"]["raised"]["classes"]
    assert asked.calls[f"{api} {way} {failure}"] == ATTEMPTS
