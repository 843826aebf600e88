"""How deep the values are that stand in a prompt: schemas, the input of calls, and blocks that are handed back.

Whoever writes a prompt in a service's words recurses into them, so what a client sends, or a caller of the library
makes, is looked at here first; this does not recurse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kiro_asgi.errors import RequestError
from kiro_asgi.limits import JSON_DEPTH
from kiro_asgi.model.prompt import Prompt, Text, ToolCallPart, ToolResult

_HOLDERS: Final = (Mapping, list, tuple)

_STEPS: Final = 8
"""Steps of a way that are told."""

_ECHO: Final = 40
"""Characters of a name in it."""


def require_depths(prompt: Prompt) -> None:
    """Check every schema, input and block in *prompt*.

    Raises:
        RequestError: As from `require_depth`.
    """
    for tool in prompt.tools:
        require_depth(tool.schema, tool.place or "tools", "schema")
    for turn in prompt.turns:
        for part in turn.parts:
            if type(part) is ToolCallPart:
                require_depth(part.input, turn.place or "messages", "input of a tool call")
            elif type(part) is Text or type(part) is ToolResult:
                require_depth(part.block, turn.place or "messages", "block")
    require_depth(prompt.schema, "schema", "schema of the answer")


def require_depth(value: Any, place: str, what: str = "value") -> None:
    """Check that at most `JSON_DEPTH` arrays and objects are open at once in *value*, which stands at *place*.

    Raises:
        RequestError: Code ``invalid_value``; the message says on which way it is too deep.
    """
    level: Iterable[Any] = [value] if isinstance(value, _HOLDERS) else []
    for _ in range(JSON_DEPTH):
        # By identity: where a caller's structure holds one part twice, it is looked at once a level.
        level = {id(it): it for outer in level for it in _inner(outer) if isinstance(it, _HOLDERS)}.values()
        if not level:
            return
    way = "".join(_way(value))
    message = f"{place}: {what} nested deeper than {JSON_DEPTH} levels, on the way {way}"
    raise RequestError(message, code="invalid_value", param=place)


def _inner(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value


def _way(value: Any) -> Iterator[str]:
    """The first steps to what is too deep."""
    steps: list[Any] = []
    opened = [(value, _members(value))]
    shallow: set[int] = set()
    while opened and len(opened) <= JSON_DEPTH:
        members = (it for it in opened[-1][1] if isinstance(it[1], _HOLDERS) and id(it[1]) not in shallow)
        found = next(members, None)
        if found is None:
            shallow.add(id(opened.pop()[0]))
            del steps[-1:]
        else:
            steps.append(found[0])
            opened.append((found[1], _members(found[1])))
    for step in steps[:_STEPS]:
        yield f"[{step}]" if type(step) is int else f".{str(step)[:_ECHO]}"
    yield "…"


def _members(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value.items()) if isinstance(value, Mapping) else iter(enumerate(value))
