"""The rules of Chat Completions: fields, messages, tools and calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json, Question

FIELDS: Final = frozenset(
    (
        "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens",
        "max_tokens", "messages", "metadata", "modalities", "model", "n", "parallel_tool_calls", "prediction",
        "presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "response_format",
        "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options", "temperature",
        "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
    )
)  # fmt: skip
MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "system": ("role", "content", "name"),
    "developer": ("role", "content", "name"),
    "user": ("role", "content", "name"),
    "assistant": (
        "role", "content", "name", "tool_calls", "refusal", "audio", "function_call", "annotations",
        "reasoning_content",
    ),
    "tool": ("role", "content", "tool_call_id"),
    "function": ("role", "content", "name"),
}  # fmt: skip
"""Role to the members of its messages; compatible servers take ``reasoning_content`` back."""

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
}
"""Role to its types of parts; all others have text only."""

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "max_tokens": (1, 10_000_000),
    "max_completion_tokens": (1, 10_000_000),
}
OUTPUT: Final[Mapping[str, int]] = {"gpt-4o": 16_384, "gpt-4o-mini": 16_384, "o3": 100_000, "o4-mini": 100_000}
"""Model to the most tokens that it writes, where that is not 128,000."""

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh")
NEWER: Final = ("gpt-5.1", "gpt-5.2")
MAX_STOPS: Final = 4


def messages_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages."""
    return [as_map(message) for message in as_list(document.get("messages"))]


