"""The rules of the Responses API: fields, items, tools and calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json, Question
from kiro_asgi.simulator.openai.checks import EFFORTS, OUTPUT
from kiro_asgi.simulator.responses.encoder import SEALS, seal_of

FIELDS: Final = frozenset(
    (
        "background", "context_management", "conversation", "include", "input", "instructions", "max_output_tokens",
        "max_tool_calls", "metadata", "model", "parallel_tool_calls", "previous_response_id", "prompt",
        "prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store",
        "stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p",
        "truncation", "user",
    )
)  # fmt: skip

ITEMS: Final[Mapping[str, frozenset[str]]] = {
    "message": frozenset(("type", "role", "content", "id", "status", "phase")),
    "function_call": frozenset(("type", "call_id", "name", "arguments", "id", "status")),
    "function_call_output": frozenset(("type", "call_id", "output", "id", "status")),
    "custom_tool_call": frozenset(("type", "call_id", "name", "input", "id", "status")),
    "custom_tool_call_output": frozenset(("type", "call_id", "output", "id", "status")),
    "reasoning": frozenset(("type", "id", "summary", "content", "encrypted_content", "status")),
}
"""Type of an item to its members."""

OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("input_text", "input_image", "input_file"),
    "system": ("input_text",),
    "developer": ("input_text",),
    "assistant": ("output_text", "refusal", "input_text"),
    "tool": ("input_text", "input_image", "input_file"),
}
"""Role to its types of parts; ``tool`` is a call's output."""

HOSTED: Final = frozenset(
    ("web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation", "mcp", "computer")
)
"""Types of tools that the service runs, which have no name."""

LEAST_TOKENS: Final = 16
NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


CALLED: Final = ("function", "custom")
"""Types of tools that the client runs."""


def items_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The items of the input; a string is a message of the user's."""
    given = document.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return [{"type": "message", **as_map(item)} for item in as_list(given)]


def parts_of(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a message, or of a result; a string is one of them."""
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return [as_map(part) for part in as_list(content)]


def _reasons(question: Question) -> bool:
    return question.model.startswith(("gpt-5", "o"))


def fields_known(document: Json, question: Question) -> str:
    """No field is unknown, nor the one that a marker in the prompt declares unknown."""
    strange = question.habits.get("unrecognized")
    unknown = next((name for name in document if name not in FIELDS or name == strange), None)
    return "" if unknown is None else f"Unknown parameter: '{unknown}'."


def length_allowed(document: Json, question: Question) -> str:
    """The greatest length is no less than 16 tokens, and no more than the model writes."""
    wanted, most = document.get("max_output_tokens"), OUTPUT.get(question.model, 128_000)
    if wanted is None or LEAST_TOKENS <= wanted <= most:
        return ""
    return f"Invalid 'max_output_tokens': expected a value from {LEAST_TOKENS} to {most}, but got {wanted} instead."


def model_takes_options(document: Json, question: Question) -> str:
    """A model that reasons has no temperature, unless reasoning is switched off; others have no reasoning."""
    effort = as_map(document.get("reasoning")).get("effort")
    if not _reasons(question):
        if document.get("reasoning") is not None:
            return "Unsupported parameter: 'reasoning.effort' is not supported with this model."
        return "Encrypted content is not supported with this model." if SEALS in question.fields_wanted else ""
    if effort not in (None, *EFFORTS):
        return f"Invalid value: '{effort}'. Supported values are: …"
    for name in () if effort == "none" else ("temperature", "top_p"):
        if document.get(name) is not None:
            return f"Unsupported parameter: '{name}' is not supported with this model."
    return ""


def items_known(document: Json, _: Question) -> str:
    """There are items, of known types, with known members and parts."""
    items = items_of(document)
    if not items:
        return "One of 'input' or 'previous_response_id' must be provided."
    return next(filter(None, (_item(item, f"input[{place}]") for place, item in enumerate(items))), "")


def _item(item: Mapping[str, Any], place: str) -> str:
    kind = str(item.get("type"))
    members = ITEMS.get(kind)
    if members is None:
        return f"Invalid value: '{kind}'. Supported values are: …, at {place}.type"
    if unknown := next((name for name in item if name not in members), ""):
        return f"Unknown parameter: '{place}.{unknown}'."
    if kind in ("message", *OUTPUTS):
        role = str(item.get("role")) if kind == "message" else "tool"
        content = item.get("content" if kind == "message" else "output")
        for part in [] if isinstance(content, str) else parts_of(content):
            if part.get("type") not in PARTS.get(role, ()):
                return f"Invalid value: '{part.get('type')}'. Supported values are: …, at {place}.content"
    if kind == "reasoning" and item.get("encrypted_content") not in (None, seal_of(str(item.get("id")))):
        return (
            "The encrypted content could not be verified. Reason: Encrypted content was not made by this organization."
        )
    if kind == "function_call":
        try:
            json.loads(str(item.get("arguments")))
        except ValueError:
            return f"Invalid '{place}.arguments': expected JSON."
    return ""


def calls_answered(document: Json, _: Question) -> str:
    """Every call has its output, behind it, and every output its call."""
    calls: dict[str, None] = {}
    for item in items_of(document):
        call_id = str(item.get("call_id"))
        match item.get("type"):
            case "function_call" | "custom_tool_call":
                calls[call_id] = None
            case kind if kind in OUTPUTS and call_id in calls:
                del calls[call_id]
            case kind if kind in OUTPUTS:
                return f"No tool call found for function call output with call_id {call_id}."
    return f"No tool output found for function call {next(iter(calls))}." if calls else ""


def tools_flat(document: Json, _: Question) -> str:
    """Tools are functions, without an object around them, or take a text, each once; a choice is of one of them."""
    names = []
    for place, tool in enumerate(map(as_map, as_list(document.get("tools")))):
        name = tool.get("name")
        if tool.get("type") in HOSTED:
            continue
        if tool.get("type") not in CALLED or not isinstance(name, str) or not NAME.fullmatch(name):
            return f"Missing required parameter: 'tools[{place}].name'."
        if tool.get("type") == "function" and as_map(tool.get("parameters")).get("type") != "object":
            return f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'."
        names.append(name)
    if len(names) != len(set(names)):
        return "Tool names must be unique."
    choice = document.get("tool_choice")
    if isinstance(choice, Mapping) and choice.get("name") not in names:
        return f"Tool choice '{choice.get('name')}' not found in 'tools' parameter."
    return (
        "Tool choice 'required' must be specified with 'tools' parameter." if choice == "required" and not names else ""
    )


RULES: Final[tuple[FormatRule, ...]] = (
    fields_known,
    length_allowed,
    model_takes_options,
    items_known,
    calls_answered,
    tools_flat,
)
"""In the order in which the service checks them."""
