"""Arguments under a name that the client's tool does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from kiro_asgi.limits import ARGUMENT_DEPTH
from kiro_asgi.stages.argument_schemas import Names, ToolSchema, of_item, of_key, unspelled

__all__ = ["USUAL", "Rename", "known_only", "parse_names", "renamed", "with_declared_twins"]


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
    """What the new argument is, given the old one; ``None``: the same."""

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
