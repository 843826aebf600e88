"""References and ``allOf`` of JSON Schemas: the service does not know them, so what they lead to takes their place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from attrs import define, field, frozen

from kiro_asgi.limits import DESCRIPTION_CHARACTERS, SCHEMA_COPIES, SCHEMA_DEPTH
from kiro_asgi.model.notes import Notes
from kiro_asgi.wire.json import dumps

__all__ = ["ROUNDS", "Copies", "Flattening", "Opened"]

ROUNDS: Final = 2
"""How often a reference is followed within what it leads to."""

_LONG: Final = 200
"""Bytes of texts and values that count as one more schema."""

_SCHEMAS: Final = frozenset({"properties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$defs", "definitions"})
"""Keywords with schemas, which count for themselves."""

Flat = dict[str, Any]


@frozen
class Opened:
    """The references that lead to a schema: those followed for it, and for the schemas around it."""

    _around: Opened | None = None
    _own: Mapping[str, int] = field(factory=dict)
    """How often each."""

    def __bool__(self) -> bool:
        return self._around is not None

    def times(self, reference: str) -> int:
        """How often *reference* leads there."""
        times, opened = 0, self
        while opened._around is not None:
            times += opened._own.get(reference, 0)
            opened = opened._around
        return times

    def within(self, followed: Iterable[str]) -> Opened:
        """The same and *followed*."""
        own = Counter(followed)
        return Opened(self, own) if own else self


@define
class Copies:
    """Budget for what references may put into all schemas of one request, in addition to what the client wrote down."""

    _left: int = field(init=False, default=SCHEMA_COPIES)

    def take(self, node: Mapping[str, Any]) -> bool:
        """Take what *node* costs; whether there was enough for it."""
        self._left -= _cost(node)
        return self._left >= 0


@frozen
class Flattening:
    """Reads the nodes of one schema."""

    _root: Mapping[str, Any]
    _notes: Notes
    _copies: Copies

    def flat(self, node: Mapping[str, Any], place: str, opened: Opened, depth: int) -> tuple[Flat, Opened]:
        """A node's keywords without ``$ref`` and ``allOf``, and the references that lead to what is in it.

        Args:
            node: A schema.
            place: Where it stands.
            opened: The references that lead to it.
            depth: Schemas around it, at most `SCHEMA_DEPTH`: what is further in is cut.
        """
        followed: list[str] = []
        reading = _NodeReader(self, place, opened, followed)
        return reading.flat(node, (), depth), opened.within(followed)

    def may_copy(self, node: Mapping[str, Any]) -> bool:
        """Whether references may put *node* in addition."""
        return self._copies.take(node)

    def applies(self, rule: str, place: str) -> None:
        """Note a rule."""
        self._notes.applies(rule, place)

    def target(self, reference: Any) -> Mapping[str, Any] | None:
        """Resolve a reference within the schema."""
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


@frozen
class _NodeReader:
    """One node, with all that it takes in."""

    _all: Flattening
    _place: str
    _opened: Opened
    _followed: list[str]
    """References, as they are followed."""

    def flat(self, node: Mapping[str, Any], path: tuple[str, ...], depth: int) -> Flat:
        """The keywords of *node*, to which *path* leads from the one that is read."""
        if depth > SCHEMA_DEPTH:
            self._all.applies("schema.depth", self._place)
            return _cut(node)
        if (path or self._opened) and not self._all.may_copy(node):
            self._all.applies("schema.size", self._place)
            return _cut(node)
        flat = {key: _own(value) for key, value in node.items() if key not in ("$ref", "allOf")}
        for inner, through in self._inner(node, path):
            if not _merge(flat, self.flat(inner, through, depth + 1)):
                self._all.applies("schema.conflict", self._place)
        return flat

    def _inner(
        self, node: Mapping[str, Any], path: tuple[str, ...]
    ) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
        """The schemas that *node* takes in, each with the references that lead to it."""
        if "$ref" in node:
            target, reference = self._all.target(node["$ref"]), node["$ref"]
            if target is None:
                self._all.applies("schema.reference", self._place)
            elif self._opened.times(reference) + path.count(reference) >= ROUNDS:
                self._all.applies("schema.recursion", self._place)
                yield {"type": "object"} if "properties" in target else {}, path
            else:
                self._followed.append(reference)
                yield target, (*path, reference)
        if "allOf" in node:
            branches = node["allOf"] if type(node["allOf"]) is list else ()
            yield from ((branch, path) for branch in branches if isinstance(branch, Mapping))


def _cut(node: Mapping[str, Any]) -> Flat:
    """Replace a schema that is not followed: anything of its type, an object if it does not say of which."""
    return {"type": node.get("type", "object")}


def _cost(node: Mapping[str, Any]) -> int:
    """The cost of a schema, without those within it."""
    return 1 + len(dumps([value for key, value in node.items() if key not in _SCHEMAS])) // _LONG


def _own(value: Any) -> Any:
    """A copy of *value*, which may be added to."""
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
                before = known.setdefault(name, part)
                whole = (before is part or before == part) and whole
        elif key == "required" and type(value) is type(known) is list:
            known += value
        elif key == "description" and type(value) is type(known) is str:
            if len(known) < DESCRIPTION_CHARACTERS and value not in known:
                flat[key] = f"{known}\n{value}"
        elif known != value and key not in _NAMES:
            whole = False
    return whole


_NAMES: Final = frozenset({"$defs", "definitions", "$schema", "$id"})
"""Keywords that demand nothing, and of which the outer one counts."""
