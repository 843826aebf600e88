"""The engines that every law of the counters is tried on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from attrs import frozen

from kiro_asgi.quota.base import Counters, Ledger
from kiro_asgi.quota.memory import MemoryCounters, MemoryLedger
from kiro_asgi.quota.sqlite import SqliteCounters, SqliteLedger
from tests.valkey_server import needs_server, running

__all__ = ["ENGINES", "Engine"]


@frozen
class Engine:
    """Both, empty."""

    counters: Counters
    ledger: Ledger


@asynccontextmanager
async def memory() -> AsyncIterator[Engine]:
    yield Engine(MemoryCounters(), MemoryLedger())


@asynccontextmanager
async def sqlite() -> AsyncIterator[Engine]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "state.db")
        counters, ledger = SqliteCounters(path), SqliteLedger(path)
        yield Engine(counters, ledger)
        await counters.aclose()
        ledger.close()


@asynccontextmanager
async def valkey() -> AsyncIterator[Engine]:
    from kiro_asgi.quota.valkey import ValkeyCounters, ValkeyLedger
    from kiro_asgi.state.valkey import ValkeyServer

    server = ValkeyServer(shared_url())
    await server.ask(lambda client: client.flushall())
    yield Engine(ValkeyCounters(server), ValkeyLedger(server))
    await server.aclose()


@cache
def shared_url() -> str:
    """One server for all tests of a process; it ends with it."""
    import atexit

    server = running()
    url = server.__enter__().url
    atexit.register(server.__exit__, None, None, None)
    return url


Make = Callable[[], AbstractAsyncContextManager[Engine]]

ENGINES: Final = (
    pytest.param(memory, id="memory"),
    pytest.param(sqlite, id="sqlite"),
    pytest.param(valkey, id="valkey", marks=needs_server),
)
