"""A cell as its users run it: a process on a port of loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

import httpx2
from attrs import frozen

from tests.cli.processes import clean_environment
from tests.hosts.matrix import Cell
from tests.unexpected import look_for_bugs

__all__ = ["DJANGO_5", "KEY", "Running", "environment", "running", "started"]

ROOT: Final = Path(__file__).parents[2]
KEY: Final = "k"
DJANGO_5: Final = "KIRO_ASGI_HOSTS_DJANGO_5"
"""Names the folder in which the older Django is."""

OURS: Final = "unexpected "
"""The gateway logs a bug with this word, and its traceback behind it."""

PATIENCE: Final = 30.0
"""Seconds that a server may take to start."""

GRACE: Final = 10.0
"""Seconds after SIGTERM within which it is gone; every server is told to wait for 5."""


@frozen
class Running:
    """A server that answers."""

    url: str
    """Of the site's front page, without a slash at the end."""

    process: subprocess.Popen[str]
    errors: IO[str]
    http2: bool = False

    @property
    def base(self) -> str:
        """Where the gateway is."""
        return f"{self.url}/llm"

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """What is at *path* of the site."""
        with self.client() as client:
            return client.get(self.url + path, headers=headers)

    def client(self) -> httpx2.Client:
        """Speaks to it in its version of HTTP."""
        return httpx2.Client(http1=not self.http2, http2=self.http2, trust_env=False, timeout=20)

    def stop(self) -> int:
        """Tell it to end, and wait until it has; its exit status."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(GRACE)

    def said(self) -> str:
        """Everything that it wrote."""
        self.errors.seek(0)
        return self.errors.read()


@contextmanager
def running(cell: Cell, service: str) -> Iterator[Running]:
    """Run *cell* with a gateway in front of the service at *service*; entered when the site's page is there."""
    app = f"tests.hosts.sites.{cell.host.app}"
    command = [part.replace("{app}", app) for part in cell.server.command]
    extra = {name: value.format(django_5=os.environ.get(DJANGO_5, "")) for name, value in cell.host.environ.items()}
    with started(command, environment(service, **extra), root=cell.host.root, http2=cell.server.http2) as found:
        yield found


@contextmanager
def started(
    command: Sequence[str], environ: Mapping[str, str], *, root: str = "", http2: bool = False, cwd: Path = ROOT
) -> Iterator[Running]:
    """Run a module with arguments, in which ``{port}`` is to be filled in; entered when it answers at *root*."""
    port = _free_port()
    with TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *(part.format(port=port) for part in command)],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            text=True,
            cwd=cwd,
            env=environ,
        )
        try:
            found = Running(f"http://127.0.0.1:{port}{root}", process, errors, http2)
            _wait(found)
            yield found
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the workers too, which would outlive their parent
            process.wait()
        if OURS in (said := found.said()):  # what frameworks and servers say of themselves is no matter of ours
            look_for_bugs(said[said.index(OURS) :], " ".join(command))


def environment(service: str, **extra: str) -> dict[str, str]:
    """Settings of a gateway in front of the service at *service*, and folders of modules before those of the tests.

    It looks at the time at least every 0.2 s, twelve times as often as it takes to drop a client that takes nothing.
    """
    path = os.pathsep.join(filter(None, (extra.pop("PYTHONPATH", ""), str(ROOT))))
    return clean_environment(
        PYTHONPATH=path,
        KIRO_ASGI__CLIENT__API_KEYS=KEY,
        KIRO_ASGI__KIRO__ENDPOINT=service,
        KIRO_ASGI__KIRO__MODELS_TTL="0",
        KIRO_ASGI__LIMITS__WRITE_TIMEOUT="2",
        KIRO_API_KEY="ksk_test",
        **extra,
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait(server: Running) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        assert server.process.poll() is None, server.said()
        with suppress(httpx2.TransportError):
            server.get("/")
            return
        assert time.monotonic() < until, server.said()
        time.sleep(0.05)
