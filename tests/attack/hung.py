"""``python -m tests.attack.hung serve …``: the command, with a program's store of which every use hangs for ever."""

from __future__ import annotations

import sys
from typing import Any

import anyio

from kiro_asgi.asgi.kept.guarded import GuardedStore
from kiro_asgi.cli import main, signals
from kiro_asgi.state.memory import MemoryStore


class Hanging(MemoryStore):
    """As one behind a route that was dropped."""

    async def get(self, key: str) -> bytes | None:
        await anyio.sleep_forever()
        return None

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        await anyio.sleep_forever()


def _hanging(settings: Any, clocks: Any) -> GuardedStore:
    return GuardedStore(Hanging(10, 10_000), settings.state.timeout)


if __name__ == "__main__":
    signals.new_store = _hanging
    sys.exit(main())
