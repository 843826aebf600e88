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
from time import monotonic, sleep
from types import MappingProxyType
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.quota.base import Ledger, UsageKey, UsageRow
from kiro_asgi.state.pending import WriterThread
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
    "cost",
    "estimated_cost",
    "unpriced",
    "first_content_seconds",
    "answers_with_content",
)
"""Names of what is counted.  Tokens that the service reported and those that we estimated are never one sum, nor are
their costs; ``unpriced`` are answers whose cost is not known."""

_MOST_ROWS: Final = 10_000
"""Rows that wait at once; further ones are lost, and counted."""

_WRITE_EVERY: Final = 5.0
"""Seconds between two writes: how much usage is lost where a process is killed."""

_POLL: Final = 0.25
"""Seconds between two checks whether the interpreter ends, which waits for this thread."""

_PARTING: Final = 2.0
"""Seconds for what still waits where an application closes or the interpreter ends."""

_PAUSE: Final = 0.1
"""Seconds between two attempts to write it then."""


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
    _thread: WriterThread = field(init=False)
    _is_failing: bool = field(init=False, default=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    _closing: threading.Event = field(init=False, factory=threading.Event, repr=False)

    def __attrs_post_init__(self) -> None:
        self._thread = WriterThread(self._run, "usage")

    def add(self, row: UsageRow) -> None:
        """Have *row* added to the ledger, soon."""
        self._buffer.add(row)
        with self._guard:
            self._thread.start()

    def close(self) -> None:
        """Write what waits, and close the ledger; both can go on.  Blocks for at most two seconds and a write."""
        self._closing.set()
        try:
            self._thread.wait()
            self._ledger.close()
        finally:
            self._closing.clear()

    def _run(self) -> None:
        """Write until nothing waits, or nothing more can be written and the process ends."""
        try:
            self._write_until_done()
        except BaseException:  # a bug of ours must not make close() wait for ever
            with self._guard:  # else `add` may note after this that the thread runs
                self._thread.end()
            raise

    def _write_until_done(self) -> None:
        parting: float | None = None
        while True:
            if parting is None and self._ends_soon():
                parting = monotonic()
            if not self._write() and parting is not None:
                if monotonic() - parting > _PARTING:
                    _log.warning("%d rows of usage are lost: they could not be written", len(self._buffer))
                    self._buffer.take()
                sleep(_PAUSE)
            with self._guard:
                if not len(self._buffer):
                    self._thread.end()
                    return

    def _ends_soon(self) -> bool:
        """Wait until it is time to write; whether the writer or the process is about to end."""
        until = monotonic() + _WRITE_EVERY
        while monotonic() < until:
            if self._closing.wait(_POLL) or not threading.main_thread().is_alive():
                return True
        return False

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
    {"day": "day", "key": "principal", "upstream": "upstream", "model": "model"}
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
