"""The corpus in the tree: a file for each target, an input a line, in hexadecimal; ``#`` says why one is there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

__all__ = ["FOLDER", "add", "inputs"]

FOLDER: Final = Path(__file__).parent / "corpus"


def inputs(target: str) -> list[bytes]:
    """What is kept for a target."""
    path = FOLDER / f"{target}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [bytes.fromhex(line) for line in lines if line and not line.startswith("#")]


def add(target: str, found: Iterable[bytes], room: int) -> None:
    """Keep those of *found*, shortest first, that are new, as long as the file stays below *room* bytes."""
    path = FOLDER / f"{target}.txt"
    text = path.read_text() if path.exists() else ""
    known = {*inputs(target)}
    for data in sorted({*found} - known, key=lambda data: (len(data), data)):
        if len(text) + 2 * len(data) >= room:
            break
        text += f"{data.hex()}\n"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
