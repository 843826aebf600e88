"""Base of stages that rewrite the text of an answer, whatever pieces a service sends it in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from attrs import evolve, frozen

from kiro_asgi.limits import HELD_CHANGES, HELD_CHARACTERS
from kiro_asgi.model.events import (
    Appendix,
    Citation,
    CodeReferences,
    ContextUsage,
    ConversationId,
    Delta,
    Metering,
    ModelName,
    Notice,
    RefusalDelta,
    ServedTier,
    Stop,
    TextDelta,
    TokenUsage,
    Usage,
)

SILENT: Final = (
    CodeReferences,
    ContextUsage,
    ConversationId,
    Metering,
    ModelName,
    Notice,
    ServedTier,
    Stop,
    TokenUsage,
    Usage,
)
"""What may come in the middle of a word, as it shows the client nothing there."""


def unfinished(text: str, word: str) -> int:
    """Characters at the end of *text* that may become *word* with what follows; words are found from left to right."""
    rest = text.split(word)[-1] if word else ""
    sizes = range(min(len(word) - 1, len(rest)), 0, -1)
    return next((size for size in sizes if rest.endswith(word[:size])), 0)


@frozen
class _Change:
    """A place where the rewritten text differs: positions in the text before and after, counted over all of it."""

    begin: int
    end: int
    new_begin: int
    new_end: int


class TextStage:
    """Base of stages that rewrite text; see `kiro_asgi.Stage`.

    A subclass has `rewrite`, and `settled` where a piece of text cannot be rewritten without what follows it.  What is
    not settled is held back until more text comes, or something else does that the client sees.  Refusals and text
    beside the answer are rewritten as well, each by itself.  Thinking is left as it is, since a service that signs it
    refuses to have other thinking back, and so are the arguments of tool calls.  A source that is cited still stands
    behind the same text, however long that has become.
    """

    most_held: ClassVar[int] = HELD_CHARACTERS
    """Characters that are held back at most; beyond that all of the text counts as settled."""

    _held = ""
    _kind: type[TextDelta | RefusalDelta] = TextDelta
    """Of the text that is held."""

    _read = 0
    """Characters that have been rewritten."""

    _written = 0
    """Characters that have been given for them."""

    _changes: tuple[_Change, ...] = ()
    """The latest places where the length has changed."""

    def settled(self, text: str) -> int:
        """Characters from the beginning of *text* that can be rewritten whatever follows: all of them.

        It is asked about all text that waits, each time some has come.
        """
        return len(text)

    def rewrite(self, text: str) -> str:
        """Rewrite settled *text*; what comes later is rewritten by itself."""
        raise NotImplementedError(f"{type(self).__name__}.rewrite")

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Take *items*; give them with as much of the text, rewritten, as is settled.

        Raises:
            ValueError: `settled` gave no size within the text.
        """
        for item in items:
            if isinstance(item, TextDelta | RefusalDelta):
                if type(item) is not self._kind:
                    yield from self.flush()
                    self._kind = type(item)
                self._held += item.text
                yield from self._released(self._size_settled())
            elif isinstance(item, SILENT):
                yield item
            elif isinstance(item, Appendix):
                yield from self.flush()
                if text := self.rewrite(item.text):
                    yield Appendix(text)
            else:
                yield from self.flush()
                yield self._moved(item) if isinstance(item, Citation) and self._changes else item

    def flush(self) -> Iterator[Delta]:
        """Give what is held back: nothing follows it."""
        return self._released(len(self._held))

    def _size_settled(self) -> int:
        held = len(self._held)
        size = self.settled(self._held)
        if not 0 <= size <= held:
            raise ValueError(f"{type(self).__name__}.settled gave {size!r} for {held} characters; give 0 to {held}")
        return held if held - size > self.most_held else size

    def _released(self, size: int) -> Iterator[Delta]:
        text, self._held = self._held[:size], self._held[size:]
        if not text:
            return
        new = self.rewrite(text)
        if len(new) != len(text):
            self._note(text, new)
        self._read += len(text)
        self._written += len(new)
        if new:
            yield self._kind(new)

    def _note(self, text: str, new: str) -> None:
        """Note where the two differ: behind what they begin with, and before what they end with."""
        same = _common(text, new)
        tail = _common(text[same:][::-1], new[same:][::-1])
        change = _Change(
            self._read + same,
            self._read + len(text) - tail,
            self._written + same,
            self._written + len(new) - tail,
        )
        self._changes = (*self._changes[1 - HELD_CHANGES :], change)

    def _moved(self, item: Citation) -> Citation:
        """The same, of where the text that it is for is now."""
        begins, _ = self._places(self._read - item.begins)
        _, ends = self._places(self._read - item.ends)
        return evolve(item, begins=max(self._written - begins, 0), ends=max(self._written - ends, 0))

    def _places(self, place: int) -> tuple[int, int]:
        """Where *place* of the text before is now; within a change, where that begins and ends."""
        for change in reversed(self._changes):
            if place >= change.end:
                now = change.new_end + place - change.end
                return now, now
            if place > change.begin:
                return change.new_begin, change.new_end
        now = self._changes[0].new_begin + place - self._changes[0].begin
        return now, now


def _common(one: str, other: str) -> int:
    """Characters with which both texts begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
