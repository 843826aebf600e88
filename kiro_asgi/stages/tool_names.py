"""Gives tools back the names that the client knows them by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve, frozen

from kiro_asgi.model.events import Delta, ToolCallStart

__all__ = ["ToolNames"]


@frozen
class ToolNames:
    """Undoes the renaming that a request needed."""

    names: Mapping[str, str]
    """Name on the wire to the client's name; a name that is not here stays."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, tool calls under the client's names."""
        for item in items:
            if type(item) is ToolCallStart:
                yield evolve(item, name=self.names.get(item.name, item.name))
            else:
                yield item

    def flush(self) -> Iterator[Delta]:
        """Nothing is held back."""
        yield from ()
