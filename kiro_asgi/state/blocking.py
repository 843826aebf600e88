"""Base of stores whose engine blocks: its work is done in threads, with locks and one error for all that fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from logging import getLogger
from threading import BoundedSemaphore
from typing import Any, ClassVar, Final, Self, TypeVar

import anyio
import anyio.to_thread

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.limits import STORE_THREADS
from kiro_asgi.loops import PerLoop
from kiro_asgi.state.base import Locks

T = TypeVar("T")

_log = getLogger("kiro_asgi")

_CODE: Final = "store.unavailable"

_MOST_THREADS: Final = 4 * STORE_THREADS
"""In the engine at once, of all event loops together, those among them that nobody waits for any more."""


class BlockingStore:
    """Base of a store on an engine that blocks, such as a disk or a database's own driver; see `kiro_asgi.Store`.

    A subclass has `read`, `write` and `remove`, which run in threads, several at once: what they share has to allow
    that.  Each must be one step for others, other processes among them.  Locks hold within the process: of two
    processes that go on with one conversation at the same time, the later one is believed.
    """

    failures: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """What the engine raises where it cannot be used now: it becomes `StoreUnavailable`.  Anything else is a bug."""

    _locks: Locks
    _limiters: PerLoop[anyio.CapacityLimiter]
    """Threads of its own: an engine that hangs keeps nobody else's work waiting."""

    _places: BoundedSemaphore
    """Of threads in the engine; one that hangs keeps its place when nobody waits for it any more."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the parts of this class here, so that a subclass need not call its ``__init__``, and may be frozen."""
        self = super().__new__(cls)
        object.__setattr__(self, "_locks", Locks())
        object.__setattr__(self, "_places", BoundedSemaphore(_MOST_THREADS))
        object.__setattr__(self, "_limiters", PerLoop(partial(anyio.CapacityLimiter, STORE_THREADS)))
        return self

    def read(self, key: str) -> bytes | None:
        """The value, if there is one that has not expired."""
        raise NotImplementedError(f"{type(self).__name__}.read")

    def write(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value* in place of whatever was there, for *ttl* seconds at most."""
        raise NotImplementedError(f"{type(self).__name__}.write")

    def remove(self, key: str) -> bytes | None:
        """Forget the value, and return it unless it has expired: of several callers at once, one gets it."""
        raise NotImplementedError(f"{type(self).__name__}.remove")

    def close(self) -> None:
        """Let go of files and connections; the store may be used again afterwards."""

    async def get(self, key: str) -> bytes | None:
        """The value.

        Raises:
            StoreUnavailable: The engine failed.
        """
        return await self._in_thread(partial(self.read, key))

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """The values that there are, read one after the other in one thread.

        Raises:
            StoreUnavailable: The engine failed.
        """
        found = await self._in_thread(lambda: [(key, self.read(key)) for key in keys])
        return {key: value for key, value in found if value is not None}

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value*; where the engine fails, the log says so, and readers do without."""
        await self._quietly(partial(self.write, key, value, ttl))

    async def take(self, key: str) -> bytes | None:
        """Return the value, and forget it.

        Raises:
            StoreUnavailable: The engine failed.
        """
        return await self._in_thread(partial(self.remove, key))

    async def delete(self, key: str) -> None:
        """Forget the value; where the engine fails, the log says so."""
        await self._quietly(partial(self.remove, key))

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Lock *key* among the tasks of this process."""
        return self._locks.hold(key)

    async def aclose(self) -> None:
        """Close, even if the end is cancelled."""
        with anyio.CancelScope(shield=True):
            await self._quietly(self.close)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await anyio.to_thread.run_sync(
                partial(self._placed, work), abandon_on_cancel=True, limiter=self._limiters.here()
            )
        except self.failures as error:
            # Not its message: those of some drivers quote the values, which hold prompts.
            said = error.strerror if isinstance(error, OSError) else ""
            detail = f"{type(self).__name__}: {type(error).__name__}{f': {said}' if said else ''}"
            raise StoreUnavailable(detail=detail, code=_CODE) from error

    def _placed(self, work: Callable[[], T]) -> T:
        """Run *work* in this thread, if those whose callers have gone leave room for it.

        Raises:
            StoreUnavailable: All threads hang in the engine.
        """
        if not self._places.acquire(blocking=False):
            raise StoreUnavailable(detail=f"{type(self).__name__}: all its threads hang", code=_CODE)
        try:
            return work()
        finally:
            self._places.release()

    async def _quietly(self, work: Callable[[], object]) -> None:
        try:
            await self._in_thread(work)
        except StoreUnavailable as error:
            _log.warning("the store cannot be used: %s", error.detail)
