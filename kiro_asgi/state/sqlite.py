"""A store in a SQLite file, shared by the processes of one machine, and kept across restarts.

First the file: opening it safely, and its transactions.  All of that blocks; the store below calls it in threads.

Source: https://www.sqlite.org/wal.html
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from logging import getLogger
from pathlib import Path
from queue import Empty, LifoQueue
from secrets import token_hex
from time import monotonic, sleep, time
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from attrs import define, field, frozen

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.loops import PerLoop
from kiro_asgi.private import make_folder, require_own_file
from kiro_asgi.state.base import Locks, owner_of
from kiro_asgi.state.memory import ENTRY_BYTES, Room
from kiro_asgi.state.pending import Change, WriteQueue

T = TypeVar("T")

_log = getLogger("kiro_asgi")

_APPLICATION: Final = 0x6B69726F
"""``PRAGMA application_id`` of our files: "kiro"."""

_VERSION: Final = 1
"""``PRAGMA user_version``: of the schema."""

_SWITCH_POLL: Final = 0.02
"""Seconds between two attempts to switch a new file to write-ahead logging."""

_SWEEP: Final = 100
"""Expired values removed with each write, and two more for each value written: more than come in, and few enough not to
delay the write."""

LARGEST: Final = 512 * 1024 * 1024
"""Bytes of one value, which SQLite bounds too (https://www.sqlite.org/limits.html)."""

_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS kept (
    key TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    cost INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    used_at REAL NOT NULL,
    used INTEGER NOT NULL,
    value BLOB NOT NULL CHECK (typeof(value) = 'blob')
);
CREATE INDEX IF NOT EXISTS kept_by_use ON kept (owner, used);
CREATE INDEX IF NOT EXISTS kept_by_end ON kept (expires_at);
CREATE TABLE IF NOT EXISTS owners (
    owner TEXT PRIMARY KEY,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    level INTEGER NOT NULL,
    used INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS owners_by_level ON owners (level DESC, used);
CREATE TABLE IF NOT EXISTS total (entries INTEGER NOT NULL, bytes INTEGER NOT NULL, uses INTEGER NOT NULL);
INSERT INTO total SELECT 0, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM total);
CREATE TRIGGER IF NOT EXISTS count_in AFTER INSERT ON kept BEGIN
    INSERT OR IGNORE INTO owners VALUES (new.owner, 0, 0, 0, 0);
    UPDATE owners SET entries = entries + 1, bytes = bytes + new.cost WHERE owner = new.owner;
    UPDATE total SET entries = entries + 1, bytes = bytes + new.cost;
END;
CREATE TRIGGER IF NOT EXISTS count_out AFTER DELETE ON kept BEGIN
    UPDATE owners SET entries = entries - 1, bytes = bytes - old.cost WHERE owner = old.owner;
    DELETE FROM owners WHERE owner = old.owner AND entries <= 0;
    UPDATE total SET entries = entries - 1, bytes = bytes - old.cost;
END;
CREATE TABLE IF NOT EXISTS held (key TEXT PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""
"""``used`` counts uses and orders them, whatever the clock does; ``used_at`` decides whether a use must be recorded.
``level`` is `kiro_asgi.state.memory.Room.level`; it may be too high where values have expired."""

_DIRECT: Final = 64 * 1024
"""Bytes of a value that is read with its row."""

_SELECT: Final = """
SELECT rowid, CASE typeof(value) WHEN 'blob' THEN length(value) END,
CASE WHEN typeof(value) = 'blob' AND length(value) <= ? THEN value END,
CAST(used_at AS REAL) FROM kept WHERE key = ? AND expires_at > ? AND typeof(expires_at) = 'real'
"""

_AMOUNTS: Final = "CAST(entries AS INTEGER), CAST(bytes AS INTEGER)"

_COUNT_AGAIN: Final = """
DELETE FROM owners;
INSERT INTO owners SELECT owner, count(*), sum(cost), 63, max(CAST(used AS INTEGER)) FROM kept GROUP BY owner;
UPDATE total SET entries = (SELECT count(*) FROM kept), bytes = (SELECT coalesce(sum(cost), 0) FROM kept);
"""


@frozen
class Found:
    """A row that was found."""

    value: bytes | None
    """``None`` where it holds something other than bytes."""

    used_at: float


@define(eq=False)
class SqliteConnection:
    """One connection to the file, for one thread at a time.  It is opened when it is needed, and opened anew where
    another file has taken the name.

    Raises:
        StoreUnavailable: From `run` and what uses it: another thread, or another process, has used it for longer than
            *patience*, or the file cannot be used.
    """

    path: Path
    patience: float
    """Seconds that one operation waits for others."""

    _opened: sqlite3.Connection | None = field(init=False, default=None, repr=False)
    _identity: tuple[int, int] | None = field(init=False, default=None)
    """Device and inode of the file that is open."""

    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run *work* and return its result."""
        with self._turn():
            try:
                return work(self._connection())
            except (sqlite3.Error, OSError, OverflowError) as error:
                raise _unavailable(error, self.path) from None

    def read(self, key: str, now: float) -> Found | None:
        """The living row of *key*.  A file that is damaged has none."""

        def work(connection: sqlite3.Connection) -> Found | None:
            row = connection.execute(_SELECT, (_DIRECT, key, now)).fetchone()
            if row is None:
                return None
            _, size, value, used_at = row
            return Found(value, used_at) if size is None or size <= _DIRECT else _large(connection, key, now)

        return self.run(work)

    def write(self, changes: Sequence[tuple[str, Change]], uses: Collection[str], room: Room, now: float) -> None:
        """Make all changes, or none; owners of most make room for them, with what they used longest ago."""

        def work(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                count = _uses(connection)
                _sweep(connection, now, _SWEEP + 2 * len(changes))
                for key in uses:
                    count += 1
                    connection.execute("UPDATE kept SET used = ?, used_at = ? WHERE key = ?", (count, now, key))
                    connection.execute("UPDATE owners SET used = ? WHERE owner = ?", (count, owner_of(key)))
                for key, change in changes:
                    count += 1
                    _change(connection, key, change, now, count)
                    _rank(connection, room, owner_of(key), count)
                    _make_room(connection, room)
                connection.execute("UPDATE total SET uses = ?", (count,))

        self.run(work)

    def take(self, key: str, now: float) -> bytes | None:
        """Return the value, and forget it."""

        def work(connection: sqlite3.Connection) -> bytes | None:
            with _transaction(connection):
                query = "SELECT value FROM kept WHERE key = ? AND expires_at > ? AND typeof(value) = 'blob'"
                found = connection.execute(query, (key, now)).fetchone()
                connection.execute("DELETE FROM kept WHERE key = ?", (key,))
            return found[0] if found else None

        return self.run(work)

    def lease(self, key: str, holder: str, now: float, until: float) -> bool:
        """Whether *holder* has the lock *key* from now on."""

        def work(connection: sqlite3.Connection) -> bool:
            with _transaction(connection):
                connection.execute("DELETE FROM held WHERE key = ? AND until <= ?", (key, now))
                row = (key, holder, until)
                return connection.execute("INSERT OR IGNORE INTO held VALUES (?, ?, ?)", row).rowcount == 1

        return self.run(work)

    def release(self, key: str, holder: str) -> None:
        """Give a lock back."""
        statement = "DELETE FROM held WHERE key = ? AND holder = ?"
        self.run(lambda connection: connection.execute(statement, (key, holder)))

    def close(self) -> None:
        """Close the file; it is opened again if need be."""
        with self._turn():
            self._close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._guard.acquire(timeout=self.patience):
            raise _busy()
        try:
            yield
        finally:
            self._guard.release()

    def _connection(self) -> sqlite3.Connection:
        found = require_own_file(self.path)
        if self._opened is not None and (found is None or (found.st_dev, found.st_ino) != self._identity):
            self._close()
        if self._opened is None:
            self._opened, self._identity = _open(self.path, self.patience)
        return self._opened

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


_REST: Final = 2.0
"""Seconds without another attempt after the file could not be used, or a value of one owner took too long."""


def _busy(seconds: float = _REST) -> StoreUnavailable:
    """The error where others use the file, or used it a moment ago."""
    return StoreUnavailable(detail="the state file is busy", code="state.busy", retry_after=seconds)


def _large(connection: sqlite3.Connection, key: str, now: float) -> Found | None:
    """The row of *key*, whose value SQLite would hold twice: it is read in place, without holding the interpreter."""
    connection.execute("BEGIN")  # one snapshot: it may have been replaced, by a smaller one, too
    try:
        row = connection.execute(_SELECT, (_DIRECT, key, now)).fetchone()
        if row is None or row[1] is None or row[1] <= _DIRECT:
            return None if row is None else Found(*row[2:])
        with connection.blobopen("kept", "value", row[0], readonly=True) as blob:
            return Found(blob.read(), row[3])
    finally:
        connection.execute("ROLLBACK")


def _unavailable(error: Exception, path: Path) -> StoreUnavailable:
    """The error for *error* of the file at *path* or of the system."""
    reason = error.strerror if isinstance(error, OSError) else error
    if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF in _DAMAGE:
        detail = f"the state file {path} is damaged; move it away, and a new one is made: {reason}"
        return StoreUnavailable(detail=detail, code="state.damaged", retry_after=_REST)
    detail = f"the state file {path} cannot be used: {reason}; this user must be able to write it and its folder"
    return StoreUnavailable(detail=detail, code="state.sqlite", retry_after=_REST)


_DAMAGE: Final = frozenset(
    {
        sqlite3.SQLITE_ERROR,  # a table or a column is missing
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_CONSTRAINT,
    }
)
"""Errors of the file's content; all others come from locks, the disk or permissions."""


def _uses(connection: sqlite3.Connection) -> int:
    """Number of uses so far; counted anew where the number is damaged."""
    row = connection.execute("SELECT uses FROM total WHERE typeof(uses) = 'integer'").fetchone()
    if row is None:
        connection.execute("DELETE FROM total")
        connection.execute("INSERT INTO total SELECT 0, 0, coalesce(max(CAST(used AS INTEGER)), 0) FROM kept")
        _count_again(connection)
        row = connection.execute("SELECT uses FROM total").fetchone()
    return int(row[0])


def _count_again(connection: sqlite3.Connection) -> None:
    for statement in _COUNT_AGAIN.split(";"):
        connection.execute(statement)


def _change(connection: sqlite3.Connection, key: str, change: Change, now: float, count: int) -> None:
    connection.execute("DELETE FROM kept WHERE key = ?", (key,))
    if change.value is not None and change.expires_at > now:
        row = (key, owner_of(key), len(change.value) + ENTRY_BYTES, change.expires_at, now, count, change.value)
        connection.execute("INSERT INTO kept VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _sweep(connection: sqlite3.Connection, now: float, most: int) -> None:
    expired = "SELECT rowid FROM kept WHERE expires_at <= ? LIMIT ?"
    connection.execute(f"DELETE FROM kept WHERE rowid IN ({expired})", (now, most))


def _rank(connection: sqlite3.Connection, room: Room, owner: str, used: int) -> None:
    """Update an owner's level and last use, if it has any values."""
    row = connection.execute(f"SELECT {_AMOUNTS} FROM owners WHERE owner = ?", (owner,)).fetchone()
    if row is not None:
        change = "UPDATE owners SET level = ?, used = ? WHERE owner = ?"
        connection.execute(change, (room.level(*row), used, owner))


def _make_room(connection: sqlite3.Connection, room: Room) -> None:
    """Drop values by the rules of `kiro_asgi.state.memory.Shelf`."""
    counted_again = False
    while not room.holds(*connection.execute(f"SELECT {_AMOUNTS} FROM total").fetchone()):
        first = f"SELECT owner, level, used, {_AMOUNTS} FROM owners ORDER BY level DESC, used LIMIT 1"
        owner, level, used, *amounts = connection.execute(first).fetchone() or ("", 0, 0, 0, 0)
        if level != room.level(*amounts):
            _rank(connection, room, owner, used)
            continue
        oldest = "SELECT rowid FROM kept WHERE owner = ? ORDER BY used, rowid LIMIT 1"
        if connection.execute(f"DELETE FROM kept WHERE rowid = ({oldest})", (owner,)).rowcount:
            _rank(connection, room, owner, used)
        elif counted_again:
            return
        else:
            _count_again(connection)  # the totals do not match the rows: another program has changed the tables
            counted_again = True


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


def _open(path: Path, patience: float) -> tuple[sqlite3.Connection, tuple[int, int]]:
    """A connection without implicit transactions, and the identity of its file, which is private from its creation.

    SQLite opens files by name, so symbolic links are refused before, for the file and those beside it, and the file's
    identity is compared after: it cannot have been replaced in between.
    """
    make_folder(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    identity = _make_private(path)
    for name in (f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
        _make_private(path.with_name(name))
    assert identity is not None
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, patience)
        if _identity(path) != identity:
            raise OSError("the file was replaced while it was opened")
    except BaseException:
        connection.close()
        raise
    return connection, identity


def _make_private(path: Path) -> tuple[int, int] | None:
    """Remove the permissions of other users of a file, and return its identity; ``None`` where there is none."""
    found = require_own_file(path)
    if found is None:
        return None
    if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        # By name: POSIX drops all locks that this process has on a file when any descriptor of it is closed.
        path.chmod(0o600)
    return found.st_dev, found.st_ino


def _identity(path: Path) -> tuple[int, int] | None:
    found = require_own_file(path)
    return None if found is None else (found.st_dev, found.st_ino)


def _prepare(connection: sqlite3.Connection, patience: float) -> None:
    """Make the tables, unless they are there: then nothing is written, so that no other writer is waited for.

    Raises:
        OSError: The file is another program's, or another version's.
    """
    ours = _is_ours(connection)
    _write_ahead(connection, patience)
    connection.execute("PRAGMA synchronous = NORMAL")  # a power failure may cost the last values, never the file
    if not ours:
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there; ``False`` for an empty file."""
    connection.execute("BEGIN")  # one snapshot for all three queries: another process may be making the tables
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        used = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
    finally:
        connection.execute("ROLLBACK")
    if application == _APPLICATION and version != _VERSION:
        raise OSError(0, "the file was made by another version of kiro-asgi; move it away")
    if used and application != _APPLICATION:
        raise OSError(0, "the file belongs to another program; set another state.path")
    return used


def _write_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Let readers and a writer work at once.  Where two connections switch that on in a new file, SQLite lets neither
    wait, so this tries again."""
    end = monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if monotonic() >= end:
                raise
            sleep(_SWITCH_POLL)
        else:
            return


_PATIENCE: Final = 1.0
"""Seconds that a caller waits for the file."""

_BUSY: Final = 0.7
"""Seconds that one operation waits for other threads, and again for other processes."""

_PARTING: Final = 2.0
"""Seconds that `SqliteStore.aclose` waits for what is still to be written."""

_REMEMBERED: Final = 60.0
"""Seconds between two uses of a value from which on the second is recorded: most reads should not have to write."""

_LEASE: Final = 60.0
"""Seconds after which a lock counts as left behind by a process that died."""

_POLL: Final = 0.02
"""Seconds between two attempts to get a lock that another process holds."""

_SOON: Final = 0.005
"""Seconds between two checks whether another thread has written a value."""

_REPORT_EVERY: Final = 60.0
"""Seconds between two log lines about damage."""

_READERS: Final = 4
"""Values that are read at once: one that takes long does not hold up those of other owners."""


@define(eq=False)
class _Side:
    """Reading, or writing: whether the file can be used for that, and by whom it cannot."""

    _threads: int
    """Operations at once of one event loop."""

    limiters: PerLoop[anyio.CapacityLimiter] = field(init=False, repr=False)
    rests_until: float = field(init=False, default=0.0)
    _slow: dict[str, float] = field(init=False, factory=dict)
    """Owners whose last operation took too long, and until when they wait.  Its thread may still be at it."""

    def __attrs_post_init__(self) -> None:
        self.limiters = PerLoop(partial(anyio.CapacityLimiter, self._threads))

    def rest(self, owner: str) -> float:
        """Seconds that *owner* has to wait; not every caller should find out anew that an operation fails."""
        return max(self.rests_until, self._slow.get(owner, 0.0)) - monotonic()

    def was_slow(self, owner: str) -> None:
        """Let *owner* wait, and nobody else."""
        now = monotonic()
        self._slow = {each: until for each, until in self._slow.items() if until > now}
        self._slow[owner] = now + _REST


@define
class SqliteStore:
    """Keeps values in a file that only its owner may read; see `kiro_asgi.state.base.Store`.

    The file is opened at the first use and belongs to the process: a fork must come before.  Values are written by a
    thread, after `set` has returned, and are found here meanwhile; other processes find them a moment later.  A process
    that is killed loses those of that moment, and leaves its locks for a minute, which is also how long a lock may be
    held.

    An owner whose operation takes too long waits for a while, and nobody else does.  Where the file itself cannot be
    used, nobody waits for it twice in that time.

    Raises:
        StoreUnavailable: From everything but `set` and `delete`: the file cannot be used now, or is damaged, or others
            have used it for longer than a second.
    """

    path: Path
    entries: int = 10_000
    """Values kept at once."""

    max_bytes: int = 64 * 1024 * 1024
    """Room for all of them; the file is a little larger."""

    _clock: Callable[[], float] = time
    """The same for all processes, also after a restart."""

    _room: Room = field(init=False)
    _readers: tuple[SqliteConnection, ...] = field(init=False, repr=False)
    """Apart from the writer's connection, so that readers do not wait for writes."""

    _free: LifoQueue[SqliteConnection] = field(init=False, factory=LifoQueue, repr=False)
    """Readers that no thread uses; the one that was used last comes first, so that mostly one is open."""

    _writer: SqliteConnection = field(init=False, repr=False)
    _pending: WriteQueue = field(init=False, repr=False)
    _reading: _Side = field(init=False, factory=lambda: _Side(_READERS))
    _writing: _Side = field(init=False, factory=lambda: _Side(1))
    trouble: str = field(init=False, default="")
    """Code of the error with which the last operation failed; empty where it did not."""

    _reported_at: float = field(init=False, default=-_REPORT_EVERY)
    _locks: Locks = field(init=False, factory=Locks, repr=False)

    def __attrs_post_init__(self) -> None:
        self._room = Room(self.entries, self.max_bytes)
        self._readers = tuple(SqliteConnection(self.path, _BUSY) for _ in range(_READERS))
        for reader in self._readers:
            self._free.put(reader)
        self._writer = SqliteConnection(self.path, _BUSY)
        self._pending = WriteQueue(lambda changes, uses: self._writer.write(changes, uses, self._room, self._clock()))

    @property
    def is_reachable(self) -> bool:
        """Whether the file could be read, and written, the last time."""
        return not (self.trouble or self._pending.is_failing)

    async def get(self, key: str) -> bytes | None:
        """The value; reading it counts as using it, to the minute."""
        return (await self.get_many((key,))).get(key)

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """The values that there are, read in one turn of a thread."""
        now = self._clock()
        found, in_file = self._pending.split(keys, now)
        if in_file:
            for key, entry in await self._ask(self._reading, in_file[0], partial(self._read, in_file, now)):
                if entry.value is None:
                    self._report("an entry of the state file is damaged, and counts as missing: its value is not bytes")
                    continue
                found[key] = entry.value
                if abs(now - entry.used_at) >= _REMEMBERED:
                    self._pending.use(key)
        return found

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value*; expired values, then those used longest ago by the owner of most, make room for it."""
        kept = value if self._room.fits(len(value)) and len(value) <= LARGEST else None
        self._pending.put(key, Change(kept, self._clock() + ttl))

    async def take(self, key: str) -> bytes | None:
        """Return the value, and forget it."""
        with anyio.move_on_after(_PATIENCE):
            while self._pending.get(key) is not None:  # noqa: ASYNC110 - no event spans two loops
                await anyio.sleep(_SOON)
        if self._pending.get(key) is not None:
            raise _busy()
        return await self._ask(self._writing, key, lambda: self._writer.take(key, self._clock()))

    async def delete(self, key: str) -> None:
        """Forget the value."""
        self._pending.put(key, Change(None))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude others, also other processes; those get their turn in any order."""
        holder = token_hex(8)
        async with self._locks.hold(key):
            is_held = True  # or may be: whoever is cancelled meanwhile leaves a thread that leases it
            try:
                try:
                    while not await self._lease(key, holder):  # noqa: ASYNC110 - no event spans two processes
                        await anyio.sleep(_POLL)
                except StoreUnavailable:
                    is_held = False
                    raise
                yield
            finally:
                if is_held:
                    with anyio.CancelScope(shield=True):
                        await self._release(key, holder)

    async def flush(self, seconds: float = _PARTING) -> bool:
        """Wait until everything is in the file, at most so long, and return whether it is."""
        return await anyio.to_thread.run_sync(self._pending.flush, seconds, limiter=anyio.CapacityLimiter(1))

    async def aclose(self) -> None:
        """Write what is still to be written, within two seconds, and close the file; it is opened again if need be."""

        def close() -> None:
            for connection in (*self._readers, self._writer):
                try:
                    connection.close()
                except StoreUnavailable as error:
                    _log.warning("the state file could not be closed: %r", error)

        with anyio.CancelScope(shield=True):
            if not await self.flush():
                self._pending.discard("the file could not be written before the end")
            await anyio.to_thread.run_sync(close, limiter=anyio.CapacityLimiter(1))

    def _read(self, keys: Sequence[str], now: float) -> list[tuple[str, Found]]:
        try:
            reader = self._free.get(timeout=_BUSY)
        except Empty:
            raise _busy() from None
        try:
            return [(key, found) for key in keys if (found := reader.read(key, now)) is not None]
        finally:
            self._free.put(reader)

    async def _release(self, key: str, holder: str) -> None:
        await self.flush()  # the next holder may be another process, which reads the file
        try:
            await self._ask(self._writing, key, lambda: self._writer.release(key, holder))
        except StoreUnavailable as error:
            _log.warning("a lock could not be released; it expires within a minute: %s", error.detail)

    async def _lease(self, key: str, holder: str) -> bool:
        now = self._clock()
        return await self._ask(self._writing, key, lambda: self._writer.lease(key, holder, now, now + _LEASE))

    async def _ask(self, side: _Side, key: str, work: Callable[[], T]) -> T:
        """Run *work* on the value of *key*, and return its result.

        Raises:
            StoreUnavailable: The file cannot be used now, or could not a moment ago.
        """
        owner, began = owner_of(key), False
        if (left := side.rest(owner)) > 0:
            raise _busy(left)

        def watched() -> T:
            nonlocal began
            began = True
            return work()

        try:
            with anyio.fail_after(_PATIENCE):
                found = await anyio.to_thread.run_sync(watched, abandon_on_cancel=True, limiter=side.limiters.here())
        except TimeoutError:
            if began:  # else it waited in line, for which nobody has to rest
                side.was_slow(owner)
            raise _busy() from None
        except StoreUnavailable as error:
            self._failed(side, error)
            raise
        self.trouble = ""
        return found

    def _failed(self, side: _Side, error: StoreUnavailable) -> None:
        """Note what an operation says about the file: one that is busy is not at fault."""
        if error.code == "state.busy":
            return
        self.trouble = error.code
        self._report(error.detail)
        if error.code == "state.sqlite":  # damage shows at once: nobody waits for that
            side.rests_until = monotonic() + _REST

    def _report(self, fault: str) -> None:
        """Log a fault, once in a while only, not for each read."""
        if monotonic() - self._reported_at >= _REPORT_EVERY:
            self._reported_at = monotonic()
            _log.error("%s", fault)
