"""The latest calls, in memory, for the page's list.

Names, counts and times are kept; prompts and answers only where there is a recorder, whose recordings go first when
memory is short.  Each call has the number of its last change, so a viewer asks for all that changed since, however long
ago that was: no call waits for a viewer, and a slow one sees fewer steps of the way to the same list.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict, deque
from collections.abc import Collection, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.inspector.remarks import Remark, remarks_on
from kiro_asgi.observers.base import AttemptFacts, ByteObserver, CallFacts, EndFacts, PlanFacts
from kiro_asgi.tapes.recorder import Recorder, Recording

_MOST: Final = 2048
"""Moments that are kept; with more, neighbours become one, and from then on as many make one."""


@define(eq=False)
class Ticks:
    """Moments in their order; the work for each is constant on average."""

    _times: array[float] = field(init=False, factory=lambda: array("d"))
    _sizes: array[int] = field(init=False, factory=lambda: array("q"))
    _joined: int = field(init=False, default=1)
    """Moments that make one."""

    count: int = field(init=False, default=0)
    total: int = field(init=False, default=0)
    """The sum of all sizes."""

    last: float | None = field(init=False, default=None)
    """The latest moment."""

    longest: float = field(init=False, default=0.0)
    """The longest time from one to the next."""

    def add(self, at: float, size: int) -> None:
        """Add a moment that is not before the last."""
        if self.last is not None:
            self.longest = max(self.longest, at - self.last)
        self.last = at
        self.total += size
        if self.count % self._joined:
            self._sizes[-1] += size
        else:
            self._times.append(at)
            self._sizes.append(size)
        self.count += 1
        if len(self._times) == _MOST and self.count % self._joined == 0:
            self._halve()

    def _halve(self) -> None:
        self._times = self._times[::2]
        self._sizes = array("q", map(sum, zip(self._sizes[::2], self._sizes[1::2], strict=True)))
        self._joined *= 2

    @property
    def bytes(self) -> int:
        """Bytes of memory that this takes, about."""
        return 200 + 16 * len(self._times)

    def pairs(self) -> list[tuple[float, int]]:
        """Each moment that was kept, in seconds, and the bytes from then to the next."""
        return [(round(at, 4), size) for at, size in zip(self._times, self._sizes, strict=True)]


_TEXT: Final = 200
"""Characters of a text that a client chose."""

_ATTEMPTS: Final = 100
"""Attempts that are kept of a call."""

_CALL_BYTES: Final = 4096
_ATTEMPT_BYTES: Final = 2048
"""Bytes of memory that a call, and each attempt at its answer, take with all their texts."""

_SILENCE: Final = 0.5
"""Seconds without anything from the service or to the client after which a send is a sign of life."""

_BEATS: Final = 200
"""Signs of life that are kept of a call."""

_HEADERS: Final = 30
"""Rate-limit headers that are kept of an answer."""

_GONE: Final = 4096
"""Calls of which it is known that they are gone; a viewer who was away for more begins anew."""

_REFRESH: Final = 0.1
"""Seconds between two changes of a call that merely goes on."""


class State(StrEnum):
    """How far a call has come."""

    READING = "reading"
    """The request is being read, and rendered for a service."""

    WAITING = "waiting"
    """A service was asked."""

    STREAMING = "streaming"
    """It answers."""

    ENDED = "ended"


@define(eq=False)
class Attempt:
    """One attempt at an answer."""

    plan: PlanFacts
    facts: AttemptFacts | None = None
    """Known once it has ended."""


@define(eq=False)
class RecordedCall:
    """One call, as far as it has come."""

    number: int
    """From 1, in the order in which calls came."""

    facts: CallFacts
    """Without its headers, among which is the client's key."""

    agent: str
    """The ``user-agent`` header."""

    change: int
    """Number of its last change, among those of all calls."""

    state: State = State.READING
    attempts: list[Attempt] = field(factory=list)
    received: Ticks = field(factory=Ticks)
    """Bytes from services, by seconds from the beginning of the call."""

    sent: Ticks = field(factory=Ticks)
    """Bytes to the client, likewise."""

    beats: list[float] = field(factory=list)
    """When the client was sent something although nothing had come: signs of life."""

    blocked: float = 0.0
    """Seconds that the client let its answer wait."""

    recording: Recording | None = None
    """Its recording; ``None`` where nothing was recorded, or memory was short."""

    asked: str = ""
    """The beginning of what its client asked; empty until somebody looks, and where no prose is kept."""

    tools: tuple[str, ...] | None = None
    """Names of the tools that its answer calls; ``None`` until somebody looks after its end."""

    pinned: bool = False
    """Whether it stays, with what was recorded, while others make room."""

    end: EndFacts | None = None
    remarks: tuple[Remark, ...] = ()
    """What is to be said of it, once it has ended."""

    seen: float = 0.0
    """When it last changed, by the application's clock."""

    size: int = 0
    """Bytes of memory that it takes, about."""


