"""A store from outside, as all others use it: whatever goes wrong in it is `StoreUnavailable`, and is logged.

Who can do without what is kept goes on without it; who cannot answers with 503.  Neither would know what to do about
any other error.  A store that hangs is the same: it is left alone for a while, and then tried by one use at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from logging import getLogger
from time import monotonic
from typing import Final, TypeVar, cast

import anyio
from attrs import define, field

from kiro_asgi.errors import KiroAsgiError, StoreUnavailable
from kiro_asgi.interface import offers
from kiro_asgi.limits import STORE_LOCK_SECONDS
from kiro_asgi.state.base import BatchStore, Store, WatchedStore, each_of

_log = getLogger("kiro_asgi")

T = TypeVar("T")

_REST: Final = 5.0
"""Seconds for which a store that hangs is left alone."""


@define(eq=False)
class GuardedStore:
    """Passes everything on to a store from outside."""

    _store: Store
    _timeout: float
    """Seconds that one use may take; a lock, which another may hold, `STORE_LOCK_SECONDS`."""

    _clock: Callable[[], float] = monotonic
    _batch: BatchStore | None = field(init=False, repr=False)
    """The store, where it reads several values in one turn.  Looked at once: each look asks for every member."""

    _watched: WatchedStore | None = field(init=False, repr=False)
    """The store, where it watches itself."""

    _told: set[str] = field(init=False, factory=set)
    """Faults whose traceback the log has, by method and class; each is logged once, lest every request repeat it."""

    _failed: bool = field(init=False, default=False)
    """Whether the last use failed, but for what a store that watches itself knows better."""

    _resting: dict[str, float] = field(init=False, factory=dict)
    """Methods whose last use was given up, and until when each is left alone."""

    def __attrs_post_init__(self) -> None:
        self._batch = cast(BatchStore, self._store) if offers(self._store, BatchStore) else None
        self._watched = cast(WatchedStore, self._store) if offers(self._store, WatchedStore) else None

    @property
    def is_reachable(self) -> bool:
        """Whether the last use was good, and the store says nothing else of itself."""
        return not (self._failed or self._resting) and (self._watched is None or self._watched.is_reachable)

    async def get(self, key: str) -> bytes | None:
        """As the store."""
        return await self._read("get", partial(self._store.get, key))

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """As the store."""
        if self._batch is None:
            return await self._used("get_many", partial(each_of, self, keys))
        found: object = await self._used("get_many", partial(self._batch.get_many, keys))
        if isinstance(found, Mapping) and all(isinstance(value, bytes) for value in found.values()):
            return found
        raise self._fault("get_many", TypeError("get_many gave no mapping of keys to bytes"))

    async def take(self, key: str) -> bytes | None:
        """As the store."""
        return await self._read("take", partial(self._store.take, key))

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """As the store."""
        await self._used("set", partial(self._store.set, key, value, ttl))

    async def delete(self, key: str) -> None:
        """As the store."""
        await self._used("delete", partial(self._store.delete, key))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """As the store; one that cannot be released is logged, as it expires."""
        held = await self._used("lock", partial(_entered, self._store, key), max(self._timeout, STORE_LOCK_SECONDS))
        try:
            yield
        except BaseException as error:
            await self._released(held, error)
            raise
        await self._released(held, None)

    async def aclose(self) -> None:
        """As the store; that it cannot be closed keeps nothing else from it."""
        try:
            with anyio.move_on_after(self._timeout) as scope:
                await self._store.aclose()
            if scope.cancelled_caught:
                self._late("aclose", self._timeout)
        except Exception as error:  # noqa: BLE001 - from outside
            self._note("aclose", error)

    async def _released(self, held: AbstractAsyncContextManager[None], error: BaseException | None) -> None:
        kind, traceback = (None, None) if error is None else (type(error), error.__traceback__)
        try:
            with anyio.move_on_after(self._timeout, shield=True) as scope:
                await held.__aexit__(kind, error, traceback)
            if scope.cancelled_caught:
                self._late("lock", self._timeout)
        except Exception as fault:  # noqa: BLE001 - from outside
            if fault is not error:
                self._note("lock", fault)

    async def _read(self, method: str, use: Callable[[], Awaitable[object]]) -> bytes | None:
        value = await self._used(method, use)
        if value is None or isinstance(value, bytes):
            return value
        raise self._fault(method, TypeError(f"{method} gave a {type(value).__name__}; it must give bytes or None"))

    async def _used(self, method: str, use: Callable[[], Awaitable[T]], patience: float = 0.0) -> T:
        """The result of *use*, which calls a *method*, within *patience* seconds, or the usual time.

        Raises:
            StoreUnavailable: It has failed, as it may or otherwise, or takes too long.
        """
        if method in self._resting:
            if self._clock() < self._resting[method]:
                raise self._timed_out(method)
            self._resting[method] = self._clock() + _REST  # this use tries it; others do without meanwhile
        seconds = patience or self._timeout
        try:
            with anyio.move_on_after(seconds):
                result = await use()
                self._failed = False
                self._answers(method)
                return result
        except KiroAsgiError:
            self._failed = self._watched is None
            self._answers(method)
            raise
        except Exception as error:
            self._answers(method)
            raise self._fault(method, error) from error
        raise self._late(method, seconds)

    def _answers(self, method: str) -> None:
        """Take note that it does not hang."""
        if self._resting.pop(method, None) is not None:
            _log.warning("the store answers again in %s", method)

    def _late(self, method: str, seconds: float) -> StoreUnavailable:
        """Take note that it hangs, and log it if that is new."""
        if method not in self._resting:
            _log.error(
                "the store did not answer in %s within %g s (state.timeout): until it does, requests go on without "
                "what it keeps, or get 503 where they need it",
                method,
                seconds,
            )
        self._resting[method] = self._clock() + _REST
        return self._timed_out(method)

    def _timed_out(self, method: str) -> StoreUnavailable:
        detail = f"the store does not answer (last asked for: {method}); it is left alone for {_REST:g} s at a time"
        return StoreUnavailable(detail=detail, code="store.timeout")

    def _fault(self, method: str, error: Exception) -> StoreUnavailable:
        self._failed = True
        self._note(method, error)
        detail = f"the store raised {type(error).__name__} in {method}, and may raise StoreUnavailable only"
        return StoreUnavailable(detail=detail, code="store.fault")

    def _note(self, method: str, error: Exception) -> None:
        """Log a fault with its traceback, once."""
        name = f"{method} {type(error).__name__}"
        if name not in self._told:
            self._told.add(name)
            _log.error("the store failed in %s, which is logged once", method, exc_info=error)


async def _entered(store: Store, key: str) -> AbstractAsyncContextManager[None]:
    lock = store.lock(key)
    await lock.__aenter__()
    return lock
