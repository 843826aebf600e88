"""The SQLite file of a store: opening it safely, and what is read and written in one go.  Everything here blocks.

Source: https://www.sqlite.org/wal.html
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final, TypeVar

from attrs import define, field, frozen

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.private import make_folder, require_own_file
from kiro_asgi.state.base import owner_of
from kiro_asgi.state.memory import ENTRY_BYTES, Room

T = TypeVar("T")

_APPLICATION: Final = 0x6B69726F
"""``PRAGMA application_id`` of our files: "kiro"."""

_VERSION: Final = 1
"""``PRAGMA user_version``: of the schema."""

_POLL: Final = 0.02
"""Seconds between two attempts to switch a new file to write-ahead logging."""

_SWEEP: Final = 100
"""Expired values removed with each write, and two more for each value written: more than come in, and never a pause."""

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
"""``used`` counts uses and orders them, whatever the clock does; ``used_at`` tells when a use is worth writing down.
``level`` is `kiro_asgi.state.memory.Room.level`; it may be too high where values have passed away."""

_AMOUNTS: Final = "CAST(entries AS INTEGER), CAST(bytes AS INTEGER)"

_COUNT_AGAIN: Final = """
DELETE FROM owners;
INSERT INTO owners SELECT owner, count(*), sum(cost), 63, max(CAST(used AS INTEGER)) FROM kept GROUP BY owner;
UPDATE total SET entries = (SELECT count(*) FROM kept), bytes = (SELECT coalesce(sum(cost), 0) FROM kept);
"""


@frozen
class Change:
    """A change of one key."""

    value: bytes | None
    """``None`` to forget it."""

    expires_at: float = 0.0


@frozen
class Found:
    """A row."""

    value: bytes | None
    """``None`` where it holds something else than bytes."""

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
                raise _unavailable(error) from None

    def read(self, key: str, now: float) -> Found | None:
        """The living row of *key*.  A file that is damaged has none."""

        def work(connection: sqlite3.Connection) -> Found | None:
            query = (
                "SELECT CASE typeof(value) WHEN 'blob' THEN value END, CAST(used_at AS REAL) FROM kept"
                " WHERE key = ? AND expires_at > ? AND typeof(expires_at) = 'real'"
            )
            row = connection.execute(query, (key, now)).fetchone()
            return None if row is None else Found(*row)

        return self.run(work)

    def write(self, changes: Sequence[tuple[str, Change]], uses: Collection[str], room: Room, now: float) -> None:
        """Make all changes, or none; for each, those with most make room, with what they used longest ago."""

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
        """The value, and forget it."""

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
            raise StoreUnavailable("what is kept cannot be reached: it is busy", code="state.sqlite")
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


def _unavailable(error: Exception) -> StoreUnavailable:
    """Without the path, which is no client's business."""
    what = error.strerror if isinstance(error, OSError) else error
    damaged = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF in _DAMAGE
    code = "state.damaged" if damaged else "state.sqlite"
    return StoreUnavailable(f"what is kept cannot be reached: {what}", code=code)


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
"""Errors of what is in the file; all others are of what is around it: locks, the disk, rights."""


def _uses(connection: sqlite3.Connection) -> int:
    """How many uses have been counted; anew, where the count is damaged."""
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
    """Put an owner where it belongs, if it has anything."""
    row = connection.execute(f"SELECT {_AMOUNTS} FROM owners WHERE owner = ?", (owner,)).fetchone()
    if row is not None:
        change = "UPDATE owners SET level = ?, used = ? WHERE owner = ?"
        connection.execute(change, (room.level(*row), used, owner))


def _make_room(connection: sqlite3.Connection, room: Room) -> None:
    """As `kiro_asgi.state.memory.Shelf` does it."""
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
            _count_again(connection)  # somebody else has changed the tables
            counted_again = True


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


def _open(path: Path, patience: float) -> tuple[sqlite3.Connection, tuple[int, int]]:
    """A connection without implicit transactions, and which file it is to, private from its first moment.

    Links are refused by name, before and after: SQLite opens the file itself, follows none beside it, and none in the
    place of the file that was there a moment before.
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
    """Take away what others may do with a file, and say which it is; ``None`` where there is none."""
    found = require_own_file(path)
    if found is None:
        return None
    if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        # By name: to open the file and close it again would give up the locks that SQLite has on it in this process.
        path.chmod(0o600)
    return found.st_dev, found.st_ino


def _identity(path: Path) -> tuple[int, int] | None:
    found = require_own_file(path)
    return None if found is None else (found.st_dev, found.st_ino)


def _prepare(connection: sqlite3.Connection, patience: float) -> None:
    """Make the tables, unless they are there: then nothing is written, so that nobody who writes is in the way.

    Raises:
        OSError: The file is another program's, or another version's.
    """
    ours = _is_ours(connection)
    _write_ahead(connection, patience)
    connection.execute("PRAGMA synchronous = NORMAL")  # a power failure may cost the last values, never the file
    if not ours:
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there; not, where there are none at all."""
    connection.execute("BEGIN")  # one look, not three: another process may be making the tables
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        used = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
    finally:
        connection.execute("ROLLBACK")
    if application == _APPLICATION and version != _VERSION:
        raise OSError(0, "the file was made by another version of kiro-asgi; move it away")
    if used and application != _APPLICATION:
        raise OSError(0, "the file is another program's")
    return used


def _write_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Let readers and a writer work at once.  Of two who switch that on in a new file SQLite makes neither wait."""
    end = monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if monotonic() >= end:
                raise
            sleep(_POLL)
        else:
            return
