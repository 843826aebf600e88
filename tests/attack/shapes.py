"""Requests, schemas and values that are small to send and were dear to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["DIGITS", "MIB", "SCHEMAS", "VALUES", "nested_text"]

MIB: Final = 1024 * 1024

DIGITS: Final = (400, 4_300)
"""Lengths of numbers: beyond a float, and as long as Python reads by default."""


def doubling(levels: int) -> dict[str, Any]:
    """A schema whose definitions are each two of the next."""
    defs: dict[str, Any] = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)}
    defs[f"d{levels}"] = {"type": "object"}
    return {"type": "object", "$defs": defs, "$ref": "#/$defs/d0"}


def unique() -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}


def choices() -> dict[str, Any]:
    """20,000 items, each one of 20,000 values."""
    items = {"enum": [f"v{number}" for number in range(20_000)]}
    return {"type": "object", "properties": {"a": {"type": "array", "items": items}}}


def branches(keyword: str) -> dict[str, Any]:
    """20,000 branches."""
    return {"type": "object", keyword: [{"properties": {f"p{number}": {"type": "string"}}} for number in range(20_000)]}


def chain(links: int) -> dict[str, Any]:
    """A definition that refers to the next, *links* times."""
    defs: dict[str, Any] = {f"d{link}": {"anyOf": [{"$ref": f"#/$defs/d{link + 1}"}]} for link in range(links)}
    defs[f"d{links}"] = {"type": "string"}
    return {"type": "object", "properties": {"city": {"$ref": "#/$defs/d0"}}, "$defs": defs}


def nested_text(depth: int) -> bytes:
    """A schema *depth* objects deep, as JSON, which is deeper than the standard encoder goes."""
    opening = b'{"type":"object","properties":{"city":'
    return opening * depth + b'{"type":"string"}' + b"}}" * depth


SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "doubling-14": lambda: doubling(14),
    "doubling-40": lambda: doubling(40),
    "unique": unique,
    "choices": choices,
    "anyOf": lambda: branches("anyOf"),
    "allOf": lambda: branches("allOf"),
    "chain-200": lambda: chain(200),
    "chain-2000": lambda: chain(2000),
}

VALUES: Final[Mapping[str, Callable[[], Any]]] = {
    "empty": dict,
    "city": lambda: {"city": "Bergen"},
    "unique": lambda: {"a": [{"n": number} for number in range(3000)]},
    "choices": lambda: {"a": [f"v{number}" for number in reversed(range(20_000))]},
}
"""Answers that are judged by a schema."""
