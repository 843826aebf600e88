"""JSON Schemas of request bodies, made from the classes that read them.

A schema takes what `kiro_asgi.dialects.structure` takes: members that no class names are free, objects of a kind that
is not declared are, too, and nothing is coerced.

Source: https://json-schema.org/draft/2020-12
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from attrs import NOTHING, define, field, fields_dict, frozen, has

from kiro_asgi.dialects.structure import Raw, Tagged, members_of

JsonSchema = dict[str, Any]

_SIMPLE: Final[Mapping[Any, str]] = MappingProxyType(
    {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
)
"""Python type to its name in a schema."""


@frozen
class BodyShape:
    """How one kind of request body is read."""

    shape: type
    """The attrs class that it is read into."""

    unions: Sequence[Tagged] = ()
    """Every union of several classes in it."""

    spelled: Callable[[str], str] = str
    """From a field's name to that of the member, where the body is respelled before it is read."""

    streamed: tuple[bytes, ...] = ()
    """Content types of an answer that is always streamed; empty where a member of the body asks for that."""


@define
class SchemaWriter:
    """Writes the schemas of one API's bodies."""

    prefix: str
    """Before the name of each class, so that those of several APIs stand side by side."""

    place: str = "#/components/schemas/"
    """Where *components* are, for references."""

    components: dict[str, JsonSchema] = field(init=False, factory=dict)
    """Schemas of all classes, by their names."""

    def body(self, body: BodyShape) -> JsonSchema:
        """The schema of *body*, which refers to *components*."""
        return self._of(body.shape, body)

    def _of(self, kind: Any, body: BodyShape) -> JsonSchema:
        origin, arguments = get_origin(kind), get_args(kind)
        if kind is Any:
            return {}
        if kind in _SIMPLE:
            return {"type": _SIMPLE[kind]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [each.value for each in kind]}
        if origin in (Union, UnionType):
            return {"anyOf": [*self._members(arguments, body)]}
        if origin in (tuple, list, Sequence):
            return {"type": "array", "items": self._of(arguments[0], body)}
        if has(kind):
            return self._class(kind, body)
        return {"type": "object", "additionalProperties": self._of((*arguments, Any, Any)[1], body)}

    def _members(self, kinds: Sequence[Any], body: BodyShape) -> Iterator[JsonSchema]:
        """Schemas of the members of a union."""
        objects = frozenset(kind for kind in kinds if has(kind))
        yield from (self._of(kind, body) for kind in kinds if kind not in objects)
        tagged = next((union for union in body.unions if union.members == objects), None)
        if tagged is None:
            yield from (self._of(kind, body) for kind in kinds if kind in objects)
        else:
            yield from self._tagged(tagged, body)

    def _tagged(self, union: Tagged, body: BodyShape) -> Iterator[JsonSchema]:
        """A schema for each class, with the words that mean it, and one for objects of all other kinds."""
        words: dict[type, list[str]] = {}
        for word, kind in union.classes.items():
            words.setdefault(kind, []).append(word)
        for kind, own in words.items():
            usual = union.default in own
            tag: JsonSchema = {"properties": {union.tag: {"enum": [*own, None] if usual else own}}}
            tag |= {} if usual else {"required": [union.tag]}
            yield {"allOf": [self._of(kind, body), tag]}
        for ending, kind in union.endings.items():
            tag = {"pattern": f"{re.escape(ending)}$", "not": {"enum": list(union.classes)}}
            yield {"allOf": [self._of(kind, body), {"properties": {union.tag: tag}, "required": [union.tag]}]}
        if Raw in union.members:
            known = [{"enum": list(union.classes)}, *({"pattern": f"{re.escape(it)}$"} for it in union.endings)]
            tag = {"type": "string", "not": {"anyOf": known}}
            yield {"type": "object", "properties": {union.tag: tag}, "required": [union.tag]}

    def _class(self, kind: type, body: BodyShape) -> JsonSchema:
        if kind is Raw:
            return {"type": "object"}
        name = f"{self.prefix}.{kind.__name__}"
        if name not in self.components:
            self.components[name] = {}  # it may refer to itself
            self.components[name] = self._object(kind, body)
        return {"$ref": self.place + name}

    def _object(self, kind: type, body: BodyShape) -> JsonSchema:
        members: JsonSchema = {}
        needed: list[str] = []
        for name, of in members_of(kind).items():
            members[body.spelled(name)] = self._of(of, body)
            if fields_dict(kind)[name].default is NOTHING:
                needed.append(body.spelled(name))
        words = (kind.__doc__ or "").strip().partition("\n")[0]
        return {
            "type": "object",
            **({"description": words} if words else {}),
            "properties": members,
            **({"required": needed} if needed else {}),
        }


def shaped(shapes: Mapping[str, type], unions: Iterable[Tagged] = ()) -> Mapping[str, BodyShape]:
    """The bodies of an API, by operation, from their classes."""
    every = tuple(unions)
    return {operation: BodyShape(shape, every) for operation, shape in shapes.items()}
