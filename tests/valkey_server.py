"""A real Valkey (or Redis) server of a test's own, on a port of the loopback interface."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import monotonic, sleep

import pytest
from attrs import define

__all__ = ["Running", "free_port", "needs_server", "program", "running"]


@cache
def program() -> str | None:
    """The server's program, if one is installed."""
    return shutil.which("valkey-server") or shutil.which("redis-server")


needs_server = pytest.mark.skipif(program() is None, reason="no valkey-server and no redis-server is installed")


@define
class Running:
    """A server that keeps nothing on disk."""

    port: int
    _process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where it is."""
        return f"valkey://127.0.0.1:{self.port}/0"

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def running(port: int = 0, *options: str) -> Iterator[Running]:
    """A server, from its first answer to the end of the block."""
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="kiro-asgi-valkey-") as folder:
        command = [str(program()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--dir", folder, "--logfile", str(Path(folder, "log")), *options]
        process = subprocess.Popen(command)
        server = Running(port, process)
        try:
            _wait(server)
            yield server
        finally:
            server.stop()


def free_port() -> int:
    """A port that nobody had a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait(server: Running) -> None:
    import valkey

    end = monotonic() + 10
    while True:
        try:
            with valkey.Valkey(port=server.port) as client:
                client.ping()
        except valkey.AuthenticationError:
            return
        except valkey.ConnectionError:
            if monotonic() > end:
                raise
            sleep(0.02)
        else:
            return
