"""Counters and sums in a SQLite file: for the processes of one machine, and across restarts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from time import time
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from attrs import astuple, define, field

from kiro_asgi.loops import PerLoop
from kiro_asgi.quota.base import UsageKey, UsageRow
from kiro_asgi.quota.claims import Budget, Claim, Granted, Lease, Rate, Refused, granted, refusal
from kiro_asgi.state.sqlite import SqliteConnection

T = TypeVar("T")

_PATIENCE: Final = 1.0
"""Seconds that one operation waits for others, threads and processes."""

_SWEEP: Final = 20
"""Expired numbers removed with each that is written: more than come in, and few enough not to delay a request."""

_KEPT_DAYS: Final = 400
"""Days of usage that are kept."""

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS counters (key TEXT PRIMARY KEY, number REAL NOT NULL, expires_at REAL NOT NULL)",
    "CREATE INDEX IF NOT EXISTS counters_by_end ON counters (expires_at)",
    "CREATE TABLE IF NOT EXISTS leases"
    " (key TEXT NOT NULL, holder TEXT NOT NULL, expires_at REAL NOT NULL, PRIMARY KEY (key, holder))",
    "CREATE TABLE IF NOT EXISTS amounts (day TEXT NOT NULL, principal TEXT NOT NULL, upstream TEXT NOT NULL,"
    " model TEXT NOT NULL, team TEXT NOT NULL, name TEXT NOT NULL, amount REAL NOT NULL,"
    " PRIMARY KEY (day, principal, upstream, model, team, name))",
)


@define
class _File:
    """The file, used by one thread at a time for each event loop; more would only wait for each other."""

    path: Path
    _connection: SqliteConnection = field(init=False, repr=False)
    _threads: PerLoop[anyio.CapacityLimiter] = field(
        init=False, factory=lambda: PerLoop(partial(anyio.CapacityLimiter, 1)), repr=False
    )

    def __attrs_post_init__(self) -> None:
        self._connection = SqliteConnection(self.path, _PATIENCE)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call *work* in a thread, in a transaction of its own, and return its result.

        Raises:
            StoreUnavailable: The file cannot be used, or others use it for longer than a second.
        """
        limiter = self._threads.here()
        return await anyio.to_thread.run_sync(self.run_blocking, work, limiter=limiter)

    def run_blocking(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The same in this thread."""

        def in_transaction(connection: sqlite3.Connection) -> T:
            with _transaction(connection):
                for table in _TABLES:
                    connection.execute(table)
                return work(connection)

        return self._connection.run(in_transaction)

    async def aclose(self) -> None:
        """Close the file; it is opened again if need be."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)

    def close(self) -> None:
        """The same in this thread."""
        self._connection.close()


@define
class SqliteCounters:
    """Keeps numbers and leases in tables; see `kiro_asgi.quota.base.Counters`."""

    path: Path
    _clock: Callable[[], float] = time
    """The same for all processes, also after a restart."""

    _file: _File = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._file = _File(self.path)

    async def take(self, claims: Sequence[Claim]) -> Granted | Refused:
        """Take all claims, or none."""

        def work(connection: sqlite3.Connection) -> Granted | Refused:
            now = self._clock()
            kept = [_number(connection, claim, now) for claim in claims]
            refused = refusal(claims, kept, now)
            if refused is not None:
                return refused
            after = [_keep(connection, claim, number, now) for claim, number in zip(claims, kept, strict=True)]
            return granted(claims, after, now)

        return await self._file.run(work)

    async def correct(self, claims: Sequence[Rate | Budget]) -> None:
        """Take *amount* of each, whatever is left."""

        def work(connection: sqlite3.Connection) -> None:
            now = self._clock()
            for claim in claims:
                _keep(connection, claim, _number(connection, claim, now), now)

        await self._file.run(work)

    async def renew(self, leases: Sequence[Lease]) -> None:
        """Extend *leases*."""

        def work(connection: sqlite3.Connection) -> None:
            for lease in leases:
                _keep(connection, lease, 0, self._clock())

        await self._file.run(work)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Let go of *leases*."""

        def work(connection: sqlite3.Connection) -> None:
            statement = "DELETE FROM leases WHERE key = ? AND holder = ?"
            connection.executemany(statement, [(lease.key, lease.holder) for lease in leases])

        await self._file.run(work)

    async def aclose(self) -> None:
        """Close the file; it is opened again if need be."""
        await self._file.aclose()


@define
class SqliteLedger:
    """Keeps sums in a table, of the last 400 days that have any; see `kiro_asgi.quota.base.Ledger`."""

    path: Path
    _file: _File = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._file = _File(self.path)

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Add to the sums, all or nothing."""
        values = [(*astuple(row.key), name, amount) for row in rows for name, amount in row.amounts.items()]

        def work(connection: sqlite3.Connection) -> None:
            more = "ON CONFLICT DO UPDATE SET amount = amount + excluded.amount"
            connection.executemany(f"INSERT INTO amounts VALUES (?, ?, ?, ?, ?, ?, ?) {more}", values)
            kept = f"SELECT DISTINCT day FROM amounts ORDER BY day DESC LIMIT {_KEPT_DAYS}"
            connection.execute(f"DELETE FROM amounts WHERE day < (SELECT min(day) FROM ({kept}))")

        self._file.run_blocking(work)

    def rows(self, first: str, last: str) -> Iterable[UsageRow]:
        """The sums of the days from *first* to *last*."""

        def work(connection: sqlite3.Connection) -> list[tuple[str, str, str, str, str, str, float]]:
            query = (
                "SELECT day, principal, upstream, model, team, name, amount FROM amounts WHERE day BETWEEN ? AND ?"
                " ORDER BY day, principal, upstream, model, team"
            )
            return connection.execute(query, (first, last)).fetchall()

        found = self._file.run_blocking(work)
        return [
            UsageRow(UsageKey(*key), {name: amount for *_, name, amount in group})
            for key, group in groupby(found, key=lambda row: row[:5])
        ]

    def close(self) -> None:
        """Close the file; it is opened again if need be."""
        self._file.close()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Make all changes or none, with no other writer in between."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _number(connection: sqlite3.Connection, claim: Claim, now: float) -> float:
    if isinstance(claim, Lease):
        query = "SELECT count(*) FROM leases WHERE key = ? AND expires_at > ?"
    else:
        query = "SELECT number FROM counters WHERE key = ? AND expires_at > ?"
    row = connection.execute(query, (claim.key, now)).fetchone()
    return 0.0 if row is None else float(row[0])


def _keep(connection: sqlite3.Connection, claim: Claim, kept: float, now: float) -> float:
    after = claim.after(kept, now)
    row: tuple[str, str | float, float]
    if isinstance(claim, Lease):
        table, row = "leases", (claim.key, claim.holder, now + claim.seconds)
    else:
        table, row = "counters", (claim.key, after, claim.expires_at(after))
    connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", row)
    passed = f"SELECT rowid FROM {table} WHERE expires_at <= ? LIMIT {_SWEEP}"
    connection.execute(f"DELETE FROM {table} WHERE rowid IN ({passed})", (now,))
    return after
