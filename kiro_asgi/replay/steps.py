"""The steps of an exchange: each read, each item that a stage made of it, each send."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field, frozen

from kiro_asgi.limits import TAPE_STEPS
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.own import WatchedStage


@frozen
class Step:
    """One step; its index is its place among all."""

    kind: str
    """``read``: bytes came from the service; ``item``: a stage gave something new; ``send``: bytes went to the client.
    A stage that passes an item on as it is makes no step."""

    t: float
    """Seconds since the request came."""

    value: Any = field(repr=False)
    """The bytes; or the item: a frame, a delta or an event."""

    cause: int = -1
    """Index of the step that led to it: of an item the last input of its stage, of a send the last item before it; -1
    where there is none."""

    stage: str = ""
    """Name of the stage that gave an item."""

    attempt: int = 0
    """Of a read, from 1."""

    offset: int = 0
    """Of bytes: how many came before them, from the service in this attempt or to the client."""


@define
class StepLog:
    """Gathers steps, `kiro_asgi.limits.TAPE_STEPS` of them at most."""

    now: Any
    """Gives the seconds since the request came."""

    steps: list[Step] = field(init=False, factory=list)
    dropped: int = field(init=False, default=0)
    """Steps for which there was no room."""

    kept: dict[int, str] = field(init=False, factory=dict)
    """By step that led to no item at once, the stage that kept it, until more came or for good."""

    events: list[int] = field(init=False, factory=list)
    """Steps whose items left the last stage: what the client's stream is made of."""

    latest: int = field(init=False, default=-1)
    """The step that is being processed."""

    _reads: deque[tuple[bytes, int]] = field(init=False, factory=deque)
    """Reads that no stage has taken yet."""

    def add(self, step: Step) -> int:
        """Record a step, and return its index; -1 where there is no room."""
        if len(self.steps) >= TAPE_STEPS:
            self.dropped += 1
            return -1
        self.steps.append(step)
        return len(self.steps) - 1

    def read(self, data: bytes, attempt: int, offset: int) -> None:
        """Record that *data* was read."""
        index = self.add(Step("read", self.now(), data, attempt=attempt, offset=offset))
        self._reads.append((data, index))
        self.latest = index

    def send(self, data: bytes, offset: int) -> None:
        """Record that *data* was sent."""
        self.add(Step("send", self.now(), data, self.latest, offset=offset))

    def pipeline(self, decoder: Iterable[Stage[Any, Any]], plan: Plan) -> Answer:
        """The stages of an answer, each of which is watched."""
        self._reads.clear()
        answer = build_pipeline(decoder, plan)
        last = answer.last_stage
        answer.wrap(lambda stage: (_LastStage if stage is last else _WatchedStage)(stage, self))
        return answer

    def take(self, item: Any) -> int:
        """Index of the step of *item*, which a stage is given now."""
        if self._reads and item is self._reads[0][0]:
            self.latest = self._reads.popleft()[1]
        return self.latest


@define(eq=False)
class _WatchedStage:
    """A stage whose output is recorded."""

    _stage: Stage[Any, Any]
    _log: StepLog
    _cause: int = field(init=False, default=-1)
    _given: Any = field(init=False, default=None)
    _gave: bool = field(init=False, default=False)
    """Whether the last input led to any item."""

    def feed(self, items: Iterable[Any], /) -> Iterator[Any]:
        return self._watch(self._stage.feed(self._incoming(items)))

    def flush(self) -> Iterator[Any]:
        self._given = None
        return self._watch(self._stage.flush())

    def _incoming(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._cause, self._given, self._gave = self._log.take(item), item, False
            yield item
            if not self._gave:
                self._log.kept[self._cause] = _name(self._stage)

    def _watch(self, items: Iterator[Any]) -> Iterator[Any]:
        log, name = self._log, _name(self._stage)
        for item in items:
            self._gave = True
            if item is self._given:
                log.latest = self._cause
            else:
                log.latest = log.add(Step("item", log.now(), item, self._cause, name))
            yield item


def _name(stage: Stage[Any, Any]) -> str:
    """Name of a stage; of one from outside its own, and not that of what is around it."""
    return stage.title if isinstance(stage, WatchedStage) else type(stage).__name__


class _LastStage(_WatchedStage):
    """The stage that gives the events."""

    def _watch(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in super()._watch(items):
            if self._log.latest >= 0:
                self._log.events.append(self._log.latest)
            yield item
