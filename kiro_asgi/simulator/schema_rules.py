"""What the service refuses about the schemas of tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_map
from kiro_asgi.simulator.rules import IMPROPER, Asked, Refusal, Rule

__all__ = ["SCHEMAS"]

REFUSED: Final = frozenset(
    (
        "$schema", "additionalProperties", "contains", "contentEncoding", "contentMediaType", "dependencies",
        "dependentRequired", "dependentSchemas", "else", "encrypted", "exclusiveMaximum", "exclusiveMinimum", "format",
        "if", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum",
        "multipleOf", "pattern", "patternProperties", "propertyNames", "then", "unevaluatedItems",
        "unevaluatedProperties", "uniqueItems",
    )
)  # fmt: skip
"""Keywords that some back end or other refuses."""

NAMES: Final = frozenset(("properties", "$defs", "definitions"))
"""Keywords whose members are names of the client's."""

LITERALS: Final = frozenset(("const", "default", "enum", "example", "examples"))
"""Keywords whose value is a value."""

ALTERNATIVES: Final = frozenset(("allOf", "anyOf", "oneOf"))


def schema_roots_are_objects(asked: Asked) -> bool:
    """A tool's schema has ``type: object`` at its root, and no alternatives there."""
    return all(
        tool.schema.get("type") == "object" and not ALTERNATIVES & set(tool.schema)
        for tool in asked.conversation.tools
    )  # fmt: skip


def schema_parts_are_objects(asked: Asked) -> bool:
    """``properties`` holds schemas by name, and every schema is an object: not null, not a boolean."""
    named = [part[name] for part in _schemas(asked) for name in NAMES if name in part]
    return all(isinstance(part, Mapping) for value in named for part in (value, *as_map(value).values()))


def required_lists_names(asked: Asked) -> bool:
    """``required`` is a list of names, never null and never empty.

    One gateway sends an empty list without harm; three found it refused.
    """
    return all(_lists_names(part.get("required", ["name"])) for part in _schemas(asked))


def _lists_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def keywords_known(asked: Asked) -> bool:
    """No schema uses a keyword that narrows a value beyond its type, or says what else it may hold.

    Which of them are refused varies by model; no model needs one.  Names under ``properties`` are no keywords.
    """
    return not any(REFUSED & set(part) for part in _schemas(asked))


def _schemas(asked: Asked) -> Iterator[Mapping[str, Any]]:
    """Every schema within the schemas of all tools."""
    rest: list[Any] = [tool.schema for tool in asked.conversation.tools]
    while rest:
        schema = rest.pop()
        yield schema
        for keyword, value in schema.items():
            if keyword in LITERALS:
                continue
            parts = value.values() if keyword in NAMES and isinstance(value, Mapping) else (value,)
            for part in parts:
                rest += [each for each in (part if isinstance(part, list) else (part,)) if isinstance(each, Mapping)]


SCHEMAS: Final = (
    Rule(schema_roots_are_objects, Refusal(400, "Invalid tool schema.", "TOOL_SCHEMA_INVALID")),
    Rule(schema_parts_are_objects, IMPROPER),
    Rule(required_lists_names, IMPROPER),
    Rule(keywords_known, IMPROPER),
)
