"""What the gateway asks of a place to keep things between requests.

Values are bytes, so that an engine needs to know nothing about them and may share them with other processes.  Nothing
is kept for ever: every value has a time to live, and an engine may drop a value before that to stay within its bounds.
Who reads must be able to do without.
"""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Protocol

__all__ = ["Store", "scoped"]


class Store(Protocol):
    """Keys to values that pass away.

    Keys are made by `scoped`.  Every method is atomic by itself; what needs several is done under `lock`.
    """

    async def get(self, key: str) -> bytes | None:
        """The value; ``None`` where there is none, or none any more."""
        ...

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep *value* in place of whatever was there, for *ttl* seconds at most.

        A value too large for the engine is not kept; what was there before is gone all the same.
        """
        ...

    async def take(self, key: str) -> bytes | None:
        """The value, and forget it: of several who take at once, one gets it."""
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
    return sha256(json.dumps([principal, kind, name]).encode()).hexdigest()
