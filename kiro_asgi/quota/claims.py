"""Limits that an operator sets, what a request claims of each before it may go on, and whether there is enough.

Three kinds: a `Rate` (so much a minute), a `Budget` (so much a day or a month), a `Lease` (so many at once).  Nothing
here keeps anything or knows the time, so every engine has the same rules: an engine looks up one number for each
claim (0 where it has none), asks `refusal`, and keeps what `after` gives.

A rate's number is the theoretical arrival time of the generic cell rate algorithm: the moment, in seconds since the
epoch, from which all of the limit is there again.  Source: ITU-T I.371, annex A.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import Final, TypeAlias

from attrs import frozen

from kiro_asgi.quota.settings import Allowance

_ROUNDING: Final = 1e-9
"""Share of a limit by which sums of many fractions may be off: rounding must not refuse the last claim that fits."""

_LEASE_SECONDS: Final = 90.0

_LEASE_WAIT: Final = 1.0
"""Seconds to wait for a lease; it is not known when one ends."""


@frozen
class Standing:
    """How much of a limit is left."""

    limit: float
    remaining: float
    reset_after: float
    """Seconds until all of it is there again."""


@frozen
class Rate:
    """At most *limit* in any *seconds*; all of it at once, where nothing was taken before."""

    key: str
    limit: float
    amount: float = 1.0
    """No more than *limit*: a request that needs more takes all, as waiting would never give it more."""

    seconds: float = 60.0

    def after(self, kept: float, now: float) -> float:
        """The number once *amount* is taken."""
        return max(kept, now) + self.amount * self.seconds / self.limit

    def wait(self, after: float, now: float) -> float:
        """Seconds until that fits; 0 where it does."""
        missing = after - now - self.seconds
        return missing if missing > self.seconds * _ROUNDING else 0.0

    def standing(self, kept: float, now: float) -> Standing:
        """Amount that is left."""
        full_in = max(kept - now, 0.0)
        return Standing(self.limit, max(self.limit - full_in * self.limit / self.seconds, 0.0), full_in)

    def expires_at(self, kept: float) -> float:
        """The time from which on the number can be forgotten."""
        return kept


@frozen
class Budget:
    """At most *limit* until *ends_at*; the key names the day or the month."""

    key: str
    limit: float
    ends_at: float
    """Seconds since the epoch."""

    amount: float = 1.0
    """As for `Rate`."""

    def after(self, kept: float, now: float) -> float:
        """The number once *amount* is taken."""
        return kept + self.amount

    def wait(self, after: float, now: float) -> float:
        """Seconds until that fits; 0 where it does."""
        return 0.0 if after <= self.limit * (1 + _ROUNDING) else max(self.ends_at - now, _LEASE_WAIT)

    def standing(self, kept: float, now: float) -> Standing:
        """Amount that is left."""
        return Standing(self.limit, max(self.limit - kept, 0.0), max(self.ends_at - now, 0.0))

    def expires_at(self, kept: float) -> float:
        """The time from which on the number can be forgotten."""
        return self.ends_at


@frozen
class Lease:
    """One of *limit* at once, held until it is released, or *seconds* after it was last renewed: a killed process must
    not hold it for ever."""

    key: str
    limit: float
    holder: str
    """Tells leases of one key apart."""

    seconds: float = _LEASE_SECONDS

    def after(self, kept: float, now: float) -> float:
        """How many are held once this one is; the number of a lease is how many others are held."""
        return kept + 1

    def wait(self, after: float, now: float) -> float:
        """Seconds to wait before the next attempt; 0 where it fits."""
        return 0.0 if after <= self.limit else _LEASE_WAIT

    def standing(self, kept: float, now: float) -> Standing:
        """Amount that is left."""
        return Standing(self.limit, max(self.limit - kept, 0.0), 0.0 if kept <= 0 else _LEASE_WAIT)


Claim: TypeAlias = Rate | Budget | Lease


@frozen
class Granted:
    """All was taken."""

    standings: tuple[Standing, ...]
    """One for each claim, in order."""


@frozen
class Refused:
    """Nothing was taken."""

    index: int
    """Index of the claim with the longest wait."""

    standing: Standing
    retry_after: float
    """Seconds."""


def refusal(claims: Sequence[Claim], kept: Sequence[float], now: float) -> Refused | None:
    """Why *claims* cannot all be taken, if they cannot.

    Args:
        claims: The claims; no two have one key.
        kept: The number that the engine has for each.
        now: Seconds since the epoch.
    """
    waits = [claim.wait(claim.after(number, now), now) for claim, number in zip(claims, kept, strict=True)]
    longest = max(waits, default=0.0)
    if longest <= 0:
        return None
    index = waits.index(longest)
    return Refused(index, claims[index].standing(kept[index], now), longest)


def granted(claims: Sequence[Claim], after: Sequence[float], now: float) -> Granted:
    """The standing of each limit now that *claims* are taken; *after* has their numbers."""
    return Granted(tuple(claim.standing(number, now) for claim, number in zip(claims, after, strict=True)))


LEAST_CREDITS: Final = 0.01
"""Credits that a request reserves at least: enough to refuse it once a budget is spent."""


@frozen
class Cost:
    """Cost of a request."""

    tokens: int = 0
    credits: float = 0.0
    money: float = 0.0


def claims(owner: str, allowance: Allowance, expected: Cost, holder: str, now: datetime) -> Iterator[Claim]:
    """The claims of one request of *owner*.

    Args:
        owner: Whose limits they are, without ``|``.
        allowance: The owner's limits.
        expected: An estimate of what the request takes.
        holder: Tells this request from others of the owner.
        now: The time, in the time zone by which days and months begin and end.
    """
    tokens, credits, money = expected.tokens, max(expected.credits, LEAST_CREDITS), expected.money
    if limit := allowance.requests_per_minute:
        yield Rate(f"{owner}|requests", limit)
    if limit := allowance.tokens_per_minute:
        yield Rate(f"{owner}|tokens", limit, min(tokens, limit))
    if limit := allowance.streams:
        yield Lease(f"{owner}|streams", limit, holder)
    day, month = _end_of_day(now).timestamp(), _end_of_month(now).timestamp()
    if limit := allowance.tokens_per_day:
        yield Budget(f"{owner}|tokens/{now:%Y-%m-%d}", limit, day, min(tokens, limit))
    if limit := allowance.tokens_per_month:
        yield Budget(f"{owner}|tokens/{now:%Y-%m}", limit, month, min(tokens, limit))
    if amount := allowance.credits_per_day:
        yield Budget(f"{owner}|credits/{now:%Y-%m-%d}", amount, day, min(credits, amount))
    if amount := allowance.credits_per_month:
        yield Budget(f"{owner}|credits/{now:%Y-%m}", amount, month, min(credits, amount))
    if amount := allowance.cost_per_day:
        yield Budget(f"{owner}|cost/{now:%Y-%m-%d}", amount, day, min(money, amount))
    if amount := allowance.cost_per_month:
        yield Budget(f"{owner}|cost/{now:%Y-%m}", amount, month, min(money, amount))


def corrections(taken: Sequence[Claim], cost: Cost) -> Iterator[Rate | Budget]:
    """Make the claims that correct those that were *taken* to the request's final cost."""
    for claim in taken:
        if isinstance(claim, Lease) or claim.key.endswith("|requests"):
            continue
        kind = claim.key.partition("|")[2].partition("/")[0]
        more = {"credits": cost.credits, "cost": cost.money}.get(kind, cost.tokens) - claim.amount
        if more and isinstance(claim, Rate):
            yield Rate(claim.key, claim.limit, more, claim.seconds)
        elif more and isinstance(claim, Budget):
            yield Budget(claim.key, claim.limit, claim.ends_at, more)


def _end_of_day(now: datetime) -> datetime:
    """By the clock on the wall, also where a day has 23 or 25 hours."""
    return datetime.combine(now.date() + timedelta(days=1), time(), now.tzinfo)


def _end_of_month(now: datetime) -> datetime:
    first = (now.date().replace(day=28) + timedelta(days=4)).replace(day=1)
    return datetime.combine(first, time(), now.tzinfo)
