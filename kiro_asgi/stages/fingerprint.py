"""Knowing an answer again when a client sends it back.

Clients re-encode what they were sent: texts are joined, blocks cut apart, white space at the edges is dropped, thinking
is left out.  What survives all that is the text without its white space, and the tool calls by id and name.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.events import BlockKind, BlockStart, Event, TextDelta

__all__ = ["Fingerprint", "Fingerprinter"]

_WHITE_SPACE: Final = b" \t\n\v\f\r"

_BATCH: Final = 16 * 1024
"""Characters of text that are hashed at once: one call for many small deltas."""


@define
class Fingerprint:
    """The text and the tool calls of an answer, boiled down; text may come in pieces cut anywhere."""

    size_bytes: int = field(init=False, default=0)
    """UTF-8 bytes of text."""

    calls: list[tuple[str, str]] = field(init=False, factory=list)
    """Id and name of every tool call."""

    _text: Any = field(init=False, factory=sha256)
    _blank: bool = field(init=False, default=True)

    def write(self, text: str) -> None:
        """Take in a piece of the text."""
        data = text.encode("utf-8", "surrogatepass")
        ink = data.translate(None, _WHITE_SPACE)
        self.size_bytes += len(data)
        if ink:
            self._blank = False
            self._text.update(ink)

    def digest(self, *, without: Container[str] = ()) -> str:
        """Equal for equal answers, of fixed size; empty where there is nothing to know an answer by.

        Args:
            without: Ids of calls that do not count.
        """
        calls = [call for call in self.calls if call[0] not in without]
        if self._blank and not calls:
            return ""
        return sha256(self._text.digest() + json.dumps(calls).encode()).hexdigest()


@define
class Fingerprinter:
    """Pass events on, and take the fingerprint of what they show."""

    _print: Fingerprint = field(init=False, factory=Fingerprint)
    _pieces: list[str] = field(init=False, factory=list)
    """Text that is not in the fingerprint yet."""

    _length: int = field(init=False, default=0)

    def feed(self, items: Iterable[Event], /) -> Iterator[Event]:
        """*items*, unchanged."""
        pieces = self._pieces
        for item in items:
            if type(item) is TextDelta:
                pieces.append(item.text)
                self._length += len(item.text)
                if self._length > _BATCH:
                    self._ink()
            elif type(item) is BlockStart and item.kind is BlockKind.TOOL_CALL:
                self._print.calls.append((item.call_id, item.name))
            yield item

    def flush(self) -> Iterator[Event]:
        """Nothing: it has all been passed on."""
        return iter(())

    @property
    def fingerprint(self) -> Fingerprint:
        """Of everything so far."""
        self._ink()
        return self._print

    def _ink(self) -> None:
        self._print.write("".join(self._pieces))
        self._pieces.clear()
        self._length = 0
