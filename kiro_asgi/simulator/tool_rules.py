"""What the service refuses about tools, their uses and their results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.builders import sign
from kiro_asgi.simulator.conversation import Conversation, as_list, as_map
from kiro_asgi.simulator.rules import Asked, Refusal, Rule

__all__ = ["TOOLS"]

NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
IDENTITY: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_DESCRIPTION: Final = 10_240
"""UTF-8 bytes."""

BAD_FORMAT: Final = Refusal(400, "Invalid tool use format.", "REQUEST_BODY_INVALID")
MISMATCH: Final = Refusal(
    400, "The tool results do not match the tool uses of the previous turn.", "TOOL_USE_RESULT_MISMATCH"
)


def _uses(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [as_map(use) for use in as_list(message.get("toolUses"))]


def _results(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [as_map(result) for result in as_list(as_map(message.get("userInputMessageContext")).get("toolResults"))]


def _messages(conversation: Conversation) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from conversation.history
    yield "user", conversation.current


def tool_names_valid(asked: Asked) -> Refusal | None:
    """Tool names are of the allowed form."""
    return None if all(NAME.fullmatch(tool.name) for tool in asked.conversation.tools) else BAD_FORMAT


def tool_names_differ(asked: Asked) -> Refusal | None:
    """No two tools have the same name, upper and lower case being the same."""
    names = [tool.name.lower() for tool in asked.conversation.tools]
    return None if len(set(names)) == len(names) else Refusal(400, "Duplicate tool name.", "TOOL_DUPLICATE")


def tool_descriptions_valid(asked: Asked) -> Refusal | None:
    """Descriptions are neither empty nor too long."""
    sizes = [len(tool.description.encode()) for tool in asked.conversation.tools]
    return None if all(0 < size <= MAX_DESCRIPTION for size in sizes) else BAD_FORMAT


def tool_schemas_valid(asked: Asked) -> Refusal | None:
    """A tool's schema is an object's, without combinators at its root and without null or empty lists of names."""
    for tool in asked.conversation.tools:
        schema = tool.schema
        if schema.get("type") != "object" or {"oneOf", "anyOf", "allOf"} & set(schema):
            return Refusal(400, "Invalid tool schema.", "TOOL_SCHEMA_INVALID")
        if not isinstance(schema.get("properties", {}), Mapping) or schema.get("required", [""]) in (None, []):
            return Refusal(400, "Improperly formed request.")
    return None


def tools_only_now(asked: Asked) -> Refusal | None:
    """Tools are listed with the current message, never in history."""
    listed = any(
        "tools" in as_map(message.get("userInputMessageContext"))
        for side, message in asked.conversation.history
        if side == "user"
    )
    return Refusal(400, "Improperly formed request.") if listed else None


def ids_valid(asked: Asked) -> Refusal | None:
    """Tool-use ids are of the allowed form, inputs are objects, and no result comes twice."""
    for _, message in _messages(asked.conversation):
        uses, results = _uses(message), _results(message)
        if not all(IDENTITY.fullmatch(str(part.get("toolUseId", ""))) for part in (*uses, *results)):
            return BAD_FORMAT
        if not all(isinstance(use.get("input"), Mapping) and NAME.fullmatch(str(use.get("name", ""))) for use in uses):
            return BAD_FORMAT
        if len({result["toolUseId"] for result in results}) < len(results):
            return BAD_FORMAT
    return None


def tools_defined(asked: Asked) -> Refusal | None:
    """Every tool that history mentions is on offer."""
    offered = {tool.name.lower() for tool in asked.conversation.tools}
    used = {str(use.get("name", "")).lower() for _, message in asked.conversation.history for use in _uses(message)}
    if used <= offered and (offered or not asked.conversation.results):
        return None
    return Refusal(400, "Tools must be defined when the conversation uses them.", "TOOL_CONFIG_MISSING")


def results_match_uses(asked: Asked) -> Refusal | None:
    """Every tool use is answered in the next message, and every result answers a use of the message before."""
    open_uses: set[str] = set()
    for side, message in _messages(asked.conversation):
        if side == "user":
            if {str(result.get("toolUseId")) for result in _results(message)} != open_uses:
                return MISMATCH
            open_uses = set()
        else:
            open_uses = {str(use.get("toolUseId")) for use in _uses(message)}
    return None


def signatures_valid(asked: Asked) -> Refusal | None:
    """Thinking that comes back bears the seal that this service put on it."""
    for _, message in asked.conversation.history:
        thought = as_map(as_map(message.get("reasoningContent")).get("reasoningText"))
        if thought and thought.get("signature") != sign(str(thought.get("text", ""))):
            return Refusal(400, "Invalid signature in thinking block", "THINKING_SIGNATURE_INVALID")
    return None


TOOLS: Final[tuple[Rule, ...]] = (
    tool_names_valid,
    tool_names_differ,
    tool_descriptions_valid,
    tool_schemas_valid,
    tools_only_now,
    ids_valid,
    tools_defined,
    results_match_uses,
    signatures_valid,
)
