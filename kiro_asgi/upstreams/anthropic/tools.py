"""Tools and the choice among them.

Sources: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use,
https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/web-search-tool
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import RequestError
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Tool, ToolCallPart, ToolChoice, ToolChoiceMode
from kiro_asgi.model.server_tools import WEB_SEARCH
from kiro_asgi.upstreams.anthropic.marks import marked
from kiro_asgi.upstreams.rendering import COMBINATORS, WireNames, flat, target

__all__ = ["TOOL_NAME", "choice", "offered", "specification"]

TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")

SEARCH: Final = MappingProxyType({"type": "web_search_20250305", "name": WEB_SEARCH})
"""The tool that the service runs itself; its name is not ours to choose."""

SEARCH_OPTIONS: Final = ("max_uses", "allowed_domains", "blocked_domains")

_CHOICES: Final = MappingProxyType(
    {
        ToolChoiceMode.AUTO: "auto",
        ToolChoiceMode.REQUIRED: "any",
        ToolChoiceMode.NAMED: "tool",
        ToolChoiceMode.NONE: "none",
    }
)


def offered(prompt: Prompt, notes: Notes) -> tuple[Tool, ...]:
    """The tools to define, each name once; those that history calls where the client offers none.

    Raises:
        RequestError: A tool must be called that is not there.
    """
    first: dict[str, Tool] = {}
    for tool in prompt.tools:
        if first.setdefault(_name(tool), tool) is not tool:
            notes.applies("tools.duplicate_dropped", tool.place)
    _require_choice(prompt.tool_choice, prompt.tools)
    return tuple(first.values()) if first else _called(prompt, notes)


def _called(prompt: Prompt, notes: Notes) -> tuple[Tool, ...]:
    """The service wants calls of the past to be calls of tools that it knows."""
    called: dict[str, Tool] = {}
    for turn in prompt.turns:
        for part in turn.parts:
            if type(part) is ToolCallPart and part.name not in called:
                notes.applies("tools.stubbed", turn.place)
                called[part.name] = Tool(part.name, schema={"type": "object"}, place=turn.place)
    return tuple(called.values())


def _name(tool: Tool) -> str:
    return WEB_SEARCH if tool.hosted == WEB_SEARCH else tool.name


def _require_choice(choice: ToolChoice, tools: tuple[Tool, ...]) -> None:
    rule = "tools.choice_unknown"
    if choice.mode is not ToolChoiceMode.NAMED or any(tool.name == choice.name for tool in tools):
        return
    message = f"tool_choice: no tool is named {choice.name[:60]!r} (rule {rule})"
    raise RequestError(message, code="unsupported_value", param="tool_choice")


def specification(tool: Tool, names: WireNames, notes: Notes) -> dict[str, Any]:
    """One entry of ``tools``.  What a client expects to be run for it, and the service does not, is a tool like any."""
    if tool.hosted == WEB_SEARCH:
        options = {name: tool.options[name] for name in SEARCH_OPTIONS if tool.options.get(name)}
        return marked({**SEARCH, **options}, tool.cache)
    described = {"description": tool.description} if tool.description.strip() else {}
    schema = _schema(tool.schema, tool.place, notes)
    return marked({"name": names.wire(tool.name, tool.place), **described, "input_schema": schema}, tool.cache)


def _schema(schema: Mapping[str, Any], place: str, notes: Notes) -> dict[str, Any]:
    """The client's schema, an object at its root."""
    if schema.get("type") == "object" and not any(keyword in schema for keyword in COMBINATORS):
        return dict(schema)
    if "$ref" in schema and (found := target(schema, schema)):
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    if any(keyword in schema for keyword in COMBINATORS):
        notes.applies("schema.combinators", place)
        schema = flat(schema)
    if schema.get("type") == "object":
        return dict(schema)
    notes.applies("schema.root", place)
    return {**schema, "type": "object"}


def choice(prompt: Prompt, names: WireNames) -> dict[str, Any]:
    """The member ``tool_choice``, if there is something to say."""
    wanted = prompt.tool_choice
    if not prompt.tools:
        return {"type": "none"}
    chosen: dict[str, Any] = {"type": _CHOICES[wanted.mode]}
    if wanted.mode is ToolChoiceMode.NAMED:
        tool = next(tool for tool in prompt.tools if tool.name == wanted.name)
        chosen["name"] = WEB_SEARCH if tool.hosted == WEB_SEARCH else names.wire(wanted.name)
    if not wanted.parallel and wanted.mode is not ToolChoiceMode.NONE:
        chosen["disable_parallel_tool_use"] = True
    return {} if chosen == {"type": "auto"} else chosen
