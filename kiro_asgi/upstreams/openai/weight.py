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
    """Tokens that the model reads: texts, tools and calls as JSON, images and files at a fixed price each."""
    texts: list[str] = []
    weight = float(TURN_TOKENS * len(body["messages"]))
    for message in body["messages"]:
        texts.append(message.get("reasoning_content", ""))
        for call in message.get("tool_calls", ()):
            texts += call["function"].values()
    for part in _parts(body):
        if part["type"] == "text":
            texts.append(part["text"])
        else:
            weight += IMAGE_TOKENS if part["type"] == "image_url" else DOCUMENT_TOKENS
    tools = [tool["function"] for tool in body.get("tools", ())]
    return weight + estimator.weigh("".join(texts)) + estimator.weigh(dumps(tools)[1:-1].decode())


def statistics(body: Mapping[str, Any], size: int) -> dict[str, int]:
    """Counts of a *body* that is *size* bytes, and the characters of its system text; never a word of it."""
    messages = body["messages"]
    return {
        "bytes": size,
        "messages": len(messages),
        "tools": len(body.get("tools", ())),
        "tool_results": sum(message["role"] == "tool" for message in messages),
        "images": sum(part["type"] == "image_url" for part in _parts(body)),
        "system": sum(len(message["content"]) for message in messages if message["role"] == "system"),
    }


def _parts(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The contents of all messages as parts."""
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, list):
            yield from content
        else:
            yield {"type": "text", "text": content or ""}
