"""Nothing that a client says is left out or changed without a note: each leaf of a request does something, or is named.

A leaf does something where the request without it, or with another value, is another one: to the service, to the
gateway, or in its notes.  Else a note of a rule that loses something must stand at its place, or above it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from kiro_asgi import Settings
from kiro_asgi.asgi.exchange.explain import GATEWAY_RULES, PLACEHOLDER, Choice, Upstreams
from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.unread import RULES as API_RULES
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.rules import Loss
from kiro_asgi.upstreams.manifest import all_of
from tests.corpus.entries import CORPUS, HERE, Entry

DIALECTS: dict[str, Dialect] = {
    "anthropic": AnthropicMessages(),
    "openai": OpenAIChat(),
    "responses": OpenAIResponses(),
}
ENTRIES = [entry for entry in CORPUS if entry.api in DIALECTS and (HERE / f"{entry.name}.json").exists()]
MODELS = {
    "kiro": "claude-sonnet-4.5",
    "contract": "claude-sonnet-4.5",
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-4o",
    "gemini": "gemini-2.5-flash",
}
SETTINGS = {
    "client": {"allow_anonymous": True},
    "kiro": {"api_key": "k", "conversation_salt": "s"},
    "anthropic": {"api_key": "k"},
    "openai": {"api_key": "k"},
    "gemini": {"api_key": "k"},
}
LOSSY = {
    rule.name
    for rules in (API_RULES, GATEWAY_RULES, *(each.make().rules for each in all_of(Settings())))
    for rule in rules
    if rule.loss is not Loss.NONE
}
CONVERSATION = "00000000-0000-4000-8000-000000000000"
SETTLED = re.compile(
    r"tool_calls\[\d+\]\.type$"  # which member is there says it
    r"|content\[\d+\]\.content\[\d+\]\.type$"  # the same
    r"|json_schema\.strict$"  # an answer is always held to its schema
    r"|\.\$schema$"  # what a schema is written in
    r"|cache_control\.(?:type|ttl)$"  # only Anthropic has such marks, and elsewhere nothing is lost
    r"|^tools\[\d+\]\.name$"  # a hosted tool has one name only
)
"""Leaves that say what is so anyway."""

_TOOL = re.compile(r"^((?:tools|functions)\[\d+\]).*")
"""Services have schemas in words of their own, so a note about a part of one is about its tool."""

MOST = 60
"""Leaves of one request that are tried; of more, a sample."""


@pytest.fixture(scope="module")
def choices() -> Mapping[str, Choice]:
    """Who is asked for what, offline."""
    native = Upstreams.create(Settings.from_mapping(SETTINGS))
    contract = Upstreams.create(Settings.from_mapping({**SETTINGS, "preset": "contract"}))
    names = {"contract": "kiro"}
    return {
        name: (contract if name == "contract" else native).choose(model, names.get(name, name))
        for name, model in MODELS.items()
    }


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of what is neither an object nor an array; a member or an item that is null or empty says nothing."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from leaves(part, (*path, at))
    elif value not in (None, ""):
        yield path


def changed(body: dict[str, Any], path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> dict[str, Any]:
    """*body* after *change* of what stands at *path*."""
    body = deepcopy(body)
    inner: Any = body
    for step in path[:-1]:
        inner = inner[step]
    change(inner, path[-1])
    return body


def remove(inner: Any, step: Any) -> None:
    """Leave it out."""
    del inner[step]


def replace(inner: Any, step: Any) -> None:
    """Say something else of its type."""
    value = inner[step]
    inner[step] = not value if isinstance(value, bool) else value + "x" if isinstance(value, str) else value / 2 + 1


def place_of(path: tuple[Any, ...]) -> str:
    """The path as notes write places."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def effect(dialect: Dialect, body: dict[str, Any], choice: Choice) -> Any:
    """All that follows from a request; text where it is refused."""
    data = json.dumps(body).encode()
    provider: Provider = choice.provider
    try:
        parsed = dialect.parse(data)
        prompt, left_out = provider.adapted(parsed.prompt, choice.name, choice.model, provider.asking(choice.model))
        put = provider.setup.upstream.render(prompt, choice.model, PLACEHOLDER, CONVERSATION)
    except KiroAsgiError as error:
        return error.message
    notes = (*dialect.notes(data, parsed), *left_out, *put.notes)
    hosted = [tool.options for tool in prompt.tools]
    kept = (prompt.tool_choice, prompt.schema, prompt.thinking, prompt.session, hosted, put.stop, put.max_tokens)
    return put.request.body, put.tool_names, parsed.stream, parsed.options, kept, notes


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every place at which a rule loses something: a note itself holds the first of them only."""
    places: set[str] = set()
    applies = Notes.applies

    def seen(notes: Notes, rule: str, place: str = "", times: int = 1, kept_for: str = "") -> bool:
        done = applies(notes, rule, place, times, kept_for)
        if done and rule in LOSSY:
            places.add(place)
        return done

    monkeypatch.setattr(Notes, "applies", seen)
    return places


def silent(entry: Entry, choice: Choice, lost: set[str]) -> list[str]:
    """Leaves of a request that do nothing and that no note is about."""
    dialect = DIALECTS[entry.api]
    whole = effect(dialect, entry.body, choice)
    if isinstance(whole, str):
        return []  # refused: the client is told
    places, paths = tuple(_TOOL.sub(r"\1", place) for place in lost if place), [*leaves(entry.body)]
    return [
        place_of(path)
        for path in paths[:: max(1, len(paths) // MOST)]
        if not place_of(path).startswith(places)
        and not SETTLED.search(place_of(path))
        and all(effect(dialect, changed(entry.body, path, change), choice) == whole for change in (remove, replace))
    ]


@pytest.mark.parametrize("service", MODELS)
@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in ENTRIES])
def test_nothing_is_left_out_silently(
    entry: Entry, service: str, choices: Mapping[str, Choice], lost: set[str]
) -> None:
    """Issue 11, 24: in front of each service, in each API, under each preset."""
    assert silent(entry, choices[service], lost) == []
