"""Bytes of request bodies that an application holds at once.

A body may grow as long as it is no larger than what is then still free.  So whoever sends many large bodies gets a
smaller share the more there are, and an ordinary request finds room beside them: ten bodies that never end leave a
tenth of the limit free.  Only what has arrived counts; to announce a length reserves nothing.

Source: dynamic thresholds of switches, https://doi.org/10.1109/90.664262 (Choudhury and Hahne), with a factor of 1.
"""

from __future__ import annotations

from threading import Lock
from types import TracebackType

from attrs import define, field

from kiro_asgi.errors import TooBusy

__all__ = ["Bodies", "Share"]

_RETRY_AFTER = 1.0
"""Seconds: most bodies arrive, and are answered, within a few."""


@define
class Bodies:
    """All bodies of one application, whichever event loops it serves."""

    _limit: int
    held: int = field(init=False, default=0)
    """Bytes."""

    _lock: Lock = field(init=False, factory=Lock)
    """Event loops may run in threads of their own."""

    def add(self, size: int, largest: int) -> bool:
        """Hold *size* more bytes, unless that leaves less than *largest* free; whether they are held."""
        with self._lock:
            if self.held + size + largest > self._limit:
                return False
            self.held += size
            return True

    def free(self, size: int) -> None:
        """Hold *size* bytes less."""
        with self._lock:
            self.held -= size


@define
class Share:
    """One request's part, from its first byte to the end of its answer: until then, it may have to be sent again."""

    _bodies: Bodies
    _size: int = field(init=False, default=0)

    def grow(self, size: int) -> None:
        """Hold *size* more bytes.

        Raises:
            TooBusy: There is no room for that beside the others.
        """
        if not self._bodies.add(size, self._size + size):
            raise TooBusy(
                "too many bytes of requests are held at present; try again later",
                code="bodies_full",
                retry_after=_RETRY_AFTER,
            )
        self._size += size

    def __enter__(self) -> Share:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bodies.free(self._size)
        self._size = 0
