"""Assembling tool calls from fragments.

What a fragment may do, in every emission mode:

* Fragments belong together by call id; those of several calls may alternate.  Without an id, a fragment continues the
  call that was opened last, unless it names another tool; it opens one if there is none, and that gets an id.
* ``stop`` ends a call, and the strict JSON parser judges it.  Only an object is delivered as it is; any other value
  becomes the member ``input`` of one, and absent arguments become ``{}``.  What does not parse is mended, where that is
  beyond doubt; else it is a `ToolCallCut` if it ends too early, and a `ToolCallMalformed` if it is complete.
* A call that ends without arguments may come once more, with some, under the same id; those count.  It goes out when
  the answer ends, and what follows it waits.
* A call that is still open at the end of the answer is delivered if its arguments are a whole object, else cut.
* Arguments that belong to no call may be those of one that has none: such calls are withheld then, as malformed.
* A name may come late; a call that never gets one is cut, or malformed where the upstream called it complete.

An assembler yields whole calls: `ToolCallStart`, `ToolInputDelta`, `ToolCallEnd`, with nothing of another kind between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

from attrs import define, evolve, field

from kiro_asgi.errors import ConfigError
from kiro_asgi.limits import TOOL_INPUT_BYTES
from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of
from kiro_asgi.model.events import (
    BlockMembers,
    Citation,
    Delta,
    MessageMembers,
    Notice,
    OpaqueBlock,
    OpaqueEvent,
    RedactedThinking,
    RefusalDelta,
    SignatureDelta,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.model.prompt import Turn
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.parts.argument_text import malformed_call
from kiro_asgi.stages.parts.call_ids import CallIds
from kiro_asgi.stages.parts.open_calls import (
    SENT,
    ArgumentReading,
    CompleteCall,
    OpenCall,
    OpenCalls,
    Verdict,
    fingerprint,
    has_arguments,
)

EMISSIONS: Final = ("complete", "end", "incremental")


@define(kw_only=True)
class ToolCallAssembler:
    """Turn every `ToolCallFragment` into part of a whole call; everything else passes.

    ===============  ===============================================================================================
    *emission*       when a call goes out
    ===============  ===============================================================================================
    ``complete``     The moment its JSON is complete.  Alternating calls go out in the order of their *ends*;
                     fragments that come after are ignored.
    ``end``          After everything else, in the order of first appearance.  Where the upstream sends a call
                     twice, the one with the most complete arguments wins.
    ``collected``    After the answer, as everything else does, in the order of their *ends*: for an answer that goes
                     out in one piece.  Where the upstream sends a call twice, the one with the most complete arguments
                     wins.
    ``incremental``  Fragment by fragment.  Alternating calls wait for their turn, and so does text behind an open
                     call.  A call may be cut when part of it has been sent; nothing can be dropped as equal.
    ===============  ===============================================================================================

    Raises:
        ConfigError: No such emission.
        AnswerTooLarge: From `feed`: calls that are open, and what waits behind them, take more than the budget.
    """

    emission: str = "complete"

    drop_equal: bool = True
    """Drop a call whose name and arguments equal those of an earlier one: only for a service that repeats calls."""

    id_stem: str = "call"
    """The prefix of ids for calls that come without one; a number follows."""

    reading: ArgumentReading = field(factory=ArgumentReading)

    max_bytes: int = TOOL_INPUT_BYTES
    """Arguments of one call, in UTF-8; a call with more is cut."""

    budget: AnswerBudget = field(factory=AnswerBudget)
    """The answer's."""

    conversation: Iterable[Turn] = ()
    """The turns that the client will send back before the answer: none of their ids is shown for another call."""

    _stage: Stage[Delta, Delta] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._stage = self._choose()

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on with whole calls in place of fragments."""
        return self._stage.feed(items)

    def flush(self) -> Iterator[Delta]:
        """The calls that are due, and the verdict on those still open."""
        return self._stage.flush()

    def _choose(self) -> Stage[Any, Delta]:
        ids = CallIds(self.conversation)
        match self.emission:
            case "complete":
                at_once = AtOnce(self.drop_equal, self.max_bytes, self.budget)
                return WholeCalls(at_once, self.max_bytes, self.id_stem, self.budget, self.reading, ids)
            case "end":
                at_end = AtEnd(self.drop_equal, self.budget)
                return WholeCalls(at_end, self.max_bytes, self.id_stem, self.budget, self.reading, ids)
            case "collected":
                collected = Collected(self.drop_equal, self.budget)
                return WholeCalls(collected, self.max_bytes, self.id_stem, self.budget, self.reading, ids)
            case "incremental":
                return IncrementalCalls(self.max_bytes, self.id_stem, self.budget, self.reading, ids)
        raise ConfigError(f"tool emission must be one of {', '.join(EMISSIONS)}, not {self.emission!r}")


STRAY: Final = "tool_call.stray"
"""A fragment with neither an id nor a name came while no call was open."""

NO_ID: Final = "tool_call.no_id"
"""A call came without an id and was given one; the detail is the tool's name."""

