"""Counters and sums of one process."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from time import time
from typing import Final

from attrs import define, field

from kiro_asgi.quota.base import UsageKey, UsageRow
from kiro_asgi.quota.claims import Budget, Claim, Granted, Lease, Rate, Refused, granted, refusal

_SWEEP: Final = 1_024
"""Counters from which on expired ones are removed, whenever their number has doubled."""

_MOST_ROWS: Final = 20_000
"""Rows of usage that are kept, some megabytes; the oldest days make room for new rows."""


@define
class MemoryCounters:
    """Keeps numbers and leases in dictionaries; see `kiro_asgi.quota.base.Counters`.  Threads may share it."""

    _clock: Callable[[], float] = time
    _numbers: dict[str, tuple[float, float]] = field(init=False, factory=dict, repr=False)
    """Key to the number, and when it expires."""

    _leases: dict[str, dict[str, float]] = field(init=False, factory=dict, repr=False)
    """Key to holders, and when each lease ends."""

    _sweep_at: int = field(init=False, default=_SWEEP)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)

    def __len__(self) -> int:
        return len(self._numbers) + len(self._leases)

    async def take(self, claims: Sequence[Claim]) -> Granted | Refused:
        """Take all claims, or none."""
        with self._guard:
            now = self._clock()
            kept = [self._number(claim, now) for claim in claims]
            refused = refusal(claims, kept, now)
            if refused is not None:
                return refused
            after = [self._keep(claim, number, now) for claim, number in zip(claims, kept, strict=True)]
            self._sweep(now)
            return granted(claims, after, now)

    async def correct(self, claims: Sequence[Rate | Budget]) -> None:
        """Take *amount* of each, whatever is left."""
        with self._guard:
            now = self._clock()
            for claim in claims:
                self._keep(claim, self._number(claim, now), now)

    async def renew(self, leases: Sequence[Lease]) -> None:
        """Extend *leases*."""
        with self._guard:
            now = self._clock()
            for lease in leases:
                self._keep(lease, 0, now)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Let go of *leases*."""
        with self._guard:
            for lease in leases:
                holders = self._leases.get(lease.key, {})
                holders.pop(lease.holder, None)
                if not holders:
                    self._leases.pop(lease.key, None)

    async def aclose(self) -> None:
        """Close nothing: there are no files or connections."""

    def _number(self, claim: Claim, now: float) -> float:
        if isinstance(claim, Lease):
            holders = self._leases.get(claim.key, {})
            for holder in [holder for holder, until in holders.items() if until <= now]:
                del holders[holder]
            return len(holders)
        number, until = self._numbers.get(claim.key, (0.0, 0.0))
        return number if until > now else 0.0

    def _keep(self, claim: Claim, kept: float, now: float) -> float:
        after = claim.after(kept, now)
        if isinstance(claim, Lease):
            self._leases.setdefault(claim.key, {})[claim.holder] = now + claim.seconds
        else:
            self._numbers[claim.key] = after, claim.expires_at(after)
        return after

    def _sweep(self, now: float) -> None:
        """Forget expired counters: there may be many clients that come only once."""
        if len(self) < self._sweep_at:
            return
        self._numbers = {key: number for key, number in self._numbers.items() if number[1] > now}
        self._leases = {key: held for key, held in self._leases.items() if any(until > now for until in held.values())}
        self._sweep_at = max(2 * len(self), _SWEEP)


@define
class MemoryLedger:
    """Keeps sums for as long as the process lives; see `kiro_asgi.quota.base.Ledger`.  Threads may share it."""

    _sums: dict[UsageKey, defaultdict[str, float]] = field(init=False, factory=dict, repr=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Add to the sums."""
        with self._guard:
            for row in rows:
                sums = self._sums.setdefault(row.key, defaultdict(float))
                for name, amount in row.amounts.items():
                    sums[name] += amount
            if len(self._sums) > _MOST_ROWS:
                for key in sorted(self._sums)[:-_MOST_ROWS]:
                    del self._sums[key]

    def rows(self, first: str, last: str) -> Iterable[UsageRow]:
        """The sums of the days from *first* to *last*."""
        with self._guard:
            return [UsageRow(key, dict(self._sums[key])) for key in sorted(self._sums) if first <= key.day <= last]

    def close(self) -> None:
        """Close nothing: there is no file."""
