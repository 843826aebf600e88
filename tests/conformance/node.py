"""Node.js and the official JavaScript SDKs, installed once a machine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

__all__ = ["SOURCES", "Seen", "install", "run"]

SOURCES = Path(__file__).with_name("js")

MISSING = (
    "node and npm are needed for the tests of the JavaScript SDKs, and were not found; "
    "set KIRO_ASGI_NO_NODE=1 to leave these tests out"
)


@frozen
class Seen:
    """What a script reported of one question."""

    seconds: float
    value: Any = None
    thrown: Mapping[str, Any] | None = None


def install(sources: Path = SOURCES, room: Path | None = None, *, then: Sequence[str] = ()) -> Path:
    """The folder that holds the packages which ``package.json`` of *sources* names; made if needed.

    It is in *room*, or where the machine has its temporary files.  *then* is a command that ends the installation.
    """
    assert shutil.which("node") and shutil.which("npm"), MISSING
    manifest = (sources / "package.json").read_bytes()
    name = f"kiro-asgi-js-{os.getuid()}-{hashlib.sha256(manifest).hexdigest()[:12]}"
    folder = (room or Path(tempfile.gettempdir())) / name
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=folder.parent) as place:
        fresh = Path(place) / "fresh"
        fresh.mkdir()
        (fresh / "package.json").write_bytes(manifest)
        fetch = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
        for command in filter(None, (fetch, then)):
            done = subprocess.run(command, cwd=fresh, capture_output=True, text=True, timeout=600, check=False)
            assert done.returncode == 0, done.stderr
        try:
            fresh.rename(folder)
        except OSError:  # another run was faster
            assert folder.is_dir()
    return folder


def run(script: str, packages: Path, given: Mapping[str, Any]) -> dict[str, Seen]:
    """Run one of our scripts, which reads *given* from its standard input; what it reported, by name."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=packages) as folder:
        for source in SOURCES.glob("*.mjs"):
            shutil.copy(source, folder)
        command = ["node", str(Path(folder) / script)]
        question = json.dumps(given)
        done = subprocess.run(command, input=question, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line.pop("name"): Seen(**line) for line in lines}
