"""What the client demands about tool calls.

Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-tool_choice
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.hosted import SEARCH_TOOL, name_of_kind
from kiro_asgi.dialects.openai_responses.calls import CLIENT_TOOLS, flat_name
from kiro_asgi.dialects.openai_responses.tool_shapes import TOOLS, SearchTool
from kiro_asgi.dialects.refusals import invalid, unsupported
from kiro_asgi.model.prompt import Tool, ToolChoice, ToolChoiceMode

__all__ = ["read_choice"]

Tools = Mapping[str, Tool]

_PLACE: Final = "tool_choice"

_MODES: Final = MappingProxyType(
    {"none": ToolChoiceMode.NONE, "auto": ToolChoiceMode.AUTO, "required": ToolChoiceMode.REQUIRED}
)

_KINDS: Final = MappingProxyType(
    {kind: SEARCH_TOOL.name for kind, shape in TOOLS.classes.items() if shape is SearchTool}
    | {kind: kind for kind in CLIENT_TOOLS}
)
"""Kind of tool, where the kind says which one is meant, to its name."""


def read_choice(
    choice: str | Mapping[str, Any] | None, tools: Tools, parallel: bool
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that may be called, and whether one must be.

    Raises:
        RequestError: A tool that is not there.
    """
    if choice is None:
        return tuple(tools.values()), ToolChoice(parallel=parallel)
    if isinstance(choice, str):
        return tuple(tools.values()), ToolChoice(_mode(choice, tools), parallel=parallel, raw=choice)
    if choice.get("type") == "allowed_tools":
        allowed = _allowed(choice, tools)
        mode = _mode(choice.get("mode", "auto"), allowed)
        return tuple(allowed.values()), ToolChoice(mode, parallel=parallel, raw=choice, allowed=frozenset(allowed))
    name = _named(choice, tools)
    if name is None:
        raise unsupported(_PLACE, f"no tool of type {str(choice.get('type'))[:60]} is among tools")
    return tuple(tools.values()), ToolChoice(ToolChoiceMode.NAMED, name, parallel, choice)


def _mode(word: Any, tools: Tools) -> ToolChoiceMode:
    mode = _MODES.get(word) if isinstance(word, str) else None
    if mode is None:
        raise invalid(_PLACE, f"expected one of {', '.join(_MODES)}, got {str(word)[:60]!r}")
    if mode is ToolChoiceMode.REQUIRED and not tools:
        raise invalid(_PLACE, "a call is required, but there are no tools")
    return mode


def _allowed(choice: Mapping[str, Any], tools: Tools) -> Tools:
    """Only some of the tools."""
    listed = choice.get("tools")
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise invalid(_PLACE, "expected a list of allowed tools")
    names = {_named(entry, tools) for entry in listed}
    return {name: tool for name, tool in tools.items() if name in names}


def _named(entry: Mapping[str, Any], tools: Tools) -> str | None:
    """The name of the tool that *entry* means; ``None`` for one of a kind that is not there."""
    kind = entry.get("type")
    if kind not in ("function", "custom"):
        hosted = name_of_kind(kind, tools.values())
        return _known(_KINDS[kind], tools) if hosted is None and isinstance(kind, str) and kind in _KINDS else hosted
    inner = entry.get("function", entry)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        raise invalid(_PLACE, "expected the name of a tool")
    namespace = entry.get("namespace")
    return _known(flat_name(namespace, name) if isinstance(namespace, str) else name, tools)


def _known(name: str, tools: Tools) -> str:
    if name not in tools:
        raise invalid(_PLACE, f"no tool is named {name[:60]!r}")
    return name
