"""Prompts for the contract's translator."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kiro_asgi.model.prompt import (
    Image,
    Part,
    Prompt,
    Role,
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
from kiro_asgi.simulator.scripts import sign

__all__ = ["LONG", "LOOP", "PNG", "PROMPTS", "STRUCTURES", "assistant", "call", "keys", "prompt", "result", "user"]

DATA = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PNG = Image("image/png", DATA)


def user(*parts: str | Part) -> Turn:
    return Turn(Role.USER, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts: str | Part) -> Turn:
    return Turn(Role.ASSISTANT, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def call(call_id: str = "t1", name: str = "f") -> ToolCallPart:
    return ToolCallPart(call_id, name, {"a": 1})


def result(*parts: str | Text | Image, call_id: str = "t1") -> ToolResult:
    return ToolResult(call_id, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def prompt(*turns: Turn, **fields: Any) -> Prompt:
    return Prompt("claude-sonnet-4.5", turns, **fields)


LONG = "ab" * 150
"""A description that is cut."""

LOOP = prompt(
    user("What is it?"), assistant("Let me look.", call()), user(result("42")), assistant("It is 42."), user("Sure?")
)
"""A conversation with one tool call."""

STRUCTURES = {"toolUses", "toolResults", "tool_use", "tool_result", "toolUseId", "tool_use_id"}
"""What only the service's own structures for tool calls have."""


def keys(value: Any) -> set[str]:
    """Every key at every level."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


TEXTS = st.text(max_size=12) | st.sampled_from(["<system-reminder>x</system-reminder>", "\x1b[1mb", "q", " "])
IDS = st.sampled_from(["t1", "t2", "t 3"])
NAMES = st.sampled_from(["f", "g", "mcp__" + "x" * 70, "häh"])
PARTS = st.one_of(
    TEXTS.map(Text),
    st.builds(ToolCallPart, IDS, NAMES, st.just({"a": 1})),
    st.builds(ToolResult, IDS, st.lists(TEXTS.map(Text) | st.just(PNG), max_size=2).map(tuple)),
    TEXTS.map(ThinkingPart),
    st.just(ThinkingPart("hm", sign("hm"))),
    st.just(PNG),
)
TURNS = st.builds(Turn, st.sampled_from(Role), st.lists(PARTS, max_size=3).map(tuple))
TOOLS = st.builds(
    Tool,
    NAMES,
    st.text(max_size=9) | st.text(min_size=250, max_size=600),
    st.sampled_from([{}, {"type": "object", "title": "t", "properties": {"title": {"type": "string", "format": "x"}}}]),
)
CHOICES = st.builds(ToolChoice, st.sampled_from([ToolChoiceMode.AUTO, ToolChoiceMode.REQUIRED, ToolChoiceMode.NONE]))
PROMPTS = st.builds(
    Prompt,
    st.just("claude-sonnet-4.5"),
    st.lists(TURNS, max_size=6).map(tuple),
    st.lists(TEXTS, max_size=2).map(tuple),
    st.lists(TOOLS, max_size=3, unique_by=lambda tool: tool.name).map(tuple),
    CHOICES,
    st.builds(Thinking, st.sampled_from(ThinkingMode), st.none() | st.integers(0, 5000)),
    metadata=st.just({}) | st.just({"plan_mode": True}),
)
"""Any prompt, legal or not."""
