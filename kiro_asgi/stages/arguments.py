"""Repairs of the arguments of tool calls, before the client sees them.

Arguments come under names that the client's tool does not know, and encoded as JSON once more than they should be:
models write ``"[1, 2]"`` where a list is wanted, and ``"true"`` for true.  Of a value only the kind is judged: a text
where the schema admits no text does not fit, whatever it holds, so a value that fits is never changed.

Of a tool's JSON Schema only those facts are read that need no validation.  Schemas come from clients and are never
checked here: what is not understood allows everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.limits import ARGUMENT_DEPTH, ARGUMENT_SCHEMAS, ARGUMENT_STEPS
from kiro_asgi.model.events import (
    Delta,
    Notice,
    ToolCallCut,
    ToolCallEnd,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.base import Filter
from kiro_asgi.stages.tool_calls import WRAPPED
from kiro_asgi.wire.json import JsonError, dumps, loads


def decoded(arguments: Mapping[str, Any], schema: ToolSchema) -> Mapping[str, Any]:
    """*arguments* with the value that it encodes in place of every text that *schema* admits no text for.

    The same object where nothing changes.  One level of encoding is undone, at any place.  A text is read strictly:
    ``"007"`` and ``"True"`` are no JSON.
    """
    value: Mapping[str, Any] = _decoded(dict(arguments), [schema.root], schema, 0)
    return arguments if value == arguments else value


def object_in(text: Any) -> dict[str, Any] | None:
    """The object that *text* encodes; ``None`` where it encodes none."""
    value = _read(text) if isinstance(text, str) else None
    return value if isinstance(value, dict) else None


def _read(text: str) -> Any:
    """The value that *text* encodes; *text* itself where it is no JSON."""
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
        return {key: _decoded(it, _of_key(parts, key), schema, depth + 1) for key, it in value.items()}
    if isinstance(value, list):
        parts = schema.all_applying(parts, "array")
        return [_decoded(it, _of_item(parts, index), schema, depth + 1) for index, it in enumerate(value)]
    return value


def _fitting(text: str, kinds: frozenset[str]) -> Any:
    if "string" in kinds:
        return text
    value = _read(text)
    return value if kind_of(value) in kinds else text


@frozen
class Rename:
    """An argument that belongs under another name.

    Where the schema declares arguments, it is renamed only if the schema has the new name and not the old
    one.
    """

    tools: frozenset[str]
    """Names of tools, lower-case; case does not count."""

    source: str
    target: str

    unguarded: bool = False
    """Whether it is renamed as well where the schema declares no arguments."""

    value: Callable[[Any], Any] | None = None
    """Converts the old argument to the new one; ``None`` keeps it."""

    def moved(self, key: str, value: Any) -> tuple[str, Any]:
        """One argument, under its new name if it is the one that is renamed."""
        if key != self.source:
            return key, value
        return self.target, value if self.value is None else self.value(value)


def _first_path(paths: Any) -> str:
    """The first of several paths; the current directory where there is none."""
    first = paths[0] if isinstance(paths, list) and paths else paths
    return first if isinstance(first, str) else "."


_SEEKING: Final = frozenset({"grep", "search"})
_OTHER_SEEKING: Final = frozenset({"glob", "search_code_definitions", "search_code_snippets"})
_READING: Final = frozenset({"read"})
_RUNNING: Final = frozenset({"bash", "shell", "local_shell"})

USUAL: Final = (
    Rename(_SEEKING, "query", "pattern", unguarded=True),
    Rename(_SEEKING, "paths", "path", unguarded=True, value=_first_path),
    Rename(_OTHER_SEEKING, "query", "pattern"),
    Rename(_OTHER_SEEKING, "paths", "path", value=_first_path),
    Rename(_READING, "path", "file_path", unguarded=True),
    Rename(_RUNNING, "cmd", "command"),
    Rename(_RUNNING, "code", "command"),
    Rename(_RUNNING, "script", "command"),
    Rename(_RUNNING, "shell_command", "command"),
)
"""Names that models are known to take for one another."""


def parse_names(entries: Iterable[str]) -> tuple[Rename, ...]:
    """Parse the operator's renames, each ``tool.wire=client``."""
    renames = []
    for entry in entries:
        place, _, client = entry.partition("=")
        tool, _, wire = place.rpartition(".")
        renames.append(Rename(frozenset({tool.strip().lower()}), wire.strip(), client.strip(), unguarded=True))
    return tuple(renames)


def renamed(
    tool: str, arguments: Mapping[str, Any], schema: ToolSchema, renames: Iterable[Rename] = USUAL
) -> Mapping[str, Any]:
    """*arguments* as the client's schema names them, in their order; the same object where nothing changes.

    An argument that has the new name already is never overwritten.
    """
    name = tool.lower()
    for rename in renames:
        if name in rename.tools and _applies(rename, arguments, schema.declared):
            arguments = dict(rename.moved(*argument) for argument in arguments.items())
    return arguments


