"""What the service's events say: a table from event type to the reader of its payload.

The types are the members of the response stream of the public streaming SDKs (``ChatResponseStream``), and what the
live service adds to them: ``metadataEvent.stopReason``, ``contextUsageEvent``, ``tokenUsageEvent``.  A payload is
whatever JSON object arrived, so readers trust no field: one of the wrong type counts as absent.

Source: https://www.npmjs.com/package/@aws/codewhisperer-streaming-client
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeGuard

from attrs import define

from kiro_asgi.limits import LARGEST_COUNT
from kiro_asgi.model.events import (
    CodeReferences,
    ContextUsage,
    ConversationId,
    Delta,
    FollowupPrompt,
    Metering,
    ModelName,
    RedactedThinking,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.upstreams.kiro.faults import exception_fault
from kiro_asgi.wire.json import dumps
from kiro_asgi.wire.members import text_of

__all__ = ["READERS", "STOP_REASONS", "Payload", "Reader", "Seen", "unwrap"]

Payload = dict[str, Any]


@define
class Seen:
    """What an answer has said so far, where it matters for what is said next."""

    model: str = ""
    """The last `ModelName`: the service repeats it in every event."""

    stopped: bool = False
    """Whether the service has given a stop reason."""


Reader = Callable[[Payload, Seen], Iterable[Delta]]

STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "END_TURN": StopReason.END,
        "STOPPED": StopReason.END,
        "TOOL_USE": StopReason.TOOL_CALL,
        "MAX_TOKENS": StopReason.LENGTH,
        "MAX_TOKENS_REACHED": StopReason.LENGTH,
        "TIMEOUT": StopReason.LENGTH,
        "MODEL_CONTEXT_WINDOW_EXCEEDED": StopReason.CONTEXT_FULL,
        "STOP_SEQUENCE": StopReason.STOP_SEQUENCE,
        "CONTENT_FILTERED": StopReason.CONTENT_FILTER,
        "GUARDRAIL_INTERVENED": StopReason.CONTENT_FILTER,
    }
)
"""The service's word, in capitals, to ours.  An unknown word counts as none: the reason is inferred."""


def unwrap(payload: Payload, event_type: str) -> Payload:
    """The payload itself, where it stands in a wrapper named for its event: some middle men add one."""
    inner = payload.get(event_type)
    return inner if type(inner) is dict else payload


# The answer itself.


def _text(payload: Payload, seen: Seen) -> Iterable[Delta]:
    text = payload.get("content")
    deltas: tuple[Delta, ...] = (TextDelta(text),) if type(text) is str else ()
    if payload.get("modelId", seen.model) == seen.model:
        return deltas
    return (*_model(payload, seen), *deltas)


def _model(payload: Payload, seen: Seen) -> tuple[ModelName, ...]:
    name = text_of(payload, "modelId")
    if not name or name == seen.model:
        return ()
    seen.model = name
    return (ModelName(name),)


def _thinking(payload: Payload, seen: Seen) -> Iterable[Delta]:
    text = payload.get("text") or payload.get("reasoningText")
    if type(text) is dict:
        payload, text = payload | text, text.get("text")
    deltas: tuple[Delta, ...] = (ThinkingDelta(text),) if text and type(text) is str else ()
    return deltas if deltas and len(payload) == 1 else (*deltas, *_seals(payload))


def _seals(payload: Payload) -> Iterable[Delta]:
    if signature := text_of(payload, "signature"):
        yield SignatureDelta(signature)
    if redacted := text_of(payload, "redactedContent"):
        yield RedactedThinking(redacted)


def _tool_call(payload: Payload, seen: Seen) -> Iterable[Delta]:
    call_id = payload.get("toolUseId", "")
    name = payload.get("name", "")
    arguments = payload.get("input", "")
    if type(call_id) is not str or type(name) is not str or type(arguments) is not str:
        call_id, name, arguments = text_of(payload, "toolUseId"), text_of(payload, "name"), _arguments(arguments)
    stop = payload.get("stop") is True
    return (ToolCallFragment(call_id, name, arguments, stop),) if call_id or name or arguments or stop else ()


def _arguments(value: Any) -> str:
    """JSON text of arguments that came as a value; none for an empty one, which may stand before the first piece."""
    if type(value) is str:
        return value
    return dumps(value).decode() if value else ""


# What is said about the answer.


