"""Traces and metrics for OpenTelemetry, by its API alone (the extra ``otel``): the host decides where they go.

Each call is a span, and each attempt at a service a span below it.  The call's is below the span that the host has
under way, if there is one, else below the one that the client's headers name (``traceparent``).  Nothing is made the
current span, so no context variable is left set where another task continues the answer.

Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ (version 1.41)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import define, field
from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.observers.base import AttemptFacts, CallFacts, EndFacts, Outcome, PlanFacts
from kiro_asgi.observers.measures import (
    API,
    BLOCKED,
    ERROR,
    GAP,
    MEASURES,
    MODEL,
    OPERATION,
    OUTCOME,
    PREPARATION,
    PROVIDER,
    ROUTE,
    UPSTREAM,
    Kind,
    Labels,
    Measure,
    Measuring,
)

_NAME: Final = "kiro_asgi"
_SCHEMA: Final = "https://opentelemetry.io/schemas/1.41.0"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
_LONGEST: Final = 200
"""Characters of what a client wrote."""

_NANO: Final = 1_000_000_000

Value = str | int | float | bool | tuple[str, ...]
Add = Callable[[float, Labels], None]


@define(eq=False)
class OpenTelemetryObserver(Measuring):
    """Makes spans, and records the measures.

    Args:
        tracer_provider: Where spans go; the global provider, if left out.
        meter_provider: Where measures go; the global provider, if left out.
    """

    _tracer_provider: TracerProvider | None = None
    _meter_provider: MeterProvider | None = None
    _tracer: Tracer = field(init=False)
    _instruments: Mapping[Measure, Add] = field(init=False)
    _spans: dict[str, Span] = field(init=False, factory=dict)
    """Of the calls under way, by the request's id."""

    def __attrs_post_init__(self) -> None:
        self._tracer = trace.get_tracer(_NAME, tracer_provider=self._tracer_provider, schema_url=_SCHEMA)
        meter = metrics.get_meter(_NAME, meter_provider=self._meter_provider, schema_url=_SCHEMA)
        self._instruments = {measure: _instrument(meter, measure) for measure in MEASURES}

    def add(self, measure: Measure, value: float, labels: Labels) -> None:
        """Record one value."""
        self._instruments[measure](value, labels)

    def began(self, call: CallFacts) -> None:
        """Start the span of the call."""
        super().began(call)
        method = call.method if call.method in _METHODS else "HTTP"
        hosted = trace.get_current_span().get_span_context().is_valid
        attributes: dict[str, Value] = {API: call.api, "kiro_asgi.request.id": call.request_id}
        attributes["http.request.method"] = method if method != "HTTP" else "_OTHER"
        if call.route:
            attributes[ROUTE] = call.route
        self._spans[call.request_id] = self._tracer.start_span(
            f"{method} {call.route}".rstrip(),
            None if hosted else _context_of(call),
            SpanKind.INTERNAL if hosted else SpanKind.SERVER,
            attributes,
            start_time=_moment(call, call.started),
        )

    def attempted(self, call: CallFacts, attempt: AttemptFacts) -> None:
        """Make the span of the attempt, with both its times: nothing has to be kept open meanwhile."""
        super().attempted(call, attempt)
        plan = attempt.plan
        span = self._tracer.start_span(
            f"{plan.operation} {plan.model[:_LONGEST]}",
            trace.set_span_in_context(self._spans[call.request_id], Context()),
            SpanKind.CLIENT,
            dict(_of_plan(plan)),
            start_time=_moment(call, plan.started),
        )
        for name, value in _of_attempt(attempt):
            span.set_attribute(name, value)
        if gap := self.waits[call.request_id].gap:
            span.set_attribute(GAP.name, gap)
        if attempt.error:
            span.set_status(Status(StatusCode.ERROR, attempt.code[:_LONGEST] or None))
        span.end(_moment(call, plan.started + attempt.seconds))

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """End the span of the call; a fault of the client's is not an error of the span."""
        span, blocked = self._spans.pop(call.request_id), self.waits[call.request_id].blocked
        super().ended(call, end)
        if blocked:
            span.set_attribute(BLOCKED.name, blocked)
        if end.preparation is not None:
            span.set_attribute(PREPARATION.name, end.preparation)
        span.set_attribute(OUTCOME, end.outcome.value)
        if end.cost is not None:
            span.set_attribute("kiro_asgi.cost", end.cost.counted)
            span.set_attribute("kiro_asgi.estimated_cost", end.cost.estimated)
        span.set_attribute("kiro_asgi.attempts", end.attempts)
        if end.status:
            span.set_attribute("http.response.status_code", end.status)
        if end.model:
            span.set_attribute(MODEL, end.model[:_LONGEST])
        if end.error:
            span.set_attribute(ERROR, end.error)
            if end.status >= 500 or end.outcome is Outcome.CUT:
                span.set_status(Status(StatusCode.ERROR, end.code[:_LONGEST] or None))
        span.end(_moment(call, call.started + end.seconds))


