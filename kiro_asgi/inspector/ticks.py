"""Many moments, each with a size, in bounded memory: the pace of a stream."""

from __future__ import annotations

from array import array
from typing import Final

from attrs import define, field

__all__ = ["Ticks"]

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