UNNAMED: Final = "tool_call.unnamed"
"""A call opened without a name."""

WRAPPED: Final = "tool_call.wrapped"
"""The arguments were no object."""

EQUAL: Final = "tool_call.equal"
"""A call was dropped because an earlier one equals it."""


CONTENT: Final = frozenset(
    {
        *(TextDelta, TextBreak, Citation, RefusalDelta, ThinkingDelta, SignatureDelta, RedactedThinking),
        *(MessageMembers, BlockMembers, OpaqueBlock, OpaqueEvent),
    }
)
"""Kinds of delta that keep their place among the calls."""


class _Delivery(Protocol):
    """When a judged call goes out."""

    waits: bool
    """Whether content has to be queued, behind a call that waits."""

    orphaned: bool
    """Whether there were arguments that belong to no call."""

    def queue(self, item: Delta) -> Iterable[Delta]:
        """Queue *item* behind a call that waits; give the deltas to send now."""
        ...

    def admits(self, call_id: str) -> bool:
        """Whether a call of this id may open now."""
        ...

    def accept(self, call_id: str, verdict: Verdict) -> Iterable[Delta]:
        """Take the verdict on a call; give the deltas to send now."""
        ...

    def rest(self) -> Iterable[Delta]:
        """The deltas to send at the end of the answer."""
        ...


def _opening_notices(fragment: ToolCallFragment) -> Iterator[Notice]:
    """Notices of what the first fragment of a call lacks."""
    if not fragment.call_id:
        yield Notice(NO_ID, fragment.name)
    if not fragment.name:
        yield Notice(UNNAMED, fragment.call_id)


def _repair_notices(call: CompleteCall) -> Iterator[Notice]:
    """Notices of the repairs that made the arguments an object."""
    for name in call.mended:
        yield Notice(f"arguments.{name}", call.name)
    if call.wrapped:
        yield Notice(WRAPPED, call.name)


@define
class _Sent:
    """Fingerprints of the calls that were sent, to recognise equal ones."""

    drop_equal: bool
    _prints: set[bytes] = field(init=False, factory=set)

    def deliver(self, verdict: Verdict) -> Iterator[Delta]:
        """The deltas of one judged call."""
        if not isinstance(verdict, CompleteCall):
            yield verdict
            return
        if self.drop_equal:
            mark = fingerprint(verdict.name, verdict.arguments)
            if mark in self._prints:
                yield Notice(EQUAL, verdict.name)
                return
            self._prints.add(mark)
        yield from _repair_notices(verdict)
        yield ToolCallStart(verdict.call_id, verdict.name, verdict.unread)
        yield ToolInputDelta(verdict.input)
        yield ToolCallEnd(verdict.call_id)


def _unless_orphaned(verdict: Verdict) -> Verdict:
    """*verdict*, given that other arguments belong to no call: they may be those of a call that has none."""
    if not (isinstance(verdict, CompleteCall) and verdict.is_provisional):
        return verdict
    reason = "none, while other arguments belong to no call"
    return ToolCallMalformed(malformed_call(verdict.call_id, verdict.name, "", reason=reason))


