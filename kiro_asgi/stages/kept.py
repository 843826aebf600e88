"""Bounding what is kept of an answer: all of it, or what is held back of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from kiro_asgi.model.budget import AnswerBudget, size_of
from kiro_asgi.model.events import (
    Appendix,
    Citation,
    Delta,
    Event,
    RedactedThinking,
    RefusalDelta,
    ServerCall,
    ServerResult,
    SignatureDelta,
    TextBreak,
    TextDelta,
    ThinkingDelta,
)
from kiro_asgi.stages.base import Filter

SHOWN: Final = frozenset(
    {
        TextDelta,
        TextBreak,
        Citation,
        RefusalDelta,
        ThinkingDelta,
        SignatureDelta,
        RedactedThinking,
        Appendix,
        ServerCall,
        ServerResult,
    }
)
"""Deltas of which the client is sent something, but for those of a call."""


@define
class KeptDeltas:
    """Deltas that are held back until it is known what becomes of them."""

    _budget: AnswerBudget
    _items: list[Delta] = field(init=False, factory=list)
    _size: int = field(init=False, default=0)

    def keep(self, item: Delta) -> None:
        """Hold *item* back.

        Raises:
            AnswerTooLarge: There is no room for it.
        """
        size = size_of(item)
        self._budget.take(size)
        self._size += size
        self._items.append(item)

    def release(self) -> list[Delta]:
        """Everything, in its order; from now on it is somebody else's."""
        items, self._items = self._items, []
        self._budget.give_back(self._size)
        self._size = 0
        return items


@define
class KeptAnswer(Filter[Event]):
    """Pass events on, and take room for each: whoever gets them keeps them all.

    Raises:
        AnswerTooLarge: There is no room for one.
    """

    _budget: AnswerBudget

    def feed(self, items: Iterable[Event], /) -> Iterator[Event]:
        """*items*, unchanged."""
        keep = self._budget.keep
        for item in items:
            keep(item)
            yield item
