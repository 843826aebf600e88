"""Asks everything, and prints what was found: ``python -m tests.e2e.matrix``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.e2e.matrix.features import check
from tests.e2e.matrix.pairing import Bench, bench
from tests.e2e.matrix.table import Cell, mark, printed


def found(running: Bench, cell: Cell) -> str:
    """What the table shows of *cell*, or ``FAILS`` where that does not hold."""
    try:
        for stream in (True, False):
            check(cell, running.pairing(cell.api, cell.upstream, stream=stream))
    except AssertionError:
        return "FAILS"
    return mark(cell)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, bench("asyncio", Path(folder)) as running:
        for line in printed(lambda cell: found(running, cell)):
            print(line)
