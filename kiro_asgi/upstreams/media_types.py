"""Media types: of what clients attach, and of what services answer in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kiro_asgi.errors import NotTheUpstream

__all__ = ["EVENT_STREAM", "JSON", "essence", "require_media_type"]

EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"


def essence(media_type: str) -> str:
    """A media type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def require_media_type(content_type: str, accepted: Iterable[str]) -> None:
    """Accept an answer of one of these media types, or of none that was named.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``.
    """
    media_type = essence(content_type)
    if media_type and media_type not in accepted:
        shown = media_type[:60]
        raise NotTheUpstream(f"the upstream answered in {shown}, which is no stream", code="upstream.content_type")
