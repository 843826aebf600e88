"""Metrics of calls, under the names of OpenTelemetry's semantic conventions where these have one.

Names of metrics and labels stand in this module and nowhere else.  ``gen_ai.client`` is what the gateway sees of a
service, an attempt at a time; ``gen_ai.server`` is what the gateway's client sees; ``kiro_asgi`` is our own.

Every label is a closed set, so no text that a client can invent is a label: a model counts by its name only where its
upstream lists it, a path by its template.  Names of events that a service sends and nobody knows are labels, too, up to
`NAMED_NOTICES`.

Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/ (version 1.41)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.observers.base import AttemptFacts, ByteObserver, CallFacts, EndFacts, Outcome, PlanFacts

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
MODEL: Final = "gen_ai.request.model"
TOKEN_TYPE: Final = "gen_ai.token.type"
ERROR: Final = "error.type"
ROUTE: Final = "http.route"
API: Final = "kiro_asgi.api"
OUTCOME: Final = "kiro_asgi.outcome"
STATUS: Final = "kiro_asgi.status_class"
UPSTREAM: Final = "kiro_asgi.upstream"
SOURCE: Final = "kiro_asgi.usage.source"
RULE: Final = "kiro_asgi.rule"
NOTICE: Final = "kiro_asgi.notice"
LIMIT: Final = "kiro_asgi.limit"
CLIENT: Final = "kiro_asgi.client"
GROUP: Final = "kiro_asgi.group"

OTHER: Final = "other"
"""Label for models and paths that are in no list, and for clients and groups beyond `NAMED_CLIENTS`."""

Labels = Mapping[str, str]
"""Names to values; of those that a measure has, a missing one does not apply."""


class Kind(Enum):
    """Kind of a metric's instrument."""

    COUNT = "counter"
    LEVEL = "gauge"
    """Added to and taken from."""

    SPREAD = "histogram"


@frozen(kw_only=True)
class Measure:
    """One metric."""

    name: str
    kind: Kind
    unit: str
    """As UCUM has it: ``s``, or what is counted in braces."""

    labels: tuple[str, ...]
    what: str
    """One sentence."""

    buckets: tuple[float, ...] = ()
    """Upper bounds, of a `Kind.SPREAD`."""

    @property
    def flat_name(self) -> str:
        """Name for Prometheus, the same that OpenTelemetry's exporter gives it."""
        unit = "_seconds" if self.unit == "s" else ""
        return flat(self.name) + unit + ("_total" if self.kind is Kind.COUNT else "")


def flat(name: str) -> str:
    """*name* of a metric or a label as Prometheus can have it."""
    return name.replace(".", "_")


_SECONDS: Final = tuple(0.01 * 2**power for power in range(17))
"""As the convention has them, to 81.92, and on to 655.36: answers of agents run for minutes."""

_MOMENTS: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
"""From one token to the next."""

_FIRST: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(30.0, 60.0, 120.0),
)
"""To the first token: as the convention has them, and on, since the models that think take their time."""

_TOKENS: Final = tuple(float(4**power) for power in range(14))

_ASKED: Final = (OPERATION, PROVIDER, MODEL)

