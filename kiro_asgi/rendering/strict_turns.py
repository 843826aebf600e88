"""A conversation as services with strict turns take it, still in neutral parts.

* The sides take turns; a part that only the other side can have becomes a turn of that side.
* Every call has an id of its own, and one result, at the beginning of the user's turn just behind it.

What a result answers is found by the client's ids.  A client may use an id again: then a result answers the latest call
that has it and no result yet.  An upstream whose `RULES` has not all the rules of `PAIRING` cannot use this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final

from attrs import define, evolve, field

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Part,
    Role,
    Text,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
    Turn,
)
from kiro_asgi.rendering.names import WireNames, plain, substitute

CANCELLED: Final = "The tool call was cancelled; there is no result."

PAIRING: Final = (
    "turns.part_moved",
    "calls.duplicate_dropped",
    "calls.id_changed",
    "calls.id_repeated",
    "results.orphan_to_text",
    "results.duplicate_dropped",
    "results.relocated",
    "turns.merged",
    "calls.unanswered",
)
"""Names of the rules that this module applies; an upstream has them all in its own table."""

_SIDES: Final = (
    (ToolCallPart, Role.ASSISTANT),
    (ThinkingPart, Role.ASSISTANT),
    (ToolResult, Role.USER),
    (Image, Role.USER),
    (Document, Role.USER),
)
"""Kinds of parts that only one side can have."""


@define(eq=False)
class Draft:
    """One turn while it is made."""

    role: Role
    parts: list[Part]
    place: str = ""
    answers: bool = False
    """Whether results that stand in the right place were taken out of it."""


def strict_turns(turns: Iterable[Turn], ids: WireNames, notes: Notes) -> list[Draft]:
    """The turns in strict order; none is empty; either side may begin and end.

    Args:
        turns: In the client's order.
        ids: Call ids on the wire.
        notes: Gets the rules that applied.
    """
    drafts = [*_sided(turns, notes)]
    pairing = _Pairing(notes, ids)
    if any(type(part) is ToolCallPart or type(part) is ToolResult for draft in drafts for part in draft.parts):
        for draft in drafts:
            pairing.take(draft)
    return pairing.answered(merged((draft for draft in drafts if draft.parts or draft.answers), notes))


def _sided(turns: Iterable[Turn], notes: Notes) -> Iterator[Draft]:
    """Drafts whose parts are all of one side."""
    for turn in turns:
        for side, parts in groupby(turn.parts, partial(_side, turn.role)):
            if side is not turn.role:
                notes.applies("turns.part_moved", turn.place)
            yield Draft(side, [*parts], turn.place)


def _side(role: Role, part: Part) -> Role:
    return next((side for kind, side in _SIDES if type(part) is kind), role)


def merged(drafts: Iterable[Draft], notes: Notes) -> list[Draft]:
    """Of neighbours with the same role the first, with the parts of all."""
    kept: list[Draft] = []
    for _, neighbours in groupby(drafts, attrgetter("role")):
        first, *others = neighbours
        for other in others:
            if other.place != first.place:
                notes.applies("turns.merged", other.place)
            first.parts += other.parts
        kept.append(first)
    return kept


@define
class _Seen:
    """Latest use of one of the client's ids."""

    group: int
    """Number of the latest turn with a call that has it."""

    calls: list[ToolCallPart] = field(factory=list)
    """Those of that turn, as the client has them."""

    waiting: list[tuple[int, str]] = field(factory=list)
    """Turn and wire id of the calls without a result."""

    results: list[ToolResult] = field(factory=list)
    number: int = 0
    """How many calls had the id."""


@define
class _Pairing:
    _notes: Notes
    _ids: WireNames
    _group: int = field(init=False, default=0)
    """Number of the turn, neighbours of one side counted as one."""

    _role: Role | None = field(init=False, default=None)
    _seen: dict[str, _Seen] = field(init=False, factory=dict)
    _taken: set[str] = field(init=False, factory=set)
    _results: dict[str, ToolResult] = field(init=False, factory=dict)
    """By wire id."""

    def take(self, draft: Draft) -> None:
        """Give the calls of the next draft their ids, and take its results out."""
        if draft.role is not self._role:
            self._role = draft.role
            self._group += 1
        parts: list[Part] = []
        for part in draft.parts:
            if type(part) is ToolCallPart:
                parts += self._call(part, draft.place)
            elif type(part) is ToolResult:
                parts += self._result(part, draft)
            else:
                parts.append(part)
        draft.parts = parts

    def _call(self, call: ToolCallPart, place: str) -> Iterator[Part]:
        seen = self._seen.setdefault(call.call_id, _Seen(self._group))
        if seen.group != self._group:
            seen.group, seen.calls = self._group, []
        elif call in seen.calls:
            self._notes.applies("calls.duplicate_dropped", place)
            return
        wire = self._id(call.call_id, seen.number, place)
        seen.number += 1
        seen.calls.append(call)
        seen.waiting.append((self._group, wire))
        yield evolve(call, call_id=wire)

    def _id(self, client: str, number: int, place: str) -> str:
        """An id that no other call has, for the *number*-th, from 0, which the client calls *client*."""
        wire = self._ids.wire(client, place)
        if wire in self._taken:
            self._notes.applies("calls.id_repeated", place)
            renamed = f"{client} {number}"
            wire = substitute(renamed, plain(renamed), self._ids.length, self._taken, joint=self._ids.joint)
        self._taken.add(wire)
        return wire

    def _result(self, result: ToolResult, draft: Draft) -> Iterator[Part]:
        """Nothing, or the text that the result becomes."""
        seen = self._seen.get(result.call_id)
        if seen is None or not seen.waiting:
            if seen is not None and result in seen.results:
                self._notes.applies("results.duplicate_dropped", draft.place)
                return
            self._notes.applies("results.orphan_to_text", draft.place)
            yield from _as_text(result)
            return
        group = seen.waiting[-1][0]
        found = next(waiting for waiting in seen.waiting if waiting[0] == group)
        seen.waiting.remove(found)
        seen.results.append(result)
        self._results[found[1]] = evolve(result, call_id=found[1])
        if group == self._group - 1:
            draft.answers = True
        else:
            self._notes.applies("results.relocated", draft.place)

    def answered(self, drafts: list[Draft]) -> list[Draft]:
        """Each turn with calls has their results behind it, in the order of the calls."""
        for index, draft in enumerate(tuple(drafts)):
            calls = [part for part in draft.parts if type(part) is ToolCallPart]
            if calls and index + 1 == len(drafts):
                drafts.append(Draft(Role.USER, [], draft.place))
            if calls:
                drafts[index + 1].parts[:0] = [self._answer(call, draft.place) for call in calls]
        return drafts

    def _answer(self, call: ToolCallPart, place: str) -> ToolResult:
        result = self._results.get(call.call_id)
        if result is None:
            self._notes.applies("calls.unanswered", place)
            return ToolResult(call.call_id, (Text(CANCELLED),), is_error=True)
        return result


def _as_text(result: ToolResult) -> Iterator[Part]:
    kind = "Error of an earlier tool call" if result.is_error else "Result of an earlier tool call"
    yield Text(f"{kind}:")
    yield from result.parts
