"""How long answers work before others have a turn."""

from __future__ import annotations

from typing import Final

import anyio
from anyio.lowlevel import checkpoint
from attrs import define, field

__all__ = ["PART", "Pace"]

PART: Final = 0.003
"""Seconds of work after which others are served: a short request takes some ten turns of the event loop, and each must
wait for one part."""

_SHORT: Final = PART / 10
"""Seconds of a part that is no burden."""


@define(eq=False)
class Pace:
    """Lets the answers of one event loop that have much to do at the same time do it one after the other."""

    _line: anyio.Lock = field(init=False, factory=anyio.Lock)
    """Where they wait, in the order in which they came."""

    _worked: float = field(init=False, default=0.0)
    """Seconds that all of them have worked since one waited last."""

    async def wait(self, before: float) -> None:
        """Let others have a turn, if there has been work enough without a pause.

        Args:
            before: Seconds that the last part of this answer took; one that has little to do does not wait.
        """
        if self._worked >= PART and before >= _SHORT:
            async with self._line:
                await checkpoint()
                self._worked = 0.0

    def worked(self, seconds: float) -> None:
        """Count what one of them has worked."""
        self._worked += seconds
