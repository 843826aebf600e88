"""A Valkey or Redis server that several gateways share, called from threads, and the store on it.

The client is ``valkey``'s blocking one: it serves every event loop, knows TLS, sentinels and clusters, needs no task
that outlives a request, and a request that is cancelled leaves no half-read answer behind, as the thread reads to the
end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from logging import getLogger
from math import inf
from secrets import token_hex
from time import monotonic
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

import anyio
import anyio.to_thread
import valkey
from attrs import define, field
from valkey.backoff import NoBackoff
from valkey.cluster import ValkeyCluster
from valkey.retry import Retry
from valkey.sentinel import Sentinel

from kiro_asgi.errors import ConfigError, StoreUnavailable
from kiro_asgi.loops import PerLoop
from kiro_asgi.state.base import Locks, owner_of
from kiro_asgi.state.memory import ENTRY_BYTES
from kiro_asgi.state.pending import Change, WriteQueue

T = TypeVar("T")

_log = getLogger("kiro_asgi")

PREFIX: Final = "kiro-asgi:1:"
"""Prefix of every key of ours; the number is the version of the format."""

_PATIENCE: Final = 0.25
"""Seconds for an answer of the server, and again for a connection to it."""

_THREADS: Final = 16
"""Requests at once from one event loop, each on a connection of its own."""

_FAILURES: Final = 5
"""Failures in a row from which on no request is sent to the server for a while."""

_FIRST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 30.0
"""Seconds of that while, doubled by each further failure."""

_REPORT_EVERY: Final = 60.0
"""Seconds between two log lines about single requests."""

_REFUSALS: Final = (valkey.ResponseError, valkey.DataError)
"""Errors of a server that is there, and has answered."""

_OUTAGES: Final = (valkey.exceptions.ClusterDownError, valkey.ReadOnlyError, valkey.exceptions.NoPermissionError)
"""Those of them that every request would meet."""

_SENTINEL_PORT: Final = 26379
_PORT: Final = 6379


@define(eq=False)
class ValkeyServer:
    """The server at *url*: one primary, the primary that sentinels name, or a cluster.

    ``valkey://[user[:password]@]host[:port][/db]``, ``valkeys://`` with TLS, ``unix:///path``; ``redis://`` and
    ``rediss://`` mean the same.  ``valkey+sentinel://host:26379,host:26379/NAME`` asks sentinels for the primary NAME,
    ``valkey+cluster://host,host`` is a cluster; ``valkeys+…`` has TLS.  Parameters after ``?`` go to the client.
    """

    url: str = field(repr=False)
    _clock: Callable[[], float] = monotonic
    _client: Any = field(init=False, default=None, repr=False)
    _failures: int = field(init=False, default=0)
    _rests_until: float = field(init=False, default=0.0)
    _reported_at: float = field(init=False, default=-inf)
    _threads: PerLoop[anyio.CapacityLimiter] = field(
        init=False, factory=lambda: PerLoop(partial(anyio.CapacityLimiter, _THREADS)), repr=False
    )

    def __attrs_post_init__(self) -> None:
        self._client = _client(self.url)

    @property
    def is_cluster(self) -> bool:
        """Whether keys of one script must have the same hash tag."""
        return isinstance(self._client, ValkeyCluster)

    @property
    def is_reachable(self) -> bool:
        """Whether requests are sent to it: it has not failed too often in a row."""
        return self._failures < _FAILURES

    async def ask(self, work: Callable[[Any], T]) -> T:
        """Call *work* in a thread with the client, and return its result.

        Raises:
            StoreUnavailable: The server cannot be reached, refuses, or takes too long; or it did so often enough that
                no request is sent to it for a while.
        """
        rest = self._rests_until - self._clock()
        if rest > 0:
            raise StoreUnavailable(
                detail="the state server could not be reached", code="state.valkey", retry_after=rest
            )
        try:
            found = await anyio.to_thread.run_sync(
                self.ask_blocking, work, abandon_on_cancel=True, limiter=self._threads.here()
            )
        except StoreUnavailable as error:
            self._failed(error)
            raise
        if self._failures >= _FAILURES:
            _log.warning("the state server answers again")
        self._failures = 0
        return found

    def ask_blocking(self, work: Callable[[Any], T]) -> T:
        """The same in this thread, also while `ask` sends no requests."""
        try:
            return work(self._client)
        except _REFUSALS as error:  # not by all of a kind: those that say that it is no primary, and the like
            code = "state.valkey" if isinstance(error, _OUTAGES) else "state.refused"
            raise _unavailable(error, code) from None
        except valkey.TimeoutError as error:
            raise _unavailable(error, "state.slow" if self._answers() else "state.valkey") from None
        except (valkey.ValkeyError, OSError) as error:
            raise _unavailable(error, "state.valkey") from None

    def _answers(self) -> bool:
        """Whether the server itself is there, when it took too long for one request."""
        try:
            return bool(self._client.ping())
        except (valkey.ValkeyError, OSError):
            return False

    async def aclose(self) -> None:
        """Close the connections; they are opened again if need be."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)

    def close(self) -> None:
        """The same in this thread."""
        self._client.close()

    def _failed(self, error: StoreUnavailable) -> None:
        """Count a failure of the server; what it refused to one client, or was too slow for, is not one."""
        if error.code != "state.valkey":
            self._report(error.detail)
            return
        self._failures += 1
        if self._failures >= _FAILURES:
            pause = min(_FIRST_PAUSE * 2.0 ** (self._failures - _FAILURES), _LONGEST_PAUSE)
            self._rests_until = self._clock() + pause
        if self._failures == _FAILURES:
            _log.warning("%s; it is asked again from time to time", error.detail)

    def _report(self, fault: str) -> None:
        """Log what concerns one request, once in a while only."""
        if self._clock() - self._reported_at >= _REPORT_EVERY:
            self._reported_at = self._clock()
            _log.warning("%s", fault)


