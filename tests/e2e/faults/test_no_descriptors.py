"""A process without a free file descriptor waits for one, says so once a second, and goes on."""

from __future__ import annotations

import http.client
import resource
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kiro_asgi import simulator
from tests.asgi.driver import ask
from tests.cli.processes import serving
from tests.e2e.faults.served import LOOPS, within

DESCRIPTORS = 64
SECONDS = 3.0
GET = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def asked_on(sock: socket.socket) -> http.client.HTTPResponse:
    asked = ask("openai", "sim:count=3", stream=True)
    connection = http.client.HTTPConnection("127.0.0.1")
    connection.sock = sock
    headers = {name.decode(): value.decode() for name, value in asked.scope["headers"]}
    connection.request("POST", asked.scope["path"], asked.body[0], headers)
    return connection.getresponse()


def processor_time(pid: int) -> float:
    """Seconds that a process has computed."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().split()[13:15])) / 100


@pytest.mark.parametrize("loop", LOOPS)
def test_out_of_descriptors(loop: str, tmp_path: Path) -> None:
    """One line a second, no traceback, next to no work; a request on a connection that stands is refused with 503 for
    want of an upstream connection; and as soon as there are descriptors, everybody is served."""
    with ExitStack() as stack:
        service = stack.enter_context(simulator.running())
        environ = {
            "KIRO_ASGI__CLIENT__API_KEYS": "k",
            "KIRO_ASGI__KIRO__API_KEY": "ksk_x",
            "KIRO_ASGI__KIRO__ENDPOINT": service.url,
            "KIRO_ASGI__KIRO__MODELS_TTL": "0",  # a list of models would be asked for beside, and say that it cannot
        }
        server = stack.enter_context(serving("--loop", loop, "--access-log", cwd=tmp_path, **environ))
        pid, address = server.process.pid, ("127.0.0.1", int(server.base.rsplit(":", 1)[1]))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        standing = stack.enter_context(closing(socket.create_connection(address, timeout=20)))

        crowd = [stack.enter_context(closing(socket.create_connection(address, timeout=20))) for _ in range(100)]
        assert within(8, lambda: len(list(Path(f"/proc/{pid}/fd").iterdir())) >= DESCRIPTORS - 1)
        before = processor_time(pid)
        time.sleep(SECONDS)
        worked = processor_time(pid) - before
        refused = asked_on(standing)
        refused.read()

        answers = []
        for client in crowd:  # who is served leaves, and makes room for those behind
            client.sendall(GET)
        for client in crowd:
            answers.append(client.recv(4096).split(b"\r\n")[0].split()[1])
            client.close()
        after = stack.enter_context(closing(socket.create_connection(address, timeout=20)))
        served = asked_on(after)
        text = served.read()
        lines = server.stop().splitlines()

    complaints = [line for line in lines if "kiro_asgi.access" not in line]
    assert worked < SECONDS / 4
    assert (refused.status, refused.getheader("retry-after")) == (503, "1")
    assert answers == [b"200"] * len(crowd)
    assert (served.status, text.endswith(b"data: [DONE]\n\n")) == (200, True)
    assert 1 <= len(complaints) <= SECONDS + 10, complaints
    assert all("ERROR" in line and "Too many open files" in line for line in complaints), complaints
