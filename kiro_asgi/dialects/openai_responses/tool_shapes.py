"""Tools, as clients list them.

Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.structure import Raw, Tagged


@frozen
class NestedFunction:
    """A function, in the form of the Chat Completions API."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None


@frozen
class ResponsesFunctionTool:
    """``function``: flat as this API has it, or nested as the Chat Completions API has it."""

    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    function: NestedFunction | None = None


@frozen
class CustomFormat:
    """The form of a custom tool's input: any text, or what a grammar allows."""

    type: str
    syntax: str | None = None
    definition: str | None = None


@frozen
class ResponsesCustomTool:
    """``custom``: a tool whose input is text instead of JSON."""

    name: str
    description: str | None = None
    format: CustomFormat | None = None


Member = ResponsesFunctionTool | ResponsesCustomTool | Raw

_MEMBERS: Final = {"function": ResponsesFunctionTool, "custom": ResponsesCustomTool}

MEMBERS: Final = Tagged(Member, MappingProxyType(_MEMBERS), default="function")


@frozen
class Namespace:
    """``namespace``: several tools under one name."""

    name: str
    tools: tuple[Member, ...]
    description: str | None = None


@frozen
class ResponsesSearchFilters:
    """Where pages may come from."""

    allowed_domains: tuple[str, ...] | None = None


@frozen
class ResponsesSearchTool:
    """``web_search``, and what it was called before."""

    filters: ResponsesSearchFilters | None = None


@frozen
class ToolSearch:
    """``tool_search``, for tools that are listed but are to be looked for."""

    execution: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None


@frozen
class ShellTool:
    """``shell``, on the client's machine or in a container of the vendor's."""

    environment: Mapping[str, Any] | None = None


@frozen
class KindTool:
    """``local_shell`` and ``apply_patch``, of which nothing is to be said but that."""

    type: str


ToolBody = (
    ResponsesFunctionTool
    | ResponsesCustomTool
    | Namespace
    | ResponsesSearchTool
    | ToolSearch
    | ShellTool
    | KindTool
    | Raw
)

TOOLS: Final = Tagged(
    ToolBody,
    MappingProxyType(
        {
            **_MEMBERS,
            "namespace": Namespace,
            "web_search": ResponsesSearchTool,
            "web_search_2025_08_26": ResponsesSearchTool,
            "web_search_preview": ResponsesSearchTool,
            "web_search_preview_2025_03_11": ResponsesSearchTool,
            "tool_search": ToolSearch,
            "shell": ShellTool,
            "local_shell": KindTool,
            "apply_patch": KindTool,
        }
    ),
    default="function",
)
"""Kinds that are not here run at the vendor's, see `kiro_asgi.dialects.tools`."""
