"""Repairs of the arguments of tool calls, before the client sees them.

Arguments come under names that the client's tool does not know, and encoded as JSON once more than they should be:
models write ``"[1, 2]"`` where a list is wanted, and ``"true"`` for true.  Of a value only the kind is judged: a text
where the schema admits no text does not fit, whatever it says, so a value that fits is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.limits import ARGUMENT_DEPTH
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
from kiro_asgi.stages.parts.tool_schema import Names, ToolSchema, kind_of, of_item, of_key, unspelled
from kiro_asgi.stages.tool_calls_whole import WRAPPED
from kiro_asgi.wire.json import JsonError, dumps, loads


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


@frozen
class Rename:
    """An argument that belongs under another name.

    Where the schema says what arguments there are, it is renamed only if the schema has the new name and not the old
    one.
    """

    tools: frozenset[str]
    """Names of tools, lower-case; case does not count."""

    source: str
    target: str

    unguarded: bool = False
    """Whether it is renamed as well where the schema says nothing of its arguments."""

    value: Callable[[Any], Any] | None = None
    """Converts the old argument to the new one; ``None`` keeps it."""

    def moved(self, key: str, value: Any) -> tuple[str, Any]:
        """One argument, under its new name if it is the one that is renamed."""
        if key != self.source:
            return key, value
        return self.target, value if self.value is None else self.value(value)


def _first_path(paths: Any) -> str:
    """One path of several; of nothing usable, the directory that the client is in."""
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
    """The renames that an operator wrote down, each as ``tool.wire=client``."""
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

    What is there under the new name already is never overwritten.
    """
    name = tool.lower()
    for rename in renames:
        if name in rename.tools and _applies(rename, arguments, schema.declared):
            arguments = dict(rename.moved(*argument) for argument in arguments.items())
    return arguments


def with_declared_twins(arguments: Mapping[str, Any], schema: ToolSchema) -> Mapping[str, Any]:
    """*arguments* with ``file_path`` for ``filePath`` where *schema* declares the one and not the other, and the
    reverse, at any place; the same object where nothing changes.

    What is there under the declared name already is never overwritten, and nothing is renamed where the schema declares
    several names that differ in their spelling only.
    """
    value: Mapping[str, Any] = _with_twins(dict(arguments), [schema.root], schema, 0)
    return arguments if list(value) == list(arguments) and value == arguments else value


def known_only(arguments: Mapping[str, Any], schema: ToolSchema) -> Mapping[str, Any]:
    """*arguments* without those that *schema* does not declare, if it says ``additionalProperties: false``.

    The same object where nothing changes.  Arguments of which nothing would be left stay all: a call with other
    arguments is refused by whoever runs it, a call without any may be run.
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
        return {key: _with_twins(it, of_key(parts, key), schema, depth + 1) for key, it in value.items()}
    if isinstance(value, list):
        parts = schema.all_applying(parts, "array")
        return [_with_twins(it, of_item(parts, index), schema, depth + 1) for index, it in enumerate(value)]
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
        found = names.by_spelling.get(unspelled(key), ())
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
"""Where the assembler puts arguments that are no object."""

_NOTED: Final = frozenset({ToolCallStart, Notice})


@define(kw_only=True)
class ArgumentRepairs(Filter[Delta]):
    """Gather each call of these tools, and let it go out as its schema has it.

    Arguments that need no repair go out in the very text in which they came; everything else passes.  The calls have to
    come whole: of a call that is sent piece by piece, the first pieces are gone before what is wrong shows.
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
            whole = object_in(arguments[_WRAPPER])
            arguments = arguments if whole is None else whole
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
