"""Telling a user who waits that we wait too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final, TextIO

import anyio
from attrs import define, field

__all__ = ["Countdown", "Spinner"]

FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES: Final = "|/-\\"
CLEAR: Final = "\r\x1b[K"
"""To the start of the line, and erase it."""

PAUSE: Final = 0.1
"""Seconds between two frames."""


@define
class Spinner:
    """One line of a terminal that changes in place; elsewhere nothing."""

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
        """Say what is going on."""
        if self.animated:
            self._turn += 1
            self._write(f"{CLEAR}{self._frames[self._turn % len(self._frames)]} {words}")

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
            tasks.start_soon(self._turn_round, words)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self.clear()

    async def _turn_round(self, words: str) -> None:
        started = monotonic()
        while True:
            self.show(f"{words}, {monotonic() - started:.0f} s")
            await anyio.sleep(PAUSE)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


@define
class Countdown:
    """How much time is left: a spinner on a terminal, elsewhere a line a minute."""

    words: str
    """What is going on, e.g. ``waiting for you``."""

    _stream: TextIO
    _spinner: Spinner
    _minutes: int = field(init=False, default=-1)
    """The last that were told in a line of their own."""

    @classmethod
    def on(cls, stream: TextIO, environ: Mapping[str, str], words: str) -> Countdown:
        """One that suits *stream*."""
        return cls(words, stream, Spinner.on(stream, environ))

    def show(self, left: float) -> None:
        """Say that *left* seconds are left."""
        minutes, seconds = divmod(max(int(left), 0), 60)
        words = f"{self.words}, {minutes}:{seconds:02} left"
        if self._spinner.animated:
            self._spinner.show(words)
        elif minutes != self._minutes:
            self._minutes = minutes
            print(words, file=self._stream, flush=True)

    def end(self) -> None:
        """Make room for what is printed next."""
        self._spinner.clear()
