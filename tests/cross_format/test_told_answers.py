"""One API on both sides loses nothing of an answer: of each one that a tape holds, and that the simulator has.

Each object of it gets a member that nobody knows, and each member has to reach the client, or a notice names it,
however the client wants the answer.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from kiro_asgi import simulator
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.simulator.answers import ANSWERS, CHANGES
from kiro_asgi.tapes.format import read_tape
from tests.simulator.asking import call
from tests.simulator.speaking import HEADERS, REQUESTS, SCHEMA
from tests.upstreams.test_same_api import API, WAYS, Json, lost, received, with_members

TAPES: Final = sorted((Path(__file__).parents[1] / "tapes" / "corpus").glob("*.tape.jsonl*"))
PATHS: Final[Mapping[str, str]] = {
    "/v1/messages": "anthropic",
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    ":streamGenerateContent": "gemini",
}
"""What an address ends with, to the API that is spoken there."""

UNTOLD: Final = frozenset({"ping"})
"""Types of events that are about the connection: who is sent events has those of the gateway."""


def events_in(stream: bytes) -> list[Json]:
    """The objects of a stream; nothing where it is no stream of objects, or has an error."""
    lines = (line for line in stream.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data: {"))
    events = [json.loads(line[6:]) for line in lines]
    return [] if any("error" in (event.get("type"), *event) for event in events) else events


def on_tapes() -> Iterator[tuple[str, str, list[Json]]]:
    """Name, API and events of each answer of the corpus."""
    for path in TAPES:
        written = path.read_bytes()
        tape = read_tape([gzip.decompress(written) if path.suffix == ".gz" else written])
        for number, attempt in enumerate(tape.attempts):
            for answer in attempt.answers:
                url = answer.request.text("url").partition("?")[0]
                api = next((api for ending, api in PATHS.items() if url.endswith(ending)), "")
                if api and (events := events_in(b"".join(line.data for _, line in answer.reads))):
                    yield f"{path.name.partition('.')[0]}-{number}", api, events


ON_TAPES: Final = [pytest.param(api, events, id=name) for name, api, events in on_tapes()]


def reaches(api_name: str, events: list[Json], way: str) -> list[str]:
    """Members that do not reach the client; nothing of an answer that is none."""
    api, numbers = API[api_name], count(1)
    told = [event for event in events if event.get("type") not in UNTOLD]
    try:
        received(api, told, way)
    except KiroAsgiError:
        return []
    marked = [with_members(event, numbers) for event in told]
    found, notices = received(api, marked, way)
    return lost(json.dumps(marked).encode(), found, notices)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("api", "events"), ON_TAPES)
def test_nothing_of_an_answer_on_tape_is_lost(api: str, events: list[Json], way: str) -> None:
    """Of whichever client it was recorded."""
    assert reaches(api, events, way) == []


def test_the_apis_that_are_on_tapes() -> None:
    """Of any other the test above says nothing: of Responses the simulator's answers have to do."""
    assert {each.values[0] for each in ON_TAPES} == {*PATHS.values()} - {"openai_responses"}


def responses(text: str) -> tuple[str, Any]:
    """Target and document of a request."""
    tool = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}
    document = {"model": "gpt-5-pro", "input": [{"role": "user", "content": text}], "stream": True, "tools": [tool]}
    return "/v1/responses", {**document, "store": False}


FORMATS: Final[Mapping[str, tuple[str, Callable[[str], tuple[str, Any]], str]]] = {
    "anthropic": ("anthropic", REQUESTS["anthropic"], "anthropic"),
    "openai": ("openai_chat", REQUESTS["openai"], "openai"),
    "responses": ("openai_responses", responses, "openai"),
    "gemini": ("gemini", REQUESTS["gemini"], "gemini"),
}
"""Format to its API, a request, and whose headers it has."""

WITHHELD: Final = frozenset({"bad-tool-json", "cut-tool"})
"""Answers with a call that is withheld, and what it has with it."""

MARKERS: Final = (
    *(name for name in ANSWERS if name not in WITHHELD),
    *(f"text sim:{name}" for name in CHANGES if name != "unknown-event"),  # which `tests.upstreams.test_same_api` has
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with simulator.running() as service:
        yield service.url


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("form", FORMATS)
def test_nothing_of_an_answer_of_the_simulator_s_is_lost(form: str, marker: str, url: str) -> None:
    """Of each of its kinds, also of those that are in no order that anybody would expect."""
    api, request, headers = FORMATS[form]
    target, document = request(f"sim:{marker}")
    given: Any = call(url, target, document, headers=HEADERS[headers])
    for way in WAYS if given.status == 200 else ():
        if events := events_in(given.body):
            assert reaches(api, events, way) == []
