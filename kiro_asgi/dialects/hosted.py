"""Hosted tools that more than one client API has, as the model is told of them."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.prompt import Tool
from kiro_asgi.model.server_tools import WEB_SEARCH

__all__ = ["SEARCH_TOOL"]

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
