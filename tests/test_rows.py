"""Every feature of the specification is named where it is tested."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROWS = range(1, 461)
"""Features, written ``F001`` to ``F460``."""

NAMED = re.compile(r"\bF(\d{3})(?:(?: to |-)F(\d{3})(?![-\x22]))?\b")
"""One row, or a range; the id of a case joins single rows by the same sign."""


def named() -> set[int]:
    """The rows that docstrings and ids of tests name."""
    found: set[int] = set()
    for path in HERE.rglob("test_*.py"):
        if path != Path(__file__):
            for first, last in NAMED.findall(path.read_text("utf-8")):
                found.update(range(int(first), int(last or first) + 1))
    return found


def test_every_row_is_named_by_a_test() -> None:
    """A row that nobody names is one that nobody holds."""
    assert sorted(set(ROWS) - named()) == []
