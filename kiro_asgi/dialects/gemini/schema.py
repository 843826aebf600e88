"""Google's schemas, and JSON Schema as Google's clients write it, as JSON Schema.

Names of types may be in capitals in either, which is how the official clients write them.

Source: https://ai.google.dev/api/caching#Schema
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["json_schema"]

_SPELLED: Final = MappingProxyType(
    {
        "any_of": "anyOf",
        "max_items": "maxItems",
        "min_items": "minItems",
        "max_length": "maxLength",
        "min_length": "minLength",
        "max_properties": "maxProperties",
        "min_properties": "minProperties",
        "prefix_items": "prefixItems",
        "additional_properties": "additionalProperties",
        "defs": "$defs",
        "ref": "$ref",
    }
)
"""Keywords in another spelling."""

_DROPPED: Final = frozenset({"propertyOrdering", "property_ordering", "example", "nullable"})
_LISTS: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
_COUNTS: Final = frozenset({"maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"})

_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})


def json_schema(schema: Any) -> Any:
    """*schema* as JSON Schema; what is none stays for its reader to judge."""
    if type(schema) is not dict:
        return schema
    written: dict[str, Any] = {}
    for name, value in schema.items():
        keyword = _SPELLED.get(name, name)
        if keyword not in _DROPPED and value is not None and not (keyword == "format" and value == "enum"):
            written[keyword] = _value(keyword, value)
    return _with_null(written) if schema.get("nullable") is True else written


def _value(keyword: str, value: Any) -> Any:
    if keyword == "type":
        return [*map(_type, value)] if type(value) is list else _type(value)
    if keyword in _LISTS and type(value) is list:
        return [*map(json_schema, value)]
    if keyword in _MAPS and type(value) is dict:
        return {name: json_schema(part) for name, part in value.items()}
    if keyword in _COUNTS and type(value) is str and value.isdecimal() and value.isascii():
        return int(value[:15])
    return json_schema(value) if keyword in _SCHEMAS else value


def _type(word: Any) -> Any:
    return word.lower() if type(word) is str and word in _TYPES else word


def _with_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """*schema*, or ``null``."""
    if type(kind := schema.get("type")) is not str:
        return {"anyOf": [dict(schema), {"type": "null"}]}
    null = {"enum": [*schema["enum"], None]} if type(schema.get("enum")) is list else {}
    return {**schema, "type": [kind, "null"], **null}
