"""Usage, gathered here until it is written, so that no request waits for a write."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final

from attrs import define, field

from kiro_asgi.quota.base import UsageKey, UsageRow

__all__ = ["AMOUNTS", "UsageBuffer"]

AMOUNTS: Final = (
    "requests",
    "failures",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "thinking_tokens",
    "estimated_input_tokens",
    "estimated_output_tokens",
    "credits",
    "first_content_seconds",
    "answers_with_content",
)
"""Names of what is counted.  Tokens that the service told and those that we estimated are never one sum."""

_MOST_ROWS: Final = 10_000
"""Rows that wait at once; of what comes beyond it only the number is known."""


@define
class UsageBuffer:
    """Sums that are still to be added to a ledger.  Threads may share it."""

    lost: int = field(init=False, default=0)
    """Rows for which there was no room."""

    _waiting: dict[UsageKey, defaultdict[str, float]] = field(init=False, factory=dict, repr=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)

    def add(self, row: UsageRow) -> None:
        """Add to the sums that wait."""
        with self._guard:
            sums = self._waiting.get(row.key)
            if sums is None:
                if len(self._waiting) >= _MOST_ROWS:
                    self.lost += 1
                    return
                sums = self._waiting[row.key] = defaultdict(float)
            for name, amount in row.amounts.items():
                sums[name] += amount

    def take(self) -> dict[str, list[UsageRow]]:
        """All that waits, by day, no longer waiting; what cannot be written is to be added again."""
        with self._guard:
            waiting, self._waiting = self._waiting, {}
        days: dict[str, list[UsageRow]] = {}
        for key, sums in sorted(waiting.items()):
            days.setdefault(key.day, []).append(UsageRow(key, dict(sums)))
        return days
