"""Sources of tokens: a file, a store of another program, a command.

A source is read in a thread with an event loop of its own, or at start-up, so it may block.  Files are read within
bounds, replaced whole, private from their first moment, and have one writer at a time.  A store is read without
disturbing its owner.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, nullcontext
from logging import getLogger
from pathlib import Path
from typing import Final, Protocol

import anyio
from attrs import define, field

from kiro_asgi.errors import KiroAsgiError, UpstreamFault, UpstreamTimeout
from kiro_asgi.limits import CREDENTIALS_BYTES
from kiro_asgi.private import NO_FOLLOW, make_folder, open_ordinary, read_ordinary, write_new_file
from kiro_asgi.upstreams.access import Row, Vendor
from kiro_asgi.upstreams.base import Token

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_log = getLogger("kiro_asgi")

_LOCK_TIMEOUT: Final = 40.0
"""Seconds that a lock is waited for: longer than any holder needs."""

_READS: Final = 3
_READ_AGAIN: Final = 0.05
"""Other programs write their files in place; one that is unreadable is read again after so many seconds."""

_COMMAND_TIMEOUT: Final = 30.0
_COMMAND_BYTES: Final = 256 * 1024


class Source(Protocol):
    """One place where a token is found."""

    @property
    def name(self) -> str:
        """Name in log lines."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether a refreshed token is written back."""
        ...

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Keep other processes from refreshing the same token; `UpstreamTimeout` where their lock is held too long."""
        ...

    async def read(self) -> Token:
        """Read the token as it is now.

        Raises:
            KiroAsgiError: There is none that can be read.
        """
        ...

    def write(self, token: Token) -> None:
        """Write a refreshed token, durably.

        Raises:
            OSError: It cannot be written; what was there is still there.
        """
        ...


@define
class FileSource:
    """A token file, or another program's store: it can be read, and written where that is allowed."""

    path: Path
    keeps: bool
    _load: Callable[[], Token]
    _write: Callable[[Token], None]

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """The lock next to the file; none where nothing is written."""
        return locked(self.path, _LOCK_TIMEOUT) if self.keeps else nullcontext()

    async def read(self) -> Token:
        """The same as `load`."""
        return self.load()

    def load(self) -> Token:
        """Read the token at once, without an event loop.

        Raises:
            UpstreamFault: Code ``credentials.unreadable``; the message gives the reason, and quotes nothing.
        """
        for attempt in range(1, _READS + 1):
            try:
                return self._load()
            except OSError as error:
                reason = error.strerror or str(error)
                break
            except KiroAsgiError as error:
                reason = error.message
                time.sleep(_READ_AGAIN if attempt < _READS else 0)
        raise UpstreamFault(f"{self.path}: {reason}", code="credentials.unreadable")

    def write(self, token: Token) -> None:
        """Put *token* into the file or the store; `OSError` where that fails."""
        self._write(token)


def _file(path: Path, vendor: Vendor, keeps: bool, now: Callable[[], float]) -> FileSource:
    def sibling(name: str) -> bytes | None:
        try:
            return read_private(path.parent / name)
        except OSError:
            return None

    def load() -> Token:
        return vendor.parse(read_private(path), sibling, now())

    def write(token: Token) -> None:
        write_private(path, vendor.merge(read_private(path), token))

    return FileSource(path, keeps, load, write)


def _store(path: Path, vendor: Vendor, keeps: bool, now: Callable[[], float]) -> FileSource:
    def load() -> Token:
        return vendor.parse_rows(read_rows(path, vendor.rows), now())

    def write(token: Token) -> None:
        if token.place is not None:
            change_row(path, token.place, lambda value: vendor.merge(value, token))

    return FileSource(path, keeps, load, write)


@define
class EphemeralSource:
    """Base of sources that make a token at each read: nothing is written, and nothing needs a lock."""

    keeps: bool = field(init=False, default=False)

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """No lock."""
        return nullcontext()

    def write(self, token: Token) -> None:
        """Write nothing: the next process gets a token of its own."""


@define
class CommandSource(EphemeralSource):
    """A command that prints a token file's JSON, and stores its token itself."""

    name: str
    _argv: tuple[str, ...]
    _vendor: Vendor
    _now: Callable[[], float]

    async def read(self) -> Token:
        """Run the program.

        Raises:
            UpstreamFault: Code ``credentials.command``: it fails, or prints no token.  What it printed is not quoted.
        """
        try:
            with anyio.fail_after(_COMMAND_TIMEOUT):
                printed = await _output(self._argv)
        except TimeoutError:
            raise self._failure("took too long") from None
        except OSError as error:
            raise self._failure(f"cannot be run: {error.strerror}") from None
        if printed is None:
            raise self._failure("failed, or printed far too much")
        try:
            token = self._vendor.parse(printed, lambda _: None, self._now())
        except KiroAsgiError as error:
            raise self._failure(f"printed no token: {error.message}") from None
        if not token.access_token:
            raise self._failure("printed no access token")
        return token

    def _failure(self, what: str) -> UpstreamFault:
        return UpstreamFault(f"{self.name}: the program {what}", code="credentials.command")


async def _output(argv: tuple[str, ...]) -> bytes | None:
    """Return the standard output of a command; ``None`` where it fails or prints too much.  Its errors are not read."""
    null, printed = subprocess.DEVNULL, bytearray()
    async with await anyio.open_process(argv, stdin=null, stdout=subprocess.PIPE, stderr=null) as process:
        assert process.stdout is not None
        async for chunk in process.stdout:
            printed += chunk
            if len(printed) > _COMMAND_BYTES:
                process.kill()
                return None
        await process.wait()
    return bytes(printed) if process.returncode == 0 else None


