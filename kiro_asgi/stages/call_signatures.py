"""Signatures of tool calls, and thinking that led to them, for clients that do not hand them back.

A model that signs its calls wants each signature back with the call; others want the thinking that came before it,
under the name that they have for it.  Not every client keeps what it does not know, so the gateway remembers it under
the call's id, and puts it into the next request where the client left it out.

Sources: https://api-docs.deepseek.com/guides/thinking_mode, https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from sys import getsizeof
from typing import Self, TypeGuard

from attrs import define, evolve, field, frozen

from kiro_asgi.limits import LOOKUPS, SIGNATURE_BYTES
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import Delta, MessageMembers, OpaqueEvent, SignatureDelta, ThinkingDelta, ToolCallStart
from kiro_asgi.model.prompt import Part, Prompt, Role, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.signatures import CALL, KEPT, Mark, marked, read_mark
from kiro_asgi.stages.base import Filter
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, text_of


@frozen
class KeptThinking:
    """Thinking that led to a call."""

    text: str
    member: str = ""
    """As of `kiro_asgi.model.events.ThinkingDelta`."""

    def encode(self) -> str:
        """As it is kept."""
        return dumps({"member": self.member, "text": self.text}).decode()

    @classmethod
    def decode(cls, mark: Mark) -> Self | None:
        """Read a signature with this *mark*; ``None`` where it is another one, or damaged."""
        if mark.part != KEPT:
            return None
        try:
            kept = object_of(loads(mark.signature))
        except JsonError:
            return None
        text = text_of(kept, "text")
        return cls(text, text_of(kept, "member")) if text else None


@define
class HeardThinking(Filter[Delta]):
    """Keep the thinking of one answer that came under a name, whether or not the client is shown it."""

    owner: str
    """The upstream that wants it back."""

    budget: AnswerBudget = field(factory=AnswerBudget, kw_only=True)
    """The answer's, charged with it."""

    _pieces: list[str] = field(init=False, factory=list)
    _size: int = field(init=False, default=0)
    member: str = field(init=False, default="")
    """The name of what came last; empty for none."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas."""
        for item in items:
            if type(item) is ThinkingDelta and item.member:
                self._take(item)
            yield item

    def _take(self, item: ThinkingDelta) -> None:
        """Add *item*; what is longer than `SIGNATURE_BYTES` is not kept at all."""
        self._size, self.member = self._size + len(item.text), item.member
        if self._size <= SIGNATURE_BYTES:
            self.budget.take(getsizeof(item.text))
            self._pieces.append(item.text)

    def ended(self) -> str:
        """What there is for the call that comes now, marked; empty for nothing.  No later call has it."""
        text, size = "".join(self._pieces), self._size
        self._pieces, self._size = [], 0
        if size > SIGNATURE_BYTES or not text.strip():
            return ""
        return marked(self.owner, KEPT, KeptThinking(text, self.member).encode())


@define
class CallSignatures(Filter[Delta]):
    """Record which signature came before which call."""

    _others: bool = True
    """Whether signatures of anything else go on; to a client that did not ask for thinking they would be blocks that it
    does not expect, but for those of thinking that it is shown all the same."""

    budget: AnswerBudget = field(factory=AnswerBudget, kw_only=True)
    """The answer's, charged with the signatures."""

    thinking: HeardThinking | None = field(default=None, kw_only=True)
    """Has the thinking that calls are kept with; ``None`` where no service wants it back."""

    found: dict[str, str] = field(init=False, factory=dict)
    """Call id to signature, as sent to clients, or to what `HeardThinking` has for it."""

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
            elif type(item) is ToolCallStart:
                self._call(item.call_id)
            if type(item) is not MessageMembers and type(item) is not OpaqueEvent:
                self._thought = type(item) is ThinkingDelta
            yield item

    def _call(self, call_id: str) -> None:
        if self._last:
            self.budget.take(getsizeof(self._last))
            self.found[call_id], self._last = self._last, ""
        elif self.thinking is not None and (kept := self.thinking.ended()):
            self.found[call_id] = kept


def unsigned_calls(prompt: Prompt, *, earlier: bool = False) -> tuple[str, ...]:
    """Ids of calls that came without a signature since the user's last message, the last ones where there are many.

    Args:
        prompt: The request.
        earlier: Look at calls from before that message as well: the service wants each of them whole.
    """
    turns = prompt.turns if earlier else _current(prompt.turns)
    unsigned = [part.call_id for _, part, signs in _parts(turns) if _lacks(part, signs)]
    return tuple(unsigned[-LOOKUPS:]) if earlier else tuple(unsigned[:LOOKUPS])


def with_thinking(prompt: Prompt, known: Mapping[str, str], owner: str) -> Prompt:
    """*prompt* with the thinking that the calls which *known* has by their ids came of, as *owner* has sent it.

    Where the client has handed thinking back, that stays, under the name that the service has for it.
    """
    marks = {call_id: read_mark(value) for call_id, value in known.items()}
    kept = {call_id: KeptThinking.decode(mark) for call_id, mark in marks.items() if mark.owner == owner}
    own = {call_id: thinking for call_id, thinking in kept.items() if thinking is not None}
    if not own:
        return prompt
    turns = [*prompt.turns]
    for answer in _answers(prompt.turns):
        calls = [(at, part.call_id) for at in answer for part in turns[at].parts if type(part) is ToolCallPart]
        at, kept_for = next(((at, own[call_id]) for at, call_id in calls if call_id in own), (0, None))
        if kept_for is None:
            continue
        if not any(_is_thought(part) for each in answer for part in turns[each].parts):
            thought = ThinkingPart(kept_for.text, member=kept_for.member)
            turns[at] = evolve(turns[at], parts=(thought, *turns[at].parts))
        for each in answer:
            turns[each] = evolve(turns[each], parts=tuple(_called(part, kept_for) for part in turns[each].parts))
    return evolve(prompt, turns=tuple(turns))


def _answers(turns: tuple[Turn, ...]) -> Iterator[list[int]]:
    """The numbers of the turns of each answer: a client may send each part as a turn of its own."""
    for role, numbers in groupby(range(len(turns)), key=lambda number: turns[number].role):
        if role is Role.ASSISTANT:
            yield [*numbers]


def _is_thought(part: Part) -> bool:
    return type(part) is ThinkingPart and bool(part.text)


def _called(part: Part, kept: KeptThinking) -> Part:
    """*part* under the name that the service has for it."""
    return evolve(part, member=kept.member) if type(part) is ThinkingPart and not part.member else part


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
