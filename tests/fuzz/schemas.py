"""JSON Schemas, sense or nonsense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.fuzz.source import REPEATS, Source

__all__ = ["chain", "schema"]

SEVERAL: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
TYPES: Final = ("object", "string", "array", "integer", "null", ["string", "null"], [], "x", 1)
NAMES: Final = ("a", "b", "city", "$ref", "", "(a+)+$")
REFERENCES: Final = ("#", "#/$defs/a", "#/$defs/b", "#/definitions/a", "#/properties/a", "#/$defs/x", "http://x/y", "")


Draw = Callable[[Source, int], Any]


def _single(source: Source, depth: int) -> Any:
    return schema(source, depth)


def _several(source: Source, depth: int) -> Any:
    return [schema(source, depth) for _ in range(source.below(4))] * source.pick(REPEATS)


def _named(source: Source, depth: int) -> Any:
    return {source.pick(NAMES): schema(source, depth) for _ in range(source.below(4))}


def _values(source: Source, depth: int) -> Any:
    return [source.value(1) for _ in range(source.below(3))] * source.pick(REPEATS)


MEMBERS: Final[tuple[tuple[tuple[str, ...], Draw], ...]] = (
    (("type",), lambda source, _: source.pick(TYPES)),
    (("$ref",), lambda source, _: source.pick(REFERENCES)),
    (("enum", "required", "examples"), _values),
    (("const", "default", "format", "title", "description", "x"), lambda source, _: source.value(1)),
    (("items", "not", "additionalProperties", "contains", "if", "then", "else", "propertyNames"), _single),
    (SEVERAL, _several),
    (("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"), _named),
)
"""Keywords to what stands behind them; the last three are schemas again."""


def schema(source: Source, depth: int = 4) -> Any:
    """A schema, perhaps nested in others."""
    found: dict[str, Any] = {}
    for _ in range(source.below(5)):
        names, draw = source.pick(MEMBERS if depth else MEMBERS[:-3])
        found[source.pick(names)] = draw(source, depth - 1)
    if source.below(6) == 5:
        for _ in range(source.pick((1, 20, 40, 60))):
            found = {source.pick(("anyOf", "allOf")): [found]} if source.below(2) else {"properties": {"a": found}}
    return found


def chain(source: Source) -> Any:
    """Definitions each of which refers to the next, once or twice."""
    links, keyword, times = source.pick((2, 30, 200, 1000)), source.pick(SEVERAL[:3]), 1 + source.below(2)
    defs = {f"d{link}": {keyword: [{"$ref": f"#/$defs/d{link + 1}"}] * times} for link in range(links)}
    defs[f"d{links}"] = schema(source, 1)
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs}