def open_source(path: Path, vendor: Vendor, write_back: str, now: Callable[[], float]) -> FileSource:
    """Open the source at *path*, by its content.

    Args:
        path: The file.
        vendor: Parses and merges its tokens.
        write_back: ``files``, ``stores`` or ``nowhere``.
        now: Seconds since the epoch.

    Raises:
        OSError: It cannot be read.
    """
    if exposed(path):
        _log.warning("other users may read the tokens in %s; run: chmod 600 %s", path, path)
    if is_store(path):
        return _store(path, vendor, write_back == "stores", now)
    return _file(path, vendor, write_back != "nowhere", now)


_POLL: Final = 0.02
"""Seconds between two attempts to get a lock."""


def read_private(path: Path) -> bytes:
    """The bytes of a small file.

    Raises:
        OSError: It cannot be read, is no ordinary file, or is larger than 1 MiB.
    """
    return read_ordinary(path, CREDENTIALS_BYTES)


def exposed(path: Path) -> bool:
    """Whether others than the owner may read or write the file."""
    return sys.platform != "win32" and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def write_private(path: Path, data: bytes) -> None:
    """Replace a file so that at any moment it is the old one or the new one, and the new one survives a power failure.

    The new one has mode 0600 whatever the umask is and whatever mode the old one had.  Missing folders are made with
    mode 0700.

    Raises:
        OSError: The file is what it was; also where *path* is a symbolic link, which is neither followed nor replaced.
    """
    make_folder(path.parent)
    if path.is_symlink():
        raise OSError(f"{path} is a symbolic link")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        write_new_file(draft, data)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    _sync_folder(path.parent)


@asynccontextmanager
async def locked(path: Path, patience: float) -> AsyncIterator[None]:
    """Hold the lock of *path*, among all who use this function, in any process of this machine.

    The lock is held on ``<path>.lock``, which is left behind: removing it would let two processes in.  Where that file
    cannot be made, as in a folder that is read-only, there is no lock, and no writer either; nor is there one where a
    file system has no locks.  Drafts that a crash has left are removed.

    Raises:
        UpstreamTimeout: Another process has held it for longer than *patience* seconds.
    """
    with _lock_file(path) as descriptor:
        if descriptor is not None:
            await _acquire(descriptor, path, patience)
            _remove_drafts(path)
        yield  # closing the descriptor unlocks


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where the system can do that for folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _lock_file(path: Path) -> Iterator[int | None]:
    try:
        descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o600)
    except OSError as error:
        _log.debug("no lock next to %s: %s", path, error.strerror)
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _acquire(descriptor: int, path: Path, patience: float) -> None:
    with anyio.move_on_after(patience):
        while not _try_lock(descriptor):  # noqa: ASYNC110 - no event reports that another process lets go
            await anyio.sleep(_POLL)
        return
    raise UpstreamTimeout(
        f"another process has held the lock of {path} for {patience:g} s; see what it is doing",
        code="credentials.locked",
    )


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # Windows raises the latter for a lock that is held
        return False
    except OSError as error:
        _log.debug("this file system has no locks: %s", error.strerror)
    return True


def _remove_drafts(path: Path) -> None:
    for draft in path.parent.glob(f".{path.name}.*.tmp"):
        with contextlib.suppress(OSError):
            draft.unlink()


_HEADER: Final = b"SQLite format 3\0"
"""Source: https://www.sqlite.org/fileformat.html#magic_header_string"""

_BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait while the owner writes."""


def is_store(path: Path) -> bool:
    """Whether a file is a SQLite store, by its content.

    Raises:
        OSError: It cannot be read, or is no ordinary file.
    """
    with open_ordinary(path) as file:
        return file.read(len(_HEADER)) == _HEADER


def read_rows(path: Path, wanted: Iterable[Row]) -> Mapping[Row, bytes]:
    """Read the values of those rows that the store has; it is opened read-only.

    Raises:
        OSError: The store cannot be read, or is busy for too long.
    """
    found: dict[Row, bytes] = {}
    with _connect(path, "ro") as store:
        tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, key in wanted:
            if table in tables:
                value = _value(store, table, key)
                if value is not None:
                    found[table, key] = value.encode() if isinstance(value, str) else value
    return found


def change_row(path: Path, row: Row, change: Callable[[bytes], bytes]) -> None:
    """Replace the value of a row by what *change* makes of it, in one transaction.

    Raises:
        OSError: The store cannot be written, is busy for too long, or has no such row any more.
    """
    table, key = row
    with _connect(path, "rw") as store:
        store.execute("BEGIN IMMEDIATE")
        old = _value(store, table, key)
        if old is None:
            raise OSError(f"{path} has no row {key} any more")
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
def _connect(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection without implicit transactions, whose errors are those of a file."""
    # SQLite would wait for the writer of a named pipe.  Not opened to find out: to close it would drop SQLite's locks.
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not an ordinary file")
    try:
        address = f"{path.absolute().as_uri()}?mode={mode}"
        with closing(sqlite3.connect(address, timeout=_BUSY_TIMEOUT, isolation_level=None, uri=True)) as store:
            yield store
    except sqlite3.Error as error:
        raise OSError(f"{path}: {error}") from None
