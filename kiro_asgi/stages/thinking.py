"""Telling thinking from the answer, as a stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from kiro_asgi.model.events import (
    Citation,
    Delta,
    RedactedThinking,
    RefusalDelta,
    SignatureDelta,
    Stop,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.model.signatures import CALL, read_mark
from kiro_asgi.stages.base import Filter
from kiro_asgi.stages.parts.thinking_parser import (
    HANDLING,
    KEPT,
    TAGS,
    ThinkingParser,
)

_BARRIERS: Final = frozenset(
    {
        TextBreak,
        Citation,
        RefusalDelta,
        SignatureDelta,
        RedactedThinking,
        ToolCallFragment,
        ToolCallStart,
        ToolInputDelta,
        ToolCallEnd,
        ToolCallCut,
        ToolCallMalformed,
        Stop,
    }
)
"""Deltas that text must not be held across."""

_SEALS: Final = frozenset({SignatureDelta, RedactedThinking})
"""Kinds of delta without a meaning once thinking has become text."""


@define(kw_only=True)
class ThinkingSplitter:
    """Turn text between thinking tags into `ThinkingDelta`, and do to all thinking what *mode* says.

    ``remove`` drops native thinking as well, ``strip_tags`` turns it into text, and ``pass`` does so between
    ``<thinking>`` tags; its seals go in all three, but not those of tool calls.  After the first native thinking, tags
    are plain text.

    Text that is held goes out before any other content that follows it.  With *scan* ``start``, nothing is looked at
    any more once the answer proper has begun.

    Raises:
        ConfigError: See `ThinkingParser`.
    """

    mode: str = "as_reasoning_content"
    tags: tuple[str, ...] = TAGS
    scan: str = "start"

    _parser: ThinkingParser = field(init=False)
    _native: bool = field(init=False, default=False)
    """Whether the upstream tells thinking from text itself."""

    _wrapped: bool = field(init=False, default=False)
    """Whether native thinking is open as text between tags."""

    _keeps_thinking: bool = field(init=False)
    _idle: bool = field(init=False, default=False)
    """Whether nothing that may still come needs to be looked at."""

    def __attrs_post_init__(self) -> None:
        self._parser = ThinkingParser(mode=self.mode, tags=self.tags, scan=self.scan)
        self._keeps_thinking = self.mode == KEPT

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, thinking told from text."""
        return iter(items) if self._idle else self._split(iter(items))

    def flush(self) -> Iterator[Delta]:
        """The text that was held."""
        yield from self._parser.release()
        yield from self._unwrap()

    def _split(self, items: Iterator[Delta]) -> Iterator[Delta]:
        parser = self._parser
        for item in items:
            if type(item) is TextDelta:
                if self._wrapped:
                    yield from self._unwrap()
                yield from (item,) if parser.done else parser.pieces(item.text)
            elif type(item) is ThinkingDelta:
                yield from self._think(item)
            elif type(item) in _BARRIERS:
                yield from self._parser.release()
                yield from self._other(item)
            else:
                yield item
            if self._keeps_thinking and parser.done:
                self._idle = True
                yield from items
                return

    def _think(self, delta: ThinkingDelta) -> Iterator[Delta]:
        if not self._native:
            self._native = True
            yield from self._parser.release()
            self._parser.stop_searching()
        handling = HANDLING[self.mode]
        if handling.thinking is None or not delta.text:
            return
        if handling.tags and not self._wrapped:
            self._wrapped = True
            yield TextDelta("<thinking>")
        yield handling.thinking(delta.text)

    def _other(self, item: Delta) -> Iterator[Delta]:
        if type(item) not in _SEALS:
            yield from self._unwrap()
            yield item
        elif self._keeps_thinking or _is_of_a_call(item):
            yield item

    def _unwrap(self) -> Iterator[Delta]:
        if self._wrapped:
            self._wrapped = False
            yield TextDelta("</thinking>")


def _is_of_a_call(seal: Delta) -> bool:
    return type(seal) is SignatureDelta and read_mark(seal.signature).part == CALL


class OmittedThinking(Filter[Delta]):
    """Drop the text of thinking and keep its seals, for a client that wants nothing else of it."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, all but `ThinkingDelta`."""
        return (item for item in items if type(item) is not ThinkingDelta)
