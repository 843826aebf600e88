"""Words that an API may gain: services of the API are sent them as they are, others what is certain of them.

The client is told in a note, and never refused: whoever knows the word is the service.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from kiro_asgi.model.prompt import ThinkingMode
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import ModelCard, Upstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream, ResponsesUpstream
from tests.cross_format.test_handling import BODIES, MODEL, NOVA, asked, bedrock, prompt

SERVICES: Final[Mapping[str, tuple[Callable[[], Upstream], ModelCard]]] = {
    "chat": (OpenAIUpstream, MODEL),
    "responses": (ResponsesUpstream, MODEL),
    "messages": (AnthropicUpstream, MODEL),
    "gemini": (GeminiUpstream, MODEL),
    "converse": (bedrock, NOVA),
    "kiro": (KiroUpstream, MODEL),
}
UNKNOWN: Final = "galactic"
WORDS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("chat", "reasoning_effort", {"reasoning_effort": UNKNOWN}),
    ("chat", "reasoning.effort", {"reasoning": {"effort": UNKNOWN, "max_tokens": 2000}}),
    ("responses", "reasoning.effort", {"reasoning": {"effort": UNKNOWN}}),
    ("responses", "reasoning.summary", {"reasoning": {"effort": "low", "summary": UNKNOWN}}),
    ("responses", "truncation", {"truncation": UNKNOWN}),
    ("messages", "output_config.effort", {"output_config": {"effort": UNKNOWN}}),
    (
        "gemini",
        "generation_config.thinking_config.thinking_level",
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": UNKNOWN, "includeThoughts": True}}},
    ),
)
"""Each field of each API that has such words, with the place that is noted."""

EACH: Final = pytest.mark.parametrize(("api", "place", "said"), WORDS, ids=lambda each: each if each is str else None)


def leaf(value: Any, place: str) -> Any:
    """What stands at a place, in either spelling."""
    for name in place.split("."):
        first, *rest = name.split("_")
        value = value.get(name, value.get(first + "".join(map(str.title, rest))))
    return value


@EACH
@pytest.mark.parametrize("service", SERVICES)
def test_an_unknown_word_is_a_state(api: str, place: str, said: dict[str, Any], service: str) -> None:
    """No service of another API is sent it; each can be asked."""
    make, model = SERVICES[service]
    document = asked(make(), prompt(api, **said), model).document

    if service == api:
        assert leaf(document, place) == UNKNOWN
    else:
        assert UNKNOWN not in json.dumps(document)


@EACH
def test_it_is_noted(api: str, place: str, said: dict[str, Any]) -> None:
    """Where it stands, and that it is sent to services of the API alone."""
    dialect, body = BODIES[api]
    written = json.dumps({**body, **said}).encode()

    found = [note for note in dialect.notes(written, dialect.parse(written)) if note.rule == "values.unknown"]
    assert [note.place for note in found] == [place]


@pytest.mark.parametrize(
    ("api", "place", "said"), [row for row in WORDS if "summary" not in row[1] and row[0] != "messages"]
)
def test_an_effort_of_which_it_is_not_known_how_much_it_is(api: str, place: str, said: dict[str, Any]) -> None:
    """The model thinks, as much as it does by itself."""
    thinking = prompt(api, **said).thinking
    expected = ThinkingMode.DEFAULT if place == "truncation" else ThinkingMode.ADAPTIVE

    assert (thinking.mode, thinking.effort) == (expected, "")
