"""What the service refuses about tools, calls and their results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json
from kiro_asgi.simulator.openai.reader import messages_of
from kiro_asgi.simulator.question import Question

__all__ = ["TOOLS"]

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_ID: Final = 40
CHOICES: Final = ("none", "auto", "required")


def _functions(document: Json) -> list[Mapping[str, Any]]:
    return [as_map(as_map(tool).get("function")) for tool in as_list(document.get("tools"))]


def tools_valid(document: Json, _: Question) -> str:
    """A tool is a function with a valid name, and its schema, if any, that of an object."""
    if document.get("tools") == []:
        return "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
    for at, tool in enumerate(as_list(document.get("tools"))):
        if as_map(tool).get("type") != "function":
            return f"Invalid value: '{as_map(tool).get('type')}' in 'tools[{at}].type'."
    for at, function in enumerate(_functions(document)):
        name, schema = str(function.get("name", "")), function.get("parameters")
        if not NAME.fullmatch(name):
            return f"Invalid 'tools[{at}].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
        if schema is not None and as_map(schema).get("type") != "object":
            return f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'."
        if schema is not None and any(_arrays_of_nothing(schema)):
            return f"Invalid schema for function '{name}': array schema missing items."
    return ""


def _arrays_of_nothing(schema: Any) -> Iterator[bool]:
    rest = [schema]
    while rest:
        part = rest.pop()
        yield part.get("type") == "array" and "items" not in part
        rest += [value for value in as_map(part.get("properties")).values() if isinstance(value, Mapping)]
        rest += [part["items"]] if isinstance(part.get("items"), Mapping) else []


def choice_possible(document: Json, _: Question) -> str:
    """``tool_choice`` and ``parallel_tool_calls`` come with tools, and a named function is one of them."""
    for name in ("tool_choice", "parallel_tool_calls"):
        if document.get(name) is not None and not document.get("tools"):
            return f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
    choice = document.get("tool_choice")
    if choice is None or choice in CHOICES:
        return ""
    named = as_map(as_map(choice).get("function")).get("name")
    known = any(function.get("name") == named for function in _functions(document))
    return "" if known else f"Tool choice 'function' not found in 'tools' parameter: {named}"


def calls_valid(document: Json, _: Question) -> str:
    """A call has an id of 40 characters at most, a valid name, and arguments as text."""
    for at, message in enumerate(messages_of(document)):
        if message.get("tool_calls") == []:
            return f"Invalid 'messages[{at}].tool_calls': empty array. Expected an array with minimum length 1."
        for number, call in enumerate(map(as_map, as_list(message.get("tool_calls")))):
            place, function = f"messages[{at}].tool_calls[{number}]", as_map(call.get("function"))
            if not 0 < len(str(call.get("id", ""))) <= MAX_ID:
                return f"Invalid '{place}.id': string too long. Expected a string with maximum length 40."
            if call.get("type") != "function" or not NAME.fullmatch(str(function.get("name", ""))):
                return f"Invalid '{place}.function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
            if not isinstance(function.get("arguments"), str):
                return f"Invalid type for '{place}.function.arguments': expected a string, but got an object instead."
    return ""


def calls_answered(document: Json, _: Question) -> str:
    """Every call is answered by a message right after it, and every answer is to one of these calls."""
    open_calls: list[Any] = []
    for at, message in enumerate(messages_of(document)):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                return (
                    f"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    f"'tool_calls'. - 'messages.[{at}].role'"
                )
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return _unanswered(open_calls)
        open_calls = [as_map(call).get("id") for call in as_list(message.get("tool_calls"))]
    return _unanswered(open_calls) if open_calls else ""


def _unanswered(calls: list[Any]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(map(str, calls))}"
    )


TOOLS: Final[tuple[FormatRule, ...]] = (tools_valid, choice_possible, calls_valid, calls_answered)
