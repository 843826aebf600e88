"""JSON Schemas as services take them: an object at the root, and in words where there is no field for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kiro_asgi.limits import SCHEMA_DEPTH
from kiro_asgi.model.notes import Notes
from kiro_asgi.wire.json import dumps


def schema_instructions(schema: Mapping[str, Any]) -> Iterator[str]:
    """Instruct the model to give an answer that obeys *schema*, a JSON Schema; an empty one stands for any object."""
    kind = "object" if schema.get("type", "object") == "object" else "value"
    yield f"Answer with one JSON {kind} and nothing else: no explanation around it, no code fence."
    if schema:
        yield f"The {kind} must be valid against this JSON Schema: {dumps(dict(schema)).decode()}"


COMBINATORS: Final = ("allOf", "anyOf", "oneOf")

DEFINITIONS: Final = ("$defs", "definitions")
"""Keywords with schemas to refer to, by name."""


def flat(root: Mapping[str, Any]) -> dict[str, Any]:
    """*root* with the properties of its alternatives, where the service has no room for alternatives.

    Its own come first, and of several of one name the first counts.  Required is what the root and its ``allOf``
    require.  Every schema is visited once, so recursive ones end.
    """
    properties: dict[str, Any] = {}
    required: dict[str, None] = {}
    visited: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, True)]
    while waiting:
        schema, is_needed = waiting.pop()
        schema = target(schema, root) or schema
        if not isinstance(schema, Mapping) or id(schema) in visited:
            continue
        visited.add(id(schema))
        for name, part in _map(schema.get("properties")).items():
            properties.setdefault(name, part)
        if is_needed:
            required |= dict.fromkeys(_names(schema.get("required")))
        branches = [(each, is_needed and word == "allOf") for word in COMBINATORS for each in _list(schema.get(word))]
        waiting += reversed(branches)
    members = {key: value for key, value in root.items() if key not in COMBINATORS}
    found = {"properties": properties, "required": [*required]}
    return {**members, **{key: value for key, value in found.items() if value}}


def target(schema: Any, root: Mapping[str, Any]) -> dict[str, Any] | None:
    """Resolve a reference among the root's definitions; ``None`` where it leads nowhere, or there is none."""
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


def object_schema(schema: Mapping[str, Any], place: str, notes: Notes) -> dict[str, Any]:
    """The schema of a tool's arguments, for a service that wants an object at the root, and no alternatives there."""
    if "$ref" in schema and (found := target(schema, schema)):
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    if any(keyword in schema for keyword in COMBINATORS):
        notes.applies("schema.combinators", place)
        schema = flat(schema)
    if schema.get("type") != "object":
        notes.applies("schema.root", place)
    return {**schema, "type": "object"}


_VALUES: Final = frozenset({"properties", "required", "enum", "const", "default", "examples"})
"""Members of a schema that are not schemas."""


def is_closed(schema: Any) -> bool:
    """Whether every object in *schema* is closed: services that hold calls to a schema take no other."""
    return _each_object(schema, _closed)


def is_exact(schema: Any) -> bool:
    """Whether every object in *schema* is closed, and has all of its members required, as OpenAI demands it.

    Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    return _each_object(schema, _complete)


def _closed(schema: Mapping[str, Any]) -> bool:
    return schema.get("additionalProperties") is False


def _complete(schema: Mapping[str, Any]) -> bool:
    required = schema.get("required")
    return (
        _closed(schema) and isinstance(required, list) and set(map(str, required)) == {*_map(schema.get("properties"))}
    )


def _each_object(schema: Any, holds: Callable[[Mapping[str, Any]], bool]) -> bool:
    if isinstance(schema, list | tuple):
        return all(_each_object(part, holds) for part in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" and not holds(schema):
        return False
    named = schema.get("properties")
    inner = [value for key, value in schema.items() if key not in _VALUES]
    return all(_each_object(part, holds) for part in (*(named.values() if isinstance(named, Mapping) else ()), *inner))
