"""A store on a Valkey or Redis server, for gateways on several machines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from logging import getLogger
from secrets import token_hex
from time import monotonic
from typing import Any, Final

import anyio
import anyio.to_thread
from attrs import define, field

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.state.base import Locks
from kiro_asgi.state.pending import Change, WriteQueue
from kiro_asgi.state.valkey_server import PREFIX, ValkeyServer

_log = getLogger("kiro_asgi")

_LEASE: Final = 60.0
"""Seconds after which a lock counts as left behind by a gateway that died."""

_POLL: Final = 0.02
_LONGEST_POLL: Final = 0.5
"""Seconds between two looks at what another process holds: doubled from the first to the longest, since a thousand
gateways may look."""

_PARTING: Final = 2.0
"""Seconds that `ValkeyStore.aclose` waits for what is still to be written."""

_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of one value: the server would take 512 MiB, and keep everybody waiting."""

_RELEASE: Final = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


@define
class ValkeyStore:
    """Keeps values on a server that other gateways use too; see `kiro_asgi.state.base.Store`.

    A value is there for all of them when `set` returns.  While the server cannot be reached it waits in memory, where
    this process finds it, and is written as soon as the server is back.  How much is kept is the server's decision
    (``maxmemory``).  A gateway that is killed leaves its locks for a minute, which is also how long a lock may be held.

    Raises:
        StoreUnavailable: From everything but `set` and `delete`: the server cannot be used now.
    """

    _server: ValkeyServer
    _pending: WriteQueue = field(init=False, repr=False)
    """Writes that could not be made at once."""

    _locks: Locks = field(init=False, factory=Locks, repr=False)

    def __attrs_post_init__(self) -> None:
        self._pending = WriteQueue(self._write)

    async def get(self, key: str) -> bytes | None:
        """The value."""
        change = self._pending.get(key)
        if change is not None:
            return change.value if change.expires_at > monotonic() else None
        found: bytes | None = await self._server.ask(lambda client: client.get(_key(key)))
        return found

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value*."""
        await self._change(key, Change(value if len(value) <= _LARGEST else None, monotonic() + ttl))

    async def take(self, key: str) -> bytes | None:
        """The value, and forget it."""
        if self._pending.get(key) is not None and not await self._flush():
            raise StoreUnavailable("the state server cannot be reached", code="state.valkey")
        found: bytes | None = await self._server.ask(lambda client: client.getdel(_key(key)))
        return found

    async def delete(self, key: str) -> None:
        """Forget the value."""
        await self._change(key, Change(None))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude others, also other machines; those get their turn in any order."""
        name, holder = _key(key) + ":lock", token_hex(16)
        pause = _POLL
        async with self._locks.hold(key):
            try:
                while not await self._lease(name, holder):
                    await anyio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_POLL)
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await self._release(name, holder)

    @property
    def is_reachable(self) -> bool:
        """Whether the server has answered last."""
        return self._server.is_reachable

    async def aclose(self) -> None:
        """Write what is still to be written, within two seconds, and close the connections."""
        with anyio.CancelScope(shield=True):
            if not await self._flush():
                self._pending.discard("the state server could not be reached before the end")
            await self._server.aclose()

    async def _change(self, key: str, change: Change) -> None:
        if self._pending.get(key) is not None:  # to be written after that
            self._pending.put(key, change)
            return
        try:
            await self._server.ask(lambda client: self._write_to(client, [(key, change)]))
        except StoreUnavailable:
            self._pending.put(key, change)

    async def _lease(self, name: str, holder: str) -> bool:
        milliseconds = int(_LEASE * 1000)
        return bool(await self._server.ask(lambda client: client.set(name, holder, nx=True, px=milliseconds)))

    async def _release(self, name: str, holder: str) -> None:
        try:
            await self._server.ask(lambda client: client.register_script(_RELEASE)([name], [holder]))
        except StoreUnavailable as error:
            _log.warning("a lock may not be released; it passes away within a minute: %s", error.message)

    async def _flush(self) -> bool:
        return await anyio.to_thread.run_sync(self._pending.flush, _PARTING)

    def _write(self, changes: Sequence[tuple[str, Change]], _uses: Collection[str]) -> None:
        self._server.ask_blocking(lambda client: self._write_to(client, changes))

    def _write_to(self, client: Any, changes: Sequence[tuple[str, Change]]) -> None:
        now = monotonic()
        pipe = client.pipeline(transaction=False)
        for key, change in changes:
            left = int((change.expires_at - now) * 1000)
            if change.value is None or left <= 0:
                pipe.unlink(_key(key))
            else:
                pipe.set(_key(key), change.value, px=left)
        pipe.execute()


def _key(key: str) -> str:
    return f"{PREFIX}kept:{key}"
