"""One excerpt of text that may be a tool call, from its first words to its last."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from attrs import define, field, frozen

from kiro_asgi.wire.json import JsonError, loads

_MAX_HEAD: Final = 256
"""Characters that a head may have."""

_PLAIN: Final = re.compile(r'[^"{}]*+')
"""Characters without a meaning outside a string."""

_STRING: Final = re.compile(r'[^"\\]*+')
"""Characters without a meaning inside of one."""

_BLANKS: Final = re.compile(r"\s*+")


@frozen
class WrittenCall:
    """A call as it was read."""

    name: str
    input: str
    """JSON text."""


class Closing(Protocol):
    """Looks for the end of one excerpt, piece by piece."""

    def find(self, text: str, at: int, /) -> int:
        """Where the excerpt ends in *text*, of which it goes on at *at*; 0: further on; -1: it is none after all."""
        ...


@frozen(kw_only=True)
class Form:
    """One way of writing calls."""

    lead: str
    """The literal text that begins an excerpt."""

    stop: str
    """The character that ends its head; it is not in *lead*."""

    head: re.Pattern[str]
    """All of the head, *lead* and *stop* included."""

    closing: Callable[[re.Match[str]], Closing]
    """Makes the search for the end of the excerpt after this head."""

    calls: Callable[[re.Match[str], str], Sequence[WrittenCall]]
    """The calls in a whole excerpt, given its head too; none where it is no excerpt after all."""

    suffix: str
    """The suffix of ids of such calls."""


@define
class Excerpt:
    """A possible excerpt, of which the lead has been read."""

    form: Form
    _longest: int
    calls: Sequence[WrittenCall] = field(init=False, default=())
    """Once all of it has been read."""

    _pieces: list[str] = field(init=False)
    _size: int = field(init=False)
    _head: re.Match[str] | None = field(init=False, default=None)
    _closing: Closing = field(init=False)
    """Once there is a head."""

    def __attrs_post_init__(self) -> None:
        self._pieces, self._size = [self.form.lead], len(self.form.lead)

    @property
    def text(self) -> str:
        """As much of it as has been read."""
        return "".join(self._pieces)

    def read(self, text: str, at: int) -> int:
        """Go on with *text* from *at*; where it stopped, which is -1, with nothing read, if this is no excerpt."""
        return self._read_head(text, at) if self._head is None else self._read_body(self._head, text, at)

    def _read_head(self, text: str, at: int) -> int:
        left = _MAX_HEAD - self._size
        end = text.find(self.form.stop, at, at + left) + 1
        if not end:
            return self._take(text, at, len(text)) if len(text) - at < left else -1
        self._head = self.form.head.fullmatch(self.text + text[at:end])
        if self._head is None:
            return -1
        self._closing = self.form.closing(self._head)
        return self._take(text, at, end)

    def _read_body(self, head: re.Match[str], text: str, at: int) -> int:
        end = self._closing.find(text, at)
        if end < 0 or self._size + (end or len(text) + 1) - at > self._longest:
            return -1
        if not end:
            return self._take(text, at, len(text))
        self.calls = self.form.calls(head, self.text + text[at:end])
        return self._take(text, at, end) if self.calls else -1

    def _take(self, text: str, at: int, end: int) -> int:
        self._pieces.append(text[at:end])
        self._size += end - at
        return end


@define
class Word:
    """The excerpt ends with the first occurrence of a word."""

    _word: str
    _tail: str = field(init=False, default="")
    """The end of what was looked at, one character shorter than the word at most."""

    def find(self, text: str, at: int, /) -> int:
        """See `Closing`."""
        size = len(self._word)
        seam = self._tail + text[at : at + size - 1]
        found = seam.find(self._word)
        if found >= 0:
            return at + found + size - len(self._tail)
        found = text.find(self._word, at)
        if found >= 0:
            return found + size
        self._tail = (self._tail + text[max(at, len(text) - size + 1) :])[1 - size :]
        return 0


@define
class Brackets:
    """The excerpt ends with a square bracket, behind the JSON object whose first brace its head ends with."""

    _depth: int = field(init=False, default=1)
    _in_string: bool = field(init=False, default=False)
    _escaped: bool = field(init=False, default=False)

    def find(self, text: str, at: int, /) -> int:
        """See `Closing`."""
        while self._depth and at < len(text):
            at = self._skip(text, at)
        if self._depth:
            return 0
        at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # matches ""
        if at == len(text):
            return 0
        return at + 1 if text[at] == "]" else -1

    def _skip(self, text: str, at: int) -> int:
        """Past the next character that matters."""
        if self._escaped:
            self._escaped = False
            return at + 1
        at = (_STRING if self._in_string else _PLAIN).match(text, at).end()  # type: ignore[union-attr]  # matches ""
        if at < len(text):
            match text[at]:
                case '"':
                    self._in_string = not self._in_string
                case "\\":
                    self._escaped = True
                case brace:
                    self._depth += 1 if brace == "{" else -1
        return at + 1


def is_json(text: str) -> bool:
    """Whether *text* is one JSON value."""
    try:
        loads(text)
    except JsonError:
        return False
    return True
