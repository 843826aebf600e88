"""Names of arguments on the wire, for services with an alphabet for them: in schemas, and in earlier calls.

Claude's services refuse a whole request for one property of one tool, with "Property keys should match pattern".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from re import Pattern
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from attrs import evolve

from kiro_asgi.model.member_names import with_names
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Tool, ToolCallPart, Turn
from kiro_asgi.model.unread import Unread
from kiro_asgi.rendering.names import plain, substitute

LONGEST: Final = 64

CLAUDE: Final = re.compile(rf"[a-zA-Z0-9_.-]{{1,{LONGEST}}}")
"""Whole names that services of Claude take."""

RULE: Final = "schema.renamed"

_VALUES: Final = frozenset({"enum", "const", "default", "example", "examples"})
"""Keywords whose values are no schemas."""

_EXAMPLES: Final = "input_examples"
"""Member of a tool of the Messages API with whole arguments."""


def with_plain_arguments(prompt: Prompt, legal: Pattern[str], notes: Notes) -> tuple[Prompt, Mapping[str, str]]:
    """*prompt* with *legal* names of arguments, and the names on the wire to those of the client."""
    odd = {tool.name: names for tool in prompt.tools if (names := _odd(tool, legal))}
    renamed = [tool for tool in prompt.tools if tool.name in odd]
    if not odd or not all(notes.applies(RULE, tool.place) for tool in renamed):
        return prompt, {}
    taken = {name for tool in renamed for name in _names(tool.schema)}
    wire: dict[str, str] = {}
    for name in sorted(set().union(*odd.values())):
        wire[name] = substitute(name, plain(name) or "_", LONGEST, taken)
        taken.add(wire[name])
    tools = tuple(_renamed_tool(tool, wire) if tool.name in odd else tool for tool in prompt.tools)
    turns = tuple(_renamed_turn(turn, odd, wire) for turn in prompt.turns)
    return evolve(prompt, tools=tools, turns=turns), {short: name for name, short in wire.items()}


def _odd(tool: Tool, legal: Pattern[str]) -> frozenset[str]:
    """Names in the schema of *tool* that are not *legal*; looked for once, as a tool comes again with each request."""
    kept = tool.kept
    if kept.odd is None or kept.odd[0] is not legal:
        kept.odd = legal, frozenset(name for name in _names(tool.schema) if not legal.fullmatch(name))
    return kept.odd[1]


def _names(schema: Any) -> Iterator[str]:
    """Names of properties, nested ones among them."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list | tuple):
            waiting += node
        elif isinstance(node, Mapping):
            for key, value in node.items():
                if key == "properties" and isinstance(value, Mapping):
                    yield from value
                    waiting += value.values()
                elif key in _NAMED and isinstance(value, Mapping):
                    waiting += value.values()
                elif key not in _VALUES and isinstance(value, Mapping | list | tuple):
                    waiting.append(value)


def _renamed_tool(tool: Tool, wire: Mapping[str, str]) -> Tool:
    unread = tool.unread
    if unread is not None and _EXAMPLES in unread.members:
        examples = with_names(unread.members[_EXAMPLES], wire)
        unread = Unread(unread.api, {**unread.members, _EXAMPLES: examples})
    return evolve(tool, schema=_schema(tool.schema, wire), unread=unread)


def _renamed_turn(turn: Turn, tools: Mapping[str, object], wire: Mapping[str, str]) -> Turn:
    """*turn* with calls of *tools* as the model has made them."""
    parts = tuple(
        evolve(part, input=with_names(part.input, wire)) if type(part) is ToolCallPart and part.name in tools else part
        for part in turn.parts
    )
    return turn if all(new is old for new, old in zip(parts, turn.parts, strict=True)) else evolve(turn, parts=parts)


def _schema(node: Any, wire: Mapping[str, str]) -> Any:
    """One schema with the names of *wire*."""
    if isinstance(node, list | tuple):
        return [_schema(part, wire) for part in node]
    if not isinstance(node, Mapping):
        return node
    return {key: _READERS.get(key, _schema)(value, wire) for key, value in node.items()}


def _properties(value: Any, wire: Mapping[str, str]) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {wire.get(name, name): _required(_schema(part, wire), wire) for name, part in value.items()}


def _required(value: Any, wire: Mapping[str, str]) -> Any:
    """A list of names; anything else as it is."""
    if not isinstance(value, list | tuple):
        return value
    return [wire.get(name, name) if isinstance(name, str) else name for name in value]


def _named(value: Any, wire: Mapping[str, str]) -> Any:
    """Schemas by names that are those of no property."""
    return {name: _schema(part, wire) for name, part in value.items()} if isinstance(value, Mapping) else value


def _literal(value: Any, _: Mapping[str, str]) -> Any:
    return value


def _reference(value: Any, wire: Mapping[str, str]) -> Any:
    """A pointer that leads through properties."""
    if not isinstance(value, str) or "/properties/" not in value:
        return value
    steps = value.split("/")
    for at in range(1, len(steps)):
        if steps[at - 1] == "properties":
            name = unquote(steps[at]).replace("~1", "/").replace("~0", "~")
            steps[at] = wire.get(name, steps[at])
    return "/".join(steps)


_NAMED: Final = frozenset({"$defs", "definitions", "patternProperties"})

_READERS: Final[Mapping[str, Callable[[Any, Mapping[str, str]], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(("properties", "dependentSchemas", "dependentRequired", "dependencies"), _properties),
        **dict.fromkeys(_NAMED, _named),
        **dict.fromkeys(_VALUES, _literal),
        "required": _required,
        "$ref": _reference,
    }
)
"""Keyword to its reader; others hold a schema, schemas or a value."""