def _unavailable(error: Exception, code: str) -> StoreUnavailable:
    detail = f"the state server cannot be used: {type(error).__name__}: {error}"
    return StoreUnavailable(detail=detail, code=code, retry_after=_FIRST_PAUSE)


def _client(url: str) -> Any:
    """A client without retries and with short timeouts."""
    scheme, _, rest = url.partition("://")
    base, _, kind = scheme.partition("+")
    options: dict[str, Any] = {
        "socket_timeout": _PATIENCE,
        "socket_connect_timeout": _PATIENCE,
        "retry": Retry(NoBackoff(), 0),
    }
    try:
        if base in {"valkeys", "rediss"} and kind != "cluster":  # the cluster's client does not know the option
            options["ssl_check_hostname"] = True
        match kind:
            case "":
                return valkey.Valkey.from_url(url, **options)
            case "sentinel":
                return _behind_sentinels(base, rest, options)
            case "cluster":
                return ValkeyCluster.from_url(f"{base}://{rest.split(',')[0]}", **options)
    except ValueError as error:
        raise ConfigError(f"state.url: {error}", code="state.url") from None
    raise ConfigError(f"state.url: {scheme}:// is none of valkey://, valkeys://, …", code="state.url")


def _behind_sentinels(base: str, rest: str, options: dict[str, Any]) -> Any:
    """A client of the primary, wherever it is at the moment."""
    parts = urlsplit(f"//{rest}")
    user, _, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    sentinels = []
    for host in hosts.split(","):
        address, _, port = host.rpartition(":") if ":" in host else (host, "", "")
        sentinels.append((address, int(port or _SENTINEL_PORT)))
    if base in {"valkeys", "rediss"}:
        options["ssl"] = True
    given = {key: value for key, value in {"username": name, "password": password}.items() if value}
    settings = {**options, **given, **dict(parse_qsl(parts.query))}
    return Sentinel(sentinels, **options).master_for(parts.path.lstrip("/"), **settings)


KEEPS_ALL: Final = "noeviction"
UNKNOWN_POLICY: Final = "unknown"


def eviction(client: Any) -> str:
    """The policy by which the server of *client* forgets keys before they end when its memory is full; empty where it
    forgets none, ``unknown`` where it does not say."""
    told: Any
    try:
        of_nodes = {"target_nodes": ValkeyCluster.PRIMARIES} if isinstance(client, ValkeyCluster) else {}
        told = client.info("memory", **of_nodes)
    except _REFUSALS:
        return UNKNOWN_POLICY
    nodes = [each for each in told.values() if isinstance(each, dict)] or [told]
    policies = {str(each.get("maxmemory_policy", UNKNOWN_POLICY)) for each in nodes if each.get("maxmemory") != 0}
    return next(iter(sorted(policies - {KEEPS_ALL})), "")


_LEASE: Final = 60.0
"""Seconds after which a lock counts as left behind by a gateway that died."""

_POLL: Final = 0.02
_LONGEST_POLL: Final = 0.5
"""Seconds between two attempts to get a lock that another process holds: doubled from the first to the longest, since
a thousand gateways may try."""

_PARTING: Final = 2.0
"""Seconds that `ValkeyStore.aclose` waits for what is still to be written."""

_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of one value: the server would take 512 MiB, and keep all its clients waiting."""

_CHANGE: Final = """
-- What one owner keeps, within bounds: beside its values a sorted set of their names by the time at which they end, and
-- a hash of their sizes, whose field "" has the sum.  Values that end first make room.
-- KEYS: the owner's prefix of values, its names, its sizes.
-- ARGV: "set", "take" or "delete"; a name; then for "set" the value, milliseconds, size, most bytes, most values.
-- Gives the value that was there, for "take".
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function drop(name)
  local size = redis.call('HGET', KEYS[3], name)
  if size then
    redis.call('HINCRBY', KEYS[3], '', -tonumber(size))
    redis.call('HDEL', KEYS[3], name)
  end
  redis.call('ZREM', KEYS[2], name)
  redis.call('UNLINK', KEYS[1] .. name)
