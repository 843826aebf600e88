"""Facts about a tool's arguments in its JSON Schema, as far as they can be read without validating anything.

Schemas come from clients and are never checked here: what is not understood allows everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.limits import ARGUMENT_SCHEMAS, ARGUMENT_STEPS

KINDS: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
"""Kinds of values.  An ``integer`` is not also a ``number`` here: a schema's ``number`` admits both."""

_PYTHON: Final[Mapping[type, str]] = MappingProxyType(
    {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
)
_ADMITTED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {name: frozenset({name, "integer"} if name == "number" else {name}) for name in KINDS}
)
_Following = Callable[[Mapping[str, Any]], Iterable[Any]]

_CHOICES: Final = ("anyOf", "oneOf")
_LISTS: Final = ("allOf", *_CHOICES)
_CONDITIONS: Final = ("if", "then", "else")


def kind_of(value: Any) -> str:
    """The one of `KINDS` that a JSON value is of; 1.0 is an integer."""
    kind = _PYTHON[type(value)]
    return "integer" if kind == "number" and value.is_integer() else kind


@define
class Names:
    """Names of members that schemas declare."""

    declared: frozenset[str]

    @cached_property
    def by_spelling(self) -> Mapping[str, Sequence[str]]:
        """The result of `unspelled` to the names that have it."""
        found = defaultdict(list)
        for name in self.declared:
            found[unspelled(name)].append(name)
        return found


def unspelled(name: str) -> str:
    """Reduce ``filePath``, ``file_path`` and ``file-path`` to the same text."""
    return name.replace("_", "").replace("-", "").casefold()


@define
class ToolSchema:
    """One tool's schema, asked about the calls of one answer.

    Every part of it is looked at once, so references may lead in circles.  What was found out is kept, and there is an
    end to it (`ARGUMENT_STEPS`): a schema that is large wherever it is looked at says nothing from there.
    """

    root: Mapping[str, Any]
    """As the client sent it."""

    _left: int = field(init=False, default=ARGUMENT_STEPS)
    """Parts that may still be looked at."""

    _kinds: dict[int, frozenset[str] | None] = field(init=False, factory=dict)
    """Kinds of value that a part admits, by its identity; ``None`` while they are being determined."""

    _applying: dict[tuple[int, str], list[Mapping[str, Any]]] = field(init=False, factory=dict)
    """By the identity of a part, and a kind."""

    _names: dict[tuple[int, ...], Names] = field(init=False, factory=dict)
    """By the identities of parts."""

    @cached_property
    def declared(self) -> frozenset[str]:
        """Names of the arguments that it speaks of, in whatever branch; none where it says nothing of them."""
        return frozenset(name for part in self._parts for name in _mapping(part.get("properties")))

    def declared_in(self, parts: Sequence[Any]) -> Names:
        """Names of the members that any of *parts* speaks of, in whatever branch."""
        key = (*map(id, parts),)
        if key not in self._names:
            reached = [_mapping(it.get("properties")) for part in parts for it in self._reachable(part, self._branches)]
            self._left -= sum(map(len, reached))
            self._names[key] = Names(frozenset(chain.from_iterable(reached)) if self._left > 0 else frozenset())
        return self._names[key]

    @cached_property
    def is_closed(self) -> bool:
        """Whether it says that there may be no argument which it does not declare."""
        certain = self.applying(self.root, "object")
        return any(it.get("additionalProperties") is False for it in certain) and not any(map(_says_open, self._parts))

    def admitted(self, part: Any) -> frozenset[str]:
        """Kinds of values that may fit *part*, which is in this schema: any other certainly does not."""
        waiting = [part]
        while waiting:
            it = waiting.pop()
            if not isinstance(it, Mapping):
                continue
            if id(it) not in self._kinds:
                # It is looked at again behind what it depends on, without what depends on it.
                self._kinds[id(it)] = None
                waiting += (it, *(inner for inner in self._combining(it) if id(inner) not in self._kinds))
            elif self._kinds[id(it)] is None:
                self._kinds[id(it)] = _typed(it) & _listed(it) & self._combined(it)
        return self._found(part)

    def _found(self, part: Any) -> frozenset[str]:
        kinds = self._kinds.get(id(part))
        return KINDS if kinds is None else kinds

    def applying(self, part: Any, kind: str) -> list[Mapping[str, Any]]:
        """The schemas that a value of this kind has to fit, all of them, to fit *part*.

        Of several to choose from it is the one that admits the kind; where more than one does, nothing is certain.
        """
        key = id(part), kind
        if key not in self._applying:
            self._applying[key] = self._reachable(part, lambda it: self._certain(it, kind))
        return self._applying[key]

    def all_applying(self, parts: Sequence[Any], kind: str) -> list[Mapping[str, Any]]:
        """The schemas that a value of this kind has to fit to fit all of *parts*; none where they are too many."""
        found = [self.applying(part, kind) for part in parts]
        if sum(map(len, found)) > ARGUMENT_SCHEMAS:
            return []
        return [it for each in found for it in each]

    @cached_property
    def _parts(self) -> list[Mapping[str, Any]]:
        """Everything in it that speaks of the arguments object itself."""
        return self._reachable(self.root, self._branches)

    def _reachable(self, part: Any, following: _Following) -> list[Mapping[str, Any]]:
        found: dict[int, Mapping[str, Any]] = {}
        open_parts = [part]
        while open_parts:
            part = open_parts.pop()
            self._left -= 1
            if isinstance(part, Mapping) and id(part) not in found:
                found[id(part)] = part
                open_parts += following(part)
        return list(found.values()) if self._left > 0 else []

    def _branches(self, part: Mapping[str, Any]) -> Iterator[Any]:
        for word in _LISTS:
            yield from _sequence(part.get(word))
        yield from map(part.get, _CONDITIONS)
        yield self._target(part)

    def _certain(self, part: Mapping[str, Any], kind: str) -> Iterator[Any]:
        yield from _sequence(part.get("allOf"))
        yield self._target(part)
        for word in _CHOICES:
            choices = _sequence(part.get(word))
            self._left -= len(choices)
            fitting = [it for it in choices if kind in self.admitted(it)]
            if len(fitting) == 1:
                yield fitting[0]

    def _combining(self, part: Mapping[str, Any]) -> Iterator[Any]:
        """Parts on which the kinds depend that *part* admits."""
        yield self._target(part)
        for word in _LISTS:
            yield from _sequence(part.get(word))

    def _combined(self, part: Mapping[str, Any]) -> frozenset[str]:
        kinds = self._found(self._target(part))
        for it in _sequence(part.get("allOf")):
            kinds &= self._found(it)
        for word in _CHOICES:
            if choices := _sequence(part.get(word)):
                kinds &= _union(map(self._found, choices))
        return kinds

    def _target(self, part: Mapping[str, Any]) -> Any:
        """The target of a reference within the schema; ``None`` where there is none, or it leads elsewhere."""
        reference = part.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        place: Any = self.root
        for name in reference[1:].split("/")[1:]:
            place = _mapping(place).get(name.replace("~1", "/").replace("~0", "~"))
        return place