def with_declared_twins(arguments: Mapping[str, Any], schema: ToolSchema) -> Mapping[str, Any]:
    """*arguments* with ``file_path`` for ``filePath`` where *schema* declares the one and not the other, and the
    reverse, at any place; the same object where nothing changes.

    An argument that has the declared name already is never overwritten, and nothing is renamed where the schema
    declares several names that differ in their spelling only.
    """
    value: Mapping[str, Any] = _with_twins(dict(arguments), [schema.root], schema, 0)
    return arguments if list(value) == list(arguments) and value == arguments else value


def known_only(arguments: Mapping[str, Any], schema: ToolSchema) -> Mapping[str, Any]:
    """*arguments* without those that *schema* does not declare, if it says ``additionalProperties: false``.

    The same object where nothing changes.  If none would be left, all of them stay: the client refuses a call with
    unknown arguments, but may run one without any.
    """
    if not schema.is_closed or schema.declared.issuperset(arguments):
        return arguments
    return {key: value for key, value in arguments.items() if key in schema.declared} or arguments


def _with_twins(value: Any, parts: Sequence[Any], schema: ToolSchema, depth: int) -> Any:
    """*value*, which has to fit all of *parts*."""
    if not parts or depth > ARGUMENT_DEPTH:
        return value
    if isinstance(value, dict):
        value = _respelled(value, schema.declared_in(parts))
        parts = schema.all_applying(parts, "object")
        return {key: _with_twins(it, _of_key(parts, key), schema, depth + 1) for key, it in value.items()}
    if isinstance(value, list):
        parts = schema.all_applying(parts, "array")
        return [_with_twins(it, _of_item(parts, index), schema, depth + 1) for index, it in enumerate(value)]
    return value


def _respelled(members: dict[str, Any], names: Names) -> dict[str, Any]:
    """*members* under the declared spelling of their names."""
    declared = names.declared
    if not declared or declared.issuperset(members):
        return members
    taken = set(declared.intersection(members))
    new: dict[str, str] = {}
    for key in members:
        if key in declared:
            continue
        found = names.by_spelling.get(_unspelled(key), ())
        if len(found) == 1 and found[0] not in taken:
            new[key] = found[0]
            taken.add(found[0])
    return {new.get(key, key): value for key, value in members.items()}


def _applies(rename: Rename, arguments: Mapping[str, Any], names: frozenset[str]) -> bool:
    if rename.source not in arguments or rename.target in arguments:
        return False
    return rename.target in names and rename.source not in names if names else rename.unguarded


UNWRAPPED: Final = "arguments.unwrapped"
"""The arguments came as a text that encodes an object."""

RENAMED: Final = "arguments.renamed"
"""An argument goes out under the name that the client's schema has for it."""

DECODED: Final = "arguments.decoded"
"""A text within the arguments goes out as the value that it encodes."""

DROPPED: Final = "arguments.dropped"
"""Arguments that the client's schema does not allow were left out; the detail is how many."""

_WRAPPER: Final = "input"
"""The member in which the assembler puts arguments that are no object."""

_NOTED: Final = frozenset({ToolCallStart, Notice})


