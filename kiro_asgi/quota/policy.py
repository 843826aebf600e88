"""Limits that an operator sets, and the claims that one request makes on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import Final

from attrs import frozen

from kiro_asgi.quota.claims import Budget, Claim, Lease, Rate
from kiro_asgi.quota.settings import Allowance

__all__ = ["Cost", "claims", "corrections"]

_UNKNOWN_CREDITS: Final = 0.01
"""Credits that a request reserves, as nobody knows beforehand what it will cost: none, once a budget is spent."""


@frozen
class Cost:
    """Cost of a request."""

    tokens: int = 0
    credits: float = 0.0


def claims(owner: str, allowance: Allowance, tokens: int, holder: str, now: datetime) -> Iterator[Claim]:
    """The claims of one request of *owner*.

    Args:
        owner: Whose limits they are, without ``|``.
        allowance: What the owner may take.
        tokens: An estimate of what the request will take.
        holder: Tells this request from others of the owner.
        now: The time where days and months begin and end as the operator wants.
    """
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
        yield Budget(f"{owner}|credits/{now:%Y-%m-%d}", amount, day, min(_UNKNOWN_CREDITS, amount))
    if amount := allowance.credits_per_month:
        yield Budget(f"{owner}|credits/{now:%Y-%m}", amount, month, min(_UNKNOWN_CREDITS, amount))


def corrections(taken: Sequence[Claim], cost: Cost) -> Iterator[Rate | Budget]:
    """Make the claims that correct those that were *taken* to the request's final cost."""
    for claim in taken:
        if isinstance(claim, Lease) or claim.key.endswith("|requests"):
            continue
        used = cost.credits if "|credits/" in claim.key else cost.tokens
        more = used - claim.amount
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