REQUEST_DURATION: Final = Measure(
    name="gen_ai.server.request.duration",
    kind=Kind.SPREAD,
    unit="s",
    labels=(*_ASKED, ERROR),
    what="From a request for an answer to the end of the response, all attempts included.",
    buckets=_SECONDS,
)
FIRST_TOKEN: Final = Measure(
    name="gen_ai.server.time_to_first_token",
    kind=Kind.SPREAD,
    unit="s",
    labels=_ASKED,
    what="From a request to the first text, thinking or call of its answer, attempts that failed included.",
    buckets=_FIRST,
)
TOKEN_TIME: Final = Measure(
    name="gen_ai.server.time_per_output_token",
    kind=Kind.SPREAD,
    unit="s",
    labels=_ASKED,
    what="Average from one token of an answer to the next, where the service has counted them.",
    buckets=_MOMENTS,
)
ATTEMPT_DURATION: Final = Measure(
    name="gen_ai.client.operation.duration",
    kind=Kind.SPREAD,
    unit="s",
    labels=(*_ASKED, ERROR),
    what="From asking an upstream to the end of what it answered, once an attempt.",
    buckets=_SECONDS,
)
FIRST_CHUNK: Final = Measure(
    name="gen_ai.client.operation.time_to_first_chunk",
    kind=Kind.SPREAD,
    unit="s",
    labels=_ASKED,
    what="From asking an upstream to the first text, thinking or call, once an attempt.",
    buckets=_FIRST,
)
TOKEN_USAGE: Final = Measure(
    name="gen_ai.client.token.usage",
    kind=Kind.SPREAD,
    unit="{token}",
    labels=(*_ASKED, TOKEN_TYPE),
    what="Tokens of an answer that the service has counted: input, what was cached included, and output.",
    buckets=_TOKENS,
)
REQUESTS: Final = Measure(
    name="kiro_asgi.requests",
    kind=Kind.COUNT,
    unit="{request}",
    labels=(API, ROUTE, STATUS, OUTCOME),
    what="Requests, by how they ended.",
)
ACTIVE: Final = Measure(
    name="kiro_asgi.requests.active",
    kind=Kind.LEVEL,
    unit="{request}",
    labels=(API,),
    what="Requests that are being answered now.",
)
PREPARATION: Final = Measure(
    name="kiro_asgi.preparation",
    kind=Kind.SPREAD,
    unit="s",
    labels=(UPSTREAM,),
    what="From a request to asking an upstream for the first time: what the gateway takes, and the request's body.",
    buckets=_FIRST,
)
GAP: Final = Measure(
    name="kiro_asgi.stream.gap",
    kind=Kind.SPREAD,
    unit="s",
    labels=(UPSTREAM,),
    what="The longest time between two reads of an upstream's answer, once an attempt.",
    buckets=_FIRST,
)
BLOCKED: Final = Measure(
    name="kiro_asgi.client.blocked",
    kind=Kind.COUNT,
    unit="s",
    labels=(API,),
    what="Seconds that clients let their answers wait; a millisecond or more at a time.",
)
ATTEMPTS: Final = Measure(
    name="kiro_asgi.attempts",
    kind=Kind.COUNT,
    unit="{attempt}",
    labels=(UPSTREAM, OUTCOME, ERROR),
    what="Times that an upstream was asked for an answer, by how that ended: all beyond the first are retries.",
)
TOKENS: Final = Measure(
    name="kiro_asgi.tokens",
    kind=Kind.COUNT,
    unit="{token}",
    labels=(UPSTREAM, MODEL, TOKEN_TYPE, SOURCE),
    what="All tokens, each once: input, cache_read, cache_write and output, counted by the service or estimated.",
)
CREDITS: Final = Measure(
    name="kiro_asgi.credits",
    kind=Kind.COUNT,
    unit="{credit}",
    labels=(UPSTREAM, MODEL),
    what="Price of the answers, in the service's own unit.",
)
COST: Final = Measure(
    name="kiro_asgi.cost",
    kind=Kind.COUNT,
    unit="{currency}",
    labels=(UPSTREAM, MODEL, SOURCE),
    what="Cost of the answers by the operator's prices, of what the service has counted and of what was estimated.",
)
RULES: Final = Measure(
    name="kiro_asgi.rules.applied",
    kind=Kind.COUNT,
    unit="{request}",
    labels=(UPSTREAM, RULE),
    what="Requests that a rule has adapted for their upstream.",
)
NOTICES: Final = Measure(
    name="kiro_asgi.notices",
    kind=Kind.COUNT,
    unit="{event}",
    labels=(UPSTREAM, NOTICE),
    what="What was passed over, mended or cut in answers.",
)
LIMIT_REFUSALS: Final = Measure(
    name="kiro_asgi.limit.refusals",
    kind=Kind.COUNT,
    unit="{request}",
    labels=(LIMIT,),
    what="Requests that a client's quota has refused.",
)

CLIENT_REQUESTS: Final = Measure(
    name="kiro_asgi.client.requests",
    kind=Kind.COUNT,
    unit="{request}",
    labels=(CLIENT, GROUP, OUTCOME),
    what="Requests for answers by the client and its group, by how they ended.",
)
CLIENT_TOKENS: Final = Measure(
    name="kiro_asgi.client.tokens",
    kind=Kind.COUNT,
    unit="{token}",
    labels=(CLIENT, GROUP, TOKEN_TYPE, SOURCE),
    what="All tokens by the client and its group.",
)
CLIENT_COST: Final = Measure(
    name="kiro_asgi.client.cost",
    kind=Kind.COUNT,
    unit="{currency}",
    labels=(CLIENT, GROUP, SOURCE),
    what="Cost of the answers by the client and its group.",
)

