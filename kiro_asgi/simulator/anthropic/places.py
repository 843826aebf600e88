"""Where things are in a request of the Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kiro_asgi.simulator.anthropic.reader import blocks_of
from kiro_asgi.simulator.conversation import as_list, as_map

__all__ = ["blocks", "joined", "messages_of", "of_type"]

Block = Mapping[str, Any]


def messages_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages."""
    return [as_map(message) for message in as_list(document.get("messages"))]


def blocks(document: Mapping[str, Any]) -> Iterator[tuple[str, Block]]:
    """Every block of every message, with its place."""
    for at, message in enumerate(messages_of(document)):
        for number, block in enumerate(blocks_of(message.get("content"))):
            yield f"messages.{at}.content.{number}", block


def joined(document: Mapping[str, Any]) -> list[tuple[Any, list[Block]]]:
    """Role and blocks of each message; neighbours of one role are one, as the service has it."""
    found: list[tuple[Any, list[Block]]] = []
    for message in messages_of(document):
        content = blocks_of(message.get("content"))
        if found and found[-1][0] == message.get("role"):
            found[-1][1].extend(content)
        else:
            found.append((message.get("role"), content))
    return found


def of_type(content: list[Block], *kinds: str) -> list[Block]:
    """The blocks of *content* of *kinds*."""
    return [block for block in content if block.get("type") in kinds]