def of_key(parts: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """Schemas of the member *key* of an object that has to fit *parts*."""
    return [it for part in parts for it in _member(part, key)]


def of_item(parts: Sequence[Mapping[str, Any]], index: int) -> list[Any]:
    """Schemas of one item of an array that has to fit *parts*."""
    return [it for part in parts for it in _item(part, index)]


def _member(part: Mapping[str, Any], key: str) -> Iterator[Any]:
    properties = part.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        yield properties[key]
    elif "additionalProperties" in part and "patternProperties" not in part:
        yield part["additionalProperties"]


def _item(part: Mapping[str, Any], index: int) -> Iterator[Any]:
    first = part.get("prefixItems", ())
    if isinstance(first, list | tuple) and index < len(first):
        yield first[index]
    elif "items" in part:
        yield part["items"]


def _says_open(part: Mapping[str, Any]) -> bool:
    extra = (part.get(word) for word in ("additionalProperties", "unevaluatedProperties"))
    return "patternProperties" in part or any(it is True or isinstance(it, Mapping) for it in extra)


def _typed(part: Mapping[str, Any]) -> frozenset[str]:
    """Kinds that the schema's ``type`` admits."""
    said = part.get("type")
    names = (said,) if isinstance(said, str) else _sequence(said)
    if not names:
        return KINDS
    kinds = _union(_ADMITTED.get(name, KINDS) if isinstance(name, str) else KINDS for name in names)
    return kinds | {"null"} if part.get("nullable") is True else kinds


def _listed(part: Mapping[str, Any]) -> frozenset[str]:
    """Kinds of the only values that the schema allows, where it lists them."""
    values = (part["const"],) if "const" in part else _sequence(part.get("enum"))
    return frozenset(map(kind_of, values)) if values else KINDS


def _union(kinds: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*kinds)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
