"""The browser, and a folder in which scripts find their packages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser.inspected import Site, inspected_site
from tests.conformance import node
from tests.installing import room

HERE: Final = Path(__file__).parent

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")

DRIVER: Final = "chromedriver"

OPTIONS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

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


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    state = {"engine": "sqlite", "path": str(folder / "state.db"), "usage": True}
    with inspected_site(folder, state=state) as running:
        yield running


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium, as tox -e browser has it")
    path, browser = shutil.which(DRIVER), next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None or browser is None:
        pytest.skip(f"needs {DRIVER} and a browser (Debian: apt-get install chromium-driver)")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options, Service(path))
    yield found
    found.quit()