MEASURES: Final = (
    REQUEST_DURATION,
    FIRST_TOKEN,
    TOKEN_TIME,
    ATTEMPT_DURATION,
    FIRST_CHUNK,
    TOKEN_USAGE,
    REQUESTS,
    ACTIVE,
    PREPARATION,
    GAP,
    BLOCKED,
    ATTEMPTS,
    TOKENS,
    CREDITS,
    COST,
    RULES,
    NOTICES,
    LIMIT_REFUSALS,
    CLIENT_REQUESTS,
    CLIENT_TOKENS,
    CLIENT_COST,
)
"""All of them, in the order of the documentation."""


NAMED_NOTICES: Final = 32
"""Names of a service's unknown events that are labels; of further ones the kind alone is counted."""

NAMED_CLIENTS: Final = 100
"""Clients, and groups, that are labels, in the order in which they come; what further ones use is counted as `OTHER`.
None can be invented: each has a key, or is known to the host."""

_NOTICEABLE: Final = 0.001
"""Seconds of a send that count as waiting for the client: less is the server's own work."""


@define(eq=False)
class Waits:
    """How long one call has waited."""

    last: float | None = None
    """When bytes of the latest attempt came last, by the application's clock; ``None`` before the first."""

    gap: float = 0.0
    """Seconds of the longest gap between bytes of the latest attempt.  A comparison for each read, since to keep every
    gap would cost as much as the event that ends it."""

    blocked: float = 0.0
    """Seconds that the client let its answer wait."""


