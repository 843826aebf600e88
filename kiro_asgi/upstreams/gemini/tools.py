"""Tools: function declarations, the service's own search, and which of them the model must call.

The service refuses functions beside its search, unless the answer's own tool calls are handed back part by part, for
which no client has a place; so functions win, but where the search is what has to be called.

Source: https://ai.google.dev/api/caching#Tool and https://ai.google.dev/gemini-api/docs/tool-combination
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.model.server_tools import WEB_SEARCH
from kiro_asgi.upstreams.errors import refusal
from kiro_asgi.upstreams.gemini.flatten import Copies
from kiro_asgi.upstreams.gemini.schema import parameters
from kiro_asgi.upstreams.rendering import WireNames

__all__ = ["tool_names", "written_tools"]

MAX_NAME: Final = 64
"""Characters."""

_NAME: Final = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_.:-]{{0,{MAX_NAME - 1}}}")

_MODES: Final[Mapping[ToolChoiceMode, str]] = MappingProxyType(
    {ToolChoiceMode.REQUIRED: "ANY", ToolChoiceMode.NAMED: "ANY", ToolChoiceMode.NONE: "NONE"}
)


def tool_names(notes: Notes) -> WireNames:
    """Names of functions, for one request."""
    return WireNames(_NAME, MAX_NAME, "tools.renamed", notes)


def written_tools(prompt: Prompt, names: WireNames, notes: Notes, copies: Copies) -> dict[str, Any]:
    """``tools`` and ``toolConfig``, as far as there is something to say.

    Raises:
        RequestError: A tool must be called that is not there.
    """
    tools = _first_of_each(prompt.tools, notes)
    functions = [tool for tool in tools if tool.hosted != WEB_SEARCH]
    searches = [tool for tool in tools if tool.hosted == WEB_SEARCH]
    _require_choice(prompt.tool_choice, tools)
    if functions and _names_one(prompt.tool_choice, searches):
        notes.applies("tools.search_alone", functions[0].place, len(functions))
        functions = []
    if functions:
        for search in searches:
            notes.applies("tools.search_dropped", search.place)
        declarations = [_declaration(tool, names, notes, copies) for tool in functions]
        return {
            "tools": [{"functionDeclarations": declarations}],
            **_config(prompt.tool_choice, names, notes),
        }
    if not searches or prompt.tool_choice.mode is ToolChoiceMode.NONE:
        return {}
    if any(search.options for search in searches):
        notes.applies("tools.search_options", searches[0].place)
    if prompt.tool_choice.demanded:
        notes.applies("tools.search_demanded", "tool_choice")
    return {"tools": [{"googleSearch": {}}]}


def _first_of_each(tools: tuple[Tool, ...], notes: Notes) -> list[Tool]:
    first: dict[str, Tool] = {}
    for tool in tools:
        if first.setdefault(tool.name, tool) is not tool:
            notes.applies("tools.duplicate_dropped", tool.place)
    return [*first.values()]


def _names_one(choice: ToolChoice, tools: list[Tool]) -> bool:
    """Whether one of *tools* has to be called, and no other."""
    return choice.mode is ToolChoiceMode.NAMED and any(tool.name == choice.name for tool in tools)


def _require_choice(choice: ToolChoice, tools: list[Tool]) -> None:
    if choice.mode is ToolChoiceMode.NAMED and not _names_one(choice, tools):
        raise refusal("tools.choice_unknown", f"no tool is named {choice.name[:60]!r}", "tool_choice")


def _declaration(tool: Tool, names: WireNames, notes: Notes, copies: Copies) -> dict[str, Any]:
    """One function; one without arguments has no ``parameters``, as the service refuses an object without any."""
    declaration: dict[str, Any] = {"name": names.wire(tool.name, tool.place)}
    if tool.description:
        declaration["description"] = tool.description
    if schema := parameters(tool, notes, copies):
        declaration["parameters"] = schema
    return declaration


def _config(choice: ToolChoice, names: WireNames, notes: Notes) -> dict[str, Any]:
    if not choice.parallel and choice.mode is not ToolChoiceMode.NONE:
        notes.applies("tools.parallel", "tool_choice")
    if choice.mode not in _MODES:
        return {}
    config: dict[str, Any] = {"mode": _MODES[choice.mode]}
    if choice.mode is ToolChoiceMode.NAMED:
        config["allowedFunctionNames"] = [names.wire(choice.name)]
    return {"toolConfig": {"functionCallingConfig": config}}
