"""What the service refuses about the request as a whole, and about messages and their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.anthropic.block_rules import BLOCKS
from kiro_asgi.simulator.anthropic.form_rules import FORM
from kiro_asgi.simulator.anthropic.places import blocks, joined, messages_of
from kiro_asgi.simulator.anthropic.thinking_rules import THINKING
from kiro_asgi.simulator.anthropic.tool_rules import TOOLS
from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json
from kiro_asgi.simulator.question import Question

__all__ = ["RULES"]

FIELDS: Final = frozenset(
    (
        "cache_control", "container", "context_management", "inference_geo", "max_tokens", "mcp_servers", "messages",
        "metadata", "model", "output_config", "output_format", "service_tier", "speed", "stop_sequences", "stream",
        "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p",
    )
)  # fmt: skip
MAX_BREAKPOINTS: Final = 4
OUTPUT: Final[Mapping[str, int]] = {"claude-opus-4-1": 32_000, "claude-opus-4-6": 128_000}
"""Model to the most tokens that it writes, where that is not 64,000."""


def fields_known(document: Json, _: Question) -> str:
    """No field is unknown."""
    unknown = next((name for name in document if name not in FIELDS), None)
    return "" if unknown is None else f"{unknown}: Extra inputs are not permitted"


def fields_present(document: Json, _: Question) -> str:
    """There are ``model``, ``max_tokens`` and ``messages``."""
    missing = next((name for name in ("model", "max_tokens", "messages") if name not in document), None)
    if missing is not None:
        return f"{missing}: Field required"
    return "" if as_list(document["messages"]) else "messages: at least one message is required"


def length_allowed(document: Json, question: Question) -> str:
    """``max_tokens`` is a whole number, and no more than the model writes."""
    most = document["max_tokens"]
    if not isinstance(most, int) or isinstance(most, bool):
        return "max_tokens: Input should be a valid integer"
    if most < 1:
        return "max_tokens: must be greater than or equal to 1"
    limit = OUTPUT.get(question.model, 64_000)
    if most <= limit:
        return ""
    return f"max_tokens: {most} > {limit}, which is the maximum allowed number of output tokens for {question.model}"


def numbers_in_range(document: Json, _: Question) -> str:
    """``temperature`` and ``top_p`` are from 0 to 1, and not both there; ``top_k`` is positive."""
    for name, least, most in (("temperature", 0, 1), ("top_p", 0, 1), ("top_k", 0, 1_000_000)):
        value = document.get(name)
        if value is not None and (not isinstance(value, int | float) or not least <= value <= most):
            return f"{name}: range: {least}..{most}"
    if document.get("temperature") is not None and document.get("top_p") is not None:
        return "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
    return ""


def stops_visible(document: Json, _: Question) -> str:
    """A stop sequence has something that is not a space."""
    stops = as_list(document.get("stop_sequences"))
    if all(isinstance(stop, str) and stop.strip() for stop in stops):
        return ""
    return "stop_sequences: each stop sequence must contain non-whitespace"


def metadata_known(document: Json, _: Question) -> str:
    """``metadata`` has a ``user_id`` of 256 characters at most, and nothing else."""
    unknown = next((name for name in as_map(document.get("metadata")) if name != "user_id"), None)
    if unknown is not None:
        return f"metadata.{unknown}: Extra inputs are not permitted"
    user = str(as_map(document.get("metadata")).get("user_id", ""))
    return "" if len(user) <= 256 else "metadata.user_id: String should have at most 256 characters"


def roles_known(document: Json, _: Question) -> str:
    """A message has a role, ``user`` or ``assistant``, and content; the first is the user's."""
    for at, message in enumerate(messages_of(document)):
        unknown = next((name for name in message if name not in ("role", "content")), None)
        if unknown is not None:
            return f"messages.{at}.{unknown}: Extra inputs are not permitted"
        if message.get("role") not in ("user", "assistant"):
            return f'messages: Unexpected role "{message.get("role")}". Allowed roles are "user" or "assistant".'
    first = messages_of(document)[0]
    return "" if first.get("role") == "user" else 'messages: first message must use the "user" role'


def content_present(document: Json, _: Question) -> str:
    """Every message but a last one of the assistant's has content."""
    messages = messages_of(document)
    for at, message in enumerate(messages):
        last = at == len(messages) - 1 and message.get("role") == "assistant"
        if not message.get("content") and not last:
            return (
                f"messages.{at}: all messages must have non-empty content except for the optional final assistant "
                "message"
            )
    return ""


def ending_trimmed(document: Json, _: Question) -> str:
    """A last message of the assistant's does not end in a space."""
    side, content = joined(document)[-1]
    text = str(content[-1].get("text", "")) if side == "assistant" and content else ""
    return "messages: final assistant content cannot end with trailing whitespace" if text != text.rstrip() else ""


def few_breakpoints(document: Json, _: Question) -> str:
    """At most four blocks have ``cache_control``."""
    marked = sum("cache_control" in one for one in _cacheable(document))
    if marked <= MAX_BREAKPOINTS:
        return ""
    return f"A maximum of 4 blocks with cache_control may be provided. Found {marked}."


def _cacheable(document: Json) -> Iterator[Mapping[str, Any]]:
    yield from map(as_map, as_list(document.get("tools")))
    yield from map(as_map, as_list(document.get("system")))
    for _, block in blocks(document):
        yield block


RULES: Final[tuple[FormatRule, ...]] = (
    fields_known,
    fields_present,
    length_allowed,
    numbers_in_range,
    stops_visible,
    metadata_known,
    roles_known,
    content_present,
    *BLOCKS,
    *TOOLS,
    *THINKING,
    *FORM,
    ending_trimmed,
    few_breakpoints,
)
