"""Keywords of JSON Schema, and what becomes of each.

The service knows a part of OpenAPI's schemas, and refuses a request with any other keyword.

Source: https://ai.google.dev/api/caching#Schema
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["FORMATS", "KEPT", "OWNERS", "SILENT", "TOLD", "TYPES", "anything"]


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_anything(value: Any) -> bool:
    return True


TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
"""In lower or upper case."""

KEPT: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "title": _is_text,
        "description": _is_text,
        "nullable": _is_flag,
        "minItems": _is_count,
        "maxItems": _is_count,
        "minProperties": _is_count,
        "maxProperties": _is_count,
        "minLength": _is_count,
        "maxLength": _is_count,
        "pattern": _is_text,
        "minimum": _is_number,
        "maximum": _is_number,
        "default": _is_anything,
        "example": _is_anything,
    }
)
"""Keywords that stay as they are, and what their values must be."""

FORMATS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "string": ("enum", "date-time"),
        "integer": ("int32", "int64"),
        "number": ("float", "double"),
    }
)
"""The formats that a type has."""

TOLD: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = MappingProxyType(
    {
        "exclusiveMinimum": (_is_number, "greater than {}"),
        "exclusiveMaximum": (_is_number, "less than {}"),
        "multipleOf": (_is_number, "a multiple of {}"),
        "uniqueItems": (_is_flag, "unique items: {}"),
        "contentEncoding": (_is_text, "content encoding {}"),
        "contentMediaType": (_is_text, "content type {}"),
        "not": (_is_anything, "not {}"),
        "patternProperties": (_is_anything, "properties by pattern {}"),
        "examples": (_is_anything, "for example {}"),
    }
)
"""Keywords that are told in the description: what the value must be, and the words."""

SILENT: Final = frozenset(
    {
        *("$schema", "$id", "$anchor", "$comment", "$defs", "$vocabulary", "definitions"),
        *("deprecated", "readOnly", "writeOnly"),
    }
)
"""Keywords that demand nothing."""

OWNERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "string": ("format", "minLength", "maxLength", "pattern", "enum", "contentEncoding", "contentMediaType"),
        "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
        "object": (
            *("properties", "required", "minProperties", "maxProperties", "propertyOrdering"),
            *("additionalProperties", "patternProperties"),
        ),
        "number": ("format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        "integer": ("format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
)
"""Keywords that speak of one type only."""


def anything(*, arrays: bool = True) -> dict[str, Any]:
    """The schema of what may be anything: the service wants types to be named.

    Args:
        arrays: Whether it may be an array, of anything but arrays.
    """
    branches: list[dict[str, Any]] = [{"type": name} for name in ("string", "number", "boolean", "object")]
    return {"anyOf": [*branches, *([{"type": "array", "items": anything(arrays=False)}] if arrays else ())]}
