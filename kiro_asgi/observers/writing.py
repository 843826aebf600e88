"""Base of observers that write what they observe to a file or a database, in batches and in a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from logging import getLogger
from typing import Any, Final, Generic, Self, TypeVar

import anyio
import anyio.to_thread
from attrs import define, field

from kiro_asgi.limits import OBSERVED_WAITING
from kiro_asgi.observers.base import CallFacts, EndFacts, Observer
from kiro_asgi.state.pending import PeriodicWriter

Row = TypeVar("Row")

_log = getLogger("kiro_asgi")

_PARTING: Final = 5.0
"""Seconds that the end of an application waits for what is still to be written."""


@define(eq=False)
class _Rows:
    """Rows that wait, oldest first.  Threads may share it."""

    _rows: deque[Any] = field(init=False, factory=deque)
    _lost: int = field(init=False, default=0)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Any) -> None:
        """Have *row* wait, if there is room."""
        with self._guard:
            if len(self._rows) < OBSERVED_WAITING:
                self._rows.append(row)
            else:
                self._lost += 1

    def take(self) -> list[Any]:
        """All of them, no longer waiting."""
        with self._guard:
            rows, lost = [*self._rows], self._lost
            self._rows.clear()
            self._lost = 0
        if lost:
            _log.warning("%d rows of an observer are lost: too many wait to be written", lost)
        return rows

    def put_back(self, rows: Sequence[Any]) -> None:
        """Have *rows*, which were taken, wait again before all others, as far as there is room."""
        with self._guard:
            room = OBSERVED_WAITING - len(self._rows)
            self._lost += max(len(rows) - room, 0)
            self._rows.extendleft(reversed(rows[:room]))


class WritingObserver(Observer, Generic[Row]):
    """Base of an observer that writes a row for each call; see `kiro_asgi.Observer`.

    A subclass has `row`, which runs in the event loop and must not block, and `write`, which runs in a thread.  Rows
    are written every five seconds, when the application is closed, and when the interpreter ends.  Those that cannot be
    written wait; 10,000 may wait at once.
    """

    _rows: _Rows
    _writer: PeriodicWriter
    _is_failing = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the parts of this class here, so that a subclass need not call its ``__init__``, and may be frozen."""
        self = super().__new__(cls)
        rows = _Rows()
        writer = PeriodicWriter(cls.__name__, self._write_all, rows.__len__, rows.take)
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_writer", writer)
        return self

    def row(self, call: CallFacts, end: EndFacts) -> Row | None:
        """Make the row of a call that has ended; ``None`` for none."""
        raise NotImplementedError(f"{type(self).__name__}.row")

    def write(self, rows: Sequence[Row]) -> None:
        """Write *rows*, all or none, oldest first; blocks.  Called by one thread at a time.

        Raises:
            Exception: They cannot be written now.  They wait, and are given to this again.
        """
        raise NotImplementedError(f"{type(self).__name__}.write")

    def add(self, row: Row) -> None:
        """Have *row* written, soon; for rows of other moments than the end of a call."""
        self._rows.add(row)
        self._writer.wake()

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """Have the row of the call written."""
        if (row := self.row(call, end)) is not None:
            self.add(row)

    def flush(self) -> None:
        """Write what waits; blocks, for at most five seconds."""
        if not self._writer.flush(_PARTING):
            _log.warning("%s is still writing; the end does not wait for it", type(self).__name__)

    async def aclose(self) -> None:
        """Write what waits, even if the end is cancelled."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.flush)

    def _write_all(self) -> bool:
        if not (rows := self._rows.take()):
            return True
        try:
            self.write(rows)
        except Exception as error:  # noqa: BLE001 - whatever it is, the rows wait
            if not self._is_failing:
                _log.warning("%s cannot write, and keeps its rows: %r", type(self).__name__, error, exc_info=error)
            object.__setattr__(self, "_is_failing", True)
            self._rows.put_back(rows)
            return False
        object.__setattr__(self, "_is_failing", False)
        return True
