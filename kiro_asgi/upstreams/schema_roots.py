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
    """*root* with the properties of its alternatives, where the service has no room for alternatives."""
    properties, required = _gathered(root, root, set(), SCHEMA_DEPTH)
    members = {key: value for key, value in root.items() if key not in COMBINATORS}
    found = {"properties": properties, "required": [*dict.fromkeys(required)]}
    return {**members, **{key: value for key, value in found.items() if value}}


def _gathered(schema: Any, root: Mapping[str, Any], passed: set[int], depth: int) -> tuple[dict[str, Any], list[str]]:
    """The properties of a schema, those of its alternatives behind its own, and the names that every one of them wants.

    A schema that refers to itself is looked at once.
    """
    schema = target(schema, root) or schema
    if not isinstance(schema, Mapping) or id(schema) in passed or not depth:
        return {}, []
    passed.add(id(schema))
    properties, required = _map(schema.get("properties")), _names(schema.get("required"))
    for keyword in COMBINATORS:
        for branch in _list(schema.get(keyword)):
            found, wanted = _gathered(branch, root, passed, depth - 1)
            properties = {**found, **properties}
            required = [*required, *wanted] if keyword == "allOf" else required
    return properties, required


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