@define(kw_only=True)
class ArgumentRepairs(Filter[Delta]):
    """Gather each call of these tools, and repair its arguments by the tool's schema.

    Arguments that need no repair go out in the very text in which they came; everything else passes.  The calls have to
    come whole: of a call that is sent piece by piece, the first pieces have been sent before an error shows.
    """

    schemas: Mapping[str, Mapping[str, Any]]
    """JSON Schemas of arguments by the client's name of the tool."""

    renames: tuple[Rename, ...] = USUAL
    twins: bool = True
    """Whether ``filePath`` and ``file_path`` stand for each other."""

    decode: bool = True
    drop_unknown: bool = True

    _start: ToolCallStart | None = field(init=False, default=None)
    """The call that is being gathered."""

    _known: dict[str, ToolSchema] = field(init=False, factory=dict)
    """Schemas of the tools that were called, by name."""

    _pieces: list[ToolInputDelta] = field(init=False, factory=list)
    _wrapped: bool = field(init=False, default=False)
    """Whether the arguments of the next call, or of the one that is being gathered, were no object."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, arguments repaired."""
        for item in items:
            if self._start is None:
                if type(item) not in _NOTED or not self._opens(item):
                    yield item
            elif type(item) is ToolInputDelta:
                self._pieces.append(item)
            elif type(item) is ToolCallEnd:
                yield from self._repaired(self._start)
                yield item
            else:
                if type(item) in (ToolCallCut, ToolCallMalformed):
                    self._start = None
                yield item

    def _opens(self, item: Delta) -> bool:
        """Whether a call begins here that is to be gathered."""
        if type(item) is Notice:
            self._wrapped |= item.code == WRAPPED
        elif type(item) is ToolCallStart and item.name in self.schemas:
            self._start, self._pieces = item, []
        else:
            self._wrapped = False
        return self._start is not None

    def _repaired(self, start: ToolCallStart) -> Iterator[Delta]:
        arguments = given = loads("".join(piece.json for piece in self._pieces) or "{}")
        for code, repaired in self._steps(start.name, given):
            if repaired is not arguments:
                yield Notice(code, str(len(arguments) - len(repaired)) if code == DROPPED else start.name)
                arguments = repaired
        yield start
        yield from self._pieces if arguments is given else (ToolInputDelta(dumps(arguments).decode()),)
        self._start, self._wrapped = None, False

    def _renamed(self, name: str, arguments: Mapping[str, Any], schema: ToolSchema) -> Mapping[str, Any]:
        arguments = renamed(name, arguments, schema, self.renames)
        return with_declared_twins(arguments, schema) if self.twins else arguments

    def _steps(self, name: str, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Apply each step to *arguments*."""
        schema = self._known.get(name)
        if schema is None:
            schema = self._known[name] = ToolSchema(self.schemas[name])
        if self.decode and self._wrapped and _WRAPPER not in schema.declared:
            unwrapped = object_in(arguments[_WRAPPER])
            arguments = arguments if unwrapped is None else unwrapped
            yield UNWRAPPED, arguments
        arguments = self._renamed(name, arguments, schema)
        yield RENAMED, arguments
        if self.decode:
            plain = decoded(arguments, schema)
            yield DECODED, plain
            arguments = plain if plain is arguments else self._renamed(name, plain, schema)
            yield RENAMED, arguments
        if self.drop_unknown and not (self._wrapped and _WRAPPER in arguments):
            yield DROPPED, known_only(arguments, schema)


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
        """The result of `_unspelled` to the names that have it."""
        found = defaultdict(list)
        for name in self.declared:
            found[_unspelled(name)].append(name)
        return found


def _unspelled(name: str) -> str:
    """Reduce ``filePath``, ``file_path`` and ``file-path`` to the same text."""
    return name.replace("_", "").replace("-", "").casefold()


@define
class ToolSchema:
    """One tool's schema, for the calls of one answer.

    Every part of it is looked at once, so references may lead in circles.  Results are kept, and the
    work is bounded (`ARGUMENT_STEPS`): once the steps are used up, the schema is ignored.
    """

    root: Mapping[str, Any]
    """As the client sent it."""

    _left: int = field(init=False, default=ARGUMENT_STEPS)
    """Parts that may still be looked at."""

    _kinds: dict[int, frozenset[str] | None] = field(init=False, factory=dict)
    """Kinds of value that a part admits, by its identity; ``None`` while they are being determined."""

    _applying: dict[tuple[int, str], list[Mapping[str, Any]]] = field(init=False, factory=dict)
    """Results of `applying`, by the identity of a part, and a kind."""

    _names: dict[tuple[int, ...], Names] = field(init=False, factory=dict)
    """Results of `declared_in`, by the identities of parts."""

    @cached_property
    def declared(self) -> frozenset[str]:
        """Names of the arguments that it declares, in whatever branch."""
        return frozenset(name for part in self._parts for name in _mapping(part.get("properties")))

    def declared_in(self, parts: Sequence[Any]) -> Names:
        """Names of the members that any of *parts* declares, in whatever branch."""
        key = (*map(id, parts),)
        if key not in self._names:
            reached = [_mapping(it.get("properties")) for part in parts for it in self._reachable(part, self._branches)]
            self._left -= sum(map(len, reached))
            self._names[key] = Names(frozenset(chain.from_iterable(reached)) if self._left > 0 else frozenset())
        return self._names[key]

    @cached_property
    def is_closed(self) -> bool:
        """Whether it forbids arguments that it does not declare."""
        certain = self.applying(self.root, "object")
        return any(it.get("additionalProperties") is False for it in certain) and not any(
            map(_allows_more, self._parts)
        )

    def admitted(self, part: Any) -> frozenset[str]:
        """Kinds of values that may fit *part*, which is in this schema: any other certainly does not."""
        waiting = [part]
        while waiting:
            it = waiting.pop()
            if not isinstance(it, Mapping):
                continue
            if id(it) not in self._kinds:
                # It is looked at again after all that it depends on.
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
        """Every part that describes the arguments object itself."""
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
        """The target of a reference within the schema; ``None`` where there is none, or it leads out of the schema."""
        reference = part.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        place: Any = self.root
        for name in reference[1:].split("/")[1:]:
            place = _mapping(place).get(name.replace("~1", "/").replace("~0", "~"))
        return place


def _of_key(parts: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """Schemas of the member *key* of an object that has to fit *parts*."""
    return [it for part in parts for it in _member(part, key)]


def _of_item(parts: Sequence[Mapping[str, Any]], index: int) -> list[Any]:
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


def _allows_more(part: Mapping[str, Any]) -> bool:
    extra = (part.get(word) for word in ("additionalProperties", "unevaluatedProperties"))
    return "patternProperties" in part or any(it is True or isinstance(it, Mapping) for it in extra)


def _typed(part: Mapping[str, Any]) -> frozenset[str]:
    """Kinds that the schema's ``type`` admits."""
    types = part.get("type")
    names = (types,) if isinstance(types, str) else _sequence(types)
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
