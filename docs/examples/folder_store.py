"""A store from outside: a folder with a file for each value, which all processes that see the folder share."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import uuid4

from attrs import frozen

from kiro_asgi import BlockingStore

END: Final = struct.Struct(">d")
"""When a value passes away, in seconds since the epoch; stands before it in its file."""


@frozen
class FolderStore(BlockingStore):
    """Keeps values for as long as they live, whatever room they take."""

    folder: Path
    clock: Callable[[], float] = time.time

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self, key: str) -> bytes | None:
        try:
            data = (self.folder / key).read_bytes()
        except FileNotFoundError:
            return None
        living = len(data) >= END.size and END.unpack_from(data)[0] > self.clock()
        return data[END.size :] if living else None

    def write(self, key: str, value: bytes, ttl: float) -> None:
        """In one step, so that nobody reads half a value."""
        new = f"new-{uuid4().hex}"
        with os.fdopen(os.open(self.folder / new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(END.pack(self.clock() + ttl) + value)
        os.replace(self.folder / new, self.folder / key)

    def remove(self, key: str) -> bytes | None:
        """Under a name of our own nobody else takes it."""
        ours = f"new-{uuid4().hex}"
        try:
            os.rename(self.folder / key, self.folder / ours)
        except FileNotFoundError:
            return None
        try:
            return self.read(ours)
        finally:
            (self.folder / ours).unlink()

    def close(self) -> None:
        """Delete what has passed away; there is nothing to let go of."""
        for file in self.folder.iterdir():
            if not file.name.startswith("new-") and self.read(file.name) is None:
                file.unlink(missing_ok=True)
