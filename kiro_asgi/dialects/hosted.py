"""Hosted tools: those that a client lists for the service to run.

Which of them can be run is not known to a dialect: it takes all of them, and whoever knows the service leaves out what
that does not have, or refuses a demand for it (`kiro_asgi.asgi.server_tools.Toolbox.offered`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kiro_asgi.model.prompt import Tool
from kiro_asgi.model.server_tools import WEB_SEARCH

__all__ = ["SEARCH_TOOL", "hosted_tool", "is_callable", "name_of_kind"]

_MAX_KIND: Final = 60
"""Characters of a kind that errors repeat."""

SEARCH_TOOL: Final = Tool(
    "web_search",
    "Search the web. Gives titles, addresses and excerpts of pages.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to search for."}},
        "required": ["query"],
    },
    hosted=WEB_SEARCH,
)


def hosted_tool(kind: str, place: str, name: str = "") -> Tool:
    """A tool of a *kind* for which there is no function, so that no model can be offered it here.

    Without a *name* it is called by its kind and its place, as no function can be.
    """
    kind = kind[:_MAX_KIND]
    return Tool(name or f"{kind} ({place})", hosted=kind, place=place)


def is_callable(tool: Tool) -> bool:
    """Whether a model can be told how to call *tool*."""
    return not tool.hosted or bool(tool.schema)


def name_of_kind(kind: object, tools: Iterable[Tool]) -> str | None:
    """Name of the first of *tools* that is hosted and of this *kind*; ``None`` where there is none."""
    kind = str(kind)[:_MAX_KIND]
    return next((tool.name for tool in tools if tool.hosted == kind), None)
