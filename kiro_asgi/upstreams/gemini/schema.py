"""JSON Schema as the service takes it: its own, less expressive schemas, or, for newer models, JSON Schema itself.

The result has only keywords that the service knows, and its size is in proportion to the client's schema: references
and ``allOf``, which the service does not know, are replaced by their targets, within `kiro_asgi.limits.SCHEMA_COPIES`
for one request.  A schema that is one of the service's own already stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from attrs import define, field, frozen

from kiro_asgi.limits import DESCRIPTION_CHARACTERS, SCHEMA_COPIES, SCHEMA_DEPTH
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Tool
from kiro_asgi.upstreams.gemini.nodes import KEPT, MAX_CONSTRAINT, SILENT, TYPES, Node, anything, lowered
from kiro_asgi.wire.json import dumps

ROUNDS: Final = 2
"""How often a reference is followed within its own target."""

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
    """Budget for what references may add to all schemas of one request, beyond the client's own text."""

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
        """Whether references may add *node*."""
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
    """Replace a schema that is not followed: anything of its type, an object if it names none."""
    return {"type": node.get("type", "object")}


def _cost(node: Mapping[str, Any]) -> int:
    """The cost of a schema, without those within it."""
    return 1 + len(dumps([value for key, value in node.items() if key not in _SCHEMAS])) // _LONG


def _own(value: Any) -> Any:
    """A copy of *value*, which may be added to."""
    kind = type(value)
    return {**value} if kind is dict else [*value] if kind is list else value


def _merge(flat: Flat, other: Flat) -> bool:
    """Add the keywords of *other* to *flat*; whether none contradicts it.  Both are used up."""
    fits = True
    for key, value in other.items():
        known = flat.setdefault(key, value)
        if known is value:
            continue
        if key == "properties" and type(value) is type(known) is dict:
            for name, part in value.items():
                before = known.setdefault(name, part)
                fits = (before is part or before == part) and fits
        elif key == "required" and type(value) is type(known) is list:
            known += value
        elif key == "description" and type(value) is type(known) is str:
            if len(known) < DESCRIPTION_CHARACTERS and value not in known:
                flat[key] = f"{known}\n{value}"
        elif known != value and key not in _NAMES:
            fits = False
    return fits


_NAMES: Final = frozenset({"$defs", "definitions", "$schema", "$id"})
"""Keywords that demand nothing; the outer one counts."""


Schema = dict[str, Any]


def parameters(tool: Tool, notes: Notes, copies: Copies) -> Schema:
    """The schema of a tool's arguments: an object; empty where it has no properties."""
    written = _written(tool.schema, tool.place or "tools", notes, copies) if tool.schema else {}
    if not written or written == anything():
        return {}
    if "anyOf" in written or lowered(written.get("type")) != "object":
        notes.applies("schema.alternatives" if "anyOf" in written else "schema.root", tool.place)
        written = _as_object(written)
    written.pop("nullable", None)
    return written if written.get("properties") else {}


def answer_schema(schema: Mapping[str, Any], notes: Notes, copies: Copies) -> Schema:
    """The schema of the answer; empty where it demands nothing."""
    written = _written(schema, "schema", notes, copies) if schema else {}
    return {} if written == anything() else written


def _as_object(written: Schema) -> Schema:
    """An object with the properties of all alternatives; those of one of them are not required."""
    properties: Schema = {}
    for branch in reversed((written, *written.get("anyOf", ()))):
        properties |= branch.get("properties", {})
    kept: Schema = {key: written[key] for key in _OF_OBJECTS if key in written}
    return {"type": "object", **kept, "properties": properties}


_OF_OBJECTS: Final = ("title", "description", "required", "propertyOrdering")
"""Keywords other than ``properties`` that stay true when properties are added."""


def _written(schema: Mapping[str, Any], place: str, notes: Notes, copies: Copies) -> Schema:
    flattening = Flattening(schema, notes, copies)

    def write(node: Any, place: str, opened: Opened, depth: int) -> Schema:
        if not isinstance(node, Mapping):
            if node is not True:
                notes.applies("schema.malformed", place)
            return anything()
        flat, opened = flattening.flat(node, place, opened, depth)
        return Node(notes, place, flat, lambda part, key: write(part, f"{place}.{key}", opened, depth + 1)).write()

    return write(schema, place, Opened(), 0)


Part = tuple[Any, Schema, str]
"""A schema of the client's, where to write it, and its place."""


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_names(value: Any) -> bool:
    return type(value) is list and all(map(_is_text, value))


