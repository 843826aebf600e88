"""Bounding what an answer costs that is kept until its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define

from kiro_asgi.model.budget import AnswerBudget, size_of
from kiro_asgi.model.events import Event

__all__ = ["KeptAnswer"]


@define
class KeptAnswer:
    """Pass events on, and take room for each: whoever gets them keeps them all.

    Raises:
        AnswerTooLarge: There is no room for one.
    """

    _budget: AnswerBudget

    def feed(self, items: Iterable[Event], /) -> Iterator[Event]:
        """*items*, unchanged."""
        take = self._budget.take
        for item in items:
            take(size_of(item))
            yield item

    def flush(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()
