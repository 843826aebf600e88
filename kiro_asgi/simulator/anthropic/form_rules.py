"""What the service refuses about the form of the answer.

Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.anthropic.places import blocks
from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json
from kiro_asgi.simulator.question import Question

__all__ = ["FORM"]

ABLE: Final = ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-5", "claude-opus-4-6")
PLACE: Final = "output_config.format"
KEYWORDS: Final = frozenset(
    (
        "$defs", "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "const", "default", "definitions",
        "description", "enum", "format", "items", "minItems", "properties", "required", "title", "type",
    )
)  # fmt: skip
NAMED: Final = ("properties", "$defs", "definitions")


def _format(document: Json) -> Mapping[str, Any]:
    return as_map(as_map(document.get("output_config")).get("format"))


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every schema in *schema*, outer ones first."""
    waiting = [schema]
    while waiting:
        node = as_map(waiting.pop())
        yield node
        waiting += [each for word in NAMED for each in as_map(node.get(word)).values()]
        waiting += [each for word in ("anyOf", "allOf") for each in as_list(node.get(word))]
        waiting += [node["items"]] if "items" in node else []


def form_possible(document: Json, question: Question) -> str:
    """``output_config.format`` is a ``json_schema``, of a model that has it, and no answer is begun or citing then."""
    form = _format(document)
    if not form:
        return ""
    if not question.model.startswith(ABLE):
        return f"'{question.model}' does not support output format."
    if form.get("type") != "json_schema" or not as_map(form.get("schema")):
        return f"{PLACE}.schema: Field required"
    if as_map(as_list(document["messages"])[-1]).get("role") == "assistant":
        return f"{PLACE}: not supported with a prefilled answer"
    cites = any(as_map(block.get("citations")).get("enabled") for _, block in blocks(document))
    return f"{PLACE}: not supported with citations" if cites else ""


def schema_closed(document: Json, _: Question) -> str:
    """Every object in a schema of the answer says ``additionalProperties: false``."""
    for schema in _schemas(_format(document).get("schema")):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            return f"{PLACE}.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
    return ""


def schema_known(document: Json, _: Question) -> str:
    """A schema of the answer has a type, and no constraint on numbers, lengths or patterns."""
    for schema in _schemas(_format(document).get("schema")):
        unknown = sorted(schema.keys() - KEYWORDS)
        if unknown or schema.get("minItems", 0) > 1:
            words = ", ".join(unknown or ["minItems"])
            return f"{PLACE}.schema: For '{schema.get('type')}' type, properties {words} are not supported"
    return ""


def schema_ends(document: Json, _: Question) -> str:
    """No definition of a schema of the answer leads to itself."""
    root = as_map(_format(document).get("schema"))
    found = {f"#/{word}/{name}": body for word in NAMED[1:] for name, body in as_map(root.get(word)).items()}
    used = {name: {str(each["$ref"]) for each in _schemas(body) if "$ref" in each} for name, body in found.items()}
    for name in used:
        seen, waiting = set[str](), [*used[name]]
        while waiting:
            if (each := waiting.pop()) not in seen:
                seen.add(each)
                waiting += used.get(each, ())
        if name in seen:
            return f"{PLACE}.schema: Circular reference detected: {name}"
    return ""


FORM: Final[tuple[FormatRule, ...]] = (form_possible, schema_closed, schema_known, schema_ends)
