"""Tools, their schemas, and what the client demands about them.

Source: https://ai.google.dev/api/caching#Tool
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.dialects.errors import invalid, missing
from kiro_asgi.dialects.gemini.shapes import (
    FunctionCallingConfig,
    FunctionDeclaration,
    GoogleSearch,
    ToolBody,
    ToolConfig,
)
from kiro_asgi.dialects.tools import SEARCH_TOOL, hosted_tool
from kiro_asgi.model.prompt import Tool, ToolChoice, ToolChoiceMode

_SPELLED: Final = MappingProxyType(
    {
        "any_of": "anyOf",
        "max_items": "maxItems",
        "min_items": "minItems",
        "max_length": "maxLength",
        "min_length": "minLength",
        "max_properties": "maxProperties",
        "min_properties": "minProperties",
        "prefix_items": "prefixItems",
        "additional_properties": "additionalProperties",
        "defs": "$defs",
        "ref": "$ref",
    }
)
"""Keywords in another spelling."""

_DROPPED: Final = frozenset({"propertyOrdering", "property_ordering", "example", "nullable"})
_LISTS: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
_COUNTS: Final = frozenset({"maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"})

_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})


def json_schema(schema: Any) -> Any:
    """A schema of Google's, or JSON Schema as its clients write it, as JSON Schema; what is none stays as it is.

    Names of types may be in capitals in either.

    Source: https://ai.google.dev/api/caching#Schema
    """
    if type(schema) is not dict:
        return schema
    written: dict[str, Any] = {}
    for name, value in schema.items():
        keyword = _SPELLED.get(name, name)
        if keyword not in _DROPPED and value is not None and not (keyword == "format" and value == "enum"):
            written[keyword] = _value(keyword, value)
    return _with_null(written) if schema.get("nullable") is True else written


def _value(keyword: str, value: Any) -> Any:
    if keyword == "type":
        return [*map(_type, value)] if type(value) is list else _type(value)
    if keyword in _LISTS and type(value) is list:
        return [*map(json_schema, value)]
    if keyword in _MAPS and type(value) is dict:
        return {name: json_schema(part) for name, part in value.items()}
    if keyword in _COUNTS and type(value) is str and value.isdecimal() and value.isascii():
        return int(value[:15])
    return json_schema(value) if keyword in _SCHEMAS else value


def _type(word: Any) -> Any:
    return word.lower() if type(word) is str and word in _TYPES else word


def _with_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """*schema*, or ``null``."""
    if type(kind := schema.get("type")) is not str:
        return {"anyOf": [dict(schema), {"type": "null"}]}
    null = {"enum": [*schema["enum"], None]} if type(schema.get("enum")) is list else {}
    return {**schema, "type": [kind, "null"], **null}


MODES: Final[Mapping[str, ToolChoiceMode]] = MappingProxyType(
    {
        "MODE_UNSPECIFIED": ToolChoiceMode.AUTO,
        "AUTO": ToolChoiceMode.AUTO,
        "VALIDATED": ToolChoiceMode.AUTO,
        "ANY": ToolChoiceMode.REQUIRED,
        "NONE": ToolChoiceMode.NONE,
    }
)

SEARCHES: Final = ("google_search", "google_search_retrieval", "enterprise_web_search")

HOSTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "url_context": "web_fetch",
        "code_execution": "code_execution",
        "computer_use": "computer_use",
        "file_search": "file_search",
        "google_maps": "google_maps",
        "retrieval": "retrieval",
        "mcp_servers": "mcp",
    }
)
"""Members of an entry of ``tools`` to the kind of tool that they stand for."""


def read_tools(bodies: tuple[ToolBody, ...], config: ToolConfig | None) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that may be called, and whether one must be.

    Raises:
        RequestError: A function without a name, or a demand that cannot be met.
    """
    tools = tuple(tool for index, body in enumerate(bodies) for tool in _tools(body, f"tools[{index}]"))
    calling = None if config is None else config.function_calling_config
    return (tools, ToolChoice()) if calling is None else _chosen(tools, calling)


def _tools(body: ToolBody, place: str) -> Iterator[Tool]:
    for index, function in enumerate(body.function_declarations or ()):
        yield _function(function, f"{place}.function_declarations[{index}]")
    for name in SEARCHES:
        if (search := getattr(body, name)) is not None:
            yield evolve(SEARCH_TOOL, options=_options(search), place=f"{place}.{name}")
    for name, kind in HOSTED.items():
        if getattr(body, name) is not None:
            yield hosted_tool(kind, f"{place}.{name}", name)


def _function(function: FunctionDeclaration, place: str) -> Tool:
    if not function.name:
        raise missing(f"{place}.name", "a function needs a name")
    given = function.parameters if function.parameters_json_schema is None else function.parameters_json_schema
    if given is not None and not isinstance(given, Mapping):
        raise invalid(f"{place}.parameters_json_schema", "expected an object")
    schema = json_schema(given) if given else {"type": "object", "properties": {}}
    return Tool(function.name, function.description or "", schema, place=place)


def _options(search: Any) -> dict[str, Any]:
    blocked = search.exclude_domains if isinstance(search, GoogleSearch) else None
    return {"blocked_domains": blocked} if blocked else {}


def _chosen(tools: tuple[Tool, ...], calling: FunctionCallingConfig) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that are left, and what is demanded of them."""
    place = "tool_config.function_calling_config"
    mode, word = MODES.get((calling.mode or "AUTO").upper()), calling.mode or ""
    if mode is None:
        raise invalid(f"{place}.mode", f"expected one of {', '.join(MODES)}, got {word[:60]!r}")
    if not calling.allowed_function_names or mode is ToolChoiceMode.NONE:
        if mode is ToolChoiceMode.REQUIRED and not tools:
            raise invalid(f"{place}.mode", "a call is demanded, but there are no tools")
        return tools, ToolChoice(mode, raw=word)
    names = frozenset(calling.allowed_function_names)
    if unknown := names.difference(tool.name for tool in tools):
        raise invalid(f"{place}.allowed_function_names", f"no function is named {min(unknown)[:60]!r}")
    if mode is ToolChoiceMode.REQUIRED and len(names) == 1:
        return tools, ToolChoice(ToolChoiceMode.NAMED, min(names), raw=word)
    return tuple(tool for tool in tools if tool.name in names), ToolChoice(mode, raw=word, allowed=names)
