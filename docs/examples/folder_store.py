"""A store from outside: a folder with a file for each value, which all processes that see the folder share."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

import anyio.to_thread

from kiro_asgi import Locks, StoreUnavailable

T = TypeVar("T")

_END: Final = struct.Struct(">d")
"""When a value passes away, in seconds since the epoch; stands before it in its file."""


class FolderStore:
    """Keeps values for as long as they live, whatever room they take; see `kiro_asgi.Store`.

    Files are read and written in threads: a slow disk holds nobody up but who waits for it.  Locks hold within the
    process: of two processes that go on with one conversation at the same time, the later one is believed.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._clock = clock
        self._locks = Locks()

    async def get(self, key: str) -> bytes | None:
        return await _in_thread(partial(self._read, self._folder / key))

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        with suppress(StoreUnavailable):  # a full disk: who reads must be able to do without
            await _in_thread(partial(self._write, self._folder / key, _END.pack(self._clock() + ttl) + value))

    async def take(self, key: str) -> bytes | None:
        return await _in_thread(partial(self._take, self._folder / key))

    async def delete(self, key: str) -> None:
        with suppress(StoreUnavailable):
            await _in_thread(partial((self._folder / key).unlink, missing_ok=True))

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        return self._locks.hold(key)

    async def aclose(self) -> None:
        """Delete what has passed away; there is nothing to let go of."""
        with suppress(StoreUnavailable):
            await _in_thread(self._sweep)

    def _read(self, file: Path) -> bytes | None:
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        if len(data) < _END.size or _END.unpack_from(data)[0] <= self._clock():
            return None
        return data[_END.size :]

    def _write(self, file: Path, data: bytes) -> None:
        """In one step, so that nobody reads half a value."""
        new = self._new()
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
        os.replace(new, file)

    def _take(self, file: Path) -> bytes | None:
        """Under a name of our own nobody else takes it."""
        ours = self._new()
        try:
            os.rename(file, ours)
        except FileNotFoundError:
            return None
        try:
            return self._read(ours)
        finally:
            ours.unlink()

    def _new(self) -> Path:
        return self._folder / f"new-{uuid4().hex}"

    def _sweep(self) -> None:
        for file in self._folder.iterdir():
            if not file.name.startswith("new-") and self._read(file) is None:
                file.unlink(missing_ok=True)


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await anyio.to_thread.run_sync(work)
    except OSError as error:
        raise StoreUnavailable(detail=f"the folder of the store: {error.strerror}", code="store.unavailable") from error
