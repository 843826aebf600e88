"""The form of the answer: a JSON Schema as the service compiles it (``output_config.format``).

The service holds a model to a part of JSON Schema and refuses the rest: every object is closed, no schema holds itself,
and constraints on numbers, lengths and patterns are unknown.  Constraints without a keyword are stated in the
description.  A schema that could only be sent with another meaning is not sent at all.

Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.wire.json import dumps

FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
"""Values of ``format`` that are enforced."""

_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")
_DEFINITIONS: Final = ("$defs", "definitions")
_COPIED: Final = ("type", "title", "description", "required", "default")
_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_WRITTEN: Final = frozenset(
    {*_COPIED, *_ALTERNATIVES, *_DEFINITIONS, "$schema", "additionalProperties", "const", "enum", "items", "properties"}
)
"""Keywords that are not stated in the description."""

_PLACE: Final = "schema"


@frozen
class CompiledSchema:
    """A schema as it is sent to the service."""

    schema: Mapping[str, Any]
    exact: bool
    """Whether an answer that obeys it obeys the client's schema."""


class _Unsupported(Exception):
    """The service would refuse the schema, or hold the answer to something else."""


def compiled(schema: Mapping[str, Any], notes: Notes) -> CompiledSchema | None:
    """*schema* as the service takes it; ``None`` where it cannot be held to it."""
    writing = _Writing(schema)
    try:
        writing.require_an_end()
        written = writing.write(schema, _PLACE)
    except _Unsupported:
        return None
    if written.get("type") != "object":
        return None
    for rule, places in (("output.schema_closed", writing.closed), ("output.schema_constraints", writing.described)):
        for place in places:
            notes.applies(rule, place)
    return CompiledSchema(written, exact=not writing.described)


@define
class _Writing:
    """Writes one schema."""

    _root: Mapping[str, Any]
    closed: list[str] = field(init=False, factory=list)
    """Places of objects that the client left open."""

    described: list[str] = field(init=False, factory=list)
    """Places of constraints that are stated in the description."""

    def require_an_end(self) -> None:
        """Refuse definitions that lead to themselves, and references to anything else than a definition.

        Raises:
            _Unsupported: There is one.
        """
        bodies = {f"#/{word}/{name}": body for word, name, body in self._definitions()}
        waiting = {name: {*_references(body)} for name, body in bodies.items()}
        if not {*_references(self._root)} <= waiting.keys():
            raise _Unsupported
        users: dict[str, list[str]] = {name: [] for name in waiting}
        for name, used in waiting.items():
            for each in used:
                users[each].append(name)
        ready = [name for name, used in waiting.items() if not used]
        while ready:
            done = ready.pop()
            del waiting[done]
            for user in users[done]:
                waiting[user].discard(done)
                if not waiting[user]:
                    ready.append(user)
        if waiting:
            raise _Unsupported

    def _definitions(self) -> Iterator[tuple[str, str, Any]]:
        for word in _DEFINITIONS:
            for name, body in _object(self._root.get(word, {})).items():
                yield word, name, body

    def write(self, schema: Any, place: str) -> dict[str, Any]:
        """One schema, as deep as `kiro_asgi.model.prompt.require_depths` lets it be.

        Raises:
            _Unsupported: The service has no form for it.
        """
        node = _object(schema)
        parts = {word: self._named(node[word], f"{place}.{word}") for word in _DEFINITIONS if word in node}
        if "$ref" in node:
            if not node.keys() <= {"$ref", "title", "description", "default", "$schema", *_DEFINITIONS}:
                raise _Unsupported
            return {**parts, "$ref": node["$ref"]}
        parts |= {word: node[word] for word in _COPIED if word in node}
        parts |= self._values(node) | self._alternatives(node, place)
        kinds = _kinds(node)
        if not (kinds or parts.keys() & {"enum", "const", "anyOf", "allOf"}):
            raise _Unsupported
        if "object" in kinds:
            parts |= self._members(node, place)
        if "array" in kinds:
            parts["items"] = self.write(node.get("items"), f"{place}.items")
        return self._with_constraints(parts, node, place)

    def _named(self, schemas: Any, place: str) -> dict[str, Any]:
        return {name: self.write(body, f"{place}.{name}") for name, body in _object(schemas).items()}

    def _values(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """``enum`` and ``const``, of values without parts."""
        found = {word: node[word] for word in ("enum", "const") if word in node}
        values = chain(_list(found.get("enum", [])), (found[word] for word in ("const",) if word in found))
        if any(isinstance(value, Mapping | list | tuple) for value in values):
            raise _Unsupported
        return found

    def _alternatives(self, node: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Of ``oneOf`` any may hold; that no other does is left to the check."""
        found = {
            word: [self.write(each, f"{place}.{word}[{at}]") for at, each in enumerate(_list(node[word]))]
            for word in _ALTERNATIVES
            if word in node
        }
        if "oneOf" in found:
            if "anyOf" in found:
                raise _Unsupported
            self.described.append(f"{place}.oneOf")
            found["anyOf"] = found.pop("oneOf")
        return found

    def _members(self, node: Mapping[str, Any], place: str) -> dict[str, Any]:
        """An object with members that it names, and no others."""
        additional = node.get("additionalProperties")
        if not isinstance(node.get("properties"), Mapping) or not (additional is None or isinstance(additional, bool)):
            raise _Unsupported
        if additional is not False:
            self.closed.append(place)
        return {"properties": self._named(node["properties"], f"{place}.properties"), "additionalProperties": False}

    def _with_constraints(self, parts: dict[str, Any], node: Mapping[str, Any], place: str) -> dict[str, Any]:
        """*parts* with what the service enforces of the rest, and the others in the description."""
        rest = {word: value for word, value in node.items() if word not in _WRITTEN}
        stated = rest.get("format")
        if node.get("type") == "string" and isinstance(stated, str) and stated in FORMATS:
            parts["format"] = rest.pop("format")
        if rest.get("minItems") in (0, 1):
            parts["minItems"] = rest.pop("minItems")
        if rest:
            self.described += (f"{place}.{word}" for word in rest)
            parts["description"] = f"{parts.get('description', '')} {dumps(rest).decode()}".lstrip()
        return parts


def _kinds(node: Mapping[str, Any]) -> frozenset[str]:
    """Names of the types that *node* may have."""
    kind = node.get("type", ())
    kinds = frozenset([kind] if isinstance(kind, str) else map(str, _list(kind)))
    if not kinds <= _TYPES:
        raise _Unsupported
    return kinds


def _references(schema: Any) -> Iterator[str]:
    """Every reference in *schema*."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        inner: Iterable[Any] = node if isinstance(node, list | tuple) else ()
        if isinstance(node, Mapping):
            inner = node.values()
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
        waiting += inner


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _Unsupported
    return value


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _Unsupported
    return value
