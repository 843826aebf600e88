"""Files and folders for their owner alone.  Everything here blocks."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
"""Refuse to open a symbolic link, where the system can."""


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
