"""The protocol of a store that keeps values between requests, its keys, and locks by name.

Values are bytes, so that an engine needs to know nothing about them and may share them with other processes.  Nothing
is kept for ever: every value has a time to live, and an engine may drop a value before that to stay within its bounds.
Readers must be able to do without.

Room is shared among the owners of keys, as `kiro_asgi.state.memory` describes: an owner of much loses its own values.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from typing import Final, Protocol, runtime_checkable
from weakref import WeakValueDictionary

import anyio
from attrs import define, field, frozen

from kiro_asgi.extension import ExtensionManifest
from kiro_asgi.loops import PerLoop

_OWNER: Final = 16
"""Hexadecimal digits of a key that name its owner; the others name the value."""


class Store(Protocol):
    """Values by key, each with a time to live.

    Keys are made by `scoped`.  Every method is atomic by itself; what needs several is done under `lock`.
    """

    async def get(self, key: str) -> bytes | None:
        """The value; ``None`` where there is none, or none any more, or one that is damaged.

        Raises:
            StoreUnavailable: It cannot be read now.
        """
        ...

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value* in place of whatever was there, for *ttl* seconds at most.

        A value too large for the engine is not kept; what was there before is gone all the same.  The caller does not
        wait: what cannot be written at once is written later, and is found here meanwhile.
        """
        ...

    async def take(self, key: str) -> bytes | None:
        """Return the value, and forget it: of several callers at once, one gets it.

        Raises:
            StoreUnavailable: As for `get`.
        """
        ...

    async def delete(self, key: str) -> None:
        """Forget the value, if there is one."""
        ...

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Lock *key* among all users of this store, whether it has a value or not.

        It is not re-entrant, and does not keep others from reading and writing without it.  A holder that dies loses it
        after a while.  Only acquiring it raises `StoreUnavailable`; a lock that cannot be released expires.
        """
        ...

    async def aclose(self) -> None:
        """Close files and connections; what they keep stays, and the store can be used again."""
        ...


@runtime_checkable
class BatchStore(Protocol):
    """A store that reads several values in one turn; `Store` does not ask that of engines.

    An agent's request looks for something about each call of its history, so an engine behind a thread or a network
    should have it.
    """

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """The values that there are, by key, as `Store.get` finds them.

        Args:
            keys: Of one owner, and different ones.

        Raises:
            StoreUnavailable: They cannot be read now.
        """
        ...


async def stored_values(store: Store, keys: Sequence[str]) -> Mapping[str, bytes]:
    """What *store* has of *keys*: all that is found, by key.

    Raises:
        StoreUnavailable: It cannot be read now.
    """
    if not keys:
        return {}
    get_many: Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]] | None = getattr(store, "get_many", None)
    return await (each_of(store, keys) if get_many is None else get_many(keys))  # to ask for the protocol takes longer


async def each_of(store: Store, keys: Sequence[str]) -> Mapping[str, bytes]:
    """The same, one after the other."""
    found = {key: await store.get(key) for key in keys}
    return {key: value for key, value in found.items() if value is not None}


@runtime_checkable
class WatchedStore(Protocol):
    """A store that knows whether it can be used now; `Store` does not ask that of engines."""

    @property
    def is_reachable(self) -> bool:
        """Whether it can be used, by the result of the last use; this sends no request."""
        ...


@runtime_checkable
class TroubledStore(WatchedStore, Protocol):
    """One that knows why it cannot be used, too."""

    @property
    def trouble(self) -> str:
        """Code of the error with which the last use failed; empty where it did not."""
        ...


@frozen(kw_only=True)
class StoreManifest(ExtensionManifest[Store]):
    """A store of an installed package, with an entry point in the group ``kiro_asgi.stores``.

    It is used in the place of the engine that ``state.engine`` names, which stays ``auto``; there can be one.
    """


def scoped(principal: str, kind: str, name: str) -> str:
    """The key under which *name* is kept for one client: of fixed size, and of no use for reading *name* back.

    Args:
        principal: The client; no other gets this key.
        kind: The kind of value; a new format is a new kind.
        name: The value's name; may be as long as a client makes it.
    """
    owner = sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()[:_OWNER]
    return f"{owner}.{sha256(json.dumps([principal, kind, name]).encode()).hexdigest()}"


def owner_of(key: str) -> str:
    """The owner of *key*: the same for all keys of one principal.  Keys that `scoped` has not made have one owner."""
    return key[:_OWNER] if key[_OWNER : _OWNER + 1] == "." else ""


_POLL: Final = 0.005
"""Seconds between two looks at a lock that another event loop holds."""

_Turns = WeakValueDictionary[str, anyio.Lock]


@define
class Locks:
    """Any number of locks; a name that is neither held nor waited for takes no memory."""

    _holders: dict[str, object] = field(init=False, factory=dict, repr=False)
    """Locked names to their holders."""

    _turns: PerLoop[_Turns] = field(init=False, factory=lambda: PerLoop(_Turns), repr=False)
    """Queues in front of locks, for each event loop: they belong to the first that uses them."""

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Exclude others: tasks of one event loop get their turn in order, those of different ones in any."""
        me = object()
        async with self._turn(name):
            while self._holders.setdefault(name, me) is not me:  # noqa: ASYNC110 - no event spans two loops
                await anyio.sleep(_POLL)
            try:
                yield
            finally:
                del self._holders[name]

    def _turn(self, name: str) -> anyio.Lock:
        return self._turns.here().setdefault(name, anyio.Lock())
