"""Rows of somebody else's SQLite store: key and value, read without disturbing who owns it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from kiro_asgi.limits import CREDENTIALS_BYTES
from kiro_asgi.net.files import open_ordinary
from kiro_asgi.upstreams.access import Row

__all__ = ["change_row", "is_store", "read_rows"]

_HEADER: Final = b"SQLite format 3\0"
"""Source: https://www.sqlite.org/fileformat.html#magic_header_string"""

_BUSY: Final = 5.0
"""Seconds to wait while the owner writes."""


def is_store(path: Path) -> bool:
    """Whether a file is a SQLite store, by its content.

    Raises:
        OSError: It cannot be read, or is no ordinary file.
    """
    with open_ordinary(path) as file:
        return file.read(len(_HEADER)) == _HEADER


def read_rows(path: Path, wanted: Iterable[Row]) -> Mapping[Row, bytes]:
    """The values of those rows that the store has; it is opened read-only.

    Raises:
        OSError: The store cannot be read, or is busy for too long.
    """
    found: dict[Row, bytes] = {}
    with _opened(path, "ro") as store:
        tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, key in wanted:
            if table in tables:
                value = _value(store, table, key)
                if value is not None:
                    found[table, key] = value.encode() if isinstance(value, str) else value
    return found


def change_row(path: Path, row: Row, change: Callable[[bytes], bytes]) -> None:
    """Replace the value of a row by what *change* makes of it; nobody writes in between.

    Raises:
        OSError: The store cannot be written, is busy for too long, or has no such row any more.
    """
    table, key = row
    with _opened(path, "rw") as store:
        store.execute("BEGIN IMMEDIATE")
        old = _value(store, table, key)
        if old is None:
            raise OSError(f"{path} has no {key} any more")
        new = change(old.encode() if isinstance(old, str) else old)
        written = new.decode() if isinstance(old, str) else new
        store.execute(f'UPDATE "{table}" SET value = ? WHERE key = ?', (written, key))
        store.execute("COMMIT")


def _value(store: sqlite3.Connection, table: str, key: str) -> str | bytes | None:
    """A value; ``None`` where there is none that is text or bytes, or only one that is far too large."""
    kind = "typeof(value) IN ('text', 'blob') AND length(value) <= ?"
    query = f'SELECT value FROM "{table}" WHERE key = ? AND {kind} LIMIT 1'
    found = store.execute(query, (key, CREDENTIALS_BYTES)).fetchone()
    value: str | bytes | None = None if found is None else found[0]
    return value


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection without implicit transactions, whose errors are those of a file."""
    # SQLite would wait for the writer of a named pipe.  Not opened to find out: to close it would drop SQLite's locks.
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not an ordinary file")
    try:
        address = f"{path.absolute().as_uri()}?mode={mode}"
        with closing(sqlite3.connect(address, timeout=_BUSY, isolation_level=None, uri=True)) as store:
            yield store
    except sqlite3.Error as error:
        raise OSError(f"{path}: {error}") from None
