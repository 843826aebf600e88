"""A store in this process's memory, and the bounded room that the owners of its keys share.

Where room is missing, the owner with most of it gives up what it used longest ago.  Owners whose parts differ by less
than a factor of two, and all that have less than a thousandth, count as having equally much: of those the one that has
been idle longest gives up a value.  So no owner loses a value to one that has more than twice as much, and of many
owners with little the latest are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from heapq import heapify, heappop, heappush
from time import monotonic
from typing import Final, Generic, TypeVar

from attrs import define, field, frozen

from kiro_asgi.state.base import Locks, owner_of

V = TypeVar("V")

ENTRY_BYTES: Final = 400
"""Bytes of an entry without its value: key, record, and their places in tables and indexes, rounded up."""

_PARTS: Final = 1024
"""Parts of the room; owners with less than one count as equal."""

_SLACK: Final = 64


@frozen
class Room:
    """Bounds of what is kept."""

    entries: int
    max_bytes: int

    def fits(self, size: int) -> bool:
        """Whether a value of *size* bytes may be kept at all."""
        return self.entries > 0 and size + ENTRY_BYTES <= self.max_bytes

    def holds(self, entries: int, size: int) -> bool:
        """Whether so many entries of so many bytes in all are within the bounds."""
        return entries <= self.entries and size <= self.max_bytes

    def level(self, entries: int, size: int) -> int:
        """How much an owner has, in powers of two: of entries or of bytes, whichever is more."""
        return max(_PARTS * entries // max(self.entries, 1), _PARTS * size // max(self.max_bytes, 1)).bit_length()


@frozen
class _StoredValue(Generic[V]):
    value: V
    cost: int


@define(eq=False)
class _Owner(Generic[V]):
    values: OrderedDict[str, _StoredValue[V]] = field(init=False, factory=OrderedDict)
    """The one used last is at the end."""

    size: int = field(init=False, default=0)
    level: int = field(init=False, default=0)
    used: int = field(init=False, default=0)
    """Number of its last use."""


@define
class Shelf(Generic[V]):
    """Values by key.  Every operation takes at most logarithmic time.  Not to be used by two threads at once."""

    room: Room
    _owners: dict[str, _Owner[V]] = field(init=False, factory=dict, repr=False)
    _order: list[tuple[int, int, str]] = field(init=False, factory=list, repr=False)
    """Heap of owners, the next to give up a value at the top; a record that is out of date is skipped."""

    _uses: int = field(init=False, default=0)
    _entries: int = field(init=False, default=0)
    _size: int = field(init=False, default=0)

    def __len__(self) -> int:
        return self._entries

    def __iter__(self) -> Iterator[tuple[str, V]]:
        return ((key, held.value) for owner in self._owners.values() for key, held in owner.values.items())

    @property
    def size_bytes(self) -> int:
        """Room in use."""
        return self._size

    def get(self, key: str) -> V | None:
        """The value; this does not count as using it."""
        owner = self._owners.get(owner_of(key))
        held = None if owner is None else owner.values.get(key)
        return None if held is None else held.value

    def use(self, key: str) -> None:
        """Count the value as used now."""
        name = owner_of(key)
        self._owners[name].values.move_to_end(key)
        self._rank(name, self._count())

    def put(self, key: str, value: V, size: int) -> list[V]:
        """Keep *value* in place of whatever was there, and return the values dropped for it.

        That may be *value* itself, where it is larger than the room, or than the share of its owner.
        """
        self.remove(key)
        if not self.room.fits(size):
            return [value]
        name, held = owner_of(key), _StoredValue(value, size + ENTRY_BYTES)
        owner = self._owners.setdefault(name, _Owner())
        owner.values[key] = held
        self._add(owner, 1, held.cost)
        self._rank(name, self._count())
        return [*self._make_room()]

    def remove(self, key: str) -> None:
        """Forget the value, if there is one."""
        name = owner_of(key)
        if (owner := self._owners.get(name)) is not None and (held := owner.values.pop(key, None)) is not None:
            self._dropped(name, held)

    def _make_room(self) -> Iterator[V]:
        while not self.room.holds(self._entries, self._size):
            name = self._first()
            _, held = self._owners[name].values.popitem(last=False)
            self._dropped(name, held)
            yield held.value

    def _first(self) -> str:
        """The owner that gives up a value."""
        while True:
            level, used, name = self._order[0]
            owner = self._owners.get(name)
            if owner is not None and (-level, used) == (owner.level, owner.used):
                return name
            heappop(self._order)

    def _dropped(self, name: str, held: _StoredValue[V]) -> None:
        owner = self._owners[name]
        self._add(owner, -1, -held.cost)
        if owner.values:
            self._rank(name, owner.used)
        else:
            del self._owners[name]

    def _add(self, owner: _Owner[V], entries: int, size: int) -> None:
        owner.size += size
        self._entries += entries
        self._size += size

    def _count(self) -> int:
        self._uses += 1
        return self._uses

    def _rank(self, name: str, used: int) -> None:
        """Update an owner's place in the heap."""
        owner = self._owners[name]
        rank = self.room.level(len(owner.values), owner.size), used
        if rank == (owner.level, owner.used):
            return
        owner.level, owner.used = rank
        heappush(self._order, (-owner.level, owner.used, name))
        if len(self._order) > 2 * len(self._owners) + _SLACK:
            self._order = [(-owner.level, owner.used, name) for name, owner in self._owners.items()]
            heapify(self._order)


