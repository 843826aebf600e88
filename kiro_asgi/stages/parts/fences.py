"""Separating code from prose in Markdown that is still being written."""

from __future__ import annotations

import re
from typing import Final

from attrs import define, field

_TOKEN: Final = re.compile(r"\n|`+|~+|[^\n`~]+")

_SPECIAL: Final = re.compile(r"[\n`~]")

_MAX_INDENT: Final = 3
"""Deeper than this, a fence is not a fence.  Source: https://spec.commonmark.org/0.31.2/#fenced-code-blocks"""


@define
class CodeTracker:
    """Follow prose piece by piece and know whether its end is inside a fenced block or a code span.

    CommonMark, simplified where it would need to look ahead: a code span ends at the end of its line at the latest, so
    a stray back-tick hides no more than the rest of one line.
    """

    _run: str = field(init=False, default="")
    """Character of the run of back-ticks or tildes at the very end, which may still grow."""

    _length: int = field(init=False, default=0)
    _indent: int = field(init=False, default=0)
    """Blanks since the start of the line, counted up to the first other character; then more than `_MAX_INDENT`."""

    _fence: str = field(init=False, default="")
    """Character that the open fenced block is fenced with."""

    _fence_length: int = field(init=False, default=0)
    _opening: bool = field(init=False, default=False)
    """Whether the end is still on the line that opens the fenced block."""

    _closing: bool = field(init=False, default=False)
    """Whether this line closes the fenced block if nothing else comes on it."""

    _span: int = field(init=False, default=0)
    """Back-ticks that opened the code span; 0 outside of one."""

    def advance(self, text: str) -> None:
        """Go on by *text*."""
        if self._in_line and _SPECIAL.search(text) is None:
            return
        for token in _TOKEN.findall(text):
            mark = token[0]
            if mark in "`~":
                if mark != self._run:
                    self._settle()
                self._run = mark
                self._length += len(token)
            elif mark == "\n":
                self._end_line()
            else:
                self._settle()
                self._plain(token)

    @property
    def _in_line(self) -> bool:
        """Whether only a special character can change anything."""
        return self._indent > _MAX_INDENT and not self._run and not self._closing

    @property
    def in_code(self) -> bool:
        """Whether what follows is code, given that it is neither a back-tick nor a tilde."""
        self._settle()
        return bool(self._fence or self._span)

    def _settle(self) -> None:
        """The run at the end is complete: decide what it means."""
        mark, length, leading = self._run, self._length, self._indent <= _MAX_INDENT
        self._run, self._length = "", 0
        if not mark:
            return
        if self._fence:
            self._in_fence(mark, length, leading)
        elif self._span:
            self._span = 0 if mark == "`" and length == self._span else self._span
        elif leading and length >= 3:
            self._fence, self._fence_length, self._opening = mark, length, True
        elif mark == "`":
            self._span = length
        self._indent = _MAX_INDENT + 1

    def _in_fence(self, mark: str, length: int, leading: bool) -> None:
        if self._opening:
            if mark == self._fence == "`":  # no fence: CommonMark allows no back-tick on the line that opens one
                self._span = 0 if length == self._fence_length else self._fence_length
                self._fence, self._opening = "", False
        else:
            self._closing = leading and mark == self._fence and length >= self._fence_length

    def _plain(self, text: str) -> None:
        if text.strip(" \t\r"):
            self._indent = _MAX_INDENT + 1
            self._closing = False
        elif self._indent <= _MAX_INDENT:
            self._indent += len(text)

    def _end_line(self) -> None:
        self._settle()
        if self._closing:
            self._fence, self._closing = "", False
        self._opening = False
        self._span = self._indent = 0
