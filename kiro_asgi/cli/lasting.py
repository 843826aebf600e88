"""The user's folder for state, where a served gateway keeps what outlives it unless the settings name another place."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from logging import getLogger
from pathlib import Path
from typing import Final

from attrs import evolve

from kiro_asgi.asgi.kept.extensions import store_table
from kiro_asgi.config import Settings
from kiro_asgi.private import make_folder, require_own_file, write_new_file

_log = getLogger("kiro_asgi")

_SEAL_BYTES: Final = 32


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder that systemd gives its service (``StateDirectory=``), else ``kiro-asgi`` by the XDG rules."""
    given = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if given:
        return Path(given)
    base = Path(environ.get("XDG_STATE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "kiro-asgi"


def state_file(settings: Settings, folder: Path) -> Path:
    """The SQLite file of a gateway that is served from *folder* where ``state.engine`` is ``auto``."""
    path = settings.state.path
    return Path(path).expanduser() if path else folder / "state.db"


def as_served(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """*settings* with the file in which ``kiro-asgi serve`` keeps its state, where that exists; creates nothing."""
    state = settings.state
    path = state_file(settings, state_folder(environ))
    if state.engine != "auto" or not path.exists() or store_table(settings) is not None:
        return settings
    return evolve(settings, state=evolve(state, engine="sqlite", path=str(path)))


def with_lasting_state(settings: Settings, folder: Path) -> Settings:
    """*settings* with a SQLite file in *folder* where ``state.engine`` is ``auto``, and a key for seals beside it.

    Where the folder cannot be written the engine stays, which means state in memory: a warning is logged, and by the
    path ``/ready`` tells that there should be a file.  They stay, too, where a package's store is used.
    """
    state = settings.state
    if state.engine != "auto" or store_table(settings) is not None:
        return settings
    path = state_file(settings, folder)
    try:
        make_folder(folder)
        for each in (folder, path.parent):
            _require_writable(each)
        require_own_file(path)
        seal_key = state.seal_key or _seal_key(folder / "seal.key")
    except (OSError, RuntimeError) as error:
        _log.warning(
            "the state is kept in memory, and lost when the process ends: %s; let state.path name a file in a folder "
            "that this user can write, or set state.engine to memory",
            _words(error),
        )
        return evolve(settings, state=evolve(state, path=str(path)))
    return evolve(settings, state=evolve(state, engine="sqlite", path=str(path), seal_key=seal_key))


def _require_writable(folder: Path) -> None:
    """Check that files can be made in *folder*.

    Raises:
        OSError: They cannot, or it is not there.
    """
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "is no folder", str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "is a folder that this user cannot write", str(folder))


def _words(error: Exception) -> str:
    """The file or folder, and what is wrong with it."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        between = " " if error.strerror.startswith(("is ", "belongs ")) else ": "
        return f"{error.filename}{between}{error.strerror}"
    return str(error)


def _seal_key(path: Path) -> str:
    """The key in a file, which is made where there is none; of two processes that make one, the first wins."""
    if require_own_file(path) is None:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        write_new_file(temporary, secrets.token_urlsafe(_SEAL_BYTES).encode())
        with suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
    return path.read_text(encoding="ascii").strip()
