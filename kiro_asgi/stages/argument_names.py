"""Arguments under a name that the client's tool does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.stages.argument_schemas import ToolSchema

__all__ = ["USUAL", "Rename", "known_only", "parse_names", "renamed"]


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


def known_only(arguments: Mapping[str, Any], schema: ToolSchema) -> Mapping[str, Any]:
    """*arguments* without those that *schema* does not declare; the same object where nothing changes.

    A schema that declares none, or says that there may be others, lets everything pass.
    """
    known = schema.declared
    if schema.is_open or not (known or schema.is_closed) or known.issuperset(arguments):
        return arguments
    return {key: value for key, value in arguments.items() if key in known}


def _applies(rename: Rename, arguments: Mapping[str, Any], names: frozenset[str]) -> bool:
    if rename.source not in arguments or rename.target in arguments:
        return False
    return rename.target in names and rename.source not in names if names else rename.unguarded
