"""Members of answers of the Responses API: which are read, which of the rest are kept, and counts.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.upstreams.unread import others, within
from kiro_asgi.wire.json import object_of

CUSTOM_CALL: Final = "custom_tool_call"

READ_ITEMS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "message": frozenset({"id", "type", "status", "role", "content", "phase"}),
        "reasoning": frozenset({"id", "type", "status", "summary", "content", "encrypted_content"}),
        "function_call": frozenset({"id", "type", "status", "call_id", "name", "arguments"}),
        CUSTOM_CALL: frozenset({"id", "type", "status", "call_id", "name", "input"}),
    }
)
"""Kinds of items that are read, each with the members that are; items of other kinds are kept whole."""

PART: Final = frozenset({"type", "text", "refusal", "annotations"})

EVENT: Final = frozenset(
    {
        *("type", "sequence_number", "item_id", "output_index", "content_index", "summary_index", "annotation_index"),
        *("item", "part", "response", "annotation", "delta", "text", "refusal", "arguments", "input", "name"),
        *("logprobs", "obfuscation"),
    }
)
"""Members of events that are read, or that the last event about an item repeats."""

_RESPONSE: Final = frozenset(
    {
        *("id", "object", "created_at", "completed_at", "model", "status", "error", "incomplete_details", "output"),
        *("usage", "background", "conversation", "frequency_penalty", "instructions", "max_output_tokens"),
        *("max_tool_calls", "metadata", "parallel_tool_calls", "presence_penalty", "previous_response_id"),
        *("prompt_cache_key", "reasoning", "safety_identifier", "store", "temperature", "text", "tool_choice", "tools"),
        *("top_logprobs", "top_p", "truncation", "user"),
    }
)
"""Members of a response that are read, or only repeat the request."""

_USAGE: Final = frozenset(
    {"input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"}
)
_INPUT_DETAILS: Final = frozenset({"cached_tokens", "cache_write_tokens"})
_OUTPUT_DETAILS: Final = frozenset({"reasoning_tokens"})

_WITHIN: Final = frozenset(
    {
        *("reason", "code", "message", "param"),
        *("effort", "summary", "generate_summary", "context", "mode", "format", "verbosity"),
        *("url", "title", "start_index", "end_index", "index", "file_id", "filename", "container_id"),
        *("token", "logprob", "bytes", "top_logprobs"),
    }
)
"""Members of smaller objects: of an error or a reason, of what a response repeats of its request, of annotations, and
of probabilities."""

NAMES: Final = frozenset(
    chain(EVENT, _RESPONSE, _USAGE, _INPUT_DETAILS, _OUTPUT_DETAILS, PART, _WITHIN, *READ_ITEMS.values())
)
"""Members that are known, wherever they stand."""

OWN: Final = frozenset({"arguments", "format", "input", "instructions", "metadata", "prompt", "tool_choice", "tools"})
"""Members whose values are the client's own, or the model's: they may have any members, and are not looked into."""


def unread_response(response: Mapping[str, Any]) -> dict[str, Any]:
    """Members of a response that are not read."""
    usage = object_of(response.get("usage"))
    details = within(
        input_tokens_details=others(object_of(usage.get("input_tokens_details")), _INPUT_DETAILS),
        output_tokens_details=others(object_of(usage.get("output_tokens_details")), _OUTPUT_DETAILS),
    )
    why = others(object_of(response.get("incomplete_details")), {"reason"})
    return {**others(response, _RESPONSE), **within(usage={**others(usage, _USAGE), **details}, incomplete_details=why)}
