"""JSON Schemas cut down to the keywords that every service takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.model.depth import require_depth

__all__ = ["clean_json_schema_properties"]

KEPT: Final = frozenset(("type", "description", "properties", "required", "enum", "items"))


def clean_json_schema_properties(schema: Any) -> Any:
    """*schema* with six keywords only, at every level: ``type description properties required enum items``.

    Names of properties are no keywords and all stay.  What is not an object is returned as it is; *schema* itself is
    never changed.

    Raises:
        RequestError: It is nested deeper than `kiro_asgi.limits.JSON_DEPTH` levels.
    """
    require_depth(schema, "schema", "schema")
    return _cleaned(schema)


def _cleaned(schema: Any) -> Any:
    """The same of a schema whose depth is known."""
    if not isinstance(schema, Mapping):
        return schema
    return {key: _value(key, value) for key, value in schema.items() if key in KEPT}


def _value(key: str, value: Any) -> Any:
    if key == "properties" and isinstance(value, Mapping):
        return {name: _cleaned(part) for name, part in value.items()}
    return _cleaned(value) if key == "items" else value
