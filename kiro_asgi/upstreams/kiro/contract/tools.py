"""Tools under the contract: short descriptions, the whole ones in a manifest, and the client's choice in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.upstreams.kiro.contract.model import ClaudeToolChoice, ManifestEntry, MessageContext, ToolSpec
from kiro_asgi.upstreams.kiro.contract.options import ContractOptions
from kiro_asgi.upstreams.kiro.contract.schema import clean_json_schema_properties, left_out
from kiro_asgi.upstreams.rendering import WireNames

__all__ = ["HEADING", "context", "directive", "manifest"]

HEADING: Final = "Tool reference manifest (hash → tool)"

MODES: Final[Mapping[ToolChoiceMode, str]] = MappingProxyType(
    {
        ToolChoiceMode.AUTO: "auto",
        ToolChoiceMode.REQUIRED: "any",
        ToolChoiceMode.NAMED: "tool",
        ToolChoiceMode.NONE: "none",
    }
)

DIRECTIVES: Final[Mapping[ToolChoiceMode, str]] = MappingProxyType(
    {
        ToolChoiceMode.REQUIRED: "Tool directive: you must use at least one of the tools in this answer.",
        ToolChoiceMode.NAMED: "Tool directive: you must use the tool {} in this answer.",
        ToolChoiceMode.NONE: "Tool directive: you must not use any tool in this answer.",
    }
)


def context(prompt: Prompt, options: ContractOptions, notes: Notes) -> MessageContext:
    """What is said beside the messages, with the client's own tool names."""
    for tool in prompt.tools:
        for rule, times in left_out(tool.schema).items():
            notes.applies(rule, tool.place, times)
    return MessageContext(
        tuple(_specification(tool, options.description_limit) for tool in prompt.tools),
        tuple(_entry(tool) for tool in prompt.tools if tool.description.strip()),
        _choice(prompt.tool_choice),
        prompt.metadata.get(options.plan_mode_key) in (True, "true"),
        prompt.metadata,
    )


def _specification(tool: Tool, limit: int) -> ToolSpec:
    return ToolSpec(tool.name, tool.description.strip()[:limit], clean_json_schema_properties(tool.schema))


def _entry(tool: Tool) -> ManifestEntry:
    text = tool.description.strip()
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return ManifestEntry(tool.name, digest, len(text), text)


def _choice(choice: ToolChoice) -> ClaudeToolChoice | None:
    if choice.raw is None and choice.mode is ToolChoiceMode.AUTO:
        return None
    name = choice.name if choice.mode is ToolChoiceMode.NAMED else ""
    return ClaudeToolChoice(MODES[choice.mode], name, choice.raw)


def manifest(entries: Iterable[ManifestEntry], limit: int, names: WireNames) -> str:
    """The heading and a line for every description of more than *limit* characters; empty without any."""
    lines = [
        f"- {names.wire(it.name)} [{it.hash}, {it.length} chars]: {it.description}"
        for it in entries
        if it.length > limit
    ]
    return "\n".join((HEADING, *lines)) if lines else ""


def directive(choice: ToolChoice, names: WireNames) -> str:
    """What the client demands about tool calls, in one sentence; empty where it leaves the choice to the model."""
    return DIRECTIVES.get(choice.mode, "").format(names.wire(choice.name) if choice.name else "")
