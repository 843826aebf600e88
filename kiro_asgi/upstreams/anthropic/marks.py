"""Marks for the prompt cache, as many as the service takes.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import REMEMBERED

__all__ = ["bounded", "marked"]

MARK: Final = "cache_control"
MOST: Final = 4
"""Marks of one request; one for all of it counts."""


def marked(block: dict[str, Any], mark: str) -> dict[str, Any]:
    """*block* with the *mark* that its part has in the prompt."""
    if not mark:
        return block
    return {**block, MARK: {"type": "ephemeral", **({} if mark == REMEMBERED else {"ttl": mark})}}


def bounded(body: Mapping[str, Any], blocks: Iterable[dict[str, Any]], notes: Notes) -> None:
    """Take the first marks out of *body* where there are too many: a later one stands for more of the prompt.

    Args:
        body: All but the blocks of messages is searched for marks.
        blocks: Blocks of messages that have one, in their order.
        notes: What was left out.
    """
    places = [part for part in (*body.get("tools", ()), *body.get("system", ())) if MARK in part]
    places += blocks
    for part in places[: max(len(places) + (MARK in body) - MOST, 0)]:
        notes.applies("cache.limit")
        del part[MARK]
