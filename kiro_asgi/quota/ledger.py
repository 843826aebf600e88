"""Usage: buffered until a thread has written it, so that no request waits for a write; and its totals."""

from __future__ import annotations

import csv
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from io import StringIO
from logging import getLogger
from types import MappingProxyType
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.quota.base import Ledger, UsageKey, UsageRow
from kiro_asgi.state.pending import PeriodicWriter
from kiro_asgi.visible import visible

_log = getLogger("kiro_asgi")

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
    "answers_with_credits",
    "estimated_credits",
    "cost",
    "estimated_cost",
    "unpriced",
    "first_content_seconds",
    "answers_with_content",
)
"""Names of what is counted.  Tokens that the service reported and those that we estimated are never one sum, nor are
their costs; ``unpriced`` are answers whose cost is not known, and ``answers_with_credits`` those of which the service
has said how many credits they took: what one takes on average is of them alone."""

_MOST_ROWS: Final = 10_000
"""Rows that wait at once; further ones are lost, and counted."""


@define
class UsageBuffer:
    """Sums that are still to be added to a ledger.  Threads may share it."""

    lost: int = field(init=False, default=0)
    """Rows for which there was no room."""

    _waiting: dict[UsageKey, defaultdict[str, float]] = field(init=False, factory=dict, repr=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)

    def __len__(self) -> int:
        return len(self._waiting)

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


@define(eq=False)
class UsageWriter:
    """Writes usage to a ledger, in a thread: no event loop waits."""

    _ledger: Ledger
    _buffer: UsageBuffer = field(init=False, factory=UsageBuffer)
    _writer: PeriodicWriter = field(init=False)
    _is_failing: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._writer = PeriodicWriter("usage", self._write, self._buffer.__len__, self._buffer.take)

    def add(self, row: UsageRow) -> None:
        """Have *row* added to the ledger, soon."""
        self._buffer.add(row)
        self._writer.wake()

    def close(self) -> None:
        """Write what waits, and close the ledger; both can go on.  Blocks for at most two seconds and a write."""
        self._writer.flush()
        self._ledger.close()

    def _write(self) -> bool:
        """Write what waits, a day at a time; whether all of it was."""
        for rows in self._buffer.take().values():
            try:
                self._ledger.add(rows)
            except StoreUnavailable as error:
                if not self._is_failing:
                    _log.warning("usage cannot be written, and waits in memory: %r", error)
                self._is_failing = True
                for row in rows:
                    self._buffer.add(row)
                continue
            self._is_failing = False
        if self._buffer.lost:
            _log.warning("%d rows of usage are lost: too many wait to be written", self._buffer.lost)
            self._buffer.lost = 0
        return not self._is_failing


PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {"day": "day", "key": "principal", "group": "group", "upstream": "upstream", "model": "model"}
)
"""Names by which rows can be grouped, to attributes of their keys."""

KEPT_DAYS: Final = 400
"""Days that ledgers keep."""

_FIRST_DAY, _LAST_DAY = date(2000, 1, 1), date(9998, 12, 31)
"""The days for which there may be usage: a day, and `KEPT_DAYS` before and after it, can be computed with."""


def read_day(text: str) -> date:
    """The day that *text* is.

    Raises:
        ValueError: It is none, or no usage can be of it; the message says what to write.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise ValueError(f"must be a day such as 2026-11-01, from {_FIRST_DAY} to {_LAST_DAY}, not {text[:40]!r}")
    return day


_ROUND: Final = 6
"""Decimal places of a sum: further ones are rounding errors."""

_FORMULA: Final = re.compile(r"\s*[=+\-@]")
"""Beginning of a text that spreadsheets calculate; a model's name may be anything that a client wrote."""


@frozen
class Total:
    """The sums of one group of rows."""

    group: tuple[str, ...]
    amounts: Mapping[str, float]

    def values(self, names: Iterable[str]) -> list[float]:
        """The sums by *names*: whole numbers where they are."""
        sums = (round(self.amounts.get(name, 0.0), _ROUND) for name in names)
        return [int(each) if each == int(each) else each for each in sums]

    def named(self, parts: Sequence[str]) -> dict[str, object]:
        """The same as one object, with *parts* of the group by name."""
        return {**dict(zip(parts, self.group, strict=True)), **dict(zip(AMOUNTS, self.values(AMOUNTS), strict=True))}


def totals(rows: Iterable[UsageRow], parts: Sequence[str]) -> list[Total]:
    """Add *rows* up whose *parts* are the same, in their order."""
    sums: dict[tuple[str, ...], defaultdict[str, float]] = {}
    for row in rows:
        group = tuple(getattr(row.key, PARTS[part]) for part in parts)
        line = sums.setdefault(group, defaultdict(float))
        for name, amount in row.amounts.items():
            line[name] += amount
    return [Total(group, sums[group]) for group in sorted(sums)]


def as_csv(found: Iterable[Total], parts: Sequence[str]) -> str:
    """A table for spreadsheets, a line for each, of which no cell is a formula."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*parts, *AMOUNTS])
    for total in found:
        names = map(visible, total.group)
        shown = (f"'{name}" if _FORMULA.match(name) else name for name in names)
        writer.writerow([*shown, *total.values(AMOUNTS)])
    return text.getvalue()
