"""What a request comes to: tokens for the model, and sizes for a log line.

Both are read from the body itself, so they count what is sent, whatever the client said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, Estimator
from kiro_asgi.wire.json import dumps

__all__ = ["statistics", "weigh"]


def weigh(body: Mapping[str, Any], estimator: Estimator) -> float:
    """Tokens that the model reads: texts, tools and arguments as JSON, images and documents at a fixed price each."""
    texts: list[str] = [block["text"] for block in body.get("system", ())]
    values: list[Any] = [*body.get("tools", ())]
    weight = 0.0
    for block in _blocks(body):
        weight += _collect(block, texts, values)
    weight += TURN_TOKENS * len(body["messages"])
    return weight + estimator.weigh("".join(texts)) + estimator.weigh(dumps(values)[1:-1].decode())


def _collect(block: Mapping[str, Any], texts: list[str], values: list[Any]) -> float:
    """Sort what a block says: all of a kind is weighed at once; the price of what has a fixed one."""
    match block["type"]:
        case "text":
            texts.append(block["text"])
        case "image":
            return IMAGE_TOKENS
        case "document" if block["source"]["type"] == "text":
            texts.append(block["source"]["data"])
        case "document":
            return DOCUMENT_TOKENS
        case "tool_use":
            texts.append(block["name"])
            values.append(block["input"])
        case "thinking":
            texts.append(block["thinking"])
    return 0


def _blocks(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every block, those in the results of tools among them."""
    for message in body["messages"]:
        for block in message["content"]:
            yield block
            if block["type"] == "tool_result":
                yield from block.get("content", ())


def statistics(body: Mapping[str, Any], size: int) -> dict[str, int]:
    """Counts of a *body* that is *size* bytes, and the characters of its system text; never a word of it."""
    kinds = [block["type"] for block in _blocks(body)]
    return {
        "bytes": size,
        "messages": len(body["messages"]),
        "tools": len(body.get("tools", ())),
        "tool_results": kinds.count("tool_result"),
        "images": kinds.count("image"),
        "system": sum(len(block["text"]) for block in body.get("system", ())),
    }
