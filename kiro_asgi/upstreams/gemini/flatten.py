"""References and ``allOf`` of JSON Schemas: the service does not know them, so what they lead to takes their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from attrs import define, field

from kiro_asgi.limits import SCHEMA_COPIES, SCHEMA_DEPTH
from kiro_asgi.upstreams.notes import Notes
from kiro_asgi.wire.json import dumps

__all__ = ["ROUNDS", "Flattening"]

ROUNDS: Final = 2
"""How often a reference is followed within what it leads to."""

_LONG: Final = 200
"""Bytes of texts and values that count as one more schema."""

_SCHEMAS: Final = frozenset({"properties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$defs", "definitions"})
"""Keywords with schemas, which count for themselves."""

Flat = dict[str, Any]
Opened = tuple[str, ...]


@define
class Flattening:
    """Reads the nodes of one schema."""

    _root: Mapping[str, Any]
    _notes: Notes
    _spare: int = field(init=False, default=SCHEMA_COPIES)

    def flat(self, node: Mapping[str, Any], place: str, opened: Opened, depth: int) -> tuple[Flat, Opened]:
        """A node's keywords without ``$ref`` and ``allOf``, and the references that lead to it.

        Args:
            node: A schema.
            place: Where it stands.
            opened: The references that lead to it so far.
            depth: Schemas around it.
        """
        if depth > SCHEMA_DEPTH:
            self._notes.applies("schema.depth", place)
            return _cut(node), opened
        if opened:
            self._spare -= _cost(node)
        if self._spare < 0:
            self._notes.applies("schema.size", place)
            return _cut(node), opened
        flat = {key: _own(value) for key, value in node.items() if key not in ("$ref", "allOf")}
        gathered = opened
        for inner, through in self._inner(node, place, opened):
            found, path = self.flat(inner, place, through, depth + 1)
            gathered += path[len(opened) :]
            if not _merge(flat, found):
                self._notes.applies("schema.conflict", place)
        return flat, gathered

    def _inner(self, node: Mapping[str, Any], place: str, opened: Opened) -> Iterator[tuple[Mapping[str, Any], Opened]]:
        """The schemas that *node* takes in, each with the references that lead to it."""
        if "$ref" in node:
            target, reference = self._target(node["$ref"]), node["$ref"]
            if target is None:
                self._notes.applies("schema.reference", place)
            elif opened.count(reference) >= ROUNDS:
                self._notes.applies("schema.recursion", place)
                yield {"type": "object"} if "properties" in target else {}, opened
            else:
                yield target, (*opened, reference)
        if "allOf" in node:
            branches = node["allOf"] if type(node["allOf"]) is list else ()
            yield from ((branch, opened) for branch in branches if isinstance(branch, Mapping))

    def _target(self, reference: Any) -> Mapping[str, Any] | None:
        """What a reference within the schema leads to."""
        if type(reference) is not str or not reference.startswith("#"):
            return None
        node: Any = self._root
        for step in filter(None, reference[1:].split("/")):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = node.get(key)
            elif type(node) is list and key.isdecimal() and len(key) < 6 and int(key) < len(node):
                node = node[int(key)]
            else:
                return None
        return node if isinstance(node, Mapping) else None


def _cut(node: Mapping[str, Any]) -> Flat:
    """What stands for a schema that is not followed: anything of its type, an object if it does not say of which."""
    return {"type": node.get("type", "object")}


def _cost(node: Mapping[str, Any]) -> int:
    """What a schema adds, without those within it."""
    return 1 + len(dumps([value for key, value in node.items() if key not in _SCHEMAS])) // _LONG


def _own(value: Any) -> Any:
    """What may be added to: a copy."""
    kind = type(value)
    return {**value} if kind is dict else [*value] if kind is list else value


def _merge(flat: Flat, other: Flat) -> bool:
    """Add to *flat* what *other* demands in addition; whether all of that could be.  Both are used up."""
    whole = True
    for key, value in other.items():
        known = flat.setdefault(key, value)
        if known is value:
            continue
        if key == "properties" and type(value) is type(known) is dict:
            for name, part in value.items():
                whole = known.setdefault(name, part) == part and whole
        elif key == "required" and type(value) is type(known) is list:
            known += value
        elif key == "description" and type(value) is type(known) is str:
            flat[key] = known if value in known else f"{known}\n{value}"
        elif known != value and key not in _NAMES:
            whole = False
    return whole


_NAMES: Final = frozenset({"$defs", "definitions", "$schema", "$id"})
"""Keywords that demand nothing, and of which the outer one counts."""
