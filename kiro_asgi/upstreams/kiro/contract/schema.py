"""JSON Schemas cut down to the keywords that every service takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.model.depth import require_depth

__all__ = ["clean_json_schema_properties", "left_out"]

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


def left_out(schema: Any) -> dict[str, int]:
    """Rules of what `clean_json_schema_properties` leaves out of *schema*, each with how often: keywords, and all of
    them of a part that had some."""
    found: dict[str, int] = {}
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            if dropped := len(node.keys() - KEPT):
                found["schema.keywords"] = found.get("schema.keywords", 0) + dropped
                if dropped == len(node):
                    found["contract.schema_emptied"] = found.get("contract.schema_emptied", 0) + 1
            properties = node.get("properties")
            pending += properties.values() if isinstance(properties, Mapping) else ()
            pending.append(node.get("items"))
    return found