def _metadata(payload: Payload, seen: Seen) -> Iterable[Delta]:
    usage = payload.get("tokenUsage")
    if type(usage) is dict:
        yield from _token_usage(usage, seen)
    yield from _context_usage(payload, seen)
    reason = STOP_REASONS.get(text_of(payload, "stopReason").strip().upper())
    if reason is not None:
        seen.stopped = True
        yield Stop(reason)


def _token_usage(usage: Payload, seen: Seen) -> Iterable[Delta]:
    """The token counts of one record, unless it has none of them, and the context percentage where it has that."""
    inner = usage.get("tokenUsage")
    usage = usage | inner if type(inner) is dict else usage
    counts = TokenUsage(
        input_tokens=_count(usage, "uncachedInputTokens", "inputTokens", "input_tokens", "prompt_tokens"),
        output_tokens=_count(usage, "outputTokens", "output_tokens", "completion_tokens"),
        cache_read_tokens=_count(usage, "cacheReadInputTokens", "cache_read_input_tokens"),
        cache_write_tokens=_count(usage, "cacheWriteInputTokens", "cache_creation_input_tokens"),
    )
    if counts != TokenUsage():
        yield counts
    yield from _context_usage(usage, seen)


def _context_usage(payload: Payload, seen: Seen) -> Iterable[Delta]:
    """A full window ends an answer, too; but a reason that the service gives itself counts more."""
    percentage = _amount(payload, "contextUsagePercentage")
    if percentage is not None:
        yield ContextUsage(min(percentage, 100.0))
        if percentage >= 100 and not seen.stopped:
            yield Stop(StopReason.CONTEXT_FULL)


def _metering(payload: Payload, seen: Seen) -> Iterable[Delta]:
    """A number is a price, and so is a record with a unit; a record of token counts is one."""
    record = payload.get("usage")
    if type(record) is dict:
        if "unit" not in record:
            return _token_usage(record, seen)
        amount = next((record[key] for key in ("usage", "amount", "value") if key in record), None)
        payload = {"usage": amount, "unit": record["unit"]}
    amount = _amount(payload, "usage")
    return () if amount is None else (Metering(amount, text_of(payload, "unit")),)


def _conversation(payload: Payload, seen: Seen) -> Iterable[Delta]:
    conversation = text_of(payload, "conversationId")
    return (ConversationId(conversation),) if conversation else ()


def _followup(payload: Payload, seen: Seen) -> Iterable[Delta]:
    value = payload.get("followupPrompt")
    return () if value is None else (FollowupPrompt(value),)


def _references(payload: Payload, seen: Seen) -> Iterable[Delta]:
    listed = payload.get("references")
    references = tuple(item for item in listed if type(item) is dict and item) if type(listed) is list else ()
    return (CodeReferences(references),) if references else ()


def _invalid_state(payload: Payload, seen: Seen) -> Iterable[Delta]:
    raise exception_fault("InvalidStateException", payload)


def _nothing(payload: Payload, seen: Seen) -> Iterable[Delta]:
    return ()


# Fields.


def _number(value: Any) -> TypeGuard[int | float]:
    return type(value) in (int, float) and 0 <= value <= LARGEST_COUNT


def _amount(payload: Payload, key: str) -> float | None:
    value = payload.get(key)
    return float(value) if _number(value) else None


def _count(payload: Payload, *keys: str) -> int | None:
    """The first of *keys* that holds a number."""
    return next((int(payload[key]) for key in keys if _number(payload.get(key))), None)


READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        "assistantResponseEvent": _text,
        "reasoningContentEvent": _thinking,
        "toolUseEvent": _tool_call,
        "metadataEvent": _metadata,
        "tokenUsageEvent": _token_usage,
        "contextUsageEvent": _context_usage,
        "meteringEvent": _metering,
        "messageMetadataEvent": _conversation,
        "initial-response": _conversation,
        "followupPromptEvent": _followup,
        "codeReferenceEvent": _references,
        "invalidStateEvent": _invalid_state,
        # Known, and of no use to any client API.
        "citationEvent": _nothing,
        "codeEvent": _nothing,
        "documentCitationEvent": _nothing,
        "dryRunSucceedEvent": _nothing,
        "intentsEvent": _nothing,
        "interactionComponentsEvent": _nothing,
        "supplementaryWebLinksEvent": _nothing,
        "toolResultEvent": _nothing,
    }
)
"""Event type to the reader of its payload."""
