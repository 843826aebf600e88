"""Lines of text: in colour and wrapped at words on a terminal, plain anywhere else.

The only module that knows rich, which is an extra.  The words are the same in every case; `NO_COLOR
<https://no-color.org>`_ and ``TERM=dumb`` are obeyed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, TextIO

from attrs import frozen

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Output", "Part", "PlainOutput", "RichOutput", "Tone", "discard_output", "output_on"]


class Tone(Enum):
    """What a part of a line is; the value is how rich shows it."""

    TEXT = "none"
    TITLE = "bold"
    THINKING = "italic"
    NAME = "cyan"
    GOOD = "green"
    WARNING = "yellow"
    BAD = "bold red"
    ASIDE = "bright_black"
    """Worth less than the rest."""


Part = str | tuple[str, Tone]
"""Text, or text of a tone."""


class Output(Protocol):
    """Where the commands print."""

    def line(self, *parts: Part, hang: int = 0) -> None:
        """Print *parts* as one line; where it is wrapped, what follows is indented by *hang* columns."""
        ...


@frozen
class PlainOutput:
    """Text alone, one line each, however long: for files, pipes, and terminals without rich."""

    _stream: TextIO

    def line(self, *parts: Part, hang: int = 0) -> None:
        """Print it at once: whoever reads a pipe may wait for it."""
        text = "".join(part if isinstance(part, str) else part[0] for part in parts)
        print(text.rstrip(), file=self._stream, flush=True)


@frozen
class RichOutput:
    """Colours, and lines that end at words; a word that is longer than a line, e.g. an address, stays whole."""

    _console: Console

    def line(self, *parts: Part, hang: int = 0) -> None:
        """Print it in as many rows as it needs."""
        from rich.text import Text

        text = Text.assemble(*(part if isinstance(part, str) else (part[0], part[1].value) for part in parts))
        text.rstrip()
        width = self._console.width
        hang = min(hang, width // 3)
        for number, row in enumerate(text.divide(_breaks(text.plain, width, hang))):
            row.rstrip()
            indented = Text.assemble(" " * hang, row) if number else row
            self._console.print(indented, soft_wrap=True)


def output_on(stream: TextIO, environ: Mapping[str, str]) -> Output:
    """One that suits *stream*."""
    if not stream.isatty() or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return PlainOutput(stream)
    try:
        from rich.console import Console
    except ImportError:
        return PlainOutput(stream)
    return RichOutput(Console(file=stream, highlight=False, markup=False, emoji=False))


def discard_output() -> None:
    """Have nobody read standard output any more, after a `BrokenPipeError`: Python would fail once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _breaks(text: str, width: int, hang: int) -> Iterator[int]:
    """Where rows begin that are at most *width* columns wide, but for the first; those are *hang* columns shorter."""
    from rich.cells import cell_len

    starts = [0, *(at + 1 for at, character in enumerate(text) if character == " "), len(text) + 1]
    column = 0
    for start, end in pairwise(starts):
        size = cell_len(text[start : end - 1])
        if size and column > hang and column + size > width:
            yield start
            column = hang
        column += size + 1
