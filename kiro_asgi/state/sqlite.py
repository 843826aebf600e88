"""A store in a SQLite file, for several processes of one machine, and for what is to survive them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from logging import getLogger
from pathlib import Path
from secrets import token_hex
from time import monotonic, time
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from attrs import define, field

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.loops import PerLoop
from kiro_asgi.state.base import Locks
from kiro_asgi.state.memory import Room
from kiro_asgi.state.pending import WriteQueue
from kiro_asgi.state.sqlite_file import LARGEST, Change, Found, SqliteConnection

T = TypeVar("T")

_log = getLogger("kiro_asgi")

_PATIENCE: Final = 1.0
"""Seconds that anybody waits for the file."""

_BUSY: Final = 0.7
"""Seconds that one operation waits for other threads, and again for other processes."""

_REST: Final = 2.0
"""Seconds without another attempt to read, after one has failed."""

_PARTING: Final = 2.0
"""Seconds that `SqliteStore.aclose` waits for what is still to be written."""

_REMEMBERED: Final = 60.0
"""Seconds between two uses of a value from which on the second is written down: a read should not have to write."""

_LEASE: Final = 60.0
"""Seconds after which a lock counts as left behind by a process that died."""

_POLL: Final = 0.02
"""Seconds between two looks at what another process holds."""

_SOON: Final = 0.005
"""Seconds between two looks at what another thread writes."""

_TOLD: Final = 60.0
"""Seconds between two log lines about damage."""


@define
class SqliteStore:
    """Keeps values in a file that only its owner may read; see `kiro_asgi.state.base.Store`.

    The file is opened at the first use and belongs to the process: a fork must come before.  Values are written by a
    thread, behind the back of whoever sets them, and are found here meanwhile; other processes find them a moment
    later.  A process that is killed loses those of that moment, and leaves its locks for a minute, which is also how
    long a lock may be held.

    Raises:
        StoreUnavailable: From everything but `set` and `delete`: the file cannot be used now, or others have used it
            for longer than a second.
    """

    path: Path
    entries: int = 10_000
    """Values kept at once."""

    max_bytes: int = 64 * 1024 * 1024
    """Room for all of them; the file is a little larger."""

    _clock: Callable[[], float] = time
    """The same for all processes, also after a restart."""

    _room: Room = field(init=False)
    _reader: SqliteConnection = field(init=False, repr=False)
    """Apart from the one that writes: nobody who reads waits for somebody who writes."""

    _writer: SqliteConnection = field(init=False, repr=False)
    _pending: WriteQueue = field(init=False, repr=False)
    _rests_until: float = field(init=False, default=0.0)
    _told_at: float = field(init=False, default=-_TOLD)
    _locks: Locks = field(init=False, factory=Locks, repr=False)
    _threads: PerLoop[anyio.CapacityLimiter] = field(
        init=False, factory=lambda: PerLoop(partial(anyio.CapacityLimiter, 1)), repr=False
    )
    """One thread for each event loop: more would only wait for each other."""

    def __attrs_post_init__(self) -> None:
        self._room = Room(self.entries, self.max_bytes)
        self._reader, self._writer = SqliteConnection(self.path, _BUSY), SqliteConnection(self.path, _BUSY)
        self._pending = WriteQueue(lambda changes, uses: self._writer.write(changes, uses, self._room, self._clock()))

    async def get(self, key: str) -> bytes | None:
        """The value; reading it counts as using it, to the minute."""
        now, change = self._clock(), self._pending.get(key)
        if change is not None:
            return change.value if change.expires_at > now else None

        def read() -> Found | None:
            return self._reader.read(key, now)

        found = await self._ask(read)
        if found is None:
            return None
        if found.value is None:
            self._report("the value of a key is none")
        elif abs(now - found.used_at) >= _REMEMBERED:
            self._pending.use(key)
        return found.value

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value*; expired values, then those used longest ago by who has most, make room for it."""
        kept = value if self._room.fits(len(value)) and len(value) <= LARGEST else None
        self._pending.put(key, Change(kept, self._clock() + ttl))

    async def take(self, key: str) -> bytes | None:
        """The value, and forget it."""
        with anyio.move_on_after(_PATIENCE):
            while self._pending.get(key) is not None:  # noqa: ASYNC110 - no event spans two loops
                await anyio.sleep(_SOON)
        if self._pending.get(key) is not None:
            raise self._busy()
        return await self._ask(lambda: self._writer.take(key, self._clock()))

    async def delete(self, key: str) -> None:
        """Forget the value."""
        self._pending.put(key, Change(None))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude others, also other processes; those get their turn in any order."""
        holder = token_hex(8)
        async with self._locks.hold(key):
            try:
                while not await self._lease(key, holder):  # noqa: ASYNC110 - no event spans two processes
                    await anyio.sleep(_POLL)
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await self._release(key, holder)

    async def flush(self, seconds: float = _PARTING) -> bool:
        """Wait until everything is in the file, at most so long, and say whether it is."""
        return await anyio.to_thread.run_sync(self._pending.flush, seconds, limiter=anyio.CapacityLimiter(1))

    async def aclose(self) -> None:
        """Write what is still to be written, within two seconds, and close the file; it is opened again if need be."""

        def close() -> None:
            for connection in (self._reader, self._writer):
                try:
                    connection.close()
                except StoreUnavailable as error:
                    _log.warning("the state file could not be closed: %r", error)

        with anyio.CancelScope(shield=True):
            if not await self.flush():
                self._pending.discard("the file could not be written before the end")
            await anyio.to_thread.run_sync(close, limiter=anyio.CapacityLimiter(1))

    async def _release(self, key: str, holder: str) -> None:
        await self.flush()  # the next holder, of another process, looks into the file
        try:
            await self._ask(lambda: self._writer.release(key, holder))
        except StoreUnavailable as error:
            _log.warning("a lock could not be released; it passes away within a minute: %s", error.message)

    async def _lease(self, key: str, holder: str) -> bool:
        now = self._clock()
        return bool(await self._ask(lambda: self._writer.lease(key, holder, now, now + _LEASE)))

    async def _ask(self, work: Callable[[], T]) -> T | None:
        """Run *work* and return its result; ``None`` where the file is damaged.

        Raises:
            StoreUnavailable: It cannot be used now, or could not a moment ago: not everybody has to find out.
        """
        left = self._rests_until - monotonic()
        if left > 0:
            raise self._busy(left)
        try:
            with anyio.fail_after(_PATIENCE):
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads.here())
        except TimeoutError:
            error = self._busy()
        except StoreUnavailable as failure:
            error = failure
        if error.code == "state.damaged":
            self._report(error.message)
            return None
        self._rests_until = monotonic() + _REST
        error.retry_after = _REST
        raise error

    def _busy(self, seconds: float = _REST) -> StoreUnavailable:
        return StoreUnavailable("what is kept cannot be reached: it is busy", code="state.sqlite", retry_after=seconds)

    def _report(self, what: str) -> None:
        """Write down that something is damaged, and therefore missing; not for each reader anew."""
        if monotonic() - self._told_at >= _TOLD:
            self._told_at = monotonic()
            _log.error("an entry of the state file is damaged, and counts as missing: %s", what)
