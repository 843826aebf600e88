"""What a request comes to: tokens for the model, and sizes for a log line.

Both are read from the body itself, so they count what is sent, whatever the client said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, Estimator
from kiro_asgi.upstreams.kiro.request import CONSENT
from kiro_asgi.upstreams.kiro.rules.sizes import messages
from kiro_asgi.wire.json import dumps

__all__ = ["statistics", "weigh"]


def weigh(body: Mapping[str, Any], estimator: Estimator) -> float:
    """Tokens that the model reads: texts, tools and arguments as JSON, images and documents at a fixed price each."""
    texts: list[str] = []
    values: list[Any] = []
    weight = 0.0
    for message in messages(body):
        weight += TURN_TOKENS
        weight += IMAGE_TOKENS * len(message.get("images", ())) + DOCUMENT_TOKENS * len(message.get("documents", ()))
        _collect(message, texts, values)
    return weight + estimator.weigh("".join(texts)) + estimator.weigh(dumps(values)[1:-1].decode())


def _collect(message: Mapping[str, Any], texts: list[str], values: list[Any]) -> None:
    """Sort what a message says: all of a kind is weighed at once, which is cheaper than piece by piece."""
    texts.append(message["content"])
    for call in message.get("toolUses", ()):
        texts.append(call["name"])
        values.append(call["input"])
    if reasoning := message.get("reasoningContent"):
        values.append(reasoning)
    if context := message.get("userInputMessageContext"):
        for result in context.get("toolResults", ()):
            texts += [part["text"] for part in result["content"]]
        if tools := context.get("tools"):
            values.append([tool["toolSpecification"] for tool in tools])


def statistics(body: Mapping[str, Any], size: int) -> dict[str, int]:
    """Counts of a *body* that is *size* bytes, and the characters of its system text; never a word of it."""
    every = [*messages(body)]
    contexts = [message.get("userInputMessageContext", {}) for message in every]
    told = len(every) > 2 and every[1]["content"] == CONSENT
    return {
        "bytes": size,
        "messages": len(every),
        "tools": sum(len(context.get("tools", ())) for context in contexts),
        "tool_results": sum(len(context.get("toolResults", ())) for context in contexts),
        "images": sum(len(message.get("images", ())) for message in every),
        "system": len(every[0]["content"]) if told else 0,
    }
