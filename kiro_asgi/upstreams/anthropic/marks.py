"""Marks for the prompt cache, as many as the service takes.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def bounded(body: Mapping[str, Any], notes: Notes) -> None:
    """Take the first marks out of *body* where there are too many: a later one stands for more of the prompt."""
    places = [block for block in _blocks(body) if MARK in block]
    for block in places[: len(places) + (MARK in body) - MOST] if len(places) + (MARK in body) > MOST else ():
        notes.applies("cache.limit")
        del block[MARK]


def _blocks(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Whatever may have a mark, in the order in which the service reads it."""
    yield from body.get("tools", ())
    yield from body.get("system", ())
    for message in body["messages"]:
        for block in message["content"]:
            if block["type"] == "tool_result":
                yield from block.get("content", ())
            yield block
