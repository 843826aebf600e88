"""What one attempt at an answer costs: the record that limits take from, and that the ledger adds up.

Both read the same `Charge`, so what was taken from a budget is what the ledger has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import evolve, frozen

from kiro_asgi.model.events import Metering, Usage, UsageSource
from kiro_asgi.model.prices import Money, Price


@frozen
class Charge:
    """The price of one attempt."""

    usage: Usage | None = None
    """Tokens and credits; ``None`` where the service made nothing."""

    cost: Money | None = None
    """In the operator's currency; ``None`` where the service made nothing, and where that is not known."""

    guessed: bool = False
    """Whether the cost is not known, and *cost* is what was reserved for it, if anything was."""


FREE: Final = Charge()
"""Of an attempt that the service refused, or was not asked for."""


def charge_for(usage: Usage, price: Price | None, reserved: float) -> Charge:
    """The charge for an attempt that took *usage*.

    Args:
        usage: Of the attempt.
        price: Of its model; ``None`` where it has none.
        reserved: Money that was reserved for the call: it stands in for a cost that is not known.
    """
    cost = None if price is None else price.cost(usage)
    if cost is not None:
        return Charge(usage, cost)
    return Charge(usage, Money(estimated=reserved) if reserved else None, guessed=True)


def larger(expected: Usage, came: Usage | None) -> Usage:
    """The usage of an answer that nobody waited for: of each part, what the service has counted of it, or the larger of
    what was *expected* and what *came*."""
    if came is None:
        return expected
    if came.input_source is not UsageSource.UPSTREAM and came.prompt_tokens < expected.prompt_tokens:
        missing = expected.prompt_tokens - came.prompt_tokens
        came = evolve(came, input_tokens=came.input_tokens + missing, input_source=UsageSource.ESTIMATE)
    if came.output_tokens < expected.output_tokens:
        came = evolve(came, output_tokens=expected.output_tokens, output_source=UsageSource.ESTIMATE)
    return evolve(came, metering=_larger_metering(expected.metering, came.metering))


def _larger_metering(expected: Metering | None, came: Metering | None) -> Metering | None:
    if expected is None or (came is not None and came.amount >= expected.amount):
        return came
    return expected


def total_cost(charges: Iterable[Charge]) -> Money | None:
    """The cost of all *charges*; ``None`` where there is none, or that of one is not known."""
    costs = [charge.cost for charge in charges if charge.usage is not None]
    known = [cost for cost in costs if cost is not None]
    if not costs or len(known) < len(costs):
        return None
    return Money(sum(cost.counted for cost in known), sum(cost.estimated for cost in known))
