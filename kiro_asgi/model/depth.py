"""How deep values may be nested that stages and services recurse into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kiro_asgi.errors import RequestError
from kiro_asgi.limits import JSON_DEPTH
from kiro_asgi.model.prompt import Opaque, Part, Prompt, Text, Tool, ToolCallPart, ToolResult, Turn

_HOLDERS: Final = (Mapping, list, tuple)

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Kinds of which most values are, and none of which holds any."""

_FEW: Final = 64
"""Parts of one level that may be looked at twice."""

_STEPS: Final = 8
"""Steps of a path that a message shows."""

_ECHO: Final = 40
"""Characters of a name in it."""


def require_depths(prompt: Prompt, checked: Iterable[Turn | Tool | None] = ()) -> None:
    """Check how deep every schema, every input of a call and every block is that stands in *prompt*.

    Rendering a prompt for a service recurses into them, so the prompt of a client, or of a caller of the library, is
    checked here first; this does not recurse.

    Args:
        prompt: The prompt.
        checked: Those of its turns and tools that have been checked before.

    Raises:
        RequestError: As from `require_depth`.
    """
    done = frozenset(map(id, checked))
    for tool in prompt.tools:
        if id(tool) in done:
            continue
        require_depth(tool.schema, tool.place or "tools", "schema")
        for more in (tool.unread and tool.unread.members, tool.opaque and tool.opaque.value):
            require_depth(more, tool.place or "tools", "member")
    for turn in prompt.turns:
        for part in () if id(turn) in done else turn.parts:
            _require_part(part, turn.place or "messages")
    require_depth(prompt.schema, "schema", "schema of the answer")
    if prompt.unread is not None:
        require_depth(prompt.unread.members, "request body", "member")
    for demand in prompt.demands:
        require_depth(demand.members, "request body", "member")


def _require_part(part: Part, place: str) -> None:
    if type(part) is ToolCallPart:
        require_depth(part.input, place, "input of a tool call")
    elif type(part) is Opaque:
        require_depth(part.value, part.place or "messages", "block")
    elif (type(part) is Text or type(part) is ToolResult) and part.block is not None:
        require_depth(part.block, place, "block")
    if part.unread is not None:
        require_depth(part.unread.members, place, "member")


def require_depth(value: Any, place: str, what: str = "value") -> None:
    """Check that at most `JSON_DEPTH` arrays and objects are open at once in *value*, which stands at *place*.

    Raises:
        RequestError: Code ``invalid_value``; the message shows the path to what is too deep.
    """
    if type(value) in _PLAIN or not isinstance(value, _HOLDERS):
        return
    level: Iterable[Any] = [value]
    for _ in range(JSON_DEPTH):
        held = [it for outer in level for it in _inner(outer) if type(it) not in _PLAIN and isinstance(it, _HOLDERS)]
        if not held:
            return
        # By identity: where a caller's structure holds one part twice, it is looked at once a level.
        level = held if len(held) < _FEW else {id(it): it for it in held}.values()
    path = "".join(_path(value))
    message = f"{place}: {what} nested deeper than {JSON_DEPTH} levels, at {path}"
    raise RequestError(message, code="invalid_value", param=place)


def _inner(value: Any) -> Iterable[Any]:
    return value.values() if type(value) is dict or isinstance(value, Mapping) else value


def _path(value: Any) -> Iterator[str]:
    """The first steps of the path to what is too deep."""
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
