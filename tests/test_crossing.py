"""What crosses from each client API to each service, as the page *What carries what* has it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi import Settings
from kiro_asgi.asgi.exchange.explain import PLACEHOLDER, Choice, Upstreams
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.gemini.dialect import GeminiApi
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.model.notes import holding

TABLE = tomllib.loads((Path(__file__).parent.parent / "docs" / "reference" / "crossing.toml").read_text("utf-8"))
MEMBERS: Mapping[str, Mapping[str, Any]] = TABLE["members"]

SAID = "Name three fjords."
APIS: Mapping[str, tuple[Dialect, dict[str, Any]]] = {
    "messages": (
        AnthropicMessages(),
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": SAID}]},
    ),
    "chat": (OpenAIChat(), {"model": "m", "messages": [{"role": "user", "content": SAID}]}),
    "responses": (OpenAIResponses(), {"model": "m", "input": [{"role": "user", "content": SAID}]}),
    "gemini": (GeminiApi("m"), {"contents": [{"role": "user", "parts": [{"text": SAID}]}]}),
}
SERVICES = {
    "kiro": ("kiro", "claude-sonnet-4.5"),
    "anthropic": ("anthropic", "claude-opus-4-6"),
    "openai": ("openai", "gpt-5.2"),
    "openai-responses": ("openai", "gpt-5.2-pro"),
    "gemini": ("gemini", "gemini-2.5-pro"),
    "bedrock": ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    "converse": ("bedrock", "amazon.nova-pro-v1:0"),
}
SETTINGS = {
    "client": {"allow_anonymous": True},
    "kiro": {"api_key": "k", "conversation_salt": "s"},
    "bedrock": {"api_key": "k", "region": "eu-central-1"},
    **{name: {"api_key": "k"} for name in ("anthropic", "openai", "gemini")},
}
CONVERSATION = "00000000-0000-4000-8000-000000000000"

TOLD = "the conversation"
"""Where the words stand among others."""

NOTHING = "–"
"""Where a service has no field, and nothing is lost by that."""

CELLS = [
    pytest.param(member, api, service, id=f"{member}-{api}-{service}")
    for member, row in MEMBERS.items()
    for api in row["clients"]
    for service in SERVICES
]


@pytest.fixture(scope="module")
def upstreams() -> Upstreams:
    """Services, offline."""
    return Upstreams.create(Settings.from_mapping(SETTINGS))


def asked(api: str, said: Mapping[str, Any], choice: Choice) -> tuple[Any, set[str]]:
    """What a service is asked, and the names of the rules that notes name."""
    dialect, base = APIS[api]
    body = json.dumps({**base, **said}).encode()
    parsed = dialect.parse(body)
    upstream = choice.provider.asking(choice.model)
    prompt, left_out = choice.provider.adapted(parsed.prompt, choice.name, choice.model, upstream)
    conversation = CONVERSATION if parsed.prompt.session else ""
    put = upstream.render(prompt, choice.model, PLACEHOLDER, conversation)
    notes = (*dialect.notes(body, parsed), *left_out, *put.notes)
    headers = {f"header {name.decode()}": value.decode() for name, value in put.request.headers}
    rules = {note.rule for note in holding(notes, upstream.traits.api)}
    return {**put.document, **headers}, rules


def at(document: Any, place: str) -> Any:
    """What stands at *place*, such as ``tools[0].strict``; ``None`` where nothing does."""
    for step in (place,) if place.startswith("header ") else re.findall(r"[^.\[\]]+", place):
        try:
            document = document[int(step) if isinstance(document, list) else step]
        except (KeyError, IndexError, TypeError):
            return None
    return document


@pytest.mark.parametrize(("member", "api", "service"), CELLS)
def test_it_crosses_or_a_rule_says_why_not(member: str, api: str, service: str, upstreams: Upstreams) -> None:
    """The service is asked for it at the place of the table, and only where the client has said it; or a note names
    the rule."""
    row = MEMBERS[member]
    upstream, model = SERVICES[service]
    choice = upstreams.choose(model, upstream)
    where, without = row["services"][service], json.loads(row.get("without", {}).get(api, "{}"))
    given, rules = asked(api, json.loads(row["clients"][api]), choice)
    plain, _ = asked(api, without, choice)

    if where in row["rules"]:
        of_its_api = APIS[api][0].name == choice.provider.asking(choice.model).traits.api
        assert where in rules or (of_its_api and given != plain)  # what is sent as it came needs no words
    elif where == TOLD:
        assert row["find"] in json.dumps(given) and row["find"] not in json.dumps(plain)
    elif where != NOTHING:
        assert at(given, where) not in (None, at(plain, where))


def test_every_service_has_its_cell() -> None:
    """And no API is misspelt."""
    for row in MEMBERS.values():
        assert [*row["services"]] == [*SERVICES]
        assert row["clients"].keys() == row["said"].keys() <= APIS.keys()
        assert {*row["rules"]} <= {*row["services"].values()}
