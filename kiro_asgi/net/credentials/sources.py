"""Sources of tokens: a file, a store of another program, a command.

A source is read in a thread with an event loop of its own, so it may block.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from logging import getLogger
from pathlib import Path
from typing import Final, Protocol

import anyio
from attrs import define, field

from kiro_asgi.errors import KiroAsgiError, UpstreamFault
from kiro_asgi.net.credentials.store import (
    change_row,
    exposed,
    is_store,
    locked,
    read_private,
    read_rows,
    write_private,
)
from kiro_asgi.upstreams.access import Vendor
from kiro_asgi.upstreams.base import Token

_log = getLogger("kiro_asgi")

_LOCK_TIMEOUT: Final = 40.0
"""Seconds that a lock is waited for: longer than any holder needs."""

_READS: Final = 3
_READ_AGAIN: Final = 0.05
"""Other programs write their files in place; one that is unreadable is read again after so many seconds."""

_COMMAND_TIMEOUT: Final = 30.0
_COMMAND_BYTES: Final = 256 * 1024


class Source(Protocol):
    """One place where a token is found."""

    @property
    def name(self) -> str:
        """Name in log lines."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether a refreshed token is written back."""
        ...

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Keep other processes from refreshing the same token; `UpstreamTimeout` where their lock is held too long."""
        ...

    async def read(self) -> Token:
        """Read the token as it is now.

        Raises:
            KiroAsgiError: There is none that can be read.
        """
        ...

    def write(self, token: Token) -> None:
        """Write a refreshed token, durably.

        Raises:
            OSError: It cannot be written; what was there is still there.
        """
        ...


@define
class FileSource:
    """A token file, or another program's store: it can be read, and written where that is allowed."""

    path: Path
    keeps: bool
    _load: Callable[[], Token]
    _write: Callable[[Token], None]

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """The lock beside the file; none where nothing is written."""
        return locked(self.path, _LOCK_TIMEOUT) if self.keeps else nullcontext()

    async def read(self) -> Token:
        """The same as `load`."""
        return self.load()

    def load(self) -> Token:
        """Read the token at once, without an event loop.

        Raises:
            UpstreamFault: Code ``credentials.unreadable``; the message says why, and quotes nothing.
        """
        for attempt in range(1, _READS + 1):
            try:
                return self._load()
            except OSError as error:
                words = error.strerror or str(error)
                break
            except KiroAsgiError as error:
                words = error.message
                time.sleep(_READ_AGAIN if attempt < _READS else 0)
        raise UpstreamFault(f"{self.path}: {words}", code="credentials.unreadable")

    def write(self, token: Token) -> None:
        """Put *token* into the file or the store; `OSError` where that fails."""
        self._write(token)


def _file(path: Path, vendor: Vendor, keeps: bool, now: Callable[[], float]) -> FileSource:
    def sibling(name: str) -> bytes | None:
        try:
            return read_private(path.parent / name)
        except OSError:
            return None

    def load() -> Token:
        return vendor.parse(read_private(path), sibling, now())

    def write(token: Token) -> None:
        write_private(path, vendor.merge(read_private(path), token))

    return FileSource(path, keeps, load, write)


def _store(path: Path, vendor: Vendor, keeps: bool, now: Callable[[], float]) -> FileSource:
    def load() -> Token:
        return vendor.parse_rows(read_rows(path, vendor.rows), now())

    def write(token: Token) -> None:
        if token.place is not None:
            change_row(path, token.place, lambda value: vendor.merge(value, token))

    return FileSource(path, keeps, load, write)


@define
class EphemeralSource:
    """Base of sources that make a token at each read: nothing is written, and nothing needs a lock."""

    keeps: bool = field(init=False, default=False)

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """No lock."""
        return nullcontext()

    def write(self, token: Token) -> None:
        """Write nothing: the next process gets a token of its own."""


@define
class CommandSource(EphemeralSource):
    """A command that prints a token file's JSON, and stores its token itself."""

    name: str
    _argv: tuple[str, ...]
    _vendor: Vendor
    _now: Callable[[], float]

    async def read(self) -> Token:
        """Run the program.

        Raises:
            UpstreamFault: Code ``credentials.command``: it fails, or prints no token.  What it printed is not quoted.
        """
        try:
            with anyio.fail_after(_COMMAND_TIMEOUT):
                printed = await _output(self._argv)
        except TimeoutError:
            raise self._failure("took too long") from None
        except OSError as error:
            raise self._failure(f"cannot be run: {error.strerror}") from None
        if printed is None:
            raise self._failure("failed, or printed far too much")
        try:
            token = self._vendor.parse(printed, lambda _: None, self._now())
        except KiroAsgiError as error:
            raise self._failure(f"printed no token: {error.message}") from None
        if not token.access_token:
            raise self._failure("printed no access token")
        return token

    def _failure(self, words: str) -> UpstreamFault:
        return UpstreamFault(f"{self.name}: the program {words}", code="credentials.command")


async def _output(argv: tuple[str, ...]) -> bytes | None:
    """Return the standard output of a command; ``None`` where it fails or prints too much.  Its errors are not read."""
    null, printed = subprocess.DEVNULL, bytearray()
    async with await anyio.open_process(argv, stdin=null, stdout=subprocess.PIPE, stderr=null) as process:
        assert process.stdout is not None
        async for chunk in process.stdout:
            printed += chunk
            if len(printed) > _COMMAND_BYTES:
                process.kill()
                return None
        await process.wait()
    return bytes(printed) if process.returncode == 0 else None


def open_source(path: Path, vendor: Vendor, write_back: str, now: Callable[[], float]) -> FileSource:
    """Open the source at *path*, by its content.

    Args:
        path: The file.
        vendor: Parses and merges its tokens.
        write_back: ``files``, ``stores`` or ``nowhere``.
        now: Seconds since the epoch.

    Raises:
        OSError: It cannot be read.
    """
    if exposed(path):
        _log.warning("other users may read the tokens in %s; run: chmod 600 %s", path, path)
    if is_store(path):
        return _store(path, vendor, write_back == "stores", now)
    return _file(path, vendor, write_back != "nowhere", now)
