"""What a service has no field for, in words of the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kiro_asgi.wire.json import dumps

__all__ = ["schema_instructions"]


def schema_instructions(schema: Mapping[str, Any]) -> Iterator[str]:
    """The demand for an answer that obeys *schema*, a JSON Schema; an empty one stands for any object."""
    kind = "object" if schema.get("type", "object") == "object" else "value"
    yield f"Answer with one JSON {kind} and nothing else: no explanation around it, no code fence."
    if schema:
        yield f"The {kind} must be valid against this JSON Schema: {dumps(dict(schema)).decode()}"