@frozen
class _ExpiringValue:
    value: bytes
    expires_at: float


@define
class MemoryStore:
    """Keeps the values used last; see `kiro_asgi.state.base.Store`.

    Every operation takes at most logarithmic time.  The store may serve several event loops, also of several threads; a
    lock holds across them.
    """

    entries: int = 1_000
    """Values kept at once."""

    max_bytes: int = 16 * 1024 * 1024
    """Memory for all of them."""

    _clock: Callable[[], float] = monotonic
    trouble: str = field(default="", kw_only=True)
    """Code of the reason why values are here and not in a file; empty where they are meant to be."""

    _kept: Shelf[_ExpiringValue] = field(init=False, repr=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    """Held for the moment of one operation, never across an ``await``."""

    _locks: Locks = field(init=False, factory=Locks, repr=False)

    def __attrs_post_init__(self) -> None:
        self._kept = Shelf(Room(self.entries, self.max_bytes))

    @property
    def is_reachable(self) -> bool:
        """As of `kiro_asgi.state.base.WatchedStore`: whether values are where they are meant to be."""
        return not self.trouble

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """Memory in use, by the same count as *max_bytes*."""
        return self._kept.size_bytes

    async def get(self, key: str) -> bytes | None:
        """The value; reading it counts as using it."""
        with self._guard:
            value = self._unexpired(key)
            if value is not None:
                self._kept.use(key)
            return value

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value*; the owner of most makes room for it, with what it used longest ago."""
        entry = _ExpiringValue(value, self._clock() + ttl)
        with self._guard:
            self._kept.put(key, entry, len(value))

    async def take(self, key: str) -> bytes | None:
        """Return the value, and forget it."""
        with self._guard:
            value = self._unexpired(key)
            self._kept.remove(key)
            return value

    async def delete(self, key: str) -> None:
        """Forget the value."""
        with self._guard:
            self._kept.remove(key)

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Exclude others: tasks of one event loop get their turn in order, those of different ones in any."""
        return self._locks.hold(key)

    async def aclose(self) -> None:
        """Close nothing: there are no files or connections."""

    def _unexpired(self, key: str) -> bytes | None:
        entry = self._kept.get(key)
        if entry is not None and entry.expires_at <= self._clock():
            self._kept.remove(key)
            return None
        return None if entry is None else entry.value
