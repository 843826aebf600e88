"""A gateway as it is run: its own process, hypercorn, real sockets; the service behind it is a simulator in ours."""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import define

from kiro_asgi.simulator import Simulator, running
from tests.asgi.driver import Exchange, ask
from tests.cli.processes import PREFIX, clean_environment
from tests.unexpected import look_for_bugs

LOOPS: Final = ("asyncio", "trio")
TIMEOUT: Final = 20.0
"""Seconds without a byte, or until an end, after which a scenario hangs."""

LINGER_RST: Final = struct.pack("ii", 1, 0)
ANNOUNCED: Final = "Anthropic base_url: "


@define
class Served:
    """A running gateway."""

    process: subprocess.Popen[str]
    port: int
    simulator: Simulator
    _errors: Path

    def errors(self) -> str:
        """What it has written to standard error, access log included."""
        return self._errors.read_text()

    def trouble(self) -> list[str]:
        """The lines of it that tell of something worse than a client that left."""
        signs = ("ERROR", "CRITICAL", "WARNING", "Traceback", "Warning:", "Exception", "was never")
        return [line for line in self.errors().splitlines() if any(sign in line for sign in signs)]

    def memory(self, field: str = "VmRSS") -> int:
        """Bytes of one line of its status."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

    def forget_peak(self) -> None:
        """Let ``VmHWM`` begin anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def files(self) -> int:
        """Its open descriptors, once their number has stayed the same for a moment."""
        counts = [-1]
        while len(counts) < 5 or len({*counts[-5:]}) > 1:
            counts.append(len(os.listdir(f"/proc/{self.process.pid}/fd")))
            time.sleep(0.03)
        return counts[-1]

    def connect(self, receive_buffer: int = 0) -> socket.socket:
        sock = socket.socket()
        sock.settimeout(TIMEOUT)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.connect(("127.0.0.1", self.port))
        return sock

    def request(
        self, route: str, prompt: str, *, stream: bool, receive_buffer: int = 0, last: bool = False, **more: Any
    ) -> http.client.HTTPConnection:
        """A connection on which a question has been asked."""
        asked = ask(route, prompt, stream=stream, **{"max_tokens": 10**9, **more})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection.sock = self.connect(receive_buffer)
        headers = {name.decode(): value.decode() for name, value in asked.scope["headers"]}
        headers |= {"connection": "close"} if last else {}
        connection.request("POST", asked.scope["path"], asked.body[0], headers)
        return connection

    def ask(self, route: str, prompt: str, *, stream: bool, **more: Any) -> Exchange:
        """Ask and read to the end.

        The server is told to close the connection: hypercorn keeps one that the client closes while it is idle until
        the keep-alive timeout, and descriptors are to be counted.
        """
        connection = self.request(route, prompt, stream=stream, last=True, **more)
        try:
            return as_exchange(connection.getresponse())
        finally:
            connection.close()

    def warm_up(self) -> None:
        """Let caches fill and pools grow to what is normal."""
        for _ in range(50):
            assert self.ask("openai", "sim:count=3", stream=True).status == 200


def as_exchange(response: http.client.HTTPResponse) -> Exchange:
    """A response as the application sent it, as far as that can be told; read to its end."""
    headers = [(name.lower().encode(), value.encode()) for name, value in response.getheaders()]
    body = response.read()
    return Exchange(
        {},
        messages=[
            {"type": "http.response.start", "status": response.status, "headers": headers},
            {"type": "http.response.body", "body": body, "more_body": False},
        ],
    )


def reset(connection: http.client.HTTPConnection) -> None:
    """Close with RST."""
    assert connection.sock is not None
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RST)


def within(seconds: float, condition: Callable[[], object]) -> bool:
    """Wait until *condition* holds; whether it does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(0.005)
    return True


def text_of(route: str, content: bytes) -> str:
    """The text of a stream that is too large to be looked at closely."""
    found = []
    for line in content.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        deltas = [event["delta"]] if "delta" in event else [choice["delta"] for choice in event.get("choices", ())]
        found += [delta.get("text" if route == "anthropic" else "content") or "" for delta in deltas]
    return "".join(found)


@contextmanager
def start(loop: str, folder: Path, **settings: str) -> Iterator[Served]:
    """Run a gateway in *folder* until the end of the block; it must not have exited by then, nor written of a bug.

    *settings* are more of them, as variables of its environment.
    """
    log = folder / "stderr"
    with running(keep=10_000, send_buffer=64 * 1024) as simulator, log.open("w") as errors:
        process = subprocess.Popen(
            [
                *PREFIX,
                "serve",
                "--port",
                "0",
                "--drain-delay",
                "0",
                "--loop",
                loop,
                "--access-log",
                "--log-level",
                "info",
            ],
            cwd=folder,
            env=clean_environment(
                KIRO_ASGI__CLIENT__API_KEYS="k",
                KIRO_ASGI__KIRO__API_KEY="ksk_x",
                KIRO_ASGI__KIRO__ENDPOINT=simulator.url,
                KIRO_ASGI__KIRO__MODELS_TTL="0",
                KIRO_ASGI__RETRY__BASE="0",
                **settings,
            ),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(4)]
            base = next(line.removeprefix(ANNOUNCED).strip() for line in lines if line.startswith(ANNOUNCED))
            yield Served(process, urlsplit(base).port or 0, simulator, log)
            assert process.poll() is None, log.read_text()
        finally:
            process.kill()
            process.communicate()
    look_for_bugs(log.read_text(errors="replace"), "kiro-asgi serve")
