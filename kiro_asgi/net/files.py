"""Files that hold secrets: read within bounds, replaced whole, private from their first moment, one writer at a time.

Everything here blocks; it is called from threads, and at start-up.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from logging import getLogger
from pathlib import Path
from typing import BinaryIO, Final

import anyio

from kiro_asgi.errors import UpstreamTimeout
from kiro_asgi.limits import CREDENTIALS_BYTES
from kiro_asgi.private import make_folder

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["exposed", "locked", "open_ordinary", "read_private", "write_private"]

_log = getLogger("kiro_asgi")

_POLL: Final = 0.02
"""Seconds between two attempts to get a lock."""

_NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_AT_ONCE: Final[int] = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Of an ordinary file these change nothing."""


def open_ordinary(path: Path) -> BinaryIO:
    """Open a file for reading, and nothing else: a named pipe would wait for a writer, a device might never end.

    Raises:
        OSError: It cannot be read, or is no ordinary file.
    """
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - for the caller to close
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is not an ordinary file")
    return file


def read_private(path: Path) -> bytes:
    """The bytes of a small file.

    Raises:
        OSError: It cannot be read, is no ordinary file, or is larger than 1 MiB.
    """
    with open_ordinary(path) as file:
        data = file.read(CREDENTIALS_BYTES + 1)
    if len(data) > CREDENTIALS_BYTES:
        raise OSError(f"{path} is too large")
    return data


def exposed(path: Path) -> bool:
    """Whether others than the owner may read or write the file."""
    return sys.platform != "win32" and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def write_private(path: Path, data: bytes) -> None:
    """Replace a file so that at any moment it is the old one or the new one, and the new one survives a power failure.

    The new one has mode 0600 whatever the umask is and whatever the old one had.  Missing folders are made with mode
    0700.

    Raises:
        OSError: The file is what it was; also where *path* is a symbolic link, which is neither followed nor replaced.
    """
    make_folder(path.parent)
    if path.is_symlink():
        raise OSError(f"{path} is a symbolic link")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        _write_new(draft, data)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    _sync_folder(path.parent)


@asynccontextmanager
async def locked(path: Path, patience: float) -> AsyncIterator[None]:
    """Be the only one who renews what is in *path*, among all who ask in this way, in any process of this machine.

    The lock is held on ``<path>.lock``, which is left behind: to remove it would let two in.  Where that file cannot be
    had, as in a folder that is read-only, there is no lock, and nobody who could write either; nor is there one where a
    file system has none.  Drafts that a crash has left are removed.

    Raises:
        UpstreamTimeout: Somebody has held it for longer than *patience* seconds.
    """
    with _lock_file(path) as descriptor:
        if descriptor is not None:
            await _acquire(descriptor, path, patience)
            _sweep(path)
        yield  # closing the descriptor unlocks


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | _AT_ONCE)


def _write_new(draft: Path, data: bytes) -> None:
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


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
        descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o600)
    except OSError as error:
        _log.debug("no lock beside %s: %s", path, error.strerror)
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _acquire(descriptor: int, path: Path, patience: float) -> None:
    with anyio.move_on_after(patience):
        while not _try_lock(descriptor):  # noqa: ASYNC110 - nothing tells when another process lets go
            await anyio.sleep(_POLL)
        return
    raise UpstreamTimeout(f"another process has been renewing {path} for too long", code="credentials.locked")


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # what Windows says of the same
        return False
    except OSError as error:
        _log.debug("this file system has no locks: %s", error.strerror)
    return True


def _sweep(path: Path) -> None:
    for draft in path.parent.glob(f".{path.name}.*.tmp"):
        with contextlib.suppress(OSError):
            draft.unlink()
