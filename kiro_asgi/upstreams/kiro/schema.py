"""JSON Schemas as the service takes them: an object at the root, and only keywords that every model behind it knows.

The keywords that are dropped narrow a value further than its type does (formats, lengths, ranges).  They are advice
to the model, some back ends refuse the whole request because of one, and the client checks the arguments anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["clean_schema"]

DROPPED: Final = frozenset(
    (
        "$schema",
        "$id",
        "$comment",
        "additionalProperties",
        "contains",
        "contentEncoding",
        "contentMediaType",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "encrypted",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "if",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "patternProperties",
        "propertyNames",
        "strict",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    )
)
"""Keywords that at least one back end refuses."""

NAMED: Final = frozenset(("properties", "$defs", "definitions"))
"""Keywords whose keys are names of the client's, which are never taken for keywords."""

LITERAL: Final = frozenset(("enum", "const", "default", "example", "examples"))
"""Keywords whose value is a value, not a schema."""

COMBINATORS: Final = ("allOf", "anyOf", "oneOf")


def clean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A new schema that the service takes; *schema* stays as it is."""
    cleaned = _clean(schema)
    for keyword in COMBINATORS:
        _flatten(cleaned, cleaned.pop(keyword, ()))
    return {**cleaned, "type": "object", "properties": cleaned.get("properties", {})}


def _clean(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = ((key, _keyword(key, value)) for key, value in schema.items() if key not in DROPPED)
    return {key: value for key, value in kept if value is not None}


def _keyword(key: str, value: Any) -> Any:
    """The value of one keyword; ``None`` drops it."""
    if key in LITERAL:
        return value if value != [] else None
    if key in NAMED:
        return {name: _schema(part) for name, part in value.items()} if isinstance(value, Mapping) else None
    if key == "required":
        names = [name for name in value if isinstance(name, str)] if isinstance(value, list | tuple) else []
        return list(dict.fromkeys(names)) or None
    if isinstance(value, Mapping):
        return _clean(value)
    if isinstance(value, list | tuple):
        return [_clean(part) if isinstance(part, Mapping) else part for part in value if part is not None] or None
    return value


def _schema(part: Any) -> dict[str, Any]:
    """A property's schema; those that are just true, false or null say nothing."""
    return _clean(part) if isinstance(part, Mapping) else {}


def _flatten(root: dict[str, Any], branches: Any) -> None:
    """Take the properties of alternatives into the root, where the service has no room for alternatives."""
    for branch in branches if isinstance(branches, list) else ():
        if isinstance(branch, Mapping):
            root["properties"] = {**branch.get("properties", {}), **root.get("properties", {})}
