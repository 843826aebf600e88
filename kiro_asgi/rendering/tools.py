"""The tools to define, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import Final

from kiro_asgi.errors import RequestError
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Part, Tool, ToolCallPart, ToolChoice, ToolChoiceMode

_SHOWN: Final = 60
"""Characters of a name that an error repeats."""

_name: Final[Callable[[Tool], str]] = attrgetter("name")


def distinct(tools: Iterable[Tool], notes: Notes, name: Callable[[Tool], str] = _name) -> tuple[Tool, ...]:
    """The first tool of each *name*."""
    first: dict[str, Tool] = {}
    for tool in tools:
        if first.setdefault(name(tool), tool) is not tool:
            notes.applies("tools.duplicate_dropped", tool.place)
    return tuple(first.values())


def require_choice(choice: ToolChoice, tools: Collection[Tool]) -> None:
    """Stop where the choice names a tool that is not among *tools*.

    Raises:
        RequestError: It does.
    """
    if choice.mode is ToolChoiceMode.NAMED and all(tool.name != choice.name for tool in tools):
        raise unknown_choice(f"no tool is named {choice.name[:_SHOWN]!r}")


def unknown_choice(what: str) -> RequestError:
    """Make the error to raise where a tool must be called that is not there."""
    rule = "tools.choice_unknown"
    return RequestError(f"tool_choice: {what} (rule {rule})", code="unsupported_value", param="tool_choice")


def called(turns: Iterable[tuple[str, Iterable[Part]]]) -> tuple[Tool, ...]:
    """Tools for the calls of a history: services refuse calls of tools that are not defined.

    Args:
        turns: Place and parts of each.
    """
    found: dict[str, Tool] = {}
    for place, parts in turns:
        for part in parts:
            if type(part) is ToolCallPart and part.name not in found:
                found[part.name] = Tool(part.name, schema={"type": "object"}, place=place)
    return tuple(found.values())
