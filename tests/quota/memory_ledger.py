"""The plainest ledger there can be, which the others are compared with."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence

from attrs import define, field

from kiro_asgi.quota.base import UsageKey, UsageRow


@define
class MemoryLedger:
    """Keeps sums in a dictionary; see `kiro_asgi.quota.base.Ledger`."""

    _sums: dict[UsageKey, defaultdict[str, float]] = field(init=False, factory=dict, repr=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Add to the sums."""
        with self._guard:
            for row in rows:
                sums = self._sums.setdefault(row.key, defaultdict(float))
                for name, amount in row.amounts.items():
                    sums[name] += amount

    def rows(self, first: str, last: str) -> Iterable[UsageRow]:
        """The sums of the days from *first* to *last*."""
        with self._guard:
            return [UsageRow(key, dict(self._sums[key])) for key in sorted(self._sums) if first <= key.day <= last]

    def close(self) -> None:
        """Close nothing: there are no files or connections."""
