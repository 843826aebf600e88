"""A store in a SQLite file, for several processes of one machine, and for what is to survive them.

Source: https://www.sqlite.org/wal.html
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import sleep, time
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from attrs import define, field

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.state.locks import Locks

__all__ = ["SqliteStore"]

T = TypeVar("T")

_ENTRY_BYTES: Final = 400
"""What an entry costs besides its value: its row, and its places in the indexes, rounded up."""

_BUSY: Final = 5.0
"""Seconds to wait while another process writes."""

_REMEMBERED: Final = 60.0
"""Seconds between two uses of a value from which on the second is written down: a read should not have to write."""

_SWEEP: Final = 100
"""Expired values removed with each one that is written: more than come in, and never a pause."""

_LEASE: Final = 60.0
"""Seconds after which a lock counts as left behind by a process that died."""

_POLL: Final = 0.02
"""Seconds between two looks at what another process holds."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS kept (
    key TEXT NOT NULL UNIQUE,
    cost INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    used_at REAL NOT NULL,
    value BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS kept_by_use ON kept (used_at);
CREATE INDEX IF NOT EXISTS kept_by_end ON kept (expires_at);
CREATE TABLE IF NOT EXISTS total (entries INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO total SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM total);
CREATE TRIGGER IF NOT EXISTS count_in AFTER INSERT ON kept
    BEGIN UPDATE total SET entries = entries + 1, bytes = bytes + new.cost; END;
CREATE TRIGGER IF NOT EXISTS count_out AFTER DELETE ON kept
    BEGIN UPDATE total SET entries = entries - 1, bytes = bytes - old.cost; END;
CREATE TABLE IF NOT EXISTS held (key TEXT PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL);
"""


@define
class SqliteStore:
    """Keeps values in a file that only its owner may read; see `kiro_asgi.state.base.Store`.

    The file is opened at the first use and belongs to the process: a fork must come before.  Operations run in a
    thread, one after the other; one that has begun is completed, also where nobody waits for it any more.  A process
    that dies leaves every value either as it was or as it was to be, and its locks for a minute, which is also how long
    a lock may be held.

    Raises:
        StoreUnavailable: From every operation: the file cannot be used, or others have written for too long.
    """

    path: Path
    entries: int = 10_000
    """Values kept at once."""

    max_bytes: int = 64 * 1024 * 1024
    """Room for all of them; the file is a little larger."""

    _clock: Callable[[], float] = time
    """The same for all processes, also after a restart."""

    _connection: sqlite3.Connection | None = field(init=False, default=None, repr=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    """Held by the thread that uses the connection."""

    _locks: Locks = field(init=False, factory=Locks, repr=False)
    _limiter: RunVar[anyio.CapacityLimiter] = field(init=False, repr=False)
    """One thread for each event loop: more would only wait for each other."""

    def __attrs_post_init__(self) -> None:
        self._limiter = RunVar(f"kiro_asgi.state.sqlite.{id(self)}")

    async def get(self, key: str) -> bytes | None:
        """The value; reading it counts as using it, to the minute."""
        now = self._clock()

        def read(connection: sqlite3.Connection) -> bytes | None:
            query = "SELECT value, used_at FROM kept WHERE key = ? AND expires_at > ?"
            value, used_at = connection.execute(query, (key, now)).fetchone() or (None, now)
            if now - used_at >= _REMEMBERED:
                connection.execute("UPDATE kept SET used_at = ? WHERE key = ?", (now, key))
            return value

        return await self._run(read)

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value*; those that have expired, then those used longest ago, make room for it."""
        now, cost = self._clock(), len(value) + _ENTRY_BYTES

        def write(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                connection.execute("DELETE FROM kept WHERE key = ?", (key,))
                _sweep(connection, now)
                if cost <= self.max_bytes:
                    row = (key, cost, now + ttl, now, value)
                    connection.execute("INSERT INTO kept VALUES (?, ?, ?, ?, ?)", row)
                    self._make_room(connection)

        await self._run(write)

    async def take(self, key: str) -> bytes | None:
        """The value, and forget it."""
        now = self._clock()

        def take(connection: sqlite3.Connection) -> bytes | None:
            with _transaction(connection):
                query = "SELECT value FROM kept WHERE key = ? AND expires_at > ?"
                found = connection.execute(query, (key, now)).fetchone()
                connection.execute("DELETE FROM kept WHERE key = ?", (key,))
            return found[0] if found else None

        return await self._run(take)

    async def delete(self, key: str) -> None:
        """Forget the value."""
        await self._execute("DELETE FROM kept WHERE key = ?", key)

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude others, also other processes; those get their turn in any order."""
        holder = token_hex(8)
        async with self._locks.hold(key):
            try:
                while not await self._lease(key, holder):  # noqa: ASYNC110 - no event spans two processes
                    await anyio.sleep(_POLL)
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await self._execute("DELETE FROM held WHERE key = ? AND holder = ?", key, holder)

    async def aclose(self) -> None:
        """Close the file; it is opened again if need be."""

        def close() -> None:
            with self._guard:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None

        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(close)

    async def _lease(self, key: str, holder: str) -> bool:
        now = self._clock()

        def lease(connection: sqlite3.Connection) -> bool:
            with _transaction(connection):
                connection.execute("DELETE FROM held WHERE key = ? AND until <= ?", (key, now))
                row = (key, holder, now + _LEASE)
                return connection.execute("INSERT OR IGNORE INTO held VALUES (?, ?, ?)", row).rowcount == 1

        return await self._run(lease)

    async def _execute(self, statement: str, *values: object) -> None:
        await self._run(lambda connection: connection.execute(statement, values))

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = anyio.CapacityLimiter(1)
            self._limiter.set(limiter)
        return await anyio.to_thread.run_sync(self._work, work, limiter=limiter)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._guard:
            try:
                if self._connection is None:
                    self._connection = _open(self.path)
                return work(self._connection)
            except (sqlite3.Error, OSError) as error:
                what = error.strerror if isinstance(error, OSError) else error
                raise StoreUnavailable(f"what is kept cannot be reached: {what}", code="state.sqlite") from None

    def _make_room(self, connection: sqlite3.Connection) -> None:
        entries, size = connection.execute("SELECT entries, bytes FROM total").fetchone()
        if entries <= self.entries and size <= self.max_bytes:
            return
        gone = []
        for row, cost in connection.execute("SELECT rowid, cost FROM kept ORDER BY used_at, rowid"):
            if entries <= self.entries and size <= self.max_bytes:
                break
            gone.append((row,))
            entries, size = entries - 1, size - cost
        connection.executemany("DELETE FROM kept WHERE rowid = ?", gone)


def _sweep(connection: sqlite3.Connection, now: float) -> None:
    expired = "SELECT rowid FROM kept WHERE expires_at <= ? LIMIT ?"
    connection.execute(f"DELETE FROM kept WHERE rowid IN ({expired})", (now, _SWEEP))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, and nobody writes in between."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _open(path: Path) -> sqlite3.Connection:
    """A connection without implicit transactions, to a file that is private from its first moment."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    # By name: to open the file here and close it again would give up the locks that SQLite has on it in this process.
    path.chmod(0o600)
    connection = sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = NORMAL")  # a power failure may cost the last values, never the file
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at once.  Of two who switch that on in a new file SQLite makes neither wait."""
    for _ in range(int(_BUSY / _POLL)):
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
            return
        sleep(_POLL)
    raise sqlite3.OperationalError("database is locked")
