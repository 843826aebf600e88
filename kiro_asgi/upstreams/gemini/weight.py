"""What a request comes to: tokens for the model, and sizes for a log line.

Both are read from the body itself, so they count what is sent, whatever the client said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, Estimator
from kiro_asgi.wire.json import dumps

__all__ = ["statistics", "weigh"]

Body = Mapping[str, Any]


def weigh(body: Body, estimator: Estimator) -> float:
    """Tokens that the model reads: texts, tools and arguments as JSON, images and documents at a fixed price each."""
    texts: list[str] = []
    values: list[Any] = [*body.get("tools", ())]
    config = body.get("generationConfig", {})
    values += [config[name] for name in ("responseSchema", "responseJsonSchema") if name in config]
    weight = float(TURN_TOKENS * len(body.get("contents", ())))
    for part in _parts(body):
        if "text" in part:
            texts.append(part["text"])
        elif attached := part.get("inlineData") or part.get("fileData"):
            weight += IMAGE_TOKENS if attached.get("mimeType", "image/").startswith("image/") else DOCUMENT_TOKENS
        else:
            values.append(part.get("functionCall") or part.get("functionResponse"))
    return weight + estimator.weigh("".join(texts)) + estimator.weigh(dumps(values)[1:-1].decode())


def statistics(body: Body, size: int) -> dict[str, int]:
    """Counts of a *body* that is *size* bytes, and the characters of its system text; never a word of it."""
    parts = [*_parts(body)]
    declared = (tool.get("functionDeclarations", (tool,)) for tool in body.get("tools", ()))
    media = [attached.get("mimeType", "") for part in parts if (attached := part.get("inlineData"))]
    return {
        "bytes": size,
        "messages": len(body.get("contents", ())),
        "tools": sum(map(len, declared)),
        "tool_results": sum("functionResponse" in part for part in parts),
        "images": sum(kind.startswith("image/") for kind in media),
        "system": sum(len(part["text"]) for part in body.get("systemInstruction", {}).get("parts", ())),
    }


def _parts(body: Body) -> Iterator[Mapping[str, Any]]:
    """Every part, those of the system text first."""
    for content in (body.get("systemInstruction", {}), *body.get("contents", ())):
        yield from content.get("parts", ())
