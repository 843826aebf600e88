"""ASGI servers as their users start them: a process, with workers of its own, on a listening socket of ours."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from attrs import field, frozen

from tests.cli.processes import clean_environment
from tests.unexpected import look_for_bugs

SERVERS = {
    "hypercorn": ("hypercorn", "--graceful-timeout", "5", "--bind", "fd://{fd}"),
    "hypercorn-trio": ("hypercorn", "--graceful-timeout", "5", "-k", "trio", "--bind", "fd://{fd}"),
    "uvicorn": ("uvicorn", "--log-level", "warning", "--fd", "{fd}"),
}
"""Name to module and arguments."""


@frozen
class Served:
    """A running server."""

    process: subprocess.Popen[str]
    url: str
    written: list[str] = field(factory=list)
    """To standard error, once it has ended."""

    def stop(self) -> tuple[int, str, str]:
        """End it as a supervisor does; its exit status and what it wrote."""
        self.process.send_signal(signal.SIGTERM)
        out, errors = self.process.communicate(timeout=15)
        self.written.append(errors)
        return self.process.returncode, out, errors


@contextmanager
def served(server: str, app: str, endpoint: str, *options: str, **environ: str) -> Iterator[Served]:
    """Run *app* of this package, with a gateway in front of the service at *endpoint*."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd = listener.fileno()
        module, *arguments = (part.format(fd=fd) for part in SERVERS[server])
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments, *options, f"tests.e2e.hosts.{app}"],
            pass_fds=[fd],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(
                KIRO_ASGI__CLIENT__API_KEYS="k",
                KIRO_ASGI__KIRO__ENDPOINT=endpoint,
                KIRO_ASGI__KIRO__MODELS_TTL="0",
                KIRO_API_KEY="ksk_test",
                **environ,
            ),
        )
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    running = Served(process, url)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the workers too, which would outlive their parent
        _, rest = process.communicate()
    look_for_bugs("".join(running.written) or rest, f"{app} under {server}")
