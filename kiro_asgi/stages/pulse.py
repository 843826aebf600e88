"""Counts what passes, so that whoever waits can tell a working upstream from one that only sends bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from kiro_asgi.model.events import Delta

__all__ = ["Pulse"]


@define
class Pulse:
    """Passes every delta on."""

    count: int = field(init=False, default=0)
    """How often there have been deltas: once for all that one `feed` brings."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas."""
        rest = iter(items)
        for item in rest:
            self.count += 1
            yield item
            yield from rest

    def flush(self) -> Iterator[Delta]:
        """Nothing is held back."""
        yield from ()
