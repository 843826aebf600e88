"""Arguments that were encoded as JSON once more than they should be.

Models write ``"[1, 2]"`` where a list is wanted, and ``"true"`` for true.  Only the kind of a value is judged: a text
where the schema admits no text does not fit, whatever it says, so a value that fits is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kiro_asgi.limits import ARGUMENT_DEPTH
from kiro_asgi.stages.argument_schemas import ToolSchema, kind_of, of_item, of_key
from kiro_asgi.wire.json import JsonError, loads

__all__ = ["decoded", "object_in"]


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
    if not parts or depth > ARGUMENT_DEPTH:
        return value
    if isinstance(value, str):
        value = _fitting(value, frozenset.intersection(*map(schema.admitted, parts)))
    if isinstance(value, dict):
        parts = schema.all_applying(parts, "object")
        return {key: _decoded(it, of_key(parts, key), schema, depth + 1) for key, it in value.items()}
    if isinstance(value, list):
        parts = schema.all_applying(parts, "array")
        return [_decoded(it, of_item(parts, index), schema, depth + 1) for index, it in enumerate(value)]
    return value


def _fitting(text: str, kinds: frozenset[str]) -> Any:
    if "string" in kinds:
        return text
    value = _read(text)
    return value if kind_of(value) in kinds else text
