"""Tools: their specifications, and the sentences that stand in for what the service has no field for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import RequestError
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.upstreams.kiro.rules.schema import Schemas
from kiro_asgi.upstreams.kiro.rules.texts import Texts
from kiro_asgi.upstreams.rendering import WireNames, schema_instructions

__all__ = ["Specifications", "directives", "offered"]

MAX_DESCRIPTION: Final = 10_200
"""Bytes of a description; the service's own limit is 10,240 or slightly less."""

MANIFEST_HEADING: Final = "Tool reference manifest (hash → tool)"

GONE: Final = "This tool is no longer available."


def offered(prompt: Prompt, used: Mapping[str, str], notes: Notes) -> tuple[Tool, ...]:
    """The tools to define: those of the prompt, and those that earlier turns called.

    Args:
        used: Names of the latter, each with the place of its first call.

    Raises:
        RequestError: A tool must be called that is not there.
    """
    tools = _first_of_each(prompt.tools, notes)
    _require_choice(prompt.tool_choice, tools, notes)
    if prompt.tool_choice.mode is ToolChoiceMode.NONE:
        tools = [tool for tool in tools if tool.name in used or not notes.applies("tools.withheld", tool.place)]
    known = {tool.name for tool in tools}
    missing = [(name, place) for name, place in used.items() if name not in known]
    return *tools, *(_stub(name, place) for name, place in missing if notes.applies("tools.stubbed", place))


def _stub(name: str, place: str) -> Tool:
    return Tool(name, GONE, {"type": "object", "properties": {}}, place=place)


def _first_of_each(tools: tuple[Tool, ...], notes: Notes) -> list[Tool]:
    first: dict[str, Tool] = {}
    return [
        tool
        for tool in tools
        if first.setdefault(tool.name, tool) is tool or not notes.applies("tools.duplicate_dropped", tool.place)
    ]


def _require_choice(choice: ToolChoice, tools: list[Tool], notes: Notes) -> None:
    rule = "tools.choice_unknown"
    if choice.mode is not ToolChoiceMode.NAMED or any(tool.name == choice.name for tool in tools) or rule in notes.off:
        return
    message = f"tool_choice: no tool is named {choice.name[:60]!r} (rule {rule})"
    raise RequestError(message, code="unsupported_value", param="tool_choice")


@define
class Specifications:
    """Writes the tools of one request."""

    _notes: Notes
    _names: WireNames
    _texts: Texts
    _limit: int
    """Characters of a description."""

    _schemas: Schemas = field(init=False)
    _moved: list[str] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self._schemas = Schemas(self._notes)

    def write(self, tool: Tool) -> dict[str, Any]:
        """One entry of ``tools``; its description is never empty."""
        name = self._names.wire(tool.name, tool.place)
        schema = self._schemas.clean(tool.schema, tool.place)
        description = self._description(name, tool)
        return {"toolSpecification": {"name": name, "description": description, "inputSchema": {"json": schema}}}

    def _description(self, name: str, tool: Tool) -> str:
        text = self._texts.clean(tool.description.strip(), tool.place)
        if not text and self._notes.applies("tools.undescribed", tool.place):
            return f"Tool: {name}"
        cut = _cut(text, self._limit)
        if cut is text or not self._notes.applies("tools.description_moved", tool.place):
            return text
        self._moved.append(_manifest_line(name, text))
        return cut

    def manifest(self) -> str:
        """The full text of every description that had to be cut; empty if none had to."""
        return "\n".join((MANIFEST_HEADING, *self._moved)) if self._moved else ""


def _cut(text: str, limit: int) -> str:
    """At most *limit* characters, and no more bytes than the service takes."""
    if len(text) > limit:
        text = text[:limit]
    if 4 * len(text) <= MAX_DESCRIPTION or len(encoded := text.encode("utf-8", "replace")) <= MAX_DESCRIPTION:
        return text
    return encoded[:MAX_DESCRIPTION].decode("utf-8", "ignore")


def _manifest_line(name: str, text: str) -> str:
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"- {name} [{digest}, {len(text)} chars]: {text}"


def directives(prompt: Prompt, names: WireNames, notes: Notes) -> Iterator[str]:
    """What the client demands of the answer, in words."""
    sentences = [*_choice(prompt.tool_choice, names)] if prompt.tools else []
    if sentences and notes.applies("tools.choice_told", "tool_choice"):
        yield from sentences
    if prompt.schema is not None and notes.applies("output.schema_told"):
        yield from schema_instructions(prompt.schema)


def _choice(choice: ToolChoice, names: WireNames) -> Iterator[str]:
    match choice.mode:
        case ToolChoiceMode.NAMED:
            yield f"You must call the tool {names.wire(choice.name)} in this answer."
        case ToolChoiceMode.REQUIRED:
            yield "You must call at least one of the tools in this answer."
        case ToolChoiceMode.NONE:
            yield "You must not call any tool in this answer."
    if not choice.parallel and choice.mode is not ToolChoiceMode.NONE:
        yield "Call no more than one tool in this answer."
