"""The response object: what an answer repeats of its request, how it stands, and what it has cost.

Source: https://platform.openai.com/docs/api-reference/responses/object
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.base import Heading
from kiro_asgi.dialects.openai_responses.options import ResponsesOptions, options_of
from kiro_asgi.dialects.pieces import Pieces, dump_array
from kiro_asgi.model.events import StopReason, Usage
from kiro_asgi.wire.json import dumps

__all__ = ["INCOMPLETE", "Outcome", "ResponseObject", "usage_object"]

INCOMPLETE: Final = MappingProxyType(
    {
        StopReason.LENGTH: "max_output_tokens",
        StopReason.CONTEXT_FULL: "max_output_tokens",
        StopReason.PAUSED: "max_output_tokens",
        StopReason.CONTENT_FILTER: "content_filter",
    }
)
"""Why an answer is not complete; after any other stop it is."""


@frozen
class Outcome:
    """How an answer stands."""

    status: str = "in_progress"
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


class ResponseObject:
    """Renders one response, again and again; what does not change is rendered once.

    Args:
        heading: Facts of the answer, with the `ResponsesOptions` of its request.
    """

    __slots__ = ("_static", "id")

    def __init__(self, heading: Heading) -> None:
        self.id = heading.id
        facts = {
            "id": heading.id,
            "object": "response",
            "created_at": heading.created,
            "completed_at": None,
            "model": heading.model,
            **_echo(options_of(heading)),
        }
        self._static = dumps(facts)[:-1]

    def render(self, outcome: Outcome, items: Iterable[Pieces]) -> Pieces:
        """The object with *items* for its output."""
        state = {"status": outcome.status, "error": outcome.error, "incomplete_details": outcome.incomplete_details}
        before = b'%b,%b,"output":' % (self._static, dumps(state)[1:-1])
        return Pieces((before, *dump_array(items), b',"usage":%b}' % dumps(outcome.usage)))


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts; here, unlike in `Usage`, the input includes what was read from or written to a cache."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }


def _echo(options: ResponsesOptions) -> dict[str, Any]:
    """What the object repeats of its request."""
    return {
        "background": options.background,
        "instructions": options.instructions,
        "max_output_tokens": options.max_output_tokens,
        "max_tool_calls": options.max_tool_calls,
        "metadata": dict(options.metadata),
        "parallel_tool_calls": options.parallel_tool_calls,
        "previous_response_id": options.previous_response_id,
        "prompt_cache_key": options.prompt_cache_key,
        "reasoning": {name: options.reasoning.get(name) for name in ("effort", "summary")},
        "safety_identifier": options.safety_identifier,
        "service_tier": "default",
        "store": options.store,
        "temperature": options.temperature,
        "text": {**options.text, "format": dict(options.text["format"])},
        "tool_choice": options.tool_choice,
        "tools": list(options.tools),
        "top_logprobs": options.top_logprobs or 0,
        "top_p": options.top_p,
        "truncation": options.truncation,
        "user": options.user,
    }
