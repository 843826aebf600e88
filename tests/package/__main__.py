"""Look into an sdist and a wheel, and use the wheel as who installs it does, with the examples of the pages beside it.

``python -m tests.package DIRECTORY`` takes the two archives from *DIRECTORY*, and exits with 1 where anything is wrong.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from tests.package.examples import faults_of_examples, faults_of_projects
from tests.package.links import relative_links
from tests.package.wanted import EXTRAS, METADATA, SDIST_HAS

_SMOKE: Final = "import kiro_asgi, kiro_asgi.streaming, kiro_asgi.simulator; kiro_asgi.mount"


def faults_of_wheel(path: Path) -> Iterator[str]:
    """What is wrong with a wheel."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(about).decode())
    info = about.split("/")[0]
    strangers = [name for name in names if name.split("/")[0] not in ("kiro_asgi", info)]
    if strangers:
        yield f"the wheel has more than the package: {strangers[:3]}"
    ours = ("kiro_asgi/py.typed", "kiro_asgi/inspector/static/index.html", "kiro_asgi/inspector/static/app.js")
    for name in (*ours, f"{info}/licenses/LICENSE", f"{info}/entry_points.txt"):
        if name not in names:
            yield f"the wheel has no {name}"
    for field, value in METADATA.items():
        if value not in (metadata.get_all(field) or ()):
            yield f"the metadata has no {field}: {value}"
    if links := relative_links(metadata.get_payload()):
        yield f"the description leads where an index has nothing: {links[:3]}"
    if missing := EXTRAS - set(metadata.get_all("Provides-Extra") or ()):
        yield f"the metadata has no extras {sorted(missing)}"


def faults_of_sdist(path: Path) -> Iterator[str]:
    """What is wrong with an sdist: whoever packages it for a distribution runs the tests from it."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in sorted(SDIST_HAS - names):
        yield f"the sdist has no {name}"
    if waste := [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".orig"))]:
        yield f"the sdist has waste: {waste[:3]}"


def faults_in_use(path: Path, folder: Path) -> Iterator[str]:
    """What does not work once the wheel is installed, apart from all sources."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    commands = {
        "installing": [python, "-m", "pip", "install", "-q", f"{path}[standalone]"],
        "the requirements": [python, "-m", "pip", "check"],
        "importing": [python, "-W", "error", "-c", _SMOKE],
        "the command": [folder / "venv" / "bin" / "kiro-asgi", "demo"],
    }
    for what, command in commands.items():
        done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=300)
        if done.returncode:
            yield f"{what} fails: {(done.stderr or done.stdout).strip()[-500:]}"
            return


def main(folder: Path) -> int:
    """Look at everything; 0 where nothing is wrong."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as empty:
        place = Path(empty)
        used = [*faults_in_use(wheel, place), *faults_of_examples(wheel, place), *faults_of_projects(wheel, place)]
        faults = [*faults_of_wheel(wheel), *faults_of_sdist(sdist), *used]
    print(*faults or [f"{wheel.name} and {sdist.name} are right"], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
