"""What the gateway asks of a place to keep things between requests.

Values are bytes, so that an engine needs to know nothing about them and may share them with other processes.  Nothing
is kept for ever: every value has a time to live, and an engine may drop a value before that to stay within its bounds.
Who reads must be able to do without.

Room is shared among the owners of keys, as `kiro_asgi.state.shelf` says: who keeps much pushes out its own.
"""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Final, Protocol

__all__ = ["Store", "owner_of", "scoped"]

_OWNER: Final = 16
"""Hexadecimal digits that tell owners apart; whose values they are is told by the others."""


class Store(Protocol):
    """Keys to values that pass away.

    Keys are made by `scoped`.  Every method is atomic by itself; what needs several is done under `lock`.
    """

    async def get(self, key: str) -> bytes | None:
        """The value; ``None`` where there is none, or none any more, or one that is damaged.

        Raises:
            StoreUnavailable: It is not to be had now.
        """
        ...

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value* in place of whatever was there, for *ttl* seconds at most.

        A value too large for the engine is not kept; what was there before is gone all the same.  Nobody waits:
        what cannot be written at once is written later, and is found here meanwhile.
        """
        ...

    async def take(self, key: str) -> bytes | None:
        """The value, and forget it: of several who take at once, one gets it.

        Raises:
            StoreUnavailable: As for `get`.
        """
        ...

    async def delete(self, key: str) -> None:
        """Forget the value, if there is one."""
        ...

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Exclude everybody else who locks *key* in this store, whether it has a value or not.

        It is not re-entrant, and it keeps nobody from reading and writing without it.
        """
        ...

    async def aclose(self) -> None:
        """Let go of files and connections; what they keep stays, and the store can go on."""
        ...


def scoped(principal: str, kind: str, name: str) -> str:
    """The key under which *name* is kept for one client: of fixed size, and of no use for reading *name* back.

    Args:
        principal: Whose it is; nobody else gets this key.
        kind: What it is; a new format of values is a new kind.
        name: Which one; may be as long as a client makes it.
    """
    owner = sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()[:_OWNER]
    return f"{owner}.{sha256(json.dumps([principal, kind, name]).encode()).hexdigest()}"


def owner_of(key: str) -> str:
    """Who has *key*: the same for all keys of one principal.  Keys that `scoped` has not made have one owner."""
    return key[:_OWNER] if key[_OWNER : _OWNER + 1] == "." else ""
