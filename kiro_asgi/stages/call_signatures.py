"""Signatures of tool calls, and thinking that led to them, for clients that do not hand them back.

A model that signs its calls wants each signature back with the call; others want the thinking that came before it,
under the name that they have for it.  Not every client keeps what it does not know, so the gateway remembers it, and
puts it into the next request where the client left it out.

It belongs to one turn of one conversation: to a call of that id, tool and arguments, behind the same system texts and
turns.  The id alone proves nothing, as some services count their calls anew in every conversation.

Sources: https://api-docs.deepseek.com/guides/thinking_mode, https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from sys import getsizeof
from typing import Any, Self

from attrs import define, evolve, field, frozen

from kiro_asgi.limits import LOOKUPS, SIGNATURE_BYTES
from kiro_asgi.model.budget import ITEM, AnswerBudget
from kiro_asgi.model.events import (
    Delta,
    MessageMembers,
    OpaqueEvent,
    SignatureDelta,
    ThinkingDelta,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.model.prompt import Part, Prompt, Role, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.signatures import CALL, KEPT, Mark, marked, read_mark
from kiro_asgi.stages.base import Filter
from kiro_asgi.stages.parts.conversation import before_answers, before_next_answer, canonical, digest_of
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
class SignedCall:
    """A call as its client is shown it, with what came before it."""

    call_id: str
    name: str
    signature: str
    """As sent to clients, or what `HeardThinking` has for it."""

    pieces: list[str] = field(init=False, factory=list)
    """Its arguments, in pieces of JSON text."""


@define
class CallSignatures(Filter[Delta]):
    """Record which signature came before which call, as the client has that call."""

    _others: bool = True
    """Whether signatures of anything else go on; to a client that did not ask for thinking they would be blocks that it
    does not expect, but for those of thinking that it is shown all the same."""

    budget: AnswerBudget = field(factory=AnswerBudget, kw_only=True)
    """The answer's, charged with the signatures and their calls."""

    thinking: HeardThinking | None = field(default=None, kw_only=True)
    """Has the thinking that calls are kept with; ``None`` where no service wants it back."""

    found: list[SignedCall] = field(init=False, factory=list)
    _call: SignedCall | None = field(init=False, default=None)
    """The call that comes, where it is signed."""

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
                self._begin(item)
            elif type(item) is ToolInputDelta and self._call is not None:
                self.budget.take(getsizeof(item.json))
                self._call.pieces.append(item.json)
            if type(item) is not MessageMembers and type(item) is not OpaqueEvent:
                self._thought = type(item) is ThinkingDelta
            yield item

    def _begin(self, start: ToolCallStart) -> None:
        signature, self._last, self._call = self._last, "", None
        if not signature and self.thinking is not None:
            signature = self.thinking.ended()
        if signature:
            self.budget.take(ITEM + getsizeof(signature))
            self._call = SignedCall(start.call_id, start.name, signature)
            self.found.append(self._call)


def signature_keys(calls: Iterable[SignedCall], prompt: Prompt) -> Mapping[str, str]:
    """The signatures of *calls*, which answer *prompt*, by the keys under which a later request has them looked up."""
    before = before_next_answer(prompt.turns, prompt.system)
    found: dict[str, str] = {}
    for call in calls:
        try:
            arguments = loads("".join(call.pieces) or "{}")
        except JsonError:  # cut; what the client makes of it is not known
            continue
        found[_key(before, call.call_id, call.name, arguments)] = call.signature
    return found


def _key(before: str, call_id: str, name: str, arguments: Any) -> str:
    return digest_of(before, call_id, name, canonical(arguments))


Place = tuple[int, int]
"""Number of a turn, and of a part in it."""


def unsigned_calls(prompt: Prompt, *, earlier: bool = False) -> Mapping[Place, str]:
    """Keys of calls that came without a signature since the user's last message, the last ones where there are many.

    Args:
        prompt: The request.
        earlier: Look at calls from before that message as well: the service wants each of them whole.
    """
    first = 0 if earlier else _current(prompt.turns)
    unsigned = [(place, call) for place, call in _unsigned(prompt.turns) if place[0] >= first]
    chosen = unsigned[-LOOKUPS:] if earlier else unsigned[:LOOKUPS]
    if not chosen:
        return {}
    before = before_answers(prompt.turns, prompt.system)
    digests = {number: before[answer[0]] for answer in _answers(prompt.turns) for number in answer}
    return {
        place: _key(digests[place[0]], call.call_id, call.name, call.input)
        for place, call in chosen
        if place[0] in digests
    }


def with_thinking(prompt: Prompt, known: Mapping[Place, str], owner: str) -> Prompt:
    """*prompt* with the thinking that the calls which *known* has came of, as *owner* has sent it.

    Where the client has handed thinking back, that stays, under the name that the service has for it.
    """
    marks = {place: read_mark(value) for place, value in known.items()}
    kept = {place: KeptThinking.decode(mark) for place, mark in marks.items() if mark.owner == owner}
    own: dict[int, KeptThinking] = {}
    for (number, _), thinking in sorted(kept.items()):
        if thinking is not None:
            own.setdefault(number, thinking)
    if not own:
        return prompt
    turns = [*prompt.turns]
    for answer in _answers(prompt.turns):
        at = next((number for number in answer if number in own), -1)
        if at < 0:
            continue
        kept_for = own[at]
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


def signed(prompt: Prompt, known: Mapping[Place, str]) -> Prompt:
    """*prompt* with the signatures before those calls that *known* has."""
    turns = [*prompt.turns]
    for number in {turn for turn, _ in known}:
        parts: list[Part] = []
        for place, part in enumerate(turns[number].parts):
            if (number, place) in known:
                parts.append(ThinkingPart(signature=known[number, place]))
            parts.append(part)
        turns[number] = evolve(turns[number], parts=tuple(parts))
    return evolve(prompt, turns=tuple(turns)) if known else prompt


def _unsigned(turns: tuple[Turn, ...]) -> Iterator[tuple[Place, ToolCallPart]]:
    """Every call that no signature stands before, with its place.

    One may stand in the turn before: a client may send each part as a turn of its own.
    """
    signs = False
    for number, turn in enumerate(turns):
        for place, part in enumerate(turn.parts):
            if type(part) is ToolCallPart and not signs:
                yield (number, place), part
            signs = type(part) is ThinkingPart and _is_of_call(part.signature)


def _current(turns: tuple[Turn, ...]) -> int:
    """The number of the last turn in which the user does not merely give results."""
    for number in range(len(turns) - 1, -1, -1):
        turn = turns[number]
        if turn.role is Role.USER and not all(isinstance(part, ToolResult) for part in turn.parts):
            return number
    return 0


def _is_of_call(signature: str) -> bool:
    return read_mark(signature).part == CALL