def _instrument(meter: Meter, measure: Measure) -> Add:
    name, unit, what = measure.name, measure.unit, measure.what
    match measure.kind:
        case Kind.COUNT:
            return meter.create_counter(name, unit, what).add
        case Kind.LEVEL:
            return meter.create_up_down_counter(name, unit, what).add
        case Kind.SPREAD:
            return meter.create_histogram(name, unit, what, explicit_bucket_boundaries_advisory=measure.buckets).record


def _context_of(call: CallFacts) -> Context:
    """The span that the client names in its headers, if it names one."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in call.headers}
    return propagate.extract(headers, Context())


def _moment(call: CallFacts, at: float) -> int:
    """Nanoseconds since the epoch of a moment by the application's clock."""
    return int((call.time + at - call.started) * _NANO)


def _of_plan(plan: PlanFacts) -> Iterator[tuple[str, Value]]:
    yield OPERATION, plan.operation
    yield PROVIDER, plan.provider
    yield MODEL, plan.model[:_LONGEST]
    yield "gen_ai.request.stream", plan.streamed
    yield UPSTREAM, plan.upstream
    yield "kiro_asgi.attempt", plan.number
    yield "kiro_asgi.rules", tuple(dict.fromkeys(plan.rules))
    yield "server.address", plan.host
    yield "server.port", plan.port
    if plan.response_id:
        yield "gen_ai.response.id", plan.response_id
    for name, value in plan.parameters.items():
        yield f"gen_ai.request.{name}", value


def _of_attempt(attempt: AttemptFacts) -> Iterator[tuple[str, Value]]:
    yield OUTCOME, attempt.outcome.value
    if attempt.status:
        yield "http.response.status_code", attempt.status
    if attempt.error:
        yield ERROR, attempt.error
    if attempt.first_content is not None:
        yield "gen_ai.response.time_to_first_chunk", attempt.first_content
    if attempt.finish:
        yield "gen_ai.response.finish_reasons", (attempt.finish,)
    if attempt.usage is not None:
        yield from _of_usage(attempt.usage)


def _of_usage(usage: Usage) -> Iterator[tuple[str, Value]]:
    """Counts as the convention has them: input includes what was cached, output the thinking."""
    yield "gen_ai.usage.input_tokens", usage.prompt_tokens
    yield "gen_ai.usage.output_tokens", usage.output_tokens
    yield "kiro_asgi.usage.input_source", usage.input_source.value
    yield "kiro_asgi.usage.output_source", usage.output_source.value
    if usage.cache_source is not None:
        yield "gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens
        yield "gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens
    if usage.thinking_tokens:
        yield "gen_ai.usage.reasoning.output_tokens", usage.thinking_tokens
    if usage.metering is not None:
        counted = usage.metering.source is UsageSource.UPSTREAM
        yield "kiro_asgi.credits" if counted else "kiro_asgi.estimated_credits", usage.metering.amount
