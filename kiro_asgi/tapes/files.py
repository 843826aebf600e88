"""Tapes in files."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final
from zlib import error as ZlibError  # noqa: N812 - the name that exceptions have

from kiro_asgi.tapes.format import Tape, TapeError, read_tape

__all__ = ["SUFFIXES", "load_tape", "load_tapes"]

SUFFIXES: Final = (".tape.jsonl", ".tape.jsonl.gz")
"""Ends of the names of tapes; only that of a packed one matters where a file is named."""

_CHUNK: Final = 1024 * 1024


def load_tape(path: Path) -> Tape:
    """The tape in a file.

    Raises:
        TapeError: The file cannot be read, or is none.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return read_tape(_chunks(file))
    except (OSError, EOFError, ZlibError) as error:
        words = getattr(error, "strerror", None) or "is damaged"
        raise TapeError(f"{path}: {words}", code="tape.file") from error


def _chunks(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def load_tapes(folder: Path) -> list[Tape]:
    """The tapes in a folder, by their names, which the gateway begins with the time.

    Raises:
        TapeError: One cannot be read, or there is none.
    """
    found = sorted(path for path in folder.glob("*.tape.jsonl*") if path.name.endswith(SUFFIXES))
    if not found:
        raise TapeError(f"{folder} has no *.tape.jsonl; tapes.path = {str(folder)!r} records some", code="tape.file")
    return [load_tape(path) for path in found]
