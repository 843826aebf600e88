"""Tools and what the client demands about them, in the present and in the deprecated form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.dialects.errors import invalid, missing, unsupported
from kiro_asgi.dialects.openai_chat.shapes import (
    ChatCustomTool,
    ChatFunction,
    ChatFunctionTool,
    ChatRequestBody,
    ChatSearchTool,
    ToolBody,
)
from kiro_asgi.dialects.structure import Raw
from kiro_asgi.dialects.tools import SEARCH_TOOL, hosted_tool, name_of_kind
from kiro_asgi.model.prompt import Tool, ToolChoice, ToolChoiceMode

_MODES: Final = MappingProxyType(
    {"none": ToolChoiceMode.NONE, "auto": ToolChoiceMode.AUTO, "required": ToolChoiceMode.REQUIRED}
)


def read_tools(body: ChatRequestBody) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that may be called, and whether one must be.

    Raises:
        RequestError: A tool of a kind that we cannot offer, or a choice that names none of the tools.
    """
    if body.functions and not body.tools:
        return _functions(body, body.functions)
    listed = (_tool(tool, f"tools[{index}]") for index, tool in enumerate(body.tools or ()))
    tools = (*listed, *_search(body))
    parallel = body.parallel_tool_calls is not False
    match body.tool_choice:
        case None:
            return tools, ToolChoice(parallel=parallel)
        case str(word):
            return tools, ToolChoice(_mode(word, tools, "tool_choice"), parallel=parallel, raw=word)
        case choice:
            return _object_choice(choice, tools, parallel)


_NO_CUSTOM: Final = "custom tools cannot be streamed in this API; use function tools, or POST /v1/responses"


def _object_choice(
    choice: Mapping[str, Any], tools: tuple[Tool, ...], parallel: bool
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """One tool by name, or some of the tools."""
    kind = choice.get("type")
    if kind == "custom":
        raise unsupported("tool_choice", _NO_CUSTOM)
    if kind == "allowed_tools":
        mode, tools = _allowed(choice, tools)
        names = frozenset(tool.name for tool in tools)
        return tools, ToolChoice(mode, parallel=parallel, raw=choice, allowed=names)
    name = _known(_named(choice, tools), tools, "tool_choice")
    return tools, ToolChoice(ToolChoiceMode.NAMED, name, parallel, choice)


def _tool(tool: ToolBody, place: str) -> Tool:
    match tool:
        case ChatFunctionTool(function=ChatFunction() as function):
            return _function(function, f"{place}.function")
        case ChatFunctionTool(name=str(name)):
            return _function(ChatFunction(name, tool.description, tool.parameters), place)
        case ChatFunctionTool():
            raise missing(f"{place}.function", "required field missing")
        case ChatSearchTool():
            return _hosted_search(tool, place)
        case ChatCustomTool():
            raise unsupported(f"{place}.type", _NO_CUSTOM)
        case Raw():
            return hosted_tool(str(tool.value.get("type")), place)


def _search(body: ChatRequestBody) -> tuple[Tool, ...]:
    """The web search, where it is asked for beside the tools."""
    return () if body.web_search_options is None else (_hosted_search(ChatSearchTool(), "web_search_options"),)


def _hosted_search(tool: ChatSearchTool, place: str) -> Tool:
    domains = tool.filters and tool.filters.allowed_domains
    return evolve(SEARCH_TOOL, options={"allowed_domains": domains} if domains else {}, place=place)


def _function(function: ChatFunction, place: str) -> Tool:
    if not function.name:
        raise invalid(f"{place}.name", "empty")
    return Tool(function.name, function.description or "", function.parameters or {}, place=place)


def _functions(body: ChatRequestBody, functions: Sequence[ChatFunction]) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The deprecated form; its answer has room for one call."""
    listed = (_function(function, f"functions[{index}]") for index, function in enumerate(functions))
    tools = (*listed, *_search(body))
    match body.function_call:
        case None:
            return tools, ToolChoice(parallel=False)
        case str(word):
            return tools, ToolChoice(_mode(word, tools, "function_call"), parallel=False, raw=word)
        case raw:
            name = _known(raw.get("name"), tools, "function_call")
            return tools, ToolChoice(ToolChoiceMode.NAMED, name, False, raw)


def _mode(word: Any, tools: Sequence[Tool], place: str) -> ToolChoiceMode:
    mode = _MODES.get(word) if isinstance(word, str) else None
    if mode is None:
        raise invalid(place, f"expected one of {', '.join(_MODES)}, got {str(word)[:60]!r}")
    if mode is ToolChoiceMode.REQUIRED and not tools:
        raise invalid(place, "a call is required, but there are no tools")
    return mode


def _named(choice: Mapping[str, Any], tools: Sequence[Tool]) -> Any:
    """The name in ``{"type": "function", "function": {"name": …}}``, or flat; a hosted tool's by its type."""
    if hosted := name_of_kind(choice.get("type"), tools):
        return hosted
    function = choice.get("function", choice)
    return function.get("name") if isinstance(function, Mapping) else None


def _known(name: Any, tools: Sequence[Tool], place: str) -> str:
    if not isinstance(name, str):
        raise invalid(place, "expected the name of a function")
    if all(tool.name != name for tool in tools):
        raise invalid(place, f"no tool is named {name[:60]!r}")
    return name


def _allowed(choice: Mapping[str, Any], tools: Sequence[Tool]) -> tuple[ToolChoiceMode, tuple[Tool, ...]]:
    """Only some of the tools; members nested under ``allowed_tools``, or flat."""
    inner = choice.get("allowed_tools", choice)
    listed = inner.get("tools") if isinstance(inner, Mapping) else None
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise invalid("tool_choice", "expected a list of allowed tools")
    names = {_known(_named(entry, tools), tools, "tool_choice") for entry in listed}
    allowed = tuple(tool for tool in tools if tool.name in names)
    return _mode(inner.get("mode", "auto"), allowed, "tool_choice"), allowed
