"""The browser, and a folder in which scripts find their packages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conformance import node
from tests.installing import room

HERE: Final = Path(__file__).parent

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")

ROOM: Final = "KIRO_ASGI_BROWSER_ROOM"
"""The folder in which packages are kept from run to run; unless set, where the machine has its temporary files."""


@pytest.fixture(scope="session")
def browser() -> str:
    """The path of Chromium."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert found, f"needs one of {', '.join(BROWSERS)}"
    return found


@pytest.fixture(scope="session")
def scripts() -> Iterator[Path]:
    """A folder with this one's scripts, below the folder that has ``node_modules``."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=node.install(HERE, room(ROOM))) as folder:
        for script in HERE.glob("*.mjs"):
            shutil.copy(script, folder)
        yield Path(folder)
