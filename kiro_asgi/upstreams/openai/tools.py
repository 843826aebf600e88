"""Tools, and whether one must be called.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from operator import is_
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import RequestError
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.upstreams.rendering import WireNames

__all__ = ["tool_names", "written_tools"]

MAX_NAME: Final = 64

_NAME: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")

_MODES: Final[Mapping[ToolChoiceMode, str]] = MappingProxyType(
    {ToolChoiceMode.REQUIRED: "required", ToolChoiceMode.NONE: "none"}
)

_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords with schemas by name."""

_SCHEMAS: Final = frozenset({"items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not"})
"""Keywords with schemas."""


def tool_names(notes: Notes) -> WireNames:
    """Names of tools, for one request."""
    return WireNames(_NAME, MAX_NAME, "tools.renamed", notes)


def written_tools(prompt: Prompt, names: WireNames, notes: Notes) -> dict[str, Any]:
    """The fields about tools; none where no tool is offered.

    Raises:
        RequestError: A tool must be called that is not offered.
    """
    tools = [*_offered(prompt.tools, notes)]
    _require_choice(prompt.tool_choice, tools)
    if not tools:
        return {}
    fields: dict[str, Any] = {"tools": [_tool(tool, names, notes) for tool in tools]}
    choice = prompt.tool_choice
    if choice.mode is ToolChoiceMode.NAMED:
        fields["tool_choice"] = {"type": "function", "function": {"name": names.wire(choice.name)}}
    elif choice.mode in _MODES:
        fields["tool_choice"] = _MODES[choice.mode]
    if not choice.parallel:
        fields["parallel_tool_calls"] = False
    return fields


def _offered(tools: tuple[Tool, ...], notes: Notes) -> Iterator[Tool]:
    """The first of each name; hosted ones are offered like all others, since the service runs none of them."""
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            notes.applies("tools.duplicate_dropped", tool.place)
        else:
            seen.add(tool.name)
            yield tool


def _require_choice(choice: ToolChoice, tools: list[Tool]) -> None:
    named = choice.mode is ToolChoiceMode.NAMED and all(tool.name != choice.name for tool in tools)
    if named or (choice.mode is ToolChoiceMode.REQUIRED and not tools):
        rule = "tools.choice_unknown"
        wanted = f"no tool is named {choice.name[:60]!r}" if named else "no tool is offered"
        message = f"tool_choice: {wanted} (rule {rule})"
        raise RequestError(message, code="unsupported_value", param="tool_choice")


def _tool(tool: Tool, names: WireNames, notes: Notes) -> dict[str, Any]:
    function: dict[str, Any] = {"name": names.wire(tool.name, tool.place)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = _parameters(tool, notes)
    return {"type": "function", "function": function}


def _parameters(tool: Tool, notes: Notes) -> Mapping[str, Any]:
    """The schema; OpenAI insists that its root says what it is, and that an array says what is in it."""
    schema: Mapping[str, Any] = _with_items(tool.schema)
    if schema is not tool.schema:
        notes.applies("schema.items", tool.place)
    properties = schema.get("properties")
    if schema.get("type") == "object" and type(properties) is dict:
        return schema
    if schema:
        notes.applies("schema.root", tool.place)
    return {**schema, "type": "object", "properties": properties if type(properties) is dict else {}}


def _with_items(schema: Any) -> Any:
    """*schema* with items in every array that has none; the very same where there is no such array."""
    if type(schema) is list:
        members = [_with_items(member) for member in schema]
        return schema if all(map(is_, members, schema)) else members
    if not isinstance(schema, Mapping):
        return schema
    changed = {key: new for key, value in schema.items() if (new := _inner(key, value)) is not value}
    kind = schema.get("type")
    is_array = kind == "array" or (type(kind) is list and "array" in kind)
    if is_array and "items" not in schema and "prefixItems" not in schema:
        changed["items"] = {}
    return {**schema, **changed} if changed else schema


def _inner(key: str, value: Any) -> Any:
    """The value of a keyword: schemas by name, schemas, or plain values."""
    if key in _NAMED and isinstance(value, Mapping):
        members = {name: _with_items(member) for name, member in value.items()}
        return members if any(members[name] is not value[name] for name in members) else value
    return _with_items(value) if key in _SCHEMAS else value
