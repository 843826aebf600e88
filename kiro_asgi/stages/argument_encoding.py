"""Arguments that were encoded as JSON once more than they should be.

Models write ``"[1, 2]"`` where a list is wanted, and ``"true"`` for true.  Only the kind of a value is judged: a text
where the schema admits no text does not fit, whatever it says, so a value that fits is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kiro_asgi.stages.argument_schemas import ToolSchema, kind_of
from kiro_asgi.wire.json import JsonError, loads

__all__ = ["decoded", "object_in"]

_MAX_DEPTH: Final = 16
"""Lists and objects open at once within the arguments; what is deeper stays."""


def decoded(arguments: Mapping[str, Any], schema: ToolSchema) -> Mapping[str, Any]:
    """*arguments* with the value that it encodes in place of every text that *schema* admits no text for.

    The same object where nothing changes.  One level of encoding is undone, at any place.  A text is read strictly:
    ``"007"`` and ``"True"`` are no JSON.
    """
    value: Mapping[str, Any] = _decoded(dict(arguments), [schema.root], schema, 0)
    return arguments if value == arguments else value


def object_in(text: Any) -> dict[str, Any] | None:
    """The object that *text* encodes, where it is a text that does."""
    value = _read(text) if isinstance(text, str) else None
    return value if isinstance(value, dict) else None


def _read(text: str) -> Any:
    """What *text* encodes; itself where that is nothing."""
    try:
        return loads(text)
    except JsonError:
        return text


def _decoded(value: Any, parts: Sequence[Any], schema: ToolSchema, depth: int) -> Any:
    """*value*, which has to fit all of *parts*."""
    if not parts or depth > _MAX_DEPTH:
        return value
    if isinstance(value, str):
        value = _fitting(value, frozenset.intersection(*map(schema.admitted, parts)))
    if isinstance(value, dict):
        parts = _applying(parts, "object", schema)
        return {key: _decoded(it, _of_key(parts, key), schema, depth + 1) for key, it in value.items()}
    if isinstance(value, list):
        parts = _applying(parts, "array", schema)
        return [_decoded(it, _of_item(parts, index), schema, depth + 1) for index, it in enumerate(value)]
    return value


def _fitting(text: str, kinds: frozenset[str]) -> Any:
    if "string" in kinds:
        return text
    value = _read(text)
    return value if kind_of(value) in kinds else text


def _applying(parts: Sequence[Any], kind: str, schema: ToolSchema) -> list[Mapping[str, Any]]:
    return [it for part in parts for it in schema.applying(part, kind)]


def _of_key(parts: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    return [it for part in parts for it in _member(part, key)]


def _member(part: Mapping[str, Any], key: str) -> Iterator[Any]:
    properties = part.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        yield properties[key]
    elif "additionalProperties" in part and "patternProperties" not in part:
        yield part["additionalProperties"]


def _of_item(parts: Sequence[Mapping[str, Any]], index: int) -> list[Any]:
    return [it for part in parts for it in _item(part, index)]


def _item(part: Mapping[str, Any], index: int) -> Iterator[Any]:
    first = part.get("prefixItems", ())
    if isinstance(first, list | tuple) and index < len(first):
        yield first[index]
    elif "items" in part:
        yield part["items"]
