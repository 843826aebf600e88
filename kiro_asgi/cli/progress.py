"""Telling a user who waits that we wait too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TextIO

from attrs import define, field

__all__ = ["Progress"]

FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES: Final = "|/-\\"
CLEAR: Final = "\r\x1b[K"
"""To the start of the line, and erase it."""


@define
class Progress:
    """How much time is left: one line that changes in place on a terminal, elsewhere a line a minute."""

    words: str
    """What is going on, e.g. ``waiting for you``."""

    _stream: TextIO
    _animated: bool
    _frames: str
    _turn: int = field(init=False, default=0)
    _minutes: int = field(init=False, default=-1)
    """The last that were told in a line of their own."""

    @classmethod
    def on(cls, stream: TextIO, environ: Mapping[str, str], words: str) -> Progress:
        """One that suits *stream*."""
        animated = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
        unicode = (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
        return cls(words, stream, animated, FRAMES if unicode else PLAIN_FRAMES)

    def show(self, left: float) -> None:
        """Say that *left* seconds are left."""
        minutes, seconds = divmod(max(int(left), 0), 60)
        if self._animated:
            self._turn += 1
            frame = self._frames[self._turn % len(self._frames)]
            self._write(f"{CLEAR}{frame} {self.words}, {minutes}:{seconds:02} left")
        elif minutes != self._minutes:
            self._minutes = minutes
            self._write(f"{self.words}, {minutes}:{seconds:02} left\n")

    def end(self) -> None:
        """Make room for what is printed next."""
        if self._animated:
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
