"""Tool calls that go out whole: at once, or at the end of the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from attrs import define, field

from kiro_asgi.model.events import (
    Delta,
    Notice,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.tool_buffer import CompleteCall, OpenCall, OpenCalls, fingerprint

__all__ = ["EQUAL", "STRAY", "UNNAMED", "WRAPPED", "AtEnd", "AtOnce", "WholeCalls"]

STRAY: Final = "tool_call.stray"
"""A fragment without an id came while no call was open."""

UNNAMED: Final = "tool_call.unnamed"
"""A call opened without a name."""

WRAPPED: Final = "tool_call.wrapped"
"""The arguments were no object."""

EQUAL: Final = "tool_call.equal"
"""A call was dropped because an earlier one equals it."""

Verdict = CompleteCall | ToolCallCut


class _Delivery(Protocol):
    """When a judged call goes out."""

    def admits(self, call_id: str) -> bool:
        """Whether a call of this id may open now."""
        ...

    def accept(self, call_id: str, verdict: Verdict) -> Iterable[Delta]:
        """What to send as soon as a call has been judged."""
        ...

    def rest(self) -> Iterable[Delta]:
        """What to send at the end of the answer."""
        ...


@define
class _Sent:
    """What has gone out, for telling equals."""

    drop_equal: bool
    _prints: set[bytes] = field(init=False, factory=set)

    def deliver(self, verdict: Verdict) -> Iterator[Delta]:
        """The deltas of one judged call."""
        if isinstance(verdict, ToolCallCut):
            yield verdict
            return
        if self.drop_equal:
            mark = fingerprint(verdict.name, verdict.arguments)
            if mark in self._prints:
                yield Notice(EQUAL, verdict.name)
                return
            self._prints.add(mark)
        if verdict.wrapped:
            yield Notice(WRAPPED, verdict.name)
        yield ToolCallStart(verdict.call_id, verdict.name)
        yield ToolInputDelta(verdict.input)
        yield ToolCallEnd(verdict.call_id)


@define
class AtOnce:
    """Send a call as soon as it is judged; what comes later for its id is ignored."""

    drop_equal: bool
    _ids: set[str] = field(init=False, factory=set)
    _sent: _Sent = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._sent = _Sent(self.drop_equal)

    def admits(self, call_id: str) -> bool:
        """Whether no call of this id was judged before."""
        return call_id not in self._ids

    def accept(self, call_id: str, verdict: Verdict) -> Iterable[Delta]:
        """The call."""
        self._ids.add(call_id)
        return self._sent.deliver(verdict)

    def rest(self) -> Iterable[Delta]:
        """Nothing: it is all gone."""
        return ()


@define
class AtEnd:
    """Keep the best call of every id until the end."""

    drop_equal: bool
    _best: dict[str, Verdict | None] = field(init=False, factory=dict)
    """In the order of first appearance."""

    def admits(self, call_id: str) -> bool:
        """Always: a later call may be more complete."""
        self._best.setdefault(call_id, None)
        return True

    def accept(self, call_id: str, verdict: Verdict) -> Iterable[Delta]:
        """Nothing yet."""
        if _merit(verdict) > _merit(self._best[call_id]):
            self._best[call_id] = verdict
        return ()

    def rest(self) -> Iterable[Delta]:
        """The best call of every id."""
        sent = _Sent(self.drop_equal)
        for verdict in self._best.values():
            assert verdict is not None, "a call was opened and never judged"
            yield from sent.deliver(verdict)


def _merit(verdict: Verdict | None) -> int:
    """How complete a call is: cut calls below all others, then by the length of the arguments."""
    if verdict is None:
        return -1
    return len(verdict.input) if isinstance(verdict, CompleteCall) else 0


@define
class WholeCalls:
    """Gather fragments, judge each call when it ends, and leave the rest to the delivery."""

    delivery: _Delivery
    max_bytes: int
    _calls: OpenCalls[OpenCall] = field(init=False, factory=lambda: OpenCalls(OpenCall))

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on; fragments are kept, and calls go out as the delivery has it."""
        by_id = self._calls.by_id
        max_bytes = self.max_bytes
        for item in items:
            if type(item) is not ToolCallFragment:
                yield item
                continue
            call = by_id.get(item.call_id)
            if call is None or item.stop or not call.name:
                yield from self._turn(item)
            elif call.write(item.input) > max_bytes:
                yield from self._judge(call, call.cut("too large"))

    def flush(self) -> Iterator[Delta]:
        """Judge the calls that never ended, then send what is due."""
        for call in self._calls.take_all():
            yield from self.delivery.accept(call.call_id, call.close(stopped=False))
        yield from self.delivery.rest()

    def _turn(self, fragment: ToolCallFragment) -> Iterator[Delta]:
        """A fragment that opens, names or ends a call."""
        call = self._calls.find(fragment.call_id)
        if call is None:
            if not fragment.call_id:
                yield Notice(STRAY, fragment.name)
                return
            if not self.delivery.admits(fragment.call_id):
                return
            call = self._calls.open(fragment.call_id)
            if not fragment.name:
                yield Notice(UNNAMED, fragment.call_id)
        call.name = call.name or fragment.name
        if call.write(fragment.input) > self.max_bytes:
            yield from self._judge(call, call.cut("too large"))
        elif fragment.stop:
            yield from self._judge(call, call.close(stopped=True))

    def _judge(self, call: OpenCall, verdict: Verdict) -> Iterable[Delta]:
        self._calls.take(call)
        return self.delivery.accept(call.call_id, verdict)
