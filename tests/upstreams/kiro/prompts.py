"""Prompts for tests: short ways to write one down, and strategies that draw whatever a client may send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from kiro_asgi.model.prompt import (
    Document,
    Image,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
    Turn,
)
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.upstreams.kiro.models import FALLBACK, find
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream

ARN = "arn:aws:codewhisperer:us-east-1:123456789012:profile/EXAMPLE"
TOKEN = Credential(CredentialKind.ACCESS_TOKEN, "secret-token", ARN)
PLAIN = ModelCard("claude-sonnet-4")
NATIVE = find("claude-opus-4.8", FALLBACK) or PLAIN
GPT = find("gpt-5.6-sol", FALLBACK) or PLAIN
PNG = "iVBORw0KGgoAAAANSUhEUg=="


def user(*parts: Any) -> Turn:
    return Turn(Role.USER, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts: Any) -> Turn:
    return Turn(Role.ASSISTANT, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def ask(*turns: Turn, **fields: Any) -> Prompt:
    """A prompt of *turns*, each of which knows its place."""
    placed = tuple(evolve(turn, place=f"messages[{index}]") for index, turn in enumerate(turns))
    return Prompt("m", placed, **fields)


def call(call_id: str = "c1", name: str = "f", **arguments: Any) -> ToolCallPart:
    return ToolCallPart(call_id, name, arguments)


def result(call_id: str = "c1", *parts: Any, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id, tuple(Text(part) if isinstance(part, str) else part for part in parts), is_error)


def rendered(prompt: Prompt, model: ModelCard = PLAIN, credential: Credential = TOKEN, **settings: Any) -> Rendered:
    numbers = count()
    new_id = settings.pop("new_id", lambda: f"00000000-0000-0000-0000-{next(numbers):012}")
    return KiroUpstream(settings=KiroSettings(**settings), new_id=new_id).render(prompt, model, credential)


def rules(*args: Any, **kwargs: Any) -> list[str]:
    return [note.rule for note in rendered(*args, **kwargs).notes]


def body(*args: Any, **kwargs: Any) -> Any:
    return json.loads(rendered(*args, **kwargs).request.body)


def state(*args: Any, **kwargs: Any) -> Any:
    return body(*args, **kwargs)["conversationState"]


def messages(*args: Any, **kwargs: Any) -> list[tuple[str, Any]]:
    """Side, ``user`` or ``assi``, and message, in order, the current one last."""
    found = state(*args, **kwargs)
    every = [*found.get("history", ()), found["currentMessage"]]
    return [(next(iter(each))[:4], next(iter(each.values()))) for each in every]


def current(*args: Any, **kwargs: Any) -> Any:
    return messages(*args, **kwargs)[-1][1]


def texts(prompt: Prompt) -> Iterator[str]:
    """Every text of the conversation that a client may expect the model to read."""
    yield from prompt.system
    for turn in prompt.turns:
        for part in turn.parts:
            for inner in part.parts if isinstance(part, ToolResult) else (part,):
                if isinstance(inner, Text | Document | ThinkingPart):
                    yield inner.text


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "required": [],
    "properties": {
        "format": {"type": "string", "format": "uri", "minLength": 1, "default": None, "enum": ["a", None]},
        "pattern": {"type": "array", "items": {"type": "integer", "minimum": 3}, "uniqueItems": True},
        "additionalProperties": {"$ref": "#/$defs/format"},
        "any": True,
        "either": {"anyOf": [{"type": "string", "pattern": "x"}, None, {"type": "null"}]},
        "deep": {
            "type": "object",
            "properties": {"maximum": {"type": "number", "maximum": 1}},
            "required": ["maximum", 3],
        },
    },
    "$defs": {"format": {"type": "string", "format": "date", "const": {"format": 1}}},
    "oneOf": [{"properties": {"extra": {"type": "string"}, "any": {"type": "null"}}}, {"required": ["x"]}],
}

IDS = st.sampled_from(["c1", "c2", "call.3", "call/3", "", "i" * 70, "i" * 71])
NAMES = st.sampled_from(["f", "F", "g", "mcp.x", "mcp/x", "y" * 70, "1st", ""])
WORDS = st.sampled_from(["", " ", "hello", "a\x00b", "ü\ud800", "<thinking>hm</thinking>\n\nso", "日本"])
TEXTS = WORDS.map(Text)
IMAGES = st.builds(Image, st.sampled_from(["image/png", "image/jpeg", ""]), st.just(PNG))
TITLES = st.sampled_from(["", "a/b", "ä"])
DOCUMENTS = st.builds(Document, st.just("text/plain"), st.just("QQ=="), title=TITLES) | st.builds(
    Document, st.just("text/plain"), text=st.just("words"), title=TITLES
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["", "x"]), st.none() | st.integers() | st.lists(st.text(max_size=2)), max_size=2
)
PARTS = (
    TEXTS
    | IMAGES
    | DOCUMENTS
    | st.builds(ThinkingPart, st.sampled_from(["", "hm"]), st.sampled_from(["", "sig"]))
    | st.builds(ThinkingPart, redacted=st.sampled_from(["QQ==", "?"]))
    | st.builds(ToolCallPart, IDS, NAMES, ARGUMENTS)
    | st.builds(ToolResult, IDS, st.lists(TEXTS | IMAGES | DOCUMENTS, max_size=2).map(tuple), st.booleans())
)
SCHEMAS = st.sampled_from([{}, SCHEMA, {"type": "string"}, {"required": ["x"]}, {"properties": []}])
TOOLS = st.lists(st.builds(Tool, NAMES, st.sampled_from(["", "d" * 30]), SCHEMAS), max_size=3).map(tuple)


def _placed(turns: list[Turn]) -> tuple[Turn, ...]:
    return tuple(evolve(turn, place=f"messages[{index}]") for index, turn in enumerate(turns))


def _with_choice(prompt: Prompt) -> st.SearchStrategy[Prompt]:
    """*prompt* with a choice that it can have: a tool of its own."""
    names = st.sampled_from([tool.name for tool in prompt.tools] or [""])
    modes = st.sampled_from([mode for mode in ToolChoiceMode if prompt.tools or mode is not ToolChoiceMode.NAMED])
    return st.builds(
        lambda mode, name, parallel: evolve(prompt, tool_choice=ToolChoice(mode, name, parallel)),
        modes,
        names,
        st.booleans(),
    )


PROMPTS = st.builds(
    Prompt,
    st.just("m"),
    st.lists(st.builds(Turn, st.sampled_from(Role), st.lists(PARTS, max_size=4).map(tuple)), max_size=7).map(_placed),
    st.lists(st.sampled_from(["", "system"]), max_size=2).map(tuple),
    TOOLS,
    thinking=st.builds(Thinking, st.sampled_from(ThinkingMode), effort=st.sampled_from(["", "low", "minimal", "max"])),
    sampling=st.builds(Sampling, st.sampled_from([None, 1, 5000]), st.sampled_from([None, 0.5])),
).flatmap(_with_choice)
"""Any conversation that a dialect may hand over, and many that none does."""