end
local found = ARGV[1] == 'take' and redis.call('GET', KEYS[1] .. ARGV[2])
drop(ARGV[2])
if ARGV[1] ~= 'set' then return found end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do drop(name) end
local left, size, bytes, values = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
if size > bytes or values < 1 then return false end
while redis.call('ZCARD', KEYS[2]) >= values or tonumber(redis.call('HGET', KEYS[3], '') or '0') + size > bytes do
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if not first then break end
  drop(first)
end
redis.call('SET', KEYS[1] .. ARGV[2], ARGV[3], 'PX', left)
redis.call('ZADD', KEYS[2], now + left, ARGV[2])
redis.call('HSET', KEYS[3], ARGV[2], size)
redis.call('HINCRBY', KEYS[3], '', size)
for _, key in ipairs({KEYS[2], KEYS[3]}) do
  if redis.call('PTTL', key) < left then redis.call('PEXPIRE', key, left) end
end
return false
"""

_RELEASE: Final = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


@define
class ValkeyStore:
    """Keeps values on a server that other gateways use too; see `kiro_asgi.state.base.Store`.

    A value is there for all of them when `set` returns.  While the server cannot be reached it waits in memory, where
    this process finds it, and is written as soon as the server is back.  Each owner of keys has bounds of its own: of
    what it keeps, the values that end first make room.  A gateway that is killed leaves its locks for a minute, which
    is also how long a lock may be held.

    Raises:
        StoreUnavailable: From everything but `set` and `delete`: the server cannot be used now.
    """

    _server: ValkeyServer
    entries: int = 10_000
    """Values of one owner kept at once."""

    max_bytes: int = 64 * 1024 * 1024
    """Room for all of these."""

    _pending: WriteQueue = field(init=False, repr=False)
    """Writes that could not be made at once."""

    _locks: Locks = field(init=False, factory=Locks, repr=False)

    def __attrs_post_init__(self) -> None:
        self._pending = WriteQueue(self._write)

    async def get(self, key: str) -> bytes | None:
        """The value."""
        return (await self.get_many((key,))).get(key)

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """The values that there are, in one request."""
        found, on_server = self._pending.split(keys, monotonic())
        if on_server:
            values = await self._server.ask(partial(_read, keys=on_server))
            found |= {key: value for key, value in zip(on_server, values, strict=True) if value is not None}
        return found

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value*."""
        await self._change(key, Change(value if len(value) <= _LARGEST else None, monotonic() + ttl))

    async def take(self, key: str) -> bytes | None:
        """Return the value, and forget it."""
        if self._pending.get(key) is not None and not await self._flush():
            raise StoreUnavailable(detail="the state server cannot be reached", code="state.valkey")
        found: bytes | None = await self._server.ask(partial(_changed, key=key, change="take"))
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
        """Whether the server answered the last requests."""
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
            _log.warning("a lock may not have been released; it expires within a minute: %s", error.detail)

    async def _flush(self) -> bool:
        return await anyio.to_thread.run_sync(self._pending.flush, _PARTING)

    def _write(self, changes: Sequence[tuple[str, Change]], _uses: Collection[str]) -> None:
        self._server.ask_blocking(lambda client: self._write_to(client, changes))

    def _write_to(self, client: Any, changes: Sequence[tuple[str, Change]]) -> None:
        now = monotonic()
        for key, change in changes:
            left = int((change.expires_at - now) * 1000)
            if change.value is None or left <= 0:
                _changed(client, key, "delete")
            else:
                size = len(change.value) + ENTRY_BYTES
                _changed(client, key, "set", change.value, left, size, self.max_bytes, self.entries)


def _changed(client: Any, key: str, change: str, *values: bytes | int) -> Any:
    """Change what is kept by *key*, within the bounds of its owner; see `_CHANGE`."""
    kept, name = _place(key)
    keys = [f"{kept}:", f"{kept}|names", f"{kept}|sizes"]
    return client.register_script(_CHANGE)(keys, [change, name, *values]) or None


def _read(client: Any, keys: Sequence[str]) -> list[bytes | None]:
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.get(_key(key))
    found: list[bytes | None] = pipe.execute()
    return found


def _key(key: str) -> str:
    return ":".join(_place(key))


def _place(key: str) -> tuple[str, str]:
    """Prefix of all that the owner of *key* keeps, which is in one place of a cluster, and the name in it."""
    owner = owner_of(key)
    return f"{PREFIX}stored:{{{owner or 'none'}}}", key.removeprefix(f"{owner}.") if owner else key
