"""Healthy clients, in a process of their own: ``python -m tests.attack.healthy PORT MODEL``.

One reads a long stream of small events, one polls ``/health``, one asks a short question again and again.  A fourth
thread does nothing but sleep, and so measures how late this process itself is.  Each line read from standard input is
answered by what was noticed since the one before, as `Noticed` in JSON.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

from attrs import Factory, asdict, define, field, frozen

TIMEOUT = 60.0
"""Seconds of silence after which a healthy client gives up, and asks anew."""

POLL = 0.02
"""Seconds between two looks at ``/health``, and between two events of the stream."""


@frozen
class Noticed:
    """What healthy clients noticed in some time; all but the counts in seconds."""

    stream: float
    """Longest time between two events of the stream."""

    health: float
    """Longest time for an answer from ``/health``."""

    asked: float
    """Longest time from a connection to the first event of a new answer."""

    own: float
    """How late this process itself was, at most."""

    streamed: int
    """Events of the stream."""

    failures: tuple[str, ...]
    """What went wrong for one of them."""


@define
class _Watch:
    """The longest time between two beats."""

    worst: float = 0.0
    beats: int = 0
    _since: float | None = None

    def begin(self) -> None:
        self._since = time.perf_counter()

    def beat(self) -> None:
        """Something came that was waited for."""
        now = time.perf_counter()
        if self._since is not None:
            self.worst = max(self.worst, now - self._since)
        self.beats += 1
        self._since = now

    def end(self) -> None:
        self.beat()
        self._since = None

    def read(self) -> tuple[float, int]:
        """The longest time until now, a wait that is still going on included; begins anew."""
        waiting = 0.0 if self._since is None else time.perf_counter() - self._since
        found = max(self.worst, waiting), self.beats
        self.worst, self.beats = 0.0, 0
        return found


def _request(path: str, model: str, prompt: str) -> bytes:
    message = {"role": "user", "content": prompt}
    limit = "max_tokens" if path == "/v1/messages" else "max_completion_tokens"
    body = json.dumps({"model": model, limit: 128_000, "stream": True, "messages": [message]}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: healthy\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


@define
class Clients:
    """The three of them, and what they have noticed."""

    port: int
    model: str
    stream: _Watch = Factory(_Watch)
    health: _Watch = Factory(_Watch)
    asked: _Watch = Factory(_Watch)
    own: float = 0.0
    failures: list[str] = field(factory=list)

    def start(self) -> None:
        for work in (self._stream, self._poll, self._ask):
            threading.Thread(target=self._forever, args=(work,), daemon=True).start()
        threading.Thread(target=self._sleep, daemon=True).start()

    def read(self) -> Noticed:
        """What was noticed since the last time."""
        (stream, streamed), (health, _), (asked, _) = self.stream.read(), self.health.read(), self.asked.read()
        own, self.own = self.own, 0.0
        failures, self.failures = tuple(self.failures), []
        return Noticed(stream, health, asked, own, streamed, failures)

    def _forever(self, work: Callable[[], None]) -> None:
        while True:
            try:
                work()
            except (OSError, AssertionError) as error:
                self.failures.append(f"{work.__name__.strip('_')}: {error or type(error).__name__}")
                time.sleep(0.2)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield sock

    def _stream(self) -> None:
        self.stream.begin()
        with self._connected() as sock:
            sock.sendall(_request("/v1/messages", self.model, "sim:count=20000"))
            while data := sock.recv(65536):
                assert b"event: error" not in data, "an error in the stream"
                self.stream.beat()
                if b"event: message_stop" in data:
                    return
        raise AssertionError("the stream was broken off")

    def _poll(self) -> None:
        with self._connected() as sock:
            while True:
                self.health.begin()
                sock.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
                found = b""
                while not found.endswith(b'{"status":"ok"}'):
                    data = sock.recv(65536)
                    assert data, "the connection was closed"
                    found += data
                self.health.end()
                time.sleep(POLL)

    def _ask(self) -> None:
        while True:
            self.asked.begin()
            with self._connected() as sock:
                sock.sendall(_request("/v1/chat/completions", self.model, "sim:count=3"))
                found = sock.recv(65536)
                assert found.startswith(b"HTTP/1.1 200"), found[:60]
                while b"\r\n\r\n" not in found[:-4]:
                    found += sock.recv(65536)
                self.asked.end()
                while not found.endswith(b"0\r\n\r\n"):
                    data = sock.recv(65536)
                    assert data, "an answer was broken off"
                    found += data
                assert b"[DONE]" in found, "an answer has no end"
            time.sleep(0.1)

    def _sleep(self) -> None:
        while True:
            began = time.perf_counter()
            time.sleep(0.005)
            self.own = max(self.own, time.perf_counter() - began - 0.005)


if __name__ == "__main__":
    clients = Clients(int(sys.argv[1]), sys.argv[2])
    clients.start()
    for _ in sys.stdin:
        print(json.dumps(asdict(clients.read())), flush=True)