@define
class _Waiting:
    """A call in line."""

    call_id: str
    verdict: Verdict


def _length_of(item: Delta) -> int:
    """Characters of content; how much may wait does not depend on how a text was cut."""
    match item:
        case TextDelta(text) | RefusalDelta(text) | ThinkingDelta(text):
            return len(text)
        case SignatureDelta(text) | RedactedThinking(text):
            return len(text)
    return 0


def _length(item: Delta | _Waiting) -> int:
    if isinstance(item, _Waiting):
        return len(item.verdict.input) if isinstance(item.verdict, CompleteCall) else 0
    return _length_of(item)


def _room(item: Delta | _Waiting | Verdict | None) -> int:
    """Bytes that it takes to keep *item*."""
    if isinstance(item, _Waiting):
        return _room(item.verdict)
    if isinstance(item, CompleteCall):
        return item.room
    return ITEM if item is None else size_of(item)


@define
class AtOnce:
    """Send a call as soon as it is judged; what comes later for its id is ignored.

    A call without arguments waits, until the end of the answer or until it has come once more with arguments, and what
    follows it waits behind it.  Once that is more than *max_waiting* characters, nothing waits any longer.
    """

    drop_equal: bool
    max_waiting: int
    budget: AnswerBudget
    waits: bool = field(init=False, default=False)
    orphaned: bool = field(init=False, default=False)
    _ids: set[str] = field(init=False, factory=set)
    _sent: _Sent = field(init=False)
    _line: deque[Delta | _Waiting] = field(init=False, factory=deque)
    _size: int = field(init=False, default=0)
    """Characters in line."""

    _provisional: dict[str, _Waiting] = field(init=False, factory=dict)
    """Calls in line that have no arguments, by id."""

    def __attrs_post_init__(self) -> None:
        self._sent = _Sent(self.drop_equal)

    def admits(self, call_id: str) -> bool:
        """Whether no call of this id was judged before, or one without arguments."""
        return call_id not in self._ids or call_id in self._provisional

    def accept(self, call_id: str, verdict: Verdict) -> Iterable[Delta]:
        """The call, unless it waits."""
        self._ids.add(call_id)
        if (earlier := self._provisional.get(call_id)) is not None:
            if _merit(verdict) > 0:
                del self._provisional[call_id]
                self.budget.take(_room(verdict) - _room(earlier))
                earlier.verdict = verdict
            return self._advance()
        waiting = _Waiting(call_id, verdict)
        if isinstance(verdict, CompleteCall) and verdict.is_provisional:
            self._provisional[call_id] = waiting
        elif not self.waits:
            return self._sent.deliver(verdict)
        return self._append(waiting)

    def queue(self, item: Delta) -> Iterable[Delta]:
        """Nothing, as long as not too much waits."""
        return self._append(item)

    def rest(self) -> Iterable[Delta]:
        """All that waits."""
        if self.orphaned:
            for waiting in self._provisional.values():
                verdict = _unless_orphaned(waiting.verdict)
                self.budget.take(_room(verdict) - _room(waiting.verdict))
                waiting.verdict = verdict
        self._provisional.clear()
        return self._advance()

    def _append(self, item: Delta | _Waiting) -> Iterable[Delta]:
        self.waits = True
        self.budget.take(_room(item))
        self._line.append(item)
        self._size += _length(item)
        return self.rest() if self._size > self.max_waiting else ()

    def _advance(self) -> Iterator[Delta]:
        """Deltas before the first call that still has no arguments."""
        while self._line:
            item = self._line[0]
            if isinstance(item, _Waiting) and item.call_id in self._provisional:
                return
            self._line.popleft()
            self.budget.give_back(_room(item))
            if isinstance(item, _Waiting):
                yield from self._sent.deliver(item.verdict)
            else:
                yield item
        self.waits, self._size = False, 0


