"""Filters: stages that look at one delta, or event, at a time and pass it on, change it, leave it out or take it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import StringIO

from attrs import define, evolve, field, frozen

from kiro_asgi.model.budget import AnswerBudget, size_of
from kiro_asgi.model.events import (
    Delta,
    Event,
    Notice,
    ServerCall,
    TextDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.model.member_names import with_names
from kiro_asgi.stages.base import Filter
from kiro_asgi.wire.json import JsonError, dumps, loads


@define
class EventCounter(Filter[Delta]):
    """Pass every delta on, and count."""

    count: int = field(init=False, default=0)
    """Calls of `feed` that brought any delta."""

    characters: int = field(init=False, default=0)
    """Of arguments of calls: stages behind this one hold them until a call is whole, or drop it."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas."""
        counted = False
        for item in items:
            if not counted:
                self.count, counted = self.count + 1, True
            if type(item) is ToolCallFragment:
                self.characters += len(item.input)
            yield item


@define
class RepeatFilter(Filter[Delta]):
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


@define
class SingleCall(Filter[Delta]):
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


@frozen
class ToolNames(Filter[Delta]):
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


@define
class ArgumentNames(Filter[Delta]):
    """Gather each call, and give its arguments the client's names."""

    names: Mapping[str, str]
    """Name on the wire to the client's name; a name that is not here stays."""

    _pieces: list[ToolInputDelta] | None = field(init=False, default=None)
    """Of the call that is being gathered."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, arguments in one piece where a name in them changes."""
        for item in items:
            if type(item) is ToolInputDelta and self._pieces is not None:
                self._pieces.append(item)
                continue
            if type(item) is ToolCallStart:
                self._pieces = []
            elif type(item) in (ToolCallEnd, ToolCallCut, ToolCallMalformed):
                yield from self._renamed(self._pieces or [])
                self._pieces = None
            yield item

    def _renamed(self, pieces: list[ToolInputDelta]) -> Iterable[Delta]:
        try:
            given = loads("".join(piece.json for piece in pieces))
        except JsonError:  # it was cut, or has none
            return pieces
        found = with_names(given, self.names)
        return pieces if found is given else (ToolInputDelta(dumps(found).decode()),)


@define
class ServerTools(Filter[Delta]):
    """Turns every whole call of one of these tools into a `ServerCall`, and keeps it.

    A call that is cut is reported like any other, and never run.
    """

    _kinds: Mapping[str, str]
    """Name, as the client calls the tool, to the kind of tool."""

    budget: AnswerBudget = field(factory=AnswerBudget, kw_only=True)
    """The answer's, charged with the calls."""

    calls: list[ServerCall] = field(init=False, factory=list)
    """Those that were found."""

    _start: ToolCallStart | None = field(init=False, default=None)
    """The call that is being gathered."""

    _text: StringIO = field(init=False, factory=StringIO)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, with a `ServerCall` for each whole call of these tools."""
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


@define
class KeptAnswer(Filter[Event]):
    """Pass events on, and take room for each, as all of them are kept.

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