def parts_of(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a message's content; a string is one of them."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_map(part) for part in as_list(content)]


def _reasons(question: Question) -> bool:
    return question.model.startswith(("gpt-5", "o"))


def _rests(document: Json, question: Question) -> bool:
    """Whether reasoning is switched off, as newer models allow."""
    return question.model.startswith(NEWER) and document.get("reasoning_effort") == "none"


def fields_known(document: Json, question: Question) -> str:
    """No field is unknown, nor the one that a marker in the prompt declares unknown."""
    strange = question.habits.get("unrecognized")
    unknown = next((name for name in document if name not in FIELDS or name == strange), None)
    return "" if unknown is None else f"Unrecognized request argument supplied: {unknown}"


def numbers_in_range(document: Json, _: Question) -> str:
    """Temperature, penalties and lengths are numbers within their bounds."""
    for name, (least, most) in RANGES.items():
        value = document.get(name)
        if value is not None and (not isinstance(value, int | float) or not least <= value <= most):
            return f"Invalid '{name}': expected a value from {least} to {most}, but got {value} instead."
    return ""


def few_stops(document: Json, _: Question) -> str:
    """There are four stop sequences at most."""
    stops = as_list(document.get("stop"))
    if len(stops) <= MAX_STOPS:
        return ""
    return f"Invalid 'stop': array too long. Expected an array with maximum length 4, but got {len(stops)} instead."


def stream_options_with_stream(document: Json, _: Question) -> str:
    """``stream_options`` come with ``stream`` only."""
    if document.get("stream_options") is None or document.get("stream") is True:
        return ""
    return "The 'stream_options' parameter is only allowed when 'stream' is enabled."


def one_length(document: Json, _: Question) -> str:
    """``max_tokens`` and ``max_completion_tokens`` are not both there."""
    if document.get("max_tokens") is None or document.get("max_completion_tokens") is None:
        return ""
    return "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."


def length_allowed(document: Json, question: Question) -> str:
    """The answer may have no more tokens than the model writes."""
    most = OUTPUT.get(question.model, 128_000)
    for name in ("max_tokens", "max_completion_tokens"):
        if (wanted := document.get(name)) is not None and wanted > most:
            return (
                f"{name} is too large: {wanted}. This model supports at most {most} completion tokens, whereas you "
                f"provided {wanted}."
            )
    return ""


def model_takes_options(document: Json, question: Question) -> str:
    """A model that reasons takes no ``max_tokens``, no ``stop`` and, unless reasoning is switched off, no temperature
    but 1; others take no effort."""
    if not _reasons(question):
        effort = document.get("reasoning_effort")
        return "" if effort is None else "Unrecognized request argument supplied: reasoning_effort"
    if document.get("max_tokens") is not None:
        return (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
    if document.get("stop") is not None:
        return "Unsupported parameter: 'stop' is not supported with this model."
    for name in () if _rests(document, question) else ("temperature", "top_p"):
        if document.get(name) not in (1, None):
            return f"Unsupported value: '{name}' does not support {document[name]} with this model."
    effort = document.get("reasoning_effort")
    return "" if effort is None or effort in EFFORTS else f"Invalid value: '{effort}'. Supported values are: …"


def messages_present(document: Json, _: Question) -> str:
    """There are messages, with known roles, and without unknown members."""
    messages = messages_of(document)
    if not messages:
        return (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
    for at, message in enumerate(messages):
        role = str(message.get("role"))
        if role not in MEMBERS:
            return f"Invalid value: '{role}'. Supported values are: {', '.join(MEMBERS)}."
        unknown = next((name for name in message if name not in MEMBERS[role]), None)
        if unknown is not None:
            return f"Additional properties are not allowed ('{unknown}' was unexpected) - 'messages.{at}'"
    return ""


def content_valid(document: Json, _: Question) -> str:
    """Content is text or parts that the role may have; only an assistant's that calls, or refuses, may be null."""
    for at, message in enumerate(messages_of(document)):
        content = message.get("content")
        if isinstance(content, str):
            continue
        instead = message["role"] == "assistant" and any(message.get(name) for name in ("tool_calls", "refusal"))
        if content is None and instead:
            continue
        if not isinstance(content, list) or not content:
            return f"Invalid value for 'messages[{at}].content': expected a string, got {content!r:.20}."
        allowed = PARTS.get(message["role"], ("text",))
        for number, part in enumerate(parts_of(content)):
            if part.get("type") not in allowed or part.get(str(part.get("type"))) is None:
                return f"Invalid value: '{part.get('type')}' in 'messages[{at}].content[{number}]'."
    return ""


def images_valid(document: Json, _: Question) -> str:
    """An image is a URL, or data with a media type and base64."""
    parts = (part for message in messages_of(document) for part in parts_of(message.get("content")))
    urls = [str(as_map(part.get("image_url")).get("url", "")) for part in parts if part.get("type") == "image_url"]
    if all(url.startswith(("https://", "http://")) or _is_data(url) for url in urls):
        return ""
    return "Invalid MIME type. Only image types are supported."


def _is_data(url: str) -> bool:
    head, comma, data = url.partition(",")
    return bool(head.startswith("data:image/") and head.endswith(";base64") and comma and data)


def format_valid(document: Json, _: Question) -> str:
    """``response_format`` is text, JSON, or JSON of a named schema."""
    wanted: Mapping[str, Any] = as_map(document.get("response_format"))
    if wanted.get("type", "text") not in ("text", "json_object", "json_schema"):
        return f"Invalid value: '{wanted['type']}'. Supported values are: 'json_object', 'json_schema', and 'text'."
    if wanted.get("type") == "json_schema" and not as_map(wanted.get("json_schema")).get("name"):
        return "Missing required parameter: 'response_format.json_schema.name'."
    return ""


FUNCTION_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
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
        if not FUNCTION_NAME.fullmatch(name):
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
            if call.get("type") != "function" or not FUNCTION_NAME.fullmatch(str(function.get("name", ""))):
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


RULES: Final[tuple[FormatRule, ...]] = (
    fields_known,
    numbers_in_range,
    few_stops,
    stream_options_with_stream,
    one_length,
    length_allowed,
    model_takes_options,
    messages_present,
    content_valid,
    images_valid,
    format_valid,
    tools_valid,
    choice_possible,
    calls_valid,
    calls_answered,
)