@define
class AtEnd:
    """Keep the best call of every id until the end; nothing else waits."""

    drop_equal: bool
    budget: AnswerBudget
    waits: bool = field(init=False, default=False)
    orphaned: bool = field(init=False, default=False)
    _best: dict[str, Verdict | None] = field(init=False, factory=dict)
    """In the order of first appearance."""

    def admits(self, call_id: str) -> bool:
        """Always: a later call may be more complete."""
        if call_id not in self._best:
            self.budget.take(_room(None))
            self._best[call_id] = None
        return True

    def accept(self, call_id: str, verdict: Verdict) -> Iterable[Delta]:
        """Nothing yet."""
        best = self._best[call_id]
        if _merit(verdict) > _merit(best):
            self.budget.take(_room(verdict) - _room(best))
            self._best[call_id] = verdict
        return ()

    def queue(self, item: Delta) -> Iterable[Delta]:
        """The item itself."""
        return (item,)

    def rest(self) -> Iterable[Delta]:
        """The best call of every id."""
        sent = _Sent(self.drop_equal)
        for call_id in self._best:
            yield from self._delivered(call_id, sent)

    def _delivered(self, call_id: str, sent: _Sent) -> Iterator[Delta]:
        verdict = self._best[call_id]
        assert verdict is not None, "a call was opened and never judged"
        self.budget.give_back(_room(verdict))
        yield from sent.deliver(_unless_orphaned(verdict) if self.orphaned else verdict)


@define
class Collected(AtEnd):
    """Keep all that comes after the first call, and the best call of every id at the place of the first."""

    _line: list[Delta | str] = field(init=False, factory=list)
    """What has come, a call by its id."""

    def accept(self, call_id: str, verdict: Verdict) -> Iterable[Delta]:
        """Nothing yet; its place is where the first call of its id has ended, as in an answer that is streamed."""
        if self._best[call_id] is None:
            self.waits = True
            self._line.append(call_id)
        return super().accept(call_id, verdict)

    def queue(self, item: Delta) -> Iterable[Delta]:
        """Nothing yet."""
        self.budget.take(size_of(item))
        self._line.append(item)
        return ()

    def rest(self) -> Iterator[Delta]:
        """All of it."""
        sent = _Sent(self.drop_equal)
        for item in self._line:
            if isinstance(item, str):
                yield from self._delivered(item, sent)
            else:
                self.budget.give_back(size_of(item))
                yield item


def _merit(verdict: Verdict | None) -> int:
    """How complete a call is, by the length of its arguments.

    A call that cannot be read ranks below those that can, but above one without arguments, as it did have some.
    """
    if isinstance(verdict, CompleteCall):
        return 0 if verdict.is_provisional else 1 + len(verdict.input)
    if verdict is None:
        return -2
    return 1 if verdict.info.size_bytes else -1


