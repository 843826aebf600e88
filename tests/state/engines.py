"""The engines that every law of a store is tried on, each with a clock that stands still unless told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final

from attrs import define

from kiro_asgi.state.base import Store
from kiro_asgi.state.memory import MemoryStore
from kiro_asgi.state.sqlite import SqliteStore
from tests.examples import example


@define
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def memory(clock: Clock) -> AsyncIterator[Store]:
    store = MemoryStore(clock=clock)
    yield store
    await store.aclose()


@asynccontextmanager
async def sqlite(clock: Clock) -> AsyncIterator[Store]:
    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "state.db"), clock=clock)
        yield store
        await store.aclose()


@asynccontextmanager
async def folder(clock: Clock) -> AsyncIterator[Store]:
    with TemporaryDirectory() as room:
        store: Store = example("folder_store").FolderStore(Path(room, "state"), clock)
        yield store
        await store.aclose()


Engine = Callable[[Clock], AbstractAsyncContextManager[Store]]

ENGINES: Final[Mapping[str, Engine]] = MappingProxyType({"memory": memory, "sqlite": sqlite, "example": folder})
"""Each with room for at least a hundred small values."""
