"""What the model read for its answer, as the service reports it.

Source: https://ai.google.dev/api/generate-content#GroundingMetadata
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.model.events import Grounding
from kiro_asgi.model.server_tools import SearchHit
from kiro_asgi.wire.members import objects_of, text_of

__all__ = ["cited", "grounding"]

_SOURCES: Final = ("web", "retrievedContext", "maps")
"""Kinds of sources; all three have a title and an address."""


def grounding(metadata: Mapping[str, Any]) -> Grounding:
    """``groundingMetadata``.  A source of an unknown kind keeps its number, and has neither title nor address."""
    queries = metadata.get("webSearchQueries")
    asked = (query.strip() for query in (queries if type(queries) is list else ()) if type(query) is str)
    chunks = metadata.get("groundingChunks")
    return Grounding(tuple(filter(None, asked)), tuple(map(_hit, chunks if type(chunks) is list else ())))


def cited(metadata: Mapping[str, Any]) -> Grounding:
    """``citationMetadata``: what the answer repeats, without any search."""
    sources = objects_of(metadata.get("citationSources")) or objects_of(metadata.get("citations"))
    return Grounding(hits=tuple(_page(source) for source in sources if text_of(source, "uri")))


def _hit(chunk: Any) -> SearchHit:
    sources = (chunk.get(name) for name in _SOURCES) if type(chunk) is dict else ()
    return _page(next((source for source in sources if type(source) is dict), {}))


def _page(source: Mapping[str, Any]) -> SearchHit:
    return SearchHit(text_of(source, "title"), text_of(source, "uri"))
