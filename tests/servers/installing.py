"""Servers of other people, each in a virtual environment of its own: what they need must not be where we are tested."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["ROOM", "installed", "room"]

ROOM: Final = "KIRO_ASGI_SERVERS_ROOM"
"""The folder in which environments are kept from run to run; unless set, where the machine has its temporary files."""

PATIENCE: Final = 900.0
"""Seconds after which an installation is given up."""

DONE: Final = "installed"
"""A file in an environment that is whole: it cannot be moved, so its name does not tell."""


def room() -> Path | None:
    """The folder that is set, made if needed."""
    if not os.environ.get(ROOM):
        return None
    folder = Path(os.environ[ROOM])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def installed(requirements: Path) -> Path:
    """The folder with the programs of what *requirements* names; made if needed."""
    manifest = requirements.read_bytes() + sys.version.encode()
    name = f"kiro-asgi-servers-{os.getuid()}-{hashlib.sha256(manifest).hexdigest()[:12]}"
    folder = (room() or Path(tempfile.gettempdir())) / name
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    if not (folder / DONE).is_file():
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(programs / "python"), "-m", "pip", "install", "--quiet", "--requirement", str(requirements))
        (folder / DONE).touch()
    return programs


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
