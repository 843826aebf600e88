"""A conversation as services with strict turns take it, still in neutral parts.

* The sides take turns; a part that only the other side can have becomes a turn of that side.
* Every call has an id of its own, and one result, at the beginning of the user's turn just behind it.

What a result answers is found by the client's ids.  A client may use an id again: then a result answers the latest call
that has it and no result yet.  A rule that is switched off leaves what it would change as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Final

from attrs import define, evolve, field

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Image, Part, Role, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.understood import understood_parts
from kiro_asgi.model.unread import Unread
from kiro_asgi.rendering.names import WireNames, plain, substitute
from kiro_asgi.wire.json import dumps

CANCELLED: Final = "The tool call was cancelled; there is no result."

PAIRING: Final = (
    "turns.part_moved",
    "calls.duplicate_dropped",
    "calls.id_changed",
    "calls.id_repeated",
    "results.orphan_to_text",
    "results.duplicate_dropped",
    "results.duplicate_to_text",
    "results.relocated",
    "turns.merged",
    "calls.unanswered",
    "results.ordered",
)
"""Names of the rules that this module applies; an upstream has them all in its own table."""

_SIDES: Final[Mapping[type, Role]] = MappingProxyType(
    {
        ToolCallPart: Role.ASSISTANT,
        ThinkingPart: Role.ASSISTANT,
        ToolResult: Role.USER,
        Image: Role.USER,
        Document: Role.USER,
    }
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

    unread: Unread | None = None
    """Of the turn, where the service speaks its API."""

    turn: Turn | None = None
    """The one of whose parts it was made, all of them or some."""


def strict_turns(turns: Iterable[Turn], ids: WireNames, notes: Notes, api: str = "") -> list[Draft]:
    """The turns in strict order; none is empty; either side may begin and end.

    Args:
        turns: In the client's order.
        ids: Call ids on the wire.
        notes: Gets the rules that applied.
        api: The client API that the service speaks; empty for none.
    """
    pairing = Pairing(ids, notes, api)
    return pairing.answered(merged(pairing.paired(turns), notes))


def merged(drafts: Iterable[Draft], notes: Notes) -> list[Draft]:
    """Of neighbours with the same role the first, with the parts of all, unless one has members that are its alone."""
    kept: list[Draft] = []
    for draft in drafts:
        before = kept[-1] if kept else None
        if before is None or before.role is not draft.role or before.unread != draft.unread:
            kept.append(draft)
        elif before.place == draft.place or notes.applies("turns.merged", draft.place):
            before.parts += draft.parts
        else:
            kept.append(draft)
    return kept


@define
class _Seen:
    """Latest use of one of the client's ids."""

    group: int
    """Number of the latest turn with a call that has it."""

    calls: list[ToolCallPart] = field(factory=list)
    """Those of that turn, as the client has them."""

    keys: set[tuple[str, bytes]] = field(factory=set)
    """What they ask for, once there is a second one."""

    waiting: list[tuple[int, deque[str]]] = field(factory=list)
    """Turns, the latest last, with the wire ids of their calls without a result."""

    results: set[ToolResult] = field(factory=set)
    """Once there is one too many, those that came before."""

    came: list[ToolResult] = field(factory=list)
    """Those that are not in *results* yet: to compare a result takes as long as it is."""

    number: int = 0
    """How many calls had the id."""

    latest: str = ""
    """The wire id of the last of them."""

    def repeats(self, call: ToolCallPart) -> bool:
        """Whether a call of the same turn asks for the same."""
        if not self.calls:
            return False
        if not self.keys:
            self.keys = {*map(_key, self.calls)}
        return _key(call) in self.keys

    def add(self, call: ToolCallPart) -> None:
        """Take the next call of the turn."""
        self.number += 1
        self.calls.append(call)
        if self.keys:
            self.keys.add(_key(call))


def _key(call: ToolCallPart) -> tuple[str, bytes]:
    return call.name, dumps(call.input)


