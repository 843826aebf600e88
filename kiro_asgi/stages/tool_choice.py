"""Holding an answer to the client's choice of tools, of which some services are told in no more than words.

Calls that the choice forbids are withheld wherever they stand.  Where it demands a call, nothing of an answer is shown
before the first one: the client's API has no text there, and as long as nothing was sent the model can be asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, evolve, field

from kiro_asgi.errors import UnmetPromise
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import (
    Appendix,
    Citation,
    Delta,
    Notice,
    ServerCall,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.base import Filter
from kiro_asgi.stages.kept import SHOWN, KeptDeltas

FORBIDDEN: Final = "tool_call.forbidden"
"""A call of a tool that the client's ``tool_choice`` forbids is withheld; the detail is the tool's name."""

TEXT_WITHHELD: Final = "text.before_demanded_call"
"""Text before a call that the client demanded is withheld."""

_CODE: Final = "tool_choice_failed"

_COMPLAINT: Final = (
    "[Notice from the gateway] Your answer was withheld, because it calls none of the tools that it has to call. "
    "Answer again, with such a call and without text before it."
)

_OF_A_CALL: Final = frozenset({ToolCallStart, ToolInputDelta, ToolCallEnd})

_UNFORCED: Final = frozenset({StopReason.END, StopReason.STOP_SEQUENCE})
"""Ends that are the model's own: where an answer was broken off, the call may still have been to come."""


@define
class ForbiddenCalls(Filter[Delta]):
    """Leave out whole calls of tools that may not be called, and note each.

    One that is cut or malformed is told of as ever: that says something about the answer.
    """

    _permitted: frozenset[str]
    """Names of the others, as the client knows them."""

    _withholding: bool = field(init=False, default=False)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, without those calls."""
        for item in items:
            if type(item) is ToolCallStart:
                self._withholding = item.name not in self._permitted
                if self._withholding:
                    yield Notice(FORBIDDEN, item.name)
            if not (self._withholding and type(item) in _OF_A_CALL):
                yield item


@define
class DemandedCall(Filter[Delta]):
    """Show nothing of an answer before its first call, and then no text from before it.

    An answer that was broken off (its length, a filter, a call that is cut or malformed) is shown as it is.

    Raises:
        UnmetPromise: The model ended its answer without a call.
        AnswerTooLarge: There is no room for what comes before it.
    """

    _permitted: frozenset[str] | None
    """Names of the tools of which one has to be called; ``None`` for any."""

    budget: AnswerBudget = field(factory=AnswerBudget)
    _kept: KeptDeltas = field(init=False)
    _open: bool = field(init=False, default=False)
    """Whether everything goes on."""

    _broken: bool = field(init=False, default=False)
    """Whether there was a call that could not be read."""

    _withheld: int = field(init=False, default=0)
    """Characters of text before the call, which the client does not have."""

    _length: int = field(init=False, default=0)
    """Characters of text behind it."""

    def __attrs_post_init__(self) -> None:
        self._kept = KeptDeltas(self.budget)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, held back to the first call."""
        for item in items:
            if self._open:
                yield from self._behind(item) if self._withheld else (item,)
            elif self._is_demanded(item):
                yield from self._without_text()
                yield item
            elif type(item) is Stop:
                yield from self._judge(item)
                yield item
            elif type(item) in SHOWN:
                self._kept.keep(item)
            else:
                self._broken = self._broken or type(item) in (ToolCallCut, ToolCallMalformed)
                yield item

    def _is_demanded(self, item: Delta) -> bool:
        if type(item) is not ToolCallStart and type(item) is not ServerCall:
            return False
        return self._permitted is None or item.name in self._permitted

    def _without_text(self) -> Iterator[Delta]:
        self._open, withheld = True, False
        for item in self._kept.release():
            if isinstance(item, TextDelta | Appendix):
                self._withheld += len(item.text)
                withheld = withheld or not item.text.isspace()
            elif not isinstance(item, TextBreak | Citation):
                yield item
        if withheld:
            yield Notice(TEXT_WITHHELD)

    def _behind(self, item: Delta) -> Iterator[Delta]:
        """*item*, which comes behind the call; a source only for text that the client has."""
        if type(item) is TextDelta:
            self._length += len(item.text)
        if type(item) is not Citation:
            yield item
        elif item.ends < self._length:
            yield evolve(item, begins=min(item.begins, self._length))

    def _judge(self, stop: Stop) -> Iterator[Delta]:
        if stop.reason in _UNFORCED and not self._broken:
            raise UnmetPromise(
                "the model called no tool, although tool_choice demands a call", code=_CODE, complaint=_COMPLAINT
            )
        self._open = True
        yield from self._kept.release()


@define
class DemandedSearch(DemandedCall):
    """The same for a search of which the service tells behind the answer: all text is what came of it."""

    def _without_text(self) -> Iterator[Delta]:
        self._open = True
        yield from self._kept.release()
