"""Puts the arguments of tool calls right before the client sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.events import (
    Delta,
    Notice,
    ToolCallCut,
    ToolCallEnd,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.argument_encoding import decoded, object_in
from kiro_asgi.stages.argument_names import USUAL, Rename, known_only, renamed, with_declared_twins
from kiro_asgi.stages.argument_schemas import ToolSchema
from kiro_asgi.stages.tool_calls_whole import WRAPPED
from kiro_asgi.wire.json import dumps, loads

__all__ = ["DECODED", "DROPPED", "RENAMED", "UNWRAPPED", "ArgumentRepairs"]

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
class ArgumentRepairs:
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
    """What was found out about the tools that were called, by name."""

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

    def flush(self) -> Iterator[Delta]:
        """Nothing is held back: calls come whole."""
        yield from ()

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
        """What becomes of *arguments*, step by step."""
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