@define
class Pairing:
    """Calls and results of one conversation."""

    _ids: WireNames
    """On the wire."""

    _notes: Notes
    _api: str = ""
    _group: int = field(init=False, default=0)
    """Number of the turn, neighbours of one side counted as one."""

    _role: Role | None = field(init=False, default=None)
    _seen: dict[str, _Seen] = field(init=False, factory=dict)
    _taken: set[str] = field(init=False, factory=set)
    _results: dict[str, tuple[int, ToolResult]] = field(init=False, factory=dict)
    """By wire id, with their numbers in the client's order."""

    def paired(self, turns: Iterable[Turn]) -> list[Draft]:
        """The turns with their calls under ids of their own, and without the results of these: see `answered`.

        Neighbours may have one role.  A turn is empty where results were taken out of the right place.
        """
        drafts = [*self._sided(turns)]
        if any(type(part) is ToolCallPart or type(part) is ToolResult for draft in drafts for part in draft.parts):
            for draft in drafts:
                self._take(draft)
        return [draft for draft in drafts if draft.parts or draft.answers]

    def answered(self, drafts: list[Draft]) -> list[Draft]:
        """Behind each turn with calls the user's with their results before anything else, in the order of the calls."""
        following: Draft | None = None
        for draft in reversed(drafts):
            if draft.role is Role.USER:
                following = draft
            elif calls := [part for part in draft.parts if type(part) is ToolCallPart]:
                place = draft.place if following is None else following.place
                answers = [*self._answers(calls, draft.place, place)]
                if following is None and answers:
                    following = Draft(Role.USER, [], draft.place)
                    drafts = [*drafts, following]
                if following is not None:
                    following.parts[:0] = answers
        return [draft for draft in drafts if draft.parts]

    def _sided(self, turns: Iterable[Turn]) -> Iterator[Draft]:
        """Drafts whose parts are all of one side."""
        for turn in turns:
            unread = turn.unread if turn.unread is not None and turn.unread.api == self._api else None
            for side, parts in groupby(understood_parts(turn.parts, self._api), partial(_side, turn.role)):
                if side is turn.role or self._notes.applies("turns.part_moved", turn.place):
                    yield Draft(side, [*parts], turn.place, unread=unread, turn=turn)
                else:
                    yield Draft(turn.role, [*parts], turn.place, unread=unread)

    def _take(self, draft: Draft) -> None:
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
            seen.group, seen.calls, seen.keys = self._group, [], set()
        elif seen.repeats(call) and self._notes.applies("calls.duplicate_dropped", place):
            return
        seen.latest = self._id(call.call_id, seen.number, place)
        seen.add(call)
        if not seen.waiting or seen.waiting[-1][0] != self._group:
            seen.waiting.append((self._group, deque()))
        seen.waiting[-1][1].append(seen.latest)
        yield call if call.call_id == seen.latest else evolve(call, call_id=seen.latest)

    def _id(self, client: str, number: int, place: str) -> str:
        """An id that no other call has, for the *number*-th, from 0, which the client calls *client*."""
        wire = self._ids.wire(client, place)
        if wire in self._taken and self._notes.applies("calls.id_repeated", place):
            renamed = f"{client} {number}"
            wire = substitute(renamed, plain(renamed), self._ids.length, self._taken, joint=self._ids.joint)
        self._taken.add(wire)
        return wire

    def _result(self, result: ToolResult, draft: Draft) -> Iterator[Part]:
        """What stays of the result where it stands: nothing, the text that it becomes, or all of it."""
        seen = self._seen.get(result.call_id)
        if seen is None:
            stays = not self._notes.applies("results.orphan_to_text", draft.place)
            yield from (result,) if stays else _as_text(result)
        elif not seen.waiting:
            yield from self._again(result, seen, draft.place)
        else:
            yield from self._answer(result, seen, draft)

    def _again(self, result: ToolResult, seen: _Seen, place: str) -> Iterator[Part]:
        """One more result of a call that has one."""
        seen.results.update(seen.came)
        seen.came.clear()
        repeated = result in seen.results
        if not self._notes.applies(f"results.duplicate_{'dropped' if repeated else 'to_text'}", place):
            yield evolve(result, call_id=seen.latest)
        elif not repeated:
            yield from _as_text(result)

    def _answer(self, result: ToolResult, seen: _Seen, draft: Draft) -> Iterator[Part]:
        """The result of the first call that waits for one, of the latest turn with one that does."""
        group, waiting = seen.waiting[-1]
        wire = waiting.popleft()
        found = result if result.call_id == wire else evolve(result, call_id=wire)
        if not waiting:
            seen.waiting.pop()
        seen.came.append(result)
        if group == self._group - 1:
            draft.answers = True
        elif not self._notes.applies("results.relocated", draft.place):
            yield found
            return
        self._results[found.call_id] = len(self._results), found

    def _answers(self, calls: Iterable[ToolCallPart], place: str, user_place: str) -> Iterator[ToolResult]:
        """The results of *calls*, of which those that are missing say so; *place* and *user_place* are of the turns."""
        found = [(call.call_id, self._results.get(call.call_id)) for call in calls]
        came = [answer for _, answer in found if answer is not None]
        if came != sorted(came, key=_number) and not self._notes.applies("results.ordered", user_place):
            late = iter(sorted(came, key=_number))
            found = [(call_id, None if answer is None else next(late)) for call_id, answer in found]
        for call_id, answer in found:
            if answer is not None:
                yield answer[1]
            elif self._notes.applies("calls.unanswered", place):
                yield ToolResult(call_id, (Text(CANCELLED),), is_error=True)


def _number(answer: tuple[int, ToolResult]) -> int:
    return answer[0]


def _side(role: Role, part: Part) -> Role:
    return _SIDES.get(type(part), role)


def _as_text(result: ToolResult) -> Iterator[Part]:
    kind = "Error of an earlier tool call" if result.is_error else "Result of an earlier tool call"
    yield Text(f"{kind}:")
    yield from result.parts
