"""Keeps an answer to one tool call, for a client that asked for no parallel calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from kiro_asgi.model.events import Delta, Notice, ToolCallEnd, ToolCallStart, ToolInputDelta

__all__ = ["SingleCall"]


@define
class SingleCall:
    """Passes the first tool call of an answer and leaves out the others; the model can ask again for what it needs."""

    _seen: bool = field(init=False, default=False)
    _dropping: bool = field(init=False, default=False)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, without the second and later calls."""
        for item in items:
            if type(item) is ToolCallStart:
                self._dropping, self._seen = self._seen, True
                if self._dropping:
                    yield Notice("tool_call.not_parallel", item.name)
            if not (self._dropping and type(item) in (ToolCallStart, ToolInputDelta, ToolCallEnd)):
                yield item

    def flush(self) -> Iterator[Delta]:
        """Nothing is held back."""
        yield from ()
