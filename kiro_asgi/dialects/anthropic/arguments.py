"""Schemas of the arguments of tools that Anthropic defines by a type, and whose schemas are in no request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Schema = Mapping[str, Any]
"""A JSON Schema."""


def object_schema(required: Iterable[str], **properties: Schema) -> Schema:
    """An object with these *properties*; the list of those *required* is left out where there are none."""
    names = [*required]
    return {"type": "object", "properties": properties, **({"required": names} if names else {})}


def string(description: str) -> Schema:
    """A text."""
    return {"type": "string", "description": description}


def words(*choices: str) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": [*choices]}


def integers(description: str, count: int = 2) -> Schema:
    """So many whole numbers in a row."""
    return {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": count,
        "maxItems": count,
        "description": description,
    }


def integer(description: str) -> Schema:
    """A whole number."""
    return {"type": "integer", "description": description}


def number(description: str) -> Schema:
    """A number."""
    return {"type": "number", "description": description}


def strings(description: str) -> Schema:
    """A list of texts."""
    return {"type": "array", "items": {"type": "string"}, "description": description}


def either(description: str, *branches: Schema) -> Schema:
    """What is one of several things."""
    return {"anyOf": [*branches], "description": description}
