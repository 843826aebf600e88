"""The ledger of an application: the usage of each call is added when the call has ended."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from attrs import define, field

from kiro_asgi.config import Settings
from kiro_asgi.limits import USAGE_MODELS
from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.model.prices import Prices
from kiro_asgi.observers.base import AttemptFacts, CallFacts, EndFacts, Observer, Outcome, PlanFacts
from kiro_asgi.quota.base import Ledger, UsageKey, UsageRow
from kiro_asgi.quota.ledger import UsageWriter
from kiro_asgi.quota.memory import MemoryLedger
from kiro_asgi.quota.sqlite import SqliteLedger

_FAILED: Final = frozenset({Outcome.CUT, Outcome.REFUSED})

_LONGEST_MODEL: Final = 200
"""Characters of a model's name: one that no upstream lists may be anything that a client wrote."""


OTHER: Final = "other"
"""Stands for the names of all models beyond `USAGE_MODELS`."""

_DAYS: Final = 2
"""Days whose names are remembered: a call that ends today may have begun yesterday."""


@define(eq=False)
class InventedNames:
    """Models that no upstream lists, by day and client: names that a client may invent, each for a row of its own."""

    _days: dict[str, defaultdict[str, set[str]]] = field(init=False, factory=dict, repr=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    """Threads share it, each with an event loop of its own."""

    def counted(self, day: str, principal: str, model: str) -> str:
        """*model*, or `OTHER` where the client has named too many on that day."""
        with self._guard:
            known = self._of(day)[principal]
            if len(known) < USAGE_MODELS:
                known.add(model)
            return model if model in known else OTHER

    def _of(self, day: str) -> defaultdict[str, set[str]]:
        if day not in self._days:
            self._days[day] = defaultdict(set)
            for old in sorted(self._days)[:-_DAYS]:
                if old != day:
                    del self._days[old]
        return self._days[day]


@define
class UsageObserver(Observer):
    """Adds to a ledger each call for which an upstream was asked, and what each of its attempts is charged."""

    _writer: UsageWriter
    _zone: ZoneInfo
    """Where days begin."""

    _prices: Prices = field(factory=Prices)
    _invented: InventedNames = field(init=False, factory=InventedNames, repr=False)

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """Add the call to those of the upstream that was asked last, and to each what its attempts are charged."""
        if end.plan is None:
            return
        for attempt in end.earlier:
            self._add(call, attempt.plan, self._charged(attempt))
        self._add(call, end.plan, (*_counts(end), *self._charged(end)))

    def _add(self, call: CallFacts, plan: PlanFacts, amounts: Iterable[tuple[str, float]]) -> None:
        """Add *amounts*, by the day on which the call began."""
        day = datetime.fromtimestamp(call.time, UTC).astimezone(self._zone).date().isoformat()
        model = plan.model[:_LONGEST_MODEL]
        model = model if plan.listed else self._invented.counted(day, call.principal, model)
        key = UsageKey(day, call.principal, plan.upstream, model, call.group)
        self._writer.add(UsageRow(key, {name: amount for name, amount in amounts if amount}))

    def _charged(self, facts: AttemptFacts | EndFacts) -> Iterator[tuple[str, float]]:
        if facts.usage is None:
            return
        yield from _tokens(facts.usage)
        if facts.cost is not None:
            yield "cost", facts.cost.counted
            yield "estimated_cost", facts.cost.estimated
        if self._prices.known and (facts.cost is None or facts.cost_guessed):
            yield "unpriced", 1


def _counts(end: EndFacts) -> Iterator[tuple[str, float]]:
    yield "requests", 1
    yield "failures", end.outcome in _FAILED
    if end.first_content is not None:
        yield "first_content_seconds", end.first_content
        yield "answers_with_content", 1


def _tokens(usage: Usage) -> Iterator[tuple[str, float]]:
    """Counts by where they come from: what the service counted stands by itself, all else is estimated."""
    counted = UsageSource.UPSTREAM
    yield "input_tokens" if usage.input_source is counted else "estimated_input_tokens", usage.input_tokens
    yield "output_tokens" if usage.output_source is counted else "estimated_output_tokens", usage.output_tokens
    if usage.cache_source is counted:
        yield "cache_read_tokens", usage.cache_read_tokens
        yield "cache_write_tokens", usage.cache_write_tokens
    if usage.thinking_source is counted:
        yield "thinking_tokens", usage.thinking_tokens
    if usage.metering is not None and usage.metering.source is counted:
        yield "credits", usage.metering.amount
        yield "answers_with_credits", 1
    elif usage.metering is not None:
        yield "estimated_credits", usage.metering.amount


def new_ledger(settings: Settings) -> Ledger:
    """Make the ledger that lies where state is kept; nothing is opened yet.  One in memory is nobody else's."""
    state = settings.state
    if not state.is_shared:
        return MemoryLedger()
    if state.engine == "valkey":
        from kiro_asgi.quota.valkey import ValkeyLedger
        from kiro_asgi.state.valkey import ValkeyServer

        return ValkeyLedger(ValkeyServer(state.url))
    return SqliteLedger(Path(state.path).expanduser())


def usage_rows(settings: Settings, first: str, last: str) -> Iterable[UsageRow]:
    """The rows of some days in a ledger that processes share; blocks."""
    ledger = new_ledger(settings)
    try:
        return ledger.rows(first, last)
    finally:
        ledger.close()
