"""Tool calls that go out fragment by fragment, one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator

from attrs import define, field

from kiro_asgi.model.budget import AnswerBudget, size_of
from kiro_asgi.model.events import (
    Delta,
    Notice,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.parts.open_calls import CompleteCall, OpenCall, OpenCalls, Verdict
from kiro_asgi.stages.tool_calls_whole import CONTENT, STRAY, length_of, opening_notices, repair_notices


@define
class _IncrementalCall(OpenCall):
    verdict: Verdict | None = None
    """Set once the call has ended."""

    started: bool = False
    opener: str = ""
    """First two characters of the arguments that are not white space."""

    streaming: bool = False
    """Whether fragments go out as they come: from the first one on, if they begin an object that is not empty.
    Anything else may have to be wrapped, or come once more with arguments, and goes out at the end."""

    def take_in(self, fragment: ToolCallFragment) -> int:
        """Learn from a fragment; the new size in bytes."""
        self.take_name(fragment.name)
        if len(self.opener) < 2:
            self.opener = "".join((self.opener + fragment.input).split())[:2]
        return self.write(fragment.input)

    def catch_up(self) -> Iterator[Delta]:
        """Deltas that may be sent now and have not been."""
        if not self.started and self.name and isinstance(self.verdict, CompleteCall | None):
            self.started = True
            yield ToolCallStart(self.call_id, self.name)
        if self.started and not self.streaming and self.opener[:1] == "{" and self.opener not in ("{", "{}"):
            self.streaming = True
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
        yield from repair_notices(self.verdict)
        if not self.streaming:
            yield ToolInputDelta(self.verdict.input)
        yield ToolCallEnd(self.call_id)


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
    mendings: Collection[str] = ()
    """Not for a call whose beginning has gone out."""

    _calls: OpenCalls[_IncrementalCall] = field(init=False)
    _ended: set[str] = field(init=False, factory=set)
    _provisional: dict[str, _IncrementalCall] = field(init=False, factory=dict)
    """Calls that have ended without arguments and have not gone out, by id."""

    _front: _IncrementalCall | None = field(init=False, default=None)
    _line: deque[Delta | _IncrementalCall] = field(init=False, factory=deque)
    _waiting: int = field(init=False, default=0)
    """Characters of content in line."""

    def __attrs_post_init__(self) -> None:
        self._calls = OpenCalls(_IncrementalCall, self.budget, self.id_stem)

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
        self._provisional.clear()
        yield from self._advance()

    def _fragment(self, fragment: ToolCallFragment) -> Iterator[Delta]:
        call = self._calls.find(fragment.call_id, fragment.name)
        if call is None:
            if not (fragment.call_id or fragment.name):
                yield Notice(STRAY)
                return
            if fragment.call_id in self._ended:
                call = self._begun_again(fragment)
                if call is None:
                    return
            else:
                call = self._open(fragment.call_id or self._calls.new_id())
                yield from opening_notices(fragment)
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
        return call.close(stopped=stopped, mendings=() if call.streaming else self.mendings)

    def _end(self, call: _IncrementalCall, verdict: Verdict) -> None:
        call.verdict = verdict
        self._calls.take(call)
        self._ended.add(call.call_id)
        if isinstance(verdict, CompleteCall) and verdict.is_provisional:
            self._provisional[call.call_id] = call

    def _wait(self, item: Delta) -> Iterator[Delta]:
        self.budget.take(size_of(item))
        self._line.append(item)
        self._waiting += length_of(item)
        front = self._front
        if self._waiting > self.max_bytes and front is not None:
            if front.verdict is None:
                self._end(front, self._judge(front, stopped=False))
            self._provisional.clear()
            yield from self._advance()

    def _advance(self) -> Iterator[Delta]:
        """Send what the front allows; when it has ended, the line moves up."""
        while (front := self._front) is not None:
            yield from front.catch_up()
            if front.verdict is None or front.call_id in self._provisional:
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
            self._waiting -= length_of(item)
            yield item