@define
class WholeCalls:
    """Gather fragments, judge each call when it ends, and leave the rest to the delivery."""

    delivery: _Delivery
    max_bytes: int
    id_stem: str
    budget: AnswerBudget
    reading: ArgumentReading
    ids: CallIds = field(factory=CallIds)
    _calls: OpenCalls[OpenCall] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._calls = OpenCalls(OpenCall, self.budget, self.id_stem, self.ids)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on; fragments are kept, and calls go out when the delivery sends them."""
        by_id, delivery = self._calls.by_id, self.delivery
        max_bytes = self.max_bytes
        for item in items:
            if type(item) is not ToolCallFragment:
                if delivery.waits and type(item) in CONTENT:
                    yield from delivery.queue(item)
                else:
                    yield item
                continue
            call = by_id.get(item.call_id)
            if call is None or item.stop or not call.name or item.unread is not None:
                yield from self._process(item)
            elif call.write(item.input) > max_bytes:
                yield from self._judge(call, call.cut("too large"))

    def flush(self) -> Iterator[Delta]:
        """Judge the calls that never ended, then send what is due."""
        for call in self._calls.take_all():
            yield from self._accepted(call, call.close(stopped=False, reading=self.reading))
        yield from self.delivery.rest()

    def _process(self, fragment: ToolCallFragment) -> Iterator[Delta]:
        """A fragment that opens, names or ends a call."""
        call = self._calls.find(fragment.call_id, fragment.name)
        if call is None:
            if not (fragment.call_id or fragment.name):
                self.delivery.orphaned |= has_arguments(fragment.input)
                yield Notice(STRAY)
                return
            call_id = fragment.call_id or self._calls.new_id()
            if not self.delivery.admits(call_id):
                return
            call = self._calls.open(call_id)
            yield from _opening_notices(fragment)
        call.take_name(fragment.name)
        call.take_unread(fragment.unread)
        if call.write(fragment.input) > self.max_bytes:
            yield from self._judge(call, call.cut("too large"))
        elif fragment.stop:
            yield from self._judge(call, call.close(stopped=True, reading=self.reading))

    def _judge(self, call: OpenCall, verdict: Verdict) -> Iterable[Delta]:
        self._calls.take(call)
        return self._accepted(call, verdict)

    def _accepted(self, call: OpenCall, verdict: Verdict) -> Iterable[Delta]:
        self.delivery.orphaned |= call.is_orphan
        unread = call.give_unread()
        call.release()
        if unread is not None and isinstance(verdict, CompleteCall):
            verdict = evolve(verdict, unread=unread)
        return self.delivery.accept(call.key, verdict)


@define
class _IncrementalCall(OpenCall):
    verdict: Verdict | None = None
    """Set once the call has ended."""

    opener: str = ""
    """First two characters of the arguments that are not white space."""

    streaming: bool = False
    """Whether the call goes out as it comes: once its arguments begin an object that is not empty.  Anything else may
    have to be wrapped or withheld, or come once more with arguments, and goes out at the end."""

    def take_in(self, fragment: ToolCallFragment) -> int:
        """Learn from a fragment; the new size in bytes."""
        self.take_name(fragment.name)
        self.take_unread(fragment.unread)
        if len(self.opener) < 2:
            self.opener = "".join((self.opener + fragment.input).split())[:2]
        return self.write(fragment.input)

    def catch_up(self) -> Iterator[Delta]:
        """Deltas that may be sent now and have not been."""
        begins = self.opener[:1] == "{" and self.opener not in ("{", "{}")
        if begins and not self.streaming and self.name and isinstance(self.verdict, CompleteCall | None):
            self.streaming = True
            yield ToolCallStart(self.call_id, self.name, self.give_unread())
            yield ToolInputDelta(self.text)

    def restart(self) -> None:
        """Forget the arguments: they come once more."""
        super().restart()
        self.opener, self.verdict = "", None

    def ending(self) -> Iterator[Delta]:
        """How the call ends."""
        if not isinstance(self.verdict, CompleteCall):
            assert self.verdict is not None, "a call ended that was not judged"
            yield self.verdict
            return
        yield from _repair_notices(self.verdict)
        if not self.streaming:
            yield ToolCallStart(self.call_id, self.name, self.give_unread())
            yield ToolInputDelta(self.verdict.input)
        yield ToolCallEnd(self.call_id, self.give_unread())


@define
class IncrementalCalls:
    """Stream the call at the front; what would overlap it waits in line, and so does what follows a call without
    arguments: until the end of the answer, or until it has come once more with arguments.

    The line is bounded: once more than *max_bytes* characters wait behind a call, the call is judged as if the answer
    had ended.
    """

    max_bytes: int
    id_stem: str
    budget: AnswerBudget
    reading: ArgumentReading

    ids: CallIds = field(factory=CallIds)
    _calls: OpenCalls[_IncrementalCall] = field(init=False)
    _ended: set[str] = field(init=False, factory=set)
    _provisional: dict[str, _IncrementalCall] = field(init=False, factory=dict)
    """Calls that have ended without arguments and have not gone out, by id."""

    _orphaned: bool = field(init=False, default=False)
    """Whether there were arguments that belong to no call."""

    _front: _IncrementalCall | None = field(init=False, default=None)
    _line: deque[Delta | _IncrementalCall] = field(init=False, factory=deque)
    _waiting: int = field(init=False, default=0)
    """Characters of content in line."""

    def __attrs_post_init__(self) -> None:
        self._calls = OpenCalls(_IncrementalCall, self.budget, self.id_stem, self.ids)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, fragments as parts of whole calls."""
        for item in items:
            if type(item) is ToolCallFragment:
                yield from self._fragment(item)
            elif self._front is None or type(item) not in CONTENT:
                yield item
            else:
                yield from self._wait(item)

    def flush(self) -> Iterator[Delta]:
        """Judge the calls that never ended, then send all that waits."""
        for call in self._calls.take_all():
            call.verdict = self._judge(call, stopped=False)
        for call in self._provisional.values() if self._orphaned else ():
            assert call.verdict is not None, "a call waits that was not judged"
            call.verdict = _unless_orphaned(call.verdict)
        self._provisional.clear()
        yield from self._advance()

    def _fragment(self, fragment: ToolCallFragment) -> Iterator[Delta]:
        call = self._calls.find(fragment.call_id, fragment.name)
        if call is None:
            if not (fragment.call_id or fragment.name):
                self._orphaned |= has_arguments(fragment.input)
                yield Notice(STRAY)
                return
            if fragment.call_id in self._ended:
                call = self._begun_again(fragment)
                if call is None:
                    return
            else:
                call = self._open(fragment.call_id or self._calls.new_id())
                yield from _opening_notices(fragment)
        streaming = call.streaming
        if call.take_in(fragment) > self.max_bytes:
            self._end(call, call.cut("too large"))
        elif call is self._front and streaming and fragment.input:
            yield ToolInputDelta(fragment.input)
        if fragment.stop and call.verdict is None:
            self._end(call, self._judge(call, stopped=True))
        if call is self._front:
            yield from self._advance()

    def _open(self, call_id: str) -> _IncrementalCall:
        call = self._calls.open(call_id)
        if self._front is None:
            self._front = call
        else:
            self._line.append(call)
        return call

    def _begun_again(self, fragment: ToolCallFragment) -> _IncrementalCall | None:
        """The call that had ended without arguments and now gets some."""
        call = self._provisional.pop(fragment.call_id, None) if fragment.input.strip() else None
        if call is not None:
            self._calls.reopen(call)
        return call

    def _judge(self, call: _IncrementalCall, *, stopped: bool) -> Verdict:
        verdict = call.close(stopped=stopped, reading=SENT if call.streaming else self.reading)
        self._orphaned |= call.is_orphan
        return verdict

    def _end(self, call: _IncrementalCall, verdict: Verdict) -> None:
        call.verdict = verdict
        self._calls.take(call)
        self._ended.add(call.key)
        if isinstance(verdict, CompleteCall) and verdict.is_provisional:
            self._provisional[call.key] = call

    def _wait(self, item: Delta) -> Iterator[Delta]:
        self.budget.take(size_of(item))
        self._line.append(item)
        self._waiting += _length_of(item)
        front = self._front
        if self._waiting > self.max_bytes and front is not None:
            if front.verdict is None:
                self._end(front, self._judge(front, stopped=False))
            self._provisional.clear()
            yield from self._advance()

    def _advance(self) -> Iterator[Delta]:
        """Send what the front allows; when it has ended, the line moves up."""
        while (front := self._front) is not None:
            if front.name not in self.reading.texts:
                yield from front.catch_up()
            if front.verdict is None or front.key in self._provisional:
                return
            front.release()
            yield from front.ending()
            self._front = None
            yield from self._move_up()

    def _move_up(self) -> Iterator[Delta]:
        while self._line:
            item = self._line.popleft()
            if isinstance(item, _IncrementalCall):
                self._front = item
                return
            self.budget.give_back(size_of(item))
            self._waiting -= _length_of(item)
            yield item