def _is_values(value: Any) -> bool:
    return type(value) is list and all(type(each) in (str, int, float) for each in value)


_COPIED: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        **{name: KEPT[name] for name in ("title", "description", "minItems", "maxItems", "minimum", "maximum")},
        **dict.fromkeys(("$id", "$anchor", "$ref", "format"), _is_text),
        **dict.fromkeys(("required", "propertyOrdering"), _is_names),
        "enum": _is_values,
    }
)
"""Keywords whose values hold no schema, and what these must be."""

_MAPS: Final = ("$defs", "properties")
_LISTS: Final = ("anyOf", "oneOf", "prefixItems")
_ONES: Final = ("items", "additionalProperties")
_BESIDE_REFERENCES: Final = frozenset({"title", "description"})
_OLD: Final = "#/definitions/"


def json_schema(schema: Mapping[str, Any], notes: Notes) -> Schema:
    """*schema* with the keywords that the service knows; empty where it demands nothing."""
    written: Schema = {}
    waiting: list[Part] = [(schema, written, "schema")]
    while waiting:
        node, out, place = waiting.pop()
        if isinstance(node, Mapping):
            waiting += _write(_modern(node), out, place, notes)
        elif node is not True:
            notes.applies("output.schema_keywords", place)
    return written


def _modern(node: Mapping[str, Any]) -> Schema:
    """*node* with the newer of two names for a keyword."""
    modern = {**node}
    if isinstance(old := modern.pop("definitions", None), Mapping):
        modern["$defs"] = {**old, **modern["$defs"]} if isinstance(modern.get("$defs"), Mapping) else old
    reference = modern.get("$ref")
    if isinstance(reference, str) and reference.startswith(_OLD):
        modern["$ref"] = "#/$defs/" + reference.removeprefix(_OLD)
    if type(modern.get("items")) is list:
        modern.setdefault("prefixItems", modern.pop("items"))
    if "const" in modern and "enum" not in modern and _is_values([modern["const"]]):
        modern["enum"] = [modern.pop("const")]
    values = modern.get("enum", [])
    if "type" not in modern and _is_values(values):
        kinds = {"string" if _is_text(value) else "number" for value in values}
        modern |= {"type": kinds.pop()} if len(kinds) == 1 else {}
    return modern


def _write(node: Schema, out: Schema, place: str, notes: Notes) -> Iterator[Part]:
    """Write *node* but for the schemas within it, which are returned."""
    described: Schema = {}
    for keyword, value in node.items():
        if "$ref" in node and not (keyword in _BESIDE_REFERENCES or keyword.startswith("$")):
            described[keyword] = value  # the service takes nothing beside a reference
        elif (parts := _within(keyword, value, out, place)) is not None:
            yield from parts
        elif keyword == "type" and (names := _types(value)):
            out["type"] = names
        elif keyword in _COPIED and _COPIED[keyword](value):
            out[keyword] = value
        elif keyword not in SILENT:
            described[keyword] = value
    if described:
        notes.applies("output.schema_keywords", place)
        if len(text := dumps(described).decode()) <= MAX_CONSTRAINT:
            out["description"] = f"{out.get('description', '')} {text}".lstrip()
    if "$ref" in out and not _BESIDE_REFERENCES.isdisjoint(out):
        out["anyOf"] = [{"$ref": out.pop("$ref")}]


def _within(keyword: str, value: Any, out: Schema, place: str) -> list[Part] | None:
    """The schemas within *value*, with room for them in *out*; ``None`` where *keyword* has none."""
    if keyword in _MAPS and isinstance(value, Mapping):
        room: Any = {name: {} for name in value}
        parts = [(part, room[name], f"{place}.{keyword}.{name[:40]}") for name, part in value.items()]
    elif keyword in _LISTS and type(value) is list:
        room = [{} for _ in value]
        parts = [(part, room[at], f"{place}.{keyword}[{at}]") for at, part in enumerate(value)]
    elif keyword in _ONES and isinstance(value, Mapping):
        room = {}
        parts = [(value, room, f"{place}.{keyword}")]
    elif keyword == "additionalProperties" and type(value) is bool:
        room, parts = value, []
    else:
        return None
    out[keyword] = room
    return parts


def _types(value: Any) -> str | list[str]:
    """Names of types in lower case; empty where one is unknown."""
    names = [lowered(name) for name in (value if type(value) is list else [value])]
    if not all(name in TYPES for name in names):
        return ""
    return names if type(value) is list else names[0]
