"""Tools and messages of earlier requests, each client's for that client only: see `kiro_asgi.dialects.known`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from sys import getsizeof
from threading import Lock
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.dialects.known import Element
from kiro_asgi.limits import KNOWN_SECONDS, KNOWN_SHARE

_Key = tuple[str, str, str]
"""Client API and name of an array, and the text of its first elements."""

_ARRAY: Final = 2048
"""Bytes of an array beside its elements."""


@frozen
class _Array:
    """The elements of one array, as they were sent last."""

    elements: Sequence[Element]
    size: int
    kept: float
    """When, by the clock."""


@define(eq=False)
class _Client:
    """What is known of one client."""

    arrays: OrderedDict[_Key, _Array] = field(factory=OrderedDict, repr=False)
    """The one that was kept last is at the end."""

    size: int = 0

    def take(self, key: _Key) -> int:
        """Forget an array; returns its bytes."""
        size = self.arrays.pop(key).size
        self.size -= size
        return size

    def take_first(self) -> int:
        """Forget the array that was kept first; returns its bytes."""
        return self.take(next(iter(self.arrays)))


@define(eq=False)
class Known:
    """What is known of all clients.  Requests are read in threads, so several may ask for it at once."""

    _most: int
    """Bytes; 0 for none."""

    _clock: Callable[[], float]
    size: int = field(init=False, default=0)
    """Bytes in use."""

    _clients: OrderedDict[str, _Client] = field(init=False, factory=OrderedDict, repr=False)
    """By name; the one of which something was kept last is at the end."""

    _lock: Lock = field(init=False, factory=Lock, repr=False)

    def of(self, principal: str, api: str) -> ClientsKnown | None:
        """What is known of the client of this name in one client API; ``None`` where nothing is remembered of any.

        What was read of an element is another thing in each API, even where its text is the same.
        """
        return ClientsKnown(self, principal, api) if self._most else None

    def find(self, principal: str, key: _Key) -> Sequence[Element]:
        """As of `kiro_asgi.dialects.known.Recalled`."""
        with self._lock:
            self._forget_old()
            client = self._clients.get(principal)
            found = None if client is None else client.arrays.get(key)
            return () if found is None or found.kept < self._clock() - KNOWN_SECONDS else found.elements

    def keep(self, principal: str, key: _Key, elements: Sequence[Element]) -> None:
        """As of `kiro_asgi.dialects.known.Recalled`."""
        size = _ARRAY + getsizeof(key[2]) + sum(element.size for element in elements)
        share = self._most // KNOWN_SHARE
        with self._lock:
            self._forget_old()
            client = self._clients.setdefault(principal, _Client())
            self._clients.move_to_end(principal)
            if key in client.arrays:
                self.size -= client.take(key)
            while client.arrays and client.size + size > share:
                self.size -= client.take_first()
            if size > share:
                del self._clients[principal]
                return
            client.arrays[key] = _Array(elements, size, self._clock())
            client.size += size
            self.size += size
            while self.size > self._most:
                self._forget_first()

    def _forget_old(self) -> None:
        """Forget the clients of which nothing was kept for long, and what is old of the one of which it was longest."""
        oldest = self._clock() - KNOWN_SECONDS
        while self._clients:
            client = next(iter(self._clients.values()))
            if client.arrays and next(iter(client.arrays.values())).kept >= oldest:
                return
            self._forget_first()

    def _forget_first(self) -> None:
        """Forget what was kept first of the client of which something was kept longest ago."""
        principal, client = next(iter(self._clients.items()))
        if client.arrays:
            self.size -= client.take_first()
        if not client.arrays:
            del self._clients[principal]


@frozen
class ClientsKnown:
    """What is known of one client in one API: a `kiro_asgi.dialects.known.Recalled`."""

    _known: Known
    _principal: str
    _api: str

    def find(self, array: str, first: str, /) -> Sequence[Element]:
        """As of `kiro_asgi.dialects.known.Recalled`."""
        return self._known.find(self._principal, (self._api, array, first))

    def keep(self, array: str, first: str, elements: Sequence[Element], /) -> None:
        """As of `kiro_asgi.dialects.known.Recalled`."""
        self._known.keep(self._principal, (self._api, array, first), elements)