@frozen
class Seen:
    """What a viewer knows: numbers of changes, 0 for nothing."""

    change: int = 0
    """The last change of a call."""

    gone: int = 0
    """The last time that one went."""


@frozen
class Changes:
    """Changes since a viewer last looked."""

    calls: tuple[RecordedCall, ...]
    """In the order of their changes."""

    seen: Seen
    """With them, to ask with next."""

    gone: tuple[int, ...]
    """Numbers of calls that are not kept any more."""

    fresh: bool
    """Whether these are all that are kept, and the viewer begins anew."""


@define(eq=False)
class _Sort:
    """Calls that have ended and may make room, of one sort, those that ended first at first."""

    calls: OrderedDict[str, RecordedCall] = field(factory=OrderedDict)
    recorded: OrderedDict[str, RecordedCall] = field(factory=OrderedDict)
    """Those of them with a recording."""

    size: int = 0
    """Bytes of memory that they take, about."""


@define(eq=False)
class RecentCalls(ByteObserver):
    """Keeps calls until there are too many, or they take too much memory.

    Then the oldest of the sort of which there is most makes room, so no flood of one sort takes the room of another:
    good calls are one, and calls with the same error, or the same notice, are.  Those under way go last.

    Event loops in several threads may call it at once.
    """

    _most: int
    """Calls that are kept."""

    _bytes: int
    """Bytes of memory that they may take."""

    _recorder: Recorder | None = None
    """Observes each call before this does."""

    _by_id: OrderedDict[str, RecordedCall] = field(init=False, factory=OrderedDict)
    """In the order in which they came."""

    _by_change: OrderedDict[str, RecordedCall] = field(init=False, factory=OrderedDict)
    """In the order in which they changed."""

    _recorded: dict[str, RecordedCall] = field(init=False, factory=dict)
    """Those with a recording, in the order in which they came."""

    _sorts: dict[str, _Sort] = field(init=False, factory=dict)
    """Calls that have ended and are not pinned; there are as many sorts as the page has words, and those in use."""

    _gone: deque[tuple[int, int]] = field(init=False, factory=lambda: deque(maxlen=_GONE))
    """Number of a change, and of the call that went with it."""

    _number: int = field(init=False, default=0)
    _change: int = field(init=False, default=0)
    size: int = field(init=False, default=0)
    """Bytes of memory that all take, about."""

    allowances: dict[str, dict[str, str]] = field(init=False, factory=dict)
    """By credential the rate-limit headers of its last answer that had any: names and values."""

    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)

    def began(self, call: CallFacts) -> None:
        """Keep a new call."""
        with self._guard:
            self._number += 1
            kept = RecordedCall(self._number, _bare(call), _agent(call), self._change)
            if self._recorder is not None and (recording := self._recorder.recording(call)) is not None:
                kept.recording = recording
                self._recorded[call.request_id] = kept
            self._by_id[call.request_id] = kept
            self._changed(kept, call.started)
            self._make_room()

    def planned(self, call: CallFacts, plan: PlanFacts) -> None:
        """Note that a service is asked."""
        with self._guard:
            if (kept := self._by_id.get(call.request_id)) is not None:
                if len(kept.attempts) == _ATTEMPTS:
                    del kept.attempts[1]
                kept.attempts.append(Attempt(plan))
                kept.state = State.WAITING
                self._changed(kept, plan.started)

    def attempted(self, call: CallFacts, attempt: AttemptFacts) -> None:
        """Note how the attempt ended."""
        with self._guard:
            if (kept := self._by_id.get(call.request_id)) is not None:
                for each in kept.attempts[-1:]:
                    each.facts = attempt
                self._changed(kept, attempt.plan.started + attempt.seconds)

    def head_received(self, call: CallFacts, status: int, headers: Sequence[tuple[bytes, bytes]], at: float) -> None:
        """Note the rate-limit headers of the service."""
        limits = {name.decode("latin-1").lower(): value for name, value in headers if b"ratelimit" in name.lower()}
        if limits:
            with self._guard:
                if (kept := self._by_id.get(call.request_id)) is not None and kept.attempts:
                    shown = {name: value[:_TEXT].decode("latin-1") for name, value in islice(limits.items(), _HEADERS)}
                    self.allowances[kept.attempts[-1].plan.credential] = shown

    def received(self, call: CallFacts, data: bytes, at: float) -> None:
        """Note that some of the answer came."""
        with self._guard:
            if (kept := self._by_id.get(call.request_id)) is not None:
                kept.received.add(at - call.started, len(data))
                kept.state = State.STREAMING
                self._progressed(kept, at)

    def sent(self, call: CallFacts, data: bytes, at: float, blocked: float) -> None:
        """Note that some of it was sent."""
        with self._guard:
            if (kept := self._by_id.get(call.request_id)) is not None:
                moment = at - call.started
                last = kept.sent.last
                silent = last is not None and moment - max(last, kept.received.last or 0.0) >= _SILENCE
                if silent and len(kept.beats) < _BEATS:
                    kept.beats.append(moment)
                kept.sent.add(moment, len(data))
                kept.blocked += blocked
                self._progressed(kept, at)

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """Note how it ended."""
        with self._guard:
            if (kept := self._by_id.get(call.request_id)) is not None:
                kept.end, kept.state = end, State.ENDED
                kept.remarks = remarks_on(end, [each.facts for each in kept.attempts if each.facts is not None])
                self._let_go(kept)
                self._changed(kept, call.started + end.seconds)
                self._make_room()

    def find(self, request_id: str) -> RecordedCall | None:
        """The call of that id; ``None`` where it is not kept any more."""
        return self._by_id.get(request_id)

    def all(self) -> list[RecordedCall]:
        """All that are kept, in the order in which they came."""
        with self._guard:
            return list(self._by_id.values())

    def numbered(self, numbers: Collection[int]) -> list[RecordedCall]:
        """Those with the numbers, as far as they are kept, the newest first."""
        wanted = frozenset(numbers)
        with self._guard:
            return [call for call in reversed(self._by_id.values()) if call.number in wanted]

    def pin(self, request_id: str, pinned: bool) -> bool:
        """Let a call stay, or no longer; whether there is such a call, and room: half of it may be pinned."""
        with self._guard:
            kept = self._by_id.get(request_id)
            taken = sum(each.size for each in self._by_id.values() if each.pinned)
            if kept is None or (pinned and taken + kept.size > self._bytes // 2):
                return False
            kept.pinned = pinned
            if kept.state is State.ENDED:
                (self._hold if pinned else self._let_go)(kept)
            self._changed(kept, kept.seen)
            return True

    def delete(self, request_id: str) -> None:
        """Let go of a call that has ended; of an empty id all of them, but those that are pinned."""
        with self._guard:
            for each in list(self._by_id.values()):
                wanted = each.facts.request_id == request_id if request_id else not each.pinned
                if wanted and each.state is State.ENDED:
                    self._drop(each)

    def changes(self, seen: Seen, most: int) -> Changes:
        """The calls that changed since, those that did so first, and no more than *most*."""
        with self._guard:
            fresh = seen == Seen() or (len(self._gone) == _GONE and seen.gone < self._gone[0][0])
            if fresh:
                seen = Seen(0, self._change)
            found = []
            for kept in reversed(self._by_change.values()):
                if kept.change <= seen.change:
                    break
                found.append(kept)
            gone = tuple(number for change, number in self._gone if change > seen.gone)
            calls = tuple(islice(reversed(found), most))
            latest = calls[-1].change if calls else seen.change
            return Changes(calls, Seen(latest, self._change), gone, fresh)

    def _progressed(self, kept: RecordedCall, at: float) -> None:
        if at - kept.seen >= _REFRESH:
            self._changed(kept, at)

    def _changed(self, kept: RecordedCall, at: float) -> None:
        self._change += 1
        kept.change, kept.seen = self._change, at
        self._by_change[kept.facts.request_id] = kept
        self._by_change.move_to_end(kept.facts.request_id)
        self._measure(kept)

    def _measure(self, kept: RecordedCall) -> None:
        size = _CALL_BYTES + _ATTEMPT_BYTES * len(kept.attempts) + kept.received.bytes + kept.sent.bytes
        size += 0 if kept.recording is None else kept.recording.size
        self.size += size - kept.size
        if (sort := self._sorts.get(_sort(kept))) is not None and kept.facts.request_id in sort.calls:
            sort.size += size - kept.size
        kept.size = size

    def _let_go(self, kept: RecordedCall) -> None:
        """Let a call that has ended make room for others."""
        sort = self._sorts.setdefault(_sort(kept), _Sort())
        sort.calls[kept.facts.request_id] = kept
        sort.size += kept.size
        if kept.recording is not None:
            sort.recorded[kept.facts.request_id] = kept

    def _hold(self, kept: RecordedCall) -> None:
        """Let a call make room no longer, as it is pinned, or gone."""
        name = _sort(kept)
        sort = self._sorts.get(name)
        if sort is not None and sort.calls.pop(kept.facts.request_id, None) is not None:
            sort.recorded.pop(kept.facts.request_id, None)
            sort.size -= kept.size
            if not sort.calls:
                del self._sorts[name]

    def _make_room(self) -> None:
        while self._recorded and self.size > self._bytes:
            most = max(self._sorts.values(), key=lambda sort: (bool(sort.recorded), sort.size), default=_Sort())
            self._forget(next(iter((most.recorded or self._recorded).values())))
        while len(self._by_id) > 1 and (len(self._by_id) > self._most or self.size > self._bytes):
            most = max(self._sorts.values(), key=lambda sort: len(sort.calls), default=_Sort())
            self._drop(next(iter((most.calls or self._by_id).values())))

    def _drop(self, gone: RecordedCall) -> None:
        self._hold(gone)
        del self._by_id[gone.facts.request_id], self._by_change[gone.facts.request_id]
        self._recorded.pop(gone.facts.request_id, None)
        self.size -= gone.size
        self._change += 1
        self._gone.append((self._change, gone.number))

    def _forget(self, gone: RecordedCall) -> None:
        """Let go of a recording."""
        del self._recorded[gone.facts.request_id]
        if (sort := self._sorts.get(_sort(gone))) is not None:
            sort.recorded.pop(gone.facts.request_id, None)
        if gone.recording is not None and self._recorder is not None and gone.end is None:
            self._recorder.forget(gone.recording)
        gone.recording = None
        self._measure(gone)


def _sort(call: RecordedCall) -> str:
    """Which calls it makes room for: its worst remark, in the page's words, of which there are not many."""
    return call.remarks[0].said.short if call.remarks else ""


def _bare(call: CallFacts) -> CallFacts:
    """*call* without headers, and with texts of bounded length."""
    return CallFacts(
        request_id=call.request_id,
        api=call.api,
        method=call.method[:_TEXT],
        path=call.path[:_TEXT],
        root_path=call.root_path[:_TEXT],
        route=call.route,
        principal=call.principal[:_TEXT],
        headers=(),
        time=call.time,
        started=call.started,
    )


def _agent(call: CallFacts) -> str:
    values = (value for name, value in call.headers if name.lower() == b"user-agent")
    return next(values, b"").decode("latin-1")[:_TEXT]
