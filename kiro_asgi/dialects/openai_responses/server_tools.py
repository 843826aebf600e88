"""The web search in the Responses API: an item for the call, and citations in the text that tells what was found.

Source: https://platform.openai.com/docs/guides/tools-web-search
"""

from __future__ import annotations

from typing import Any, Final

from kiro_asgi.model.events import Citation
from kiro_asgi.model.server_tools import ServerCall, ToolOutput

__all__ = ["PROGRESS", "url_citation", "url_citations", "web_search_call"]

PROGRESS: Final = (
    "response.web_search_call.in_progress",
    "response.web_search_call.searching",
    "response.web_search_call.completed",
)
"""The events between the item's ``added`` and its ``done``: two when the search begins, one when it has ended."""


def web_search_call(call: ServerCall, output: ToolOutput | None = None) -> dict[str, Any]:
    """Fields of the output item, its id apart; without *output* the search is still under way."""
    query = str(call.input.get("query", ""))
    action: dict[str, Any] = {"type": "search", "query": query, "queries": call.input.get("queries") or [query]}
    if output is not None:
        action["sources"] = [{"type": "url", "url": hit.url} for hit in output.hits]
    return {"type": "web_search_call", "status": _status(output), "action": action}


def url_citations(output: ToolOutput, offset: int = 0) -> list[dict[str, Any]]:
    """Annotations of the text part in which ``output.told`` begins at the character *offset*."""
    return [_annotation(offset + start, offset + end, hit.url, hit.title) for start, end, hit in output.spans()]


def url_citation(source: Citation, end: int) -> dict[str, Any]:
    """Annotation of the text part behind whose first *end* characters the *source* stands."""
    return _annotation(max(end - source.begins, 0), max(end - source.ends, 0), source.url, source.title)


def _annotation(start: int, end: int, url: str, title: str) -> dict[str, Any]:
    return {"type": "url_citation", "start_index": start, "end_index": end, "url": url, "title": title}


def _status(output: ToolOutput | None) -> str:
    if output is None:
        return "in_progress"
    return "failed" if output.error_code else "completed"
