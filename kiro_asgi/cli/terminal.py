"""Printer of the commands: lines, problems and progress; in colour and wrapped on a terminal, plain anywhere else.

The only module that knows rich, which is an extra, and the only one that prints.  The words are the same in every case;
`NO_COLOR <https://no-color.org>`_ and ``TERM=dumb`` are obeyed.  Whoever has written them, no character reaches the
terminal that cannot be seen: see `kiro_asgi.visible`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, TextIO

import anyio
from attrs import define, field, frozen

from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import families, leaves
from kiro_asgi.errors import ConfigError
from kiro_asgi.visible import visible, visible_json, visible_lines

if TYPE_CHECKING:
    from rich.console import Console


class Tone(Enum):
    """Role of a part of a line; the value is its style in rich."""

    TEXT = "none"
    TITLE = "bold"
    THINKING = "italic"
    NAME = "cyan"
    GOOD = "green"
    WARNING = "yellow"
    BAD = "bold red"
    ASIDE = "bright_black"
    """Less important than the rest."""


Part = str | tuple[str, Tone]
"""Text, or text of a tone."""


class Printer(Protocol):
    """Where the commands print."""

    def line(self, *parts: Part, hang: int = 0) -> None:
        """Print *parts* as one line; where it is wrapped, further rows are indented by *hang* columns."""
        ...

    def text(self, text: str) -> None:
        """Print lines as they are, never wrapped."""
        ...

    def json(self, text: str) -> None:
        """Print JSON, whose value stays what it is."""
        ...


@frozen
class PlainPrinter:
    """Text alone, one line each, however long: for files, pipes, and terminals without rich."""

    _stream: TextIO

    def line(self, *parts: Part, hang: int = 0) -> None:
        """Print it at once: the reader of a pipe may wait for it."""
        text = "".join(part if isinstance(part, str) else part[0] for part in parts)
        print(visible(text.rstrip()), file=self._stream, flush=True)

    def text(self, text: str) -> None:
        """Print it at once, likewise."""
        print(visible_lines(text), file=self._stream, flush=True)

    def json(self, text: str) -> None:
        """Print it at once, likewise."""
        print(visible_json(text), file=self._stream, flush=True)


@frozen
class RichPrinter(PlainPrinter):
    """Colours, and lines that end at words; a word that is longer than a line, e.g. an address, stays whole."""

    _console: Console

    def line(self, *parts: Part, hang: int = 0) -> None:
        """Print it in as many rows as it needs."""
        from rich.text import Text

        pairs = ((part, "") if isinstance(part, str) else (part[0], part[1].value) for part in parts)
        text = Text.assemble(*((visible(words), style) for words, style in pairs))
        text.rstrip()
        width = self._console.width
        hang = min(hang, width // 3)
        for number, row in enumerate(text.divide(_breaks(text.plain, width, hang))):
            row.rstrip()
            indented = Text.assemble(" " * hang, row) if number else row
            self._console.print(indented, soft_wrap=True)


def printer_on(stream: TextIO, environ: Mapping[str, str]) -> Printer:
    """One that suits *stream*."""
    if not stream.isatty() or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return PlainPrinter(stream)
    try:
        from rich.console import Console
    except ImportError:
        return PlainPrinter(stream)
    return RichPrinter(stream, Console(file=stream, highlight=False, markup=False, emoji=False))


def discard_output() -> None:
    """Redirect standard output to nowhere when it cannot be written to: Python would fail once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _breaks(text: str, width: int, hang: int) -> Iterator[int]:
    """Where rows after the first begin; rows have at most *width* columns, those after the first *hang* fewer."""
    from rich.cells import cell_len

    starts = [0, *(at + 1 for at, character in enumerate(text) if character == " "), len(text) + 1]
    column = begin = 0
    for start, end in pairwise(starts):
        size = cell_len(text[start : end - 1])
        if size and column > begin and column + size > width:
            yield start
            column = begin = hang
        column += size + 1


def print_error(output: Printer, error: ConfigError) -> None:
    """Print why a command fails: every reason, what to set, and the notes that the command has added."""
    heading, *reasons = error.message.split("\n  ")
    if reasons:
        output.line(("kiro-asgi: ", Tone.BAD), heading, hang=4)
    for reason in reasons or (heading,):
        print_problem(output, "" if reasons else "kiro-asgi: ", reason)
    for note in getattr(error, "__notes__", ()):
        output.line(note, hang=4)


def print_problem(output: Printer, label: str, problem: str) -> None:
    """Print one problem after its *label*, and the variables of the settings that it names."""
    indent = "" if label else "  "
    output.line(indent, (label, Tone.BAD), problem, hang=4)
    if variables := ", ".join(variables_in(problem)):
        output.line("    -> in the environment: ", (variables, Tone.NAME), hang=7)


def variables_in(text: str) -> Sequence[str]:
    """The environment variables of the settings that *text* names by their paths, e.g. ``client.api_keys``."""
    words = dict.fromkeys(word.strip(".,:;()'\"") for word in text.split())
    members = [table for word in words if (table := word.rpartition(".")[0]).partition(".")[0] in families(Settings)]
    known = leaves(Settings, members)
    return [known[word].env for word in words if "." in word and word in known and known[word].env not in text]


FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES: Final = "|/-\\"
CLEAR: Final = "\r\x1b[K"
"""To the start of the line, and erase it."""

PAUSE: Final = 0.1
"""Seconds between two frames."""


@define
class Spinner:
    """One line of a terminal that changes in place; nothing where the stream is no terminal."""

    _stream: TextIO
    animated: bool
    """Whether lines can change there."""

    _frames: str
    _turn: int = field(init=False, default=0)

    @classmethod
    def on(cls, stream: TextIO, environ: Mapping[str, str]) -> Spinner:
        """One that suits *stream*."""
        animated = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
        unicode = (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
        return cls(stream, animated, FRAMES if unicode else PLAIN_FRAMES)

    def show(self, words: str) -> None:
        """Show the activity."""
        if self.animated:
            self._turn += 1
            self._write(f"{CLEAR}{self._frames[self._turn % len(self._frames)]} {visible(words)}")

    def clear(self) -> None:
        """Make room for what is printed next."""
        if self.animated:
            self._write(CLEAR)

    @asynccontextmanager
    async def turning(self, words: str) -> AsyncIterator[None]:
        """Show *words*, and the seconds since, until the end of the block."""
        if not self.animated:
            yield
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._animate, words)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self.clear()

    async def _animate(self, words: str) -> None:
        started = monotonic()
        while True:
            self.show(f"{words}, {monotonic() - started:.0f} s")
            await anyio.sleep(PAUSE)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


@define
class Countdown:
    """The time that is left: a spinner on a terminal, else a line a minute."""

    words: str
    """The activity, e.g. ``waiting for you``."""

    _stream: TextIO
    _spinner: Spinner
    _minutes: int = field(init=False, default=-1)
    """The number in the last line that was printed."""

    @classmethod
    def on(cls, stream: TextIO, environ: Mapping[str, str], words: str) -> Countdown:
        """One that suits *stream*."""
        return cls(words, stream, Spinner.on(stream, environ))

    def show(self, left: float) -> None:
        """Show that *left* seconds are left."""
        minutes, seconds = divmod(max(int(left), 0), 60)
        words = f"{self.words}, {minutes}:{seconds:02} left"
        if self._spinner.animated:
            self._spinner.show(words)
        elif minutes != self._minutes:
            self._minutes = minutes
            PlainPrinter(self._stream).line(words)

    def end(self) -> None:
        """Make room for what is printed next."""
        self._spinner.clear()
