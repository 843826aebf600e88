"""Tools: their specifications, and the sentences that stand in for what the service has no field for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from kiro_asgi.model.prompt import Prompt, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.upstreams.kiro.names import ToolNames
from kiro_asgi.upstreams.kiro.schema import clean_schema
from kiro_asgi.wire.json import dumps

__all__ = ["directives", "manifest", "offered", "specification", "stubs"]

MAX_DESCRIPTION: Final = 10_200
"""Bytes of a description; the service's own limit is 10,240 or slightly less."""

MANIFEST_HEADING: Final = "Tool reference manifest (hash → tool)"


def offered(prompt: Prompt, used: Iterable[str]) -> tuple[Tool, ...]:
    """The tools to define, by name once: the first of each.  Without a choice, only those that earlier turns called."""
    first: dict[str, Tool] = {}
    for tool in prompt.tools:
        first.setdefault(tool.name, tool)
    wanted = prompt.tool_choice.mode is not ToolChoiceMode.NONE
    names = frozenset(used)
    return tuple(tool for tool in first.values() if wanted or tool.name in names)


def stubs(tools: Iterable[Tool], used: Iterable[str]) -> tuple[Tool, ...]:
    """Definitions of tools that earlier turns called and the client no longer has: the service insists on them."""
    known = {tool.name for tool in tools}
    return tuple(Tool(name, "This tool is no longer available.") for name in dict.fromkeys(used) if name not in known)


def specification(tool: Tool, names: ToolNames, limit: int) -> dict[str, Any]:
    """One entry of ``tools``; a description is never empty, and never longer than *limit* characters."""
    name = names.wire(tool.name)
    description = _cut(tool.description.strip(), limit) or f"Tool: {name}"
    return {
        "toolSpecification": {
            "name": name,
            "description": description,
            "inputSchema": {"json": clean_schema(tool.schema)},
        }
    }


def manifest(tools: Iterable[Tool], names: ToolNames, limit: int) -> str:
    """The full text of every description that had to be cut; empty if none had to."""
    texts = ((tool, tool.description.strip()) for tool in tools)
    lines = [_manifest_line(names.wire(tool.name), text) for tool, text in texts if text != _cut(text, limit)]
    return "\n".join((MANIFEST_HEADING, *lines)) if lines else ""


def _cut(text: str, limit: int) -> str:
    """At most *limit* characters, and no more bytes than the service takes."""
    text = text[:limit]
    encoded = text.encode("utf-8", "replace")
    return text if len(encoded) <= MAX_DESCRIPTION else encoded[:MAX_DESCRIPTION].decode("utf-8", "ignore")


def _manifest_line(name: str, text: str) -> str:
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"- {name} [{digest}, {len(text)} chars]: {text}"


def directives(prompt: Prompt, names: ToolNames) -> Iterator[str]:
    """What the client demands of the answer, in words."""
    yield from _choice(prompt.tool_choice, names, bool(prompt.tools))
    if prompt.schema is not None:
        yield "Answer with one JSON object and nothing else: no explanation around it, no code fence."
        if prompt.schema:
            yield f"The object must be valid against this JSON Schema: {dumps(dict(prompt.schema)).decode()}"


def _choice(choice: ToolChoice, names: ToolNames, any_tools: bool) -> Iterator[str]:
    match choice.mode:
        case ToolChoiceMode.NAMED if any_tools:
            yield f"You must call the tool {names.wire(choice.name)} in this answer."
        case ToolChoiceMode.REQUIRED if any_tools:
            yield "You must call at least one of the tools in this answer."
        case ToolChoiceMode.NONE if any_tools:
            yield "You must not call any tool in this answer."
    if any_tools and not choice.parallel and choice.mode is not ToolChoiceMode.NONE:
        yield "Call no more than one tool in this answer."
