"""What the service refuses about tools, their uses and their results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.anthropic.places import blocks, joined, of_type
from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json
from kiro_asgi.simulator.question import Question

__all__ = ["TOOLS"]

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
IDENTITY: Final = re.compile(r"[a-zA-Z0-9_-]+")
FIELDS: Final = frozenset(
    (
        "type", "name", "description", "input_schema", "cache_control", "strict", "eager_input_streaming",
        "defer_loading", "input_examples", "allowed_callers",
    )
)  # fmt: skip
CHOICES: Final = ("auto", "any", "tool", "none")
ALTERNATIVES: Final = frozenset(("oneOf", "allOf", "anyOf"))


def _tools(document: Json) -> list[Mapping[str, Any]]:
    return [as_map(tool) for tool in as_list(document.get("tools"))]


def tools_valid(document: Json, _: Question) -> str:
    """A tool has a valid name and only known fields, and its schema is that of an object without alternatives."""
    for at, tool in enumerate(_tools(document)):
        if tool.get("type") not in (None, "custom"):
            continue
        schema = as_map(tool.get("input_schema"))
        unknown = next((name for name in tool if name not in FIELDS), None)
        if unknown is not None:
            return f"tools.{at}.custom.{unknown}: Extra inputs are not permitted"
        if not NAME.fullmatch(str(tool.get("name", ""))):
            return f"tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if schema.get("type") != "object":
            return f"tools.{at}.custom.input_schema.type: Input should be 'object'"
        if ALTERNATIVES & set(schema):
            return (
                f"tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
            )
    return ""


def tool_names_differ(document: Json, _: Question) -> str:
    """No two tools have the same name."""
    names = [str(tool.get("name")) for tool in _tools(document)]
    return "" if len(set(names)) == len(names) else "tools: Tool names must be unique."


def choice_possible(document: Json, _: Question) -> str:
    """``tool_choice`` is of a known type, comes with tools, and names one of them."""
    choice = as_map(document.get("tool_choice"))
    if not choice:
        return ""
    if choice.get("type") not in CHOICES:
        return "tool_choice: Input tag does not match any of the expected tags: 'auto', 'any', 'tool', 'none'"
    if not _tools(document):
        return "tool_choice: may only be specified while providing tools"
    named = choice.get("name")
    known = choice["type"] != "tool" or any(tool.get("name") == named for tool in _tools(document))
    return "" if known else f"Tool '{named}' not found in provided tools"


def uses_valid(document: Json, _: Question) -> str:
    """A use has an id of letters, digits, ``_`` and ``-``, a name, and an object as its input."""
    for place, block in blocks(document):
        if block.get("type") != "tool_use":
            continue
        if not isinstance(block.get("id"), str) or not IDENTITY.fullmatch(block["id"]):
            return f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if not NAME.fullmatch(str(block.get("name", ""))):
            return f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if not isinstance(block.get("input"), Mapping):
            return f"{place}.tool_use.input: Input should be a valid dictionary"
    return ""


def use_ids_differ(document: Json, _: Question) -> str:
    """No two uses have the same id."""
    ids = [block["id"] for _, block in blocks(document) if block.get("type") == "tool_use"]
    return "" if len(set(ids)) == len(ids) else "messages: `tool_use` ids must be unique"


def uses_answered(document: Json, _: Question) -> str:
    """Every use is answered by one result in the next message, and every result answers a use of the one before."""
    uses: list[Any] = []
    for at, (_, content) in enumerate(joined(document)):
        results = [block.get("tool_use_id") for block in of_type(content, "tool_result")]
        missing = [use for use in uses if use not in results]
        if missing:
            return (
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        foreign = next((result for result in results if result not in uses), None)
        if foreign is not None:
            return (
                f"messages.{at}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {foreign}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if len({*map(str, results)}) != len(results):
            return f"messages.{at}.content: each tool_use must have a single result."
        uses = [block.get("id") for block in of_type(content, "tool_use")]
    return "" if not uses else "messages: the final message has `tool_use` blocks without `tool_result` blocks"


def results_first(document: Json, _: Question) -> str:
    """Results come before everything else in their message."""
    for at, (_, content) in enumerate(joined(document)):
        results = len(of_type(content, "tool_result"))
        if any(block.get("type") != "tool_result" for block in content[:results]):
            return f"messages.{at}: `tool_result` blocks must come first in the content"
    return ""


TOOLS: Final[tuple[FormatRule, ...]] = (
    tools_valid,
    tool_names_differ,
    choice_possible,
    uses_valid,
    use_ids_differ,
    uses_answered,
    results_first,
)
