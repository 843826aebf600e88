"""JSON Schemas as the service takes them: an object at the root, and only keywords that every model behind it knows.

The keywords that are dropped narrow a value further than its type does (formats, lengths, ranges).  They are advice
to the model, some back ends refuse the whole request because of one, and the client checks the arguments anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.limits import SCHEMA_DEPTH
from kiro_asgi.model.notes import Notes
from kiro_asgi.upstreams.rendering import COMBINATORS, DEFINITIONS, flat, target

__all__ = ["Schemas"]

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


@define
class Schemas:
    """Cleans the schemas of one request; those of the client stay as they are."""

    _notes: Notes
    _dropped: frozenset[str] = field(init=False, default=DROPPED)
    _place: str = field(init=False, default="")
    _found: set[str] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        if "schema.keywords" in self._notes.off:
            self._dropped = frozenset()

    def clean(self, schema: Mapping[str, Any], place: str = "") -> dict[str, Any]:
        """A new schema that the service takes; a rule that had something to do with *schema* is noted once."""
        self._place = place
        self._found.clear()
        root = self._schema(schema, SCHEMA_DEPTH)
        if "$ref" in root and self._may("schema.reference"):
            root = {**(target(root, root) or {}), **{key: value for key, value in root.items() if key != "$ref"}}
        if any(keyword in root for keyword in COMBINATORS) and self._may("schema.combinators"):
            root = flat(root)
        properties = root.get("properties")
        if (properties is None or root.get("type") != "object") and self._may("schema.root"):
            root["type"], root["properties"] = "object", properties or {}
        self._name_properties(root)
        return root

    def _name_properties(self, root: dict[str, Any]) -> None:
        """Only properties are required."""
        required, properties = root.get("required"), root.get("properties", ())
        if required and not all(name in properties for name in required) and self._may("schema.required"):
            root["required"] = [name for name in required if name in properties]
            if not root["required"]:
                del root["required"]

    def _may(self, rule: str) -> bool:
        if rule in self._found:
            return True
        if not self._notes.applies(rule, self._place):
            return False
        self._found.add(rule)
        return True

    def _schema(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        if depth == 0 and self._may("schema.depth"):
            return {}
        cleaned: dict[str, Any] = {}
        for key, value in schema.items():
            if key in self._dropped:
                self._may("schema.keywords")
            elif type(value) is str and key not in READERS and key != "required":
                cleaned[key] = value
            elif key == "required":
                self._require(cleaned, value)
            elif (found := READERS.get(key, Schemas._nested)(self, value, depth)) is not None:
                cleaned[key] = found
            elif not self._may("schema.malformed"):
                cleaned[key] = value
        return cleaned

    def _named(self, value: Any, depth: int) -> dict[str, Any] | None:
        """Schemas by names of the client's, which are never taken for keywords."""
        return {name: self._part(part, depth) for name, part in value.items()} if isinstance(value, Mapping) else None

    def _part(self, part: Any, depth: int) -> Any:
        """One schema; one that is just true, false or null says nothing."""
        if isinstance(part, Mapping):
            return self._schema(part, depth - 1)
        return {} if self._may("schema.malformed") else part

    def _nested(self, value: Any, depth: int) -> Any:
        """The value of a keyword that may hold a schema, or several."""
        if isinstance(value, Mapping):
            return self._schema(value, depth - 1)
        if not isinstance(value, list | tuple):
            return value
        parts = [self._part(part, depth) if isinstance(part, Mapping | bool) else part for part in value]
        return [part for part in parts if part is not None or not self._may("schema.malformed")] or None

    def _items(self, value: Any, depth: int) -> Any:
        return self._part(value, depth) if isinstance(value, bool) else self._nested(value, depth)

    def _literal(self, value: Any, _: int) -> Any:
        """A value that is a value, not a schema."""
        return None if value == [] else value

    def _require(self, cleaned: dict[str, Any], value: Any) -> None:
        """Required are names, each once; that there is none is said by leaving them out."""
        names = [name for name in value if isinstance(name, str)] if isinstance(value, list | tuple) else []
        names = list(dict.fromkeys(names))
        if (not names or names != value) and not self._may("schema.required"):
            cleaned["required"] = value
        elif names:
            cleaned["required"] = names


READERS: Final[Mapping[str, Callable[[Schemas, Any, int], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(("properties", *DEFINITIONS), Schemas._named),
        **dict.fromkeys(("enum", "const", "default", "example", "examples"), Schemas._literal),
        "items": Schemas._items,
    }
)
"""Keyword to its reader, which returns ``None`` for what is to be dropped; others hold a schema, schemas or a value."""
