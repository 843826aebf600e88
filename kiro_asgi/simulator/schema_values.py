"""Make up a value that a JSON Schema accepts, with words taken from a text where they fit.

Covers what tool and answer schemas are made of: types, ``enum``, ``const``, ``default``, local ``$ref``, combinators,
bounds, common formats.  ``pattern`` is not solved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from attrs import field, frozen

HUGE: Final = 1e15
"""Bounds beyond this are taken for none."""

MAX_ITEMS: Final = 20
MAX_LENGTH: Final = 10_000
MAX_DEPTH: Final = 6
"""Deeper schemas get the emptiest value of their type, which ends recursion through ``$ref``."""

FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "date-time": "2026-01-02T03:04:05Z",
    "email": "someone@example.org",
    "uri": "https://example.org/",
    "url": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.org",
}

FINDERS: Final[tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...]] = (
    (
        re.compile(r"path|file|dir"),
        re.compile(r"(?<![\w:/])((?:[\w.~-]*/)+[\w.-]*\w|\w[\w-]*\.\w{1,5})\b"),
        "example.txt",
    ),
    (re.compile(r"url|uri|link"), re.compile(r"(https?://[^\s\"'<>)]+)"), "https://example.org/"),
    (re.compile(r"mail"), re.compile(r"([\w.+-]+@[\w-]+(?:\.[\w-]+)+)"), "someone@example.org"),
    (
        re.compile(r"city|location|place|country|region|town"),
        re.compile(r"\b(?:in|for|at|of|to|from|near) ((?:[A-ZÀ-ÞĀ-Ž][\w'’-]+ ?)+)"),
        "Oslo",
    ),
    (re.compile(r"command|cmd|shell"), re.compile(r"`([^`]+)`"), "ls"),
    (re.compile(r"expression|formula"), re.compile(r"(\d[\d\s.+*/()-]*\d)"), "2 + 3"),
)
"""Property name, how to find such a thing in a text, and what to take when there is none."""

QUOTED: Final = re.compile(r"[\"“`']([^\"”`']{1,200})[\"”`'](?!\w)")
NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")


@frozen
class _Maker:
    text: str
    root: Mapping[str, Any]
    everything: bool
    """Whether optional properties are filled too."""

    numbers: list[float] = field(factory=list)

    def make(self, schema: Any, name: str, depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return self.text or "anything"
        schema = self._resolved(schema, depth)
        if "const" in schema:
            return schema["const"]
        if values := _sequence(schema.get("enum")):
            return self._choice(values)
        if "default" in schema:
            return schema["default"]
        return MAKERS[_kind(schema)](self, schema, name, depth)

    def _resolved(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        for _ in range(MAX_DEPTH):
            if isinstance(reference := schema.get("$ref"), str):
                schema = _look_up(self.root, reference)
            elif branches := _sequence(schema.get("anyOf")) or _sequence(schema.get("oneOf")):
                rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
                schema = {**rest, **_mapping(branches[-1] if depth > MAX_DEPTH else branches[0])}
            elif parts := _sequence(schema.get("allOf")):
                schema = _merged([{key: value for key, value in schema.items() if key != "allOf"}, *parts], self.root)
            else:
                break
        return schema

    def _choice(self, values: Sequence[Any]) -> Any:
        lowered = self.text.lower()
        return next((value for value in values if isinstance(value, str) and value.lower() in lowered), values[0])

    def object(self, schema: Mapping[str, Any], name: str, depth: int) -> dict[str, Any]:
        properties = _mapping(schema.get("properties"))
        required = [key for key in _sequence(schema.get("required")) if isinstance(key, str)]
        if depth > MAX_DEPTH:
            wanted = required if depth <= 2 * MAX_DEPTH else []
        else:
            wanted = [*required, *(properties if self.everything else [] if required else list(properties)[:1])]
        return {key: self.make(properties.get(key, {}), key, depth + 1) for key in dict.fromkeys(wanted)}

    def array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
        least = max(_bound(schema, "minItems", 0), int(depth <= MAX_DEPTH))
        count = int(min(least, _bound(schema, "maxItems", MAX_ITEMS), MAX_ITEMS)) if depth <= 2 * MAX_DEPTH else 0
        return [self.make(schema.get("items", {}), name, depth + 1) for _ in range(count)]

    def string(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        value = FORMATS.get(str(schema.get("format"))) or self._word(name)
        value = value.ljust(int(min(_bound(schema, "minLength", 0), MAX_LENGTH)), ".")
        return value[: int(_bound(schema, "maxLength", MAX_LENGTH))]

    def _word(self, name: str) -> str:
        for names, pattern, fallback in FINDERS:
            if names.search(name.lower()):
                found = pattern.search(self.text)
                return found[1].strip() if found else fallback
        quoted = QUOTED.search(self.text)
        return quoted[1] if quoted else self.text[:200] or "example"

    def number(self, schema: Mapping[str, Any], name: str, depth: int) -> float:
        value = self.numbers.pop(0) if self.numbers else 1
        low = max(_bound(schema, "minimum", value), _bound(schema, "exclusiveMinimum", value - 1) + 1)
        value = max(value, low)
        high = min(_bound(schema, "maximum", value), _bound(schema, "exclusiveMaximum", value + 1) - 1)
        step = _bound(schema, "multipleOf", 0)
        return ceil(min(value, high) / step) * step if step > 0 else min(value, high)

    def integer(self, schema: Mapping[str, Any], name: str, depth: int) -> int:
        return ceil(self.number(schema, name, depth))

    def boolean(self, schema: Mapping[str, Any], name: str, depth: int) -> bool:
        return True

    def null(self, schema: Mapping[str, Any], name: str, depth: int) -> None:
        return None


MAKERS: Final[Mapping[str, Any]] = {
    "object": _Maker.object,
    "array": _Maker.array,
    "string": _Maker.string,
    "number": _Maker.number,
    "integer": _Maker.integer,
    "boolean": _Maker.boolean,
    "null": _Maker.null,
}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _bound(schema: Mapping[str, Any], word: str, default: float) -> float:
    value = schema.get(word)
    return value if isinstance(value, int | float) and abs(value) < HUGE else default


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if isinstance(kind, str) and kind in MAKERS:
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _look_up(root: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    place: Any = root
    for key in reference.removeprefix("#").split("/")[1:]:
        place = _mapping(place).get(key.replace("~1", "/").replace("~0", "~"))
    return _mapping(place)


def _merged(parts: Sequence[Any], root: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for part in map(_mapping, parts):
        whole = _look_up(root, part["$ref"]) if isinstance(part.get("$ref"), str) else part
        properties = {**_mapping(merged.get("properties")), **_mapping(whole.get("properties"))}
        required = [*_sequence(merged.get("required")), *_sequence(whole.get("required"))]
        merged |= whole
        merged |= {"properties": properties, "required": required} if properties else {}
    return merged


def value_for(schema: Mapping[str, Any], text: str = "", *, everything: bool = False) -> Any:
    """A value that *schema* accepts.

    Args:
        schema: JSON Schema, local references only.
        text: Where cities, paths, numbers and quoted words are taken from.
        everything: Fill optional properties too.
    """
    numbers = [float(found) if "." in found else int(found) for found in NUMBER.findall(text[:10_000])]
    return _Maker(text, schema, everything, numbers).make(schema, "", 0)
