"""The documentation fits on a screen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

DOCS: Final = Path(__file__).parents[2] / "docs"

DESK: Final = 1280
WIDTHS: Final = (DESK, 800, 390)
"""Pixels: a desk, a tablet, a telephone."""


@pytest.fixture(scope="module")
def reports(browser: str, scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every page at every width, as a browser lays it out."""
    built = tmp_path_factory.mktemp("html")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", DOCS, built], check=True, timeout=300)
    pages = sorted(page.as_uri() for page in built.rglob("*.html"))
    command = ["node", str(scripts / "measure.mjs"), browser, ",".join(map(str, WIDTHS)), *pages]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(found) == len(pages) * len(WIDTHS)
    return found


def test_no_page_scrolls_sideways(reports):
    """Whatever the width, text ends at the edge of the screen; what is wider scrolls in a box of its own."""
    assert [report for report in reports if report["over"] > 0] == []


def test_every_table_is_seen_whole_at_a_desk(reports):
    """No column is out of sight at 1,280 pixels."""
    desk = [report for report in reports if report["width"] == DESK]

    assert sum(report["tables"] for report in desk) > 50
    assert [report for report in desk if report["wide"]] == []
