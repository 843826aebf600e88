"""Protocols of the engines that count: limits and usage.

Two things are counted: what is left of limits (`Counters`), which decides whether a request goes on, and what was used
(`Ledger`), which decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from attrs import frozen

from kiro_asgi.quota.claims import Budget, Claim, Granted, Lease, Rate, Refused


class Counters(Protocol):
    """Limits that all requests share, whichever process serves them."""

    async def take(self, claims: Sequence[Claim]) -> Granted | Refused:
        """Take all claims, or none, in one atomic step.

        Raises:
            StoreUnavailable: The counters cannot be read now.
        """
        ...

    async def correct(self, claims: Sequence[Rate | Budget]) -> None:
        """Take *amount* of each, whatever is left; less than nothing gives back.

        Raises:
            StoreUnavailable: As for `take`.
        """
        ...

    async def renew(self, leases: Sequence[Lease]) -> None:
        """Extend *leases* by their duration from now.

        Raises:
            StoreUnavailable: As for `take`.
        """
        ...

    async def release(self, leases: Sequence[Lease]) -> None:
        """Let go of *leases*.

        Raises:
            StoreUnavailable: As for `take`; they end by themselves then.
        """
        ...

    async def aclose(self) -> None:
        """Close files and connections; what they keep stays, and the counters can be used again."""
        ...


@frozen(order=True)
class UsageKey:
    """Key of a row of usage."""

    day: str
    """``2026-11-23``."""

    principal: str
    upstream: str
    model: str
    group: str = ""
    """Of the client, when it asked; empty where it was in none."""


@frozen
class UsageRow:
    """Usage of one key."""

    key: UsageKey
    amounts: Mapping[str, float]
    """Name of a counter to its sum; see `kiro_asgi.quota.ledger`."""


class Ledger(Protocol):
    """Sums of usage that outlive a process.

    All of it blocks: a thread of its own writes (`kiro_asgi.quota.ledger.UsageWriter`), and a command reads.
    """

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Add to the sums; for the rows of one day, all or nothing.

        Raises:
            StoreUnavailable: Nothing was added, if all rows are of one day.
        """
        ...

    def rows(self, first: str, last: str) -> Iterable[UsageRow]:
        """The sums of the days from *first* to *last*, both included, in order of their keys.

        Raises:
            StoreUnavailable: They cannot be read now.
        """
        ...

    def close(self) -> None:
        """Close files and connections; they are opened again if need be."""
        ...
