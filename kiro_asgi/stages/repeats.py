"""Dropping text that repeats the text right before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from kiro_asgi.model.events import Delta, TextDelta

__all__ = ["RepeatFilter"]


@define
class RepeatFilter:
    """Drop a `TextDelta` that equals its direct neighbour before it; nothing else is compared.

    Deltas are true increments, so this turns ``ha`` ``ha`` into ``ha``.  It exists for services known to send an
    increment twice, and is off unless asked for.
    """

    _last: Delta | None = field(init=False, default=None)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, without text that repeats its neighbour."""
        last = self._last
        for item in items:
            if type(item) is TextDelta and item == last:
                continue
            self._last = last = item
            yield item

    def flush(self) -> Iterator[Delta]:
        """Nothing is ever held."""
        yield from ()
