"""Recorded calls as JSON, a row of the list, and all that is known of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.inspector.calls import Attempt, RecordedCall
from kiro_asgi.inspector.sentences import of_error
from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.observers.base import EndFacts

_TEXT: Final = 200
"""Characters of a text that a client or a service chose."""

_RULES: Final = 50
"""Names of rules."""


def row(call: RecordedCall) -> Mapping[str, Any]:
    """One call in the list; what is not known is left out.  Times are seconds, ``time`` those since the epoch."""
    return {name: value for name, value in _row(call) if value not in (None, "")}


def _row(call: RecordedCall) -> Iterator[tuple[str, Any]]:
    facts, end, last = call.facts, call.end, call.attempts[-1] if call.attempts else None
    yield "number", call.number
    yield "id", facts.request_id
    yield "time", round(facts.time, 3)
    yield "seconds", round(call.seen - facts.started if end is None else end.seconds, 4)
    yield "state", call.state
    yield "api", facts.api
    yield "method", facts.method
    yield "path", facts.path
    yield "route", facts.route
    yield "principal", facts.principal
    yield "agent", call.agent
    yield "pinned", call.pinned or None
    yield "recorded", call.recording is not None or None
    yield "remarks", [each.short for each in call.remarks] or None
    yield "attempts", len(call.attempts) if end is None else end.attempts
    yield "received_bytes", call.received.total
    yield "sent_bytes", call.sent.total
    yield "gap", round(call.received.longest, 4)
    yield "blocked", round(call.blocked, 4)
    if last is not None:
        yield "upstream", last.plan.upstream
        yield "upstream_model", last.plan.model[:_TEXT]
        yield "streamed", last.plan.streamed
        yield "rules", list(dict.fromkeys(last.plan.rules))[:_RULES]
    if end is not None:
        yield from _ending(end)
        if end.cost is not None:
            yield "cost", round(end.cost.counted, 8)
            yield "estimated_cost", round(end.cost.estimated, 8) or None


def _ending(end: EndFacts) -> Iterator[tuple[str, Any]]:
    yield "status", end.status or None
    yield "outcome", end.outcome.value
    yield "error", end.error
    yield "code", end.code[:_TEXT]
    yield "model", end.model[:_TEXT]
    yield "finish", end.finish
    yield "first", None if end.first_content is None else round(end.first_content, 4)
    yield "notices", dict(end.notices) or None
    if end.seconds_per_token:
        yield "tokens_per_second", round(1 / end.seconds_per_token, 1)
    if end.usage is not None:
        yield "usage", _tokens(end.usage)


def _tokens(usage: Usage) -> Mapping[str, Any]:
    """Tokens, and which counts are estimates of the gateway."""
    counts = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "thinking": usage.thinking_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "input_estimated": usage.input_source is not UsageSource.UPSTREAM,
        "output_estimated": usage.output_source is not UsageSource.UPSTREAM,
    }
    took = usage.charged_by_service
    return counts if took is None else {**counts, "credits": round(took, 6)}


def detail(call: RecordedCall) -> Mapping[str, Any]:
    """All that is known of one call: its row, each attempt, and the pace of what came and was sent."""
    started = call.facts.started
    return {
        **row(call),
        "recorded": call.recording is not None,
        "remarks": [each.whole for each in call.remarks],
        "tries": [dict(_attempt(each, started)) for each in call.attempts],
        "received": call.received.pairs(),
        "sent": call.sent.pairs(),
        "beats": [round(at, 4) for at in call.beats],
    }


def _attempt(attempt: Attempt, started: float) -> Iterator[tuple[str, Any]]:
    plan, facts = attempt.plan, attempt.facts
    yield "number", plan.number
    yield "upstream", plan.upstream
    yield "model", plan.model[:_TEXT]
    yield "credential", plan.credential[:_TEXT]
    yield "host", plan.host
    yield "at", round(plan.started - started, 4)
    yield "parameters", dict(plan.parameters)
    yield "rules", list(dict.fromkeys(plan.rules))[:_RULES]
    if facts is not None:
        yield "seconds", round(facts.seconds, 4)
        yield "outcome", facts.outcome.value
        yield "status", facts.status or None
        yield "error", facts.error
        yield "said", of_error(facts.error, facts.code).short if facts.error else None
        yield "code", facts.code[:_TEXT]
        yield "first", None if facts.first_content is None else round(facts.first_content, 4)
        yield "finish", facts.finish
        yield "usage", None if facts.usage is None else _tokens(facts.usage)
