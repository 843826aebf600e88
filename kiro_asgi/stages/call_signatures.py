"""Signatures of tool calls, for clients that do not hand them back.

A model that signs its calls wants each signature back with the call.  Not every client keeps what it does not know, so
the gateway remembers it under the call's id, and puts it into the next request where the client left it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from sys import getsizeof
from typing import TypeGuard

from attrs import define, evolve, field

from kiro_asgi.limits import LOOKUPS
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import Delta, MessageMembers, OpaqueEvent, SignatureDelta, ThinkingDelta, ToolCallStart
from kiro_asgi.model.prompt import Part, Prompt, Role, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.signatures import CALL, read_mark
from kiro_asgi.stages.base import Filter


@define
class CallSignatures(Filter[Delta]):
    """Record which signature came before which call."""

    _others: bool = True
    """Whether signatures of anything else go on; to a client that did not ask for thinking they would be blocks that it
    does not expect, but for those of thinking that it is shown all the same."""

    budget: AnswerBudget = field(factory=AnswerBudget, kw_only=True)
    """The answer's, charged with the signatures."""

    found: dict[str, str] = field(init=False, factory=dict)
    """Call id to signature, as sent to clients."""

    _last: str = field(init=False, default="")
    _thought: bool = field(init=False, default=False)
    """Whether what came last is thinking."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, but for signatures that are not to go on."""
        for item in items:
            if type(item) is SignatureDelta:
                self._last = item.signature if _is_of_call(item.signature) else ""
                if not (self._last or self._others or self._thought):
                    continue
            elif type(item) is ToolCallStart and self._last:
                self.budget.take(getsizeof(self._last))
                self.found[item.call_id], self._last = self._last, ""
            if type(item) is not MessageMembers and type(item) is not OpaqueEvent:
                self._thought = type(item) is ThinkingDelta
            yield item


def unsigned_calls(prompt: Prompt) -> tuple[str, ...]:
    """Ids of calls that came without a signature since the user's last message; earlier ones need none."""
    unsigned = (part.call_id for _, part, signs in _parts(_current(prompt.turns)) if _lacks(part, signs))
    return tuple(islice(unsigned, LOOKUPS))


def signed(prompt: Prompt, known: Mapping[str, str]) -> Prompt:
    """*prompt* with the signatures before those calls that *known* has by their ids."""
    if not known:
        return prompt
    parts: list[list[Part]] = [[] for _ in prompt.turns]
    for place, part, signs in _parts(prompt.turns):
        if _lacks(part, signs) and part.call_id in known:
            parts[place].append(ThinkingPart(signature=known[part.call_id]))
        parts[place].append(part)
    turns = zip(prompt.turns, parts, strict=True)
    return evolve(prompt, turns=tuple(evolve(turn, parts=tuple(each)) for turn, each in turns))


def _parts(turns: tuple[Turn, ...]) -> Iterator[tuple[int, Part, bool]]:
    """Every part with the number of its turn, and whether the one before it signs a call.

    That may stand in the turn before: a client may send each part as a turn of its own.
    """
    signs = False
    for place, turn in enumerate(turns):
        for part in turn.parts:
            yield place, part, signs
            signs = isinstance(part, ThinkingPart) and _is_of_call(part.signature)


def _lacks(part: Part, signs: bool) -> TypeGuard[ToolCallPart]:
    return isinstance(part, ToolCallPart) and not signs


def _current(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The turns from the last one on in which the user does not merely give results."""
    for place in range(len(turns) - 1, -1, -1):
        turn = turns[place]
        if turn.role is Role.USER and not all(isinstance(part, ToolResult) for part in turn.parts):
            return turns[place:]
    return turns


def _is_of_call(signature: str) -> bool:
    return read_mark(signature).part == CALL
