"""Parts that a program hands in, while they work: one that takes too long is named in the log and in ``/ready``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from logging import getLogger
from time import monotonic
from typing import Any, Final, TypeVar

from attrs import define, field, frozen

from kiro_asgi.limits import HOSTED_SECONDS
from kiro_asgi.stages.estimate import Estimator

_log = getLogger("kiro_asgi")

T = TypeVar("T")

_LASTING: Final = 60.0
"""Seconds for which ``/ready`` remembers that a part took too long, and the log does not repeat it."""

STAGES: Final = "stages"
OBSERVERS: Final = "observers"
ESTIMATOR: Final = "estimator"
TOOLS: Final = "tools"


@define(eq=False)
class HostedParts:
    """What is known of the parts of one application."""

    _clock: Callable[[], float] = monotonic
    _late: dict[tuple[str, str], float] = field(init=False, factory=dict)
    """Kind and name of each that took too long, and when it last did."""

    def troubled(self) -> Iterator[str]:
        """Kinds of parts of which one took too long lately."""
        since = self._clock() - _LASTING
        yield from dict.fromkeys(kind for (kind, _), at in tuple(self._late.items()) if at > since)

    def late(self, kind: str, name: str, words: str) -> None:
        """Take note that a part took too long, and log it in *words* unless that was said just now."""
        now, before = self._clock(), self._late.get((kind, name), float("-inf"))
        self._late[kind, name] = now
        if now - before >= _LASTING:
            _log.error("%s %s", name, words)

    def timed(self, kind: str, name: str, work: Callable[..., T], *arguments: Any) -> T:
        """The result of *work*, which the event loop waits for."""
        began = self._clock()
        try:
            return work(*arguments)
        finally:
            if (seconds := self._clock() - began) > HOSTED_SECONDS:
                words = f"held the event loop for {seconds:.1f} s, in which nobody else was served; it must not block"
                self.late(kind, name, words)


@frozen
class HostedEstimator:
    """An estimator from outside; what it gives is counted with, so it is 0 at least."""

    _estimator: Estimator
    _parts: HostedParts

    def estimate_tokens(self, text: str, /) -> float:
        """As the estimator."""
        return max(self._timed(self._estimator.estimate_tokens, text), 0.0)

    def count(self, text: str, /) -> int:
        """As the estimator."""
        return max(self._timed(self._estimator.count, text), 0)

    def _timed(self, work: Callable[[str], T], text: str) -> T:
        return self._parts.timed(ESTIMATOR, f"the estimator, {type(self._estimator).__name__},", work, text)
