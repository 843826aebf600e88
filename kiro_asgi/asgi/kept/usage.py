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
from kiro_asgi.observers.base import CallFacts, EndFacts, Observer, Outcome
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
    """Adds the usage of calls to a ledger: of those for which an upstream was asked."""

    _writer: UsageWriter
    _zone: ZoneInfo
    """Where days begin."""

    _prices: Prices = field(factory=Prices)
    _invented: InventedNames = field(init=False, factory=InventedNames, repr=False)

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """Add the call's usage, by the day on which it began."""
        if end.plan is None:
            return
        day = datetime.fromtimestamp(call.time, UTC).astimezone(self._zone).date().isoformat()
        model = end.plan.model[:_LONGEST_MODEL]
        model = model if end.plan.listed else self._invented.counted(day, call.principal, model)
        key = UsageKey(day, call.principal, end.plan.upstream, model, call.group)
        self._writer.add(UsageRow(key, {name: amount for name, amount in self._amounts(end) if amount}))

    def _amounts(self, end: EndFacts) -> Iterator[tuple[str, float]]:
        yield from _counts(end)
        if end.cost is not None:
            yield "cost", end.cost.counted
            yield "estimated_cost", end.cost.estimated
        elif self._prices.known and end.usage is not None:
            yield "unpriced", 1


def _counts(end: EndFacts) -> Iterator[tuple[str, float]]:
    yield "requests", 1
    yield "failures", end.outcome in _FAILED
    if end.first_content is not None:
        yield "first_content_seconds", end.first_content
        yield "answers_with_content", 1
    if end.usage is not None:
        yield from _tokens(end.usage)


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
    if usage.metering is not None:
        yield "credits", usage.metering.amount
        yield "answers_with_credits", 1


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
