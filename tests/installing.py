"""Programs of other people from PyPI, each in a virtual environment of its own: what they need must not be where the
gateway is tested; and the wheel of this checkout, for environments in which it is to be what a user has."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["installed", "room", "wheel"]

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = ("kiro_asgi", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
"""What the wheel is built from."""

PATIENCE: Final = 900.0
"""Seconds after which an installation is given up."""

DONE: Final = "installed"
"""A file in an environment that is whole: it cannot be moved, so its name does not tell."""


def room(variable: str) -> Path | None:
    """The folder that the environment's *variable* names, made if needed; installations are kept there."""
    if not os.environ.get(variable):
        return None
    folder = Path(os.environ[variable])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def installed(requirements: Path, room: Path | None) -> Path:
    """The folder with the programs of what *requirements* names; made if needed.

    It is in *room*, or where the machine has its temporary files.
    """
    manifest = requirements.read_bytes() + sys.version.encode()
    name = f"kiro-asgi-{requirements.parent.name}-{os.getuid()}-{hashlib.sha256(manifest).hexdigest()[:12]}"
    folder = (room or Path(tempfile.gettempdir())) / name
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    if not (folder / DONE).is_file():
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        # Isolated: what PYTHONPATH names, e.g. this checkout, would count as installed.
        _run(str(programs / "python"), "-I", "-m", "pip", "install", "--quiet", "--requirement", str(requirements))
        (folder / DONE).touch()
    return programs


def wheel(folder: Path) -> Path:
    """A folder, below *folder*, with the wheel of this checkout."""
    sources, dist = folder / "sources", folder / "dist"
    sources.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, sources / name)
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(dist), str(sources))
    return dist


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