@define(eq=False)
class Measuring(ByteObserver):
    """Base of observers that keep, or export, measures."""

    waits: dict[str, Waits] = field(init=False, factory=dict, repr=False)
    """Of the calls under way, by the request's id."""

    @abstractmethod
    def add(self, measure: Measure, value: float, labels: Labels) -> None:
        """Take one value; *labels* are those of *measure*."""

    _named: set[str] = field(init=False, factory=set, repr=False)
    """Notices with a name of the service's in them, as labels so far."""

    _clients: set[str] = field(init=False, factory=set, repr=False)
    _groups: set[str] = field(init=False, factory=set, repr=False)

    def _whose(self, call: CallFacts) -> dict[str, str]:
        """The labels of the client."""
        group = {GROUP: _among(self._groups, call.group, NAMED_CLIENTS, OTHER)} if call.group else {}
        return {CLIENT: _among(self._clients, call.principal, NAMED_CLIENTS, OTHER), **group}

    def _notice_label(self, code: str) -> str:
        """*code*, without the name in it where so many were counted that a service could be inventing them."""
        kind, _, name = code.partition(":")
        return _among(self._named, code, NAMED_NOTICES, kind) if name else code

    def began(self, call: CallFacts) -> None:
        """Count the call as active."""
        self.waits[call.request_id] = Waits()
        self.add(ACTIVE, 1, {API: call.api})

    def planned(self, call: CallFacts, plan: PlanFacts) -> None:
        """Measure what came before the first attempt."""
        waits = self.waits[call.request_id]
        waits.last, waits.gap = None, 0.0
        if plan.number == 1:
            self.add(PREPARATION, plan.started - call.started, {UPSTREAM: plan.upstream})

    def received(self, call: CallFacts, data: bytes, at: float) -> None:
        """Note the gap before these bytes, if it is the longest so far."""
        waits = self.waits[call.request_id]
        if waits.last is not None:
            waits.gap = max(waits.gap, at - waits.last)
        waits.last = at

    def sent(self, call: CallFacts, data: bytes, at: float, blocked: float) -> None:
        """Measure how long the client let these bytes wait."""
        if blocked >= _NOTICEABLE:
            self.waits[call.request_id].blocked += blocked
            self.add(BLOCKED, blocked, {API: call.api})

    def attempted(self, call: CallFacts, attempt: AttemptFacts) -> None:
        """Measure the attempt."""
        if gap := self.waits[call.request_id].gap:
            self.add(GAP, gap, {UPSTREAM: attempt.plan.upstream})
        asked, error = _asked(attempt.plan), _error(attempt.error)
        self.add(ATTEMPT_DURATION, attempt.seconds, {**asked, **error})
        self.add(ATTEMPTS, 1, {UPSTREAM: attempt.plan.upstream, OUTCOME: attempt.outcome.value, **error})
        if attempt.first_content is not None:
            self.add(FIRST_CHUNK, attempt.first_content, asked)

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """Measure the whole call."""
        del self.waits[call.request_id]
        status = f"{end.status // 100}xx" if end.status else "none"
        self.add(ACTIVE, -1, {API: call.api})
        self.add(REQUESTS, 1, {API: call.api, ROUTE: call.route or OTHER, STATUS: status, OUTCOME: end.outcome.value})
        if end.error in ("LimitReached", "LimitSpent"):
            self.add(LIMIT_REFUSALS, 1, {LIMIT: end.code})
        if end.plan is not None:
            self._answered(end.plan, end, self._whose(call))

    def _answered(self, plan: PlanFacts, end: EndFacts, whose: Labels) -> None:
        asked, of = _asked(plan), {UPSTREAM: plan.upstream}
        self.add(CLIENT_REQUESTS, 1, {**whose, OUTCOME: end.outcome.value})
        self.add(REQUEST_DURATION, end.seconds, {**asked, **_error(end.error)})
        if end.first_content is not None:
            self.add(FIRST_TOKEN, end.first_content, asked)
        for rule in sorted(set(plan.rules)):
            self.add(RULES, 1, {**of, RULE: rule})
        for code, times in end.notices.items():
            self.add(NOTICES, times, {**of, NOTICE: self._notice_label(code)})
        if end.seconds_per_token is not None and end.outcome is Outcome.COMPLETE and _is_counted(end.usage):
            self.add(TOKEN_TIME, end.seconds_per_token, asked)
        for attempt in end.earlier:
            self._charged(attempt.plan, attempt, whose)
        self._charged(plan, end, whose)

    def _charged(self, plan: PlanFacts, facts: AttemptFacts | EndFacts, whose: Labels) -> None:
        if (usage := facts.usage) is None:
            return
        asked, of = _asked(plan), {UPSTREAM: plan.upstream}
        for kind, count, source in _tokens(usage):
            self.add(TOKENS, count, {**of, MODEL: model_label(plan), TOKEN_TYPE: kind, SOURCE: source})
            self.add(CLIENT_TOKENS, count, {**whose, TOKEN_TYPE: kind, SOURCE: source})
        if (took := usage.charged_by_service) is not None:
            self.add(CREDITS, took, {**of, MODEL: model_label(plan)})
        if facts.cost is not None:
            for source, cost in (("service", facts.cost.counted), ("estimate", facts.cost.estimated)):
                if cost:
                    self.add(COST, cost, {**of, MODEL: model_label(plan), SOURCE: source})
                    self.add(CLIENT_COST, cost, {**whose, SOURCE: source})
        if usage.input_source is UsageSource.UPSTREAM:
            self.add(TOKEN_USAGE, usage.prompt_tokens, {**asked, TOKEN_TYPE: "input"})
        if usage.output_source is UsageSource.UPSTREAM:
            self.add(TOKEN_USAGE, usage.output_tokens, {**asked, TOKEN_TYPE: "output"})


def _is_counted(usage: Usage | None) -> bool:
    """Whether the service has counted the answer."""
    return usage is not None and usage.output_source is UsageSource.UPSTREAM


def _among(labels: set[str], name: str, most: int, otherwise: str) -> str:
    """*name* where it is one of the first *most*, which *labels* gathers; *otherwise* beyond them."""
    if len(labels) < most:
        labels.add(name)
    return name if name in labels else otherwise


def model_label(plan: PlanFacts) -> str:
    """Name of the model where the upstream lists it; a client may have invented any other."""
    return plan.model if plan.listed else OTHER


def _asked(plan: PlanFacts) -> Labels:
    return {OPERATION: plan.operation, PROVIDER: plan.provider, MODEL: model_label(plan)}


def _error(name: str) -> Labels:
    return {ERROR: name} if name else {}


def _tokens(usage: Usage) -> Iterator[tuple[str, int, str]]:
    """Kinds of tokens of which there are any, how many, and where the count comes from; none is part of another."""
    for kind, count, source in (
        ("input", usage.input_tokens, usage.input_source),
        ("cache_read", usage.cache_read_tokens, usage.cache_source),
        ("cache_write", usage.cache_write_tokens, usage.cache_source),
        ("output", usage.output_tokens, usage.output_source),
    ):
        if count:
            yield kind, count, "service" if source is UsageSource.UPSTREAM else "estimate"
