"""The root of a JSON Schema, for services that want an object there and nothing cleverer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.limits import SCHEMA_DEPTH

__all__ = ["COMBINATORS", "DEFINITIONS", "flat", "target"]

COMBINATORS: Final = ("allOf", "anyOf", "oneOf")

DEFINITIONS: Final = ("$defs", "definitions")
"""Keywords with schemas to refer to, by name."""


def flat(root: Mapping[str, Any]) -> dict[str, Any]:
    """*root* with the properties of its alternatives, where the service has no room for alternatives.

    Its own come first, and of several of one name the first counts.  Required is what all of it wants.  Every schema is
    looked at once, so those that refer to themselves have an end.
    """
    properties: dict[str, Any] = {}
    required: dict[str, None] = {}
    passed: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, True)]
    while waiting:
        schema, is_needed = waiting.pop()
        schema = target(schema, root) or schema
        if not isinstance(schema, Mapping) or id(schema) in passed:
            continue
        passed.add(id(schema))
        for name, part in _map(schema.get("properties")).items():
            properties.setdefault(name, part)
        if is_needed:
            required |= dict.fromkeys(_names(schema.get("required")))
        branches = [(it, is_needed and word == "allOf") for word in COMBINATORS for it in _list(schema.get(word))]
        waiting += reversed(branches)
    members = {key: value for key, value in root.items() if key not in COMBINATORS}
    found = {"properties": properties, "required": [*required]}
    return {**members, **{key: value for key, value in found.items() if value}}


def target(schema: Any, root: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a reference leads to among the root's definitions; ``None`` where it leads nowhere, or is none."""
    found = None
    for _ in range(SCHEMA_DEPTH):
        reference = _map(schema).get("$ref")
        if not isinstance(reference, str):
            return found
        keyword, _, name = reference.removeprefix("#/").partition("/")
        schema = found = _map(_map(root.get(keyword)).get(name)) if keyword in DEFINITIONS else None
    return None


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(value: Any) -> list[str]:
    return [name for name in _list(value) if isinstance(name, str)]
