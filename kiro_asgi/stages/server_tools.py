"""Takes the calls out of an answer that the client shall not run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import StringIO

from attrs import define, field

from kiro_asgi.model.budget import AnswerBudget, size_of
from kiro_asgi.model.events import (
    Delta,
    ServerCall,
    ToolCallCut,
    ToolCallEnd,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.base import Filter
from kiro_asgi.wire.json import loads

__all__ = ["ServerTools"]


@define
class ServerTools(Filter[Delta]):
    """Turns every whole call of one of these tools into a `ServerCall`, and keeps it.

    A call that is cut is reported like any other, and never run.
    """

    _kinds: Mapping[str, str]
    """Name, as the client calls the tool, to the kind of tool."""

    budget: AnswerBudget = field(factory=AnswerBudget, kw_only=True)
    """Of the answer, for the calls."""

    calls: list[ServerCall] = field(init=False, factory=list)
    """Those that were found."""

    _start: ToolCallStart | None = field(init=False, default=None)
    """The call that is being gathered."""

    _text: StringIO = field(init=False, factory=StringIO)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, calls of these tools whole."""
        for item in items:
            if type(item) is ToolCallStart and item.name in self._kinds:
                self._start, self._text = item, StringIO()
            elif self._start is None:
                yield item
            elif type(item) is ToolInputDelta:
                self._text.write(item.json)
            elif type(item) is ToolCallEnd:
                yield self._call(self._start)
            else:
                if type(item) in (ToolCallCut, ToolCallMalformed):
                    self._start = None
                yield item

    def _call(self, start: ToolCallStart) -> ServerCall:
        self._start = None
        call = ServerCall(start.call_id, start.name, self._kinds[start.name], loads(self._text.getvalue() or "{}"))
        self.budget.take(size_of(call))
        self.calls.append(call)
        return call
