"""Files and folders for their owner alone.  Everything here blocks."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import IO, Final

NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
"""Refuse to open a symbolic link, where the system can."""


_AT_ONCE: Final[int] = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Wait for no writer of a pipe, and take no terminal."""

_POLL: Final = 0.02
"""Seconds between two attempts to get a lock."""


def make_folder(path: Path) -> None:
    """Make a folder, and those that are missing above it, each with mode 0700; one that is there stays as it is.

    Raises:
        OSError: It cannot be made, or something else has its name.
    """
    missing = [path]
    while not missing[-1].exists() and missing[-1].parent != missing[-1]:
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process may make it at the same time
            folder.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is not a folder", str(path))


def require_own_file(path: Path) -> os.stat_result | None:
    """Check that *path* is an ordinary file of this user, and return its status; ``None`` where there is nothing.

    Only the last component counts: a folder above it may be reached by a link.

    Raises:
        OSError: It is a symbolic link or no ordinary file, or another user's; ``strerror`` says which.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "is a symbolic link, which is not followed", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "is no ordinary file", str(path))
    if sys.platform != "win32" and found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(path))
    return found


def open_ordinary(path: Path) -> IO[bytes]:
    """Open a file of the operator's for reading, wherever its links lead; never waits for another process.

    Raises:
        OSError: It cannot be opened, or is no ordinary file: of a pipe or a device nobody knows when it ends.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | _AT_ONCE)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is not an ordinary file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_ordinary(path: Path, most: int) -> bytes:
    """The content of such a file.

    Raises:
        OSError: As for `open_ordinary`; or it has more than *most* bytes.
    """
    with open_ordinary(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"is too large (more than {most:,} bytes)", str(path))
    return data


@contextmanager
def folder_lock(folder: Path, patience: float) -> Iterator[None]:
    """Exclude all who use this function for *folder*, in any process of this machine; nothing is left behind.

    Where a system has no such locks there is none.

    Raises:
        OSError: The folder cannot be locked, or another has held it for *patience* seconds.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        until = monotonic() + patience
        while not _try_lock(descriptor):
            if monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, f"another process has been changing it for {patience:g} s")
            sleep(_POLL)
        yield
    finally:
        os.close(descriptor)  # which unlocks


def _try_lock(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def replace_file(path: Path, data: bytes, ready: Callable[[], None]) -> None:
    """Replace what is in an ordinary file in one step; owner, group, mode and access list stay.

    Args:
        path: The file.
        data: What it is to hold.
        ready: Called when all but the last step is done; if it raises, the file stays as it is.

    Raises:
        OSError: It cannot be written, or would belong to somebody else, or has another name that would keep the old
            content; ``strerror`` says which.
    """
    old, beside = path.stat(), path.with_name(f".{path.name}.{token_hex(4)}")
    if old.st_nlink > 1:
        raise OSError(errno.EMLINK, "has a second name (a hard link), which would keep what it says now", str(path))
    try:
        write_new_file(beside, data)
        _take_over(path, beside, old)
        ready()
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _take_over(path: Path, beside: Path, old: os.stat_result) -> None:
    """Give *beside* the owner and the rights of *path*, or raise."""
    if hasattr(os, "chown"):
        new = beside.stat()
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            try:
                os.chown(beside, old.st_uid, old.st_gid)
            except PermissionError:
                words = f"belongs to user {old.st_uid} and group {old.st_gid}, and would not any more; run this as them"
                raise PermissionError(errno.EPERM, f"{words}, or as root", str(path)) from None
    for name in os.listxattr(path) if hasattr(os, "listxattr") else ():
        if not name.startswith("security."):  # the system's own business
            os.setxattr(beside, name, os.getxattr(path, name))
    os.chmod(beside, stat.S_IMODE(old.st_mode))


def write_new_file(path: Path, data: bytes) -> None:
    """Make a file with mode 0600, whatever the umask is, and wait until it would survive a power failure.

    Raises:
        OSError: There is something of that name, or it cannot be made.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
