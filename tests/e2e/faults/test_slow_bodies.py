"""R43 under hypercorn: clients whose requests come a byte at a time."""

from __future__ import annotations

import selectors
import socket
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.e2e.faults.bench import ROUTES
from tests.e2e.faults.served import LOOPS, Served, start

SLOW = 200
NORMAL = 120
AT_ONCE = 4
BODY_TIMEOUT = 3
PAUSE = 0.2
"""Seconds between two bytes of each."""

HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\n"
    b"content-type: application/json\r\ncontent-length: 10000\r\n\r\n{"
)


def statuses_of_slow_clients(gateway: Served, load: Future[Counter[int]]) -> Counter[int]:
    """Trickle bodies over that many connections while *load* runs, and until each has been answered."""
    statuses: Counter[int] = Counter()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(SLOW):
            sock = stack.enter_context(gateway.connect())
            sock.sendall(HEAD)
            selector.register(sock, selectors.EVENT_READ)
        end = time.monotonic() + BODY_TIMEOUT + 20
        while time.monotonic() < end and (selector.get_map() or not load.done()):
            for key, _ in selector.select(PAUSE):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                statuses[int(sock.recv(65536).split(b" ", 2)[1])] += 1
                selector.unregister(sock)
            for key in selector.get_map().values():
                with suppress(OSError):  # of one that has just been answered
                    key.fileobj.send(b" ")  # type: ignore[union-attr]
            time.sleep(PAUSE)
    return statuses


def statuses_of_normal_clients(gateway: Served) -> Counter[int]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = threads.map(
            lambda number: gateway.ask(ROUTES[number % 2], "sim:count=3", stream=number % 4 < 2), range(NORMAL)
        )
        return Counter(answer.status for answer in answers)


@pytest.mark.parametrize("loop", LOOPS)
def test_bodies_that_come_a_byte_at_a_time(loop, tmp_path: Path):
    """Two hundred of them take nothing from the others, nor a connection to the service, and are told 408."""
    with start(loop, tmp_path, KIRO_ASGI__LIMITS__BODY_TIMEOUT=str(BODY_TIMEOUT)) as gateway:
        with ThreadPoolExecutor(1) as thread:
            load = thread.submit(statuses_of_normal_clients, gateway)
            slow = statuses_of_slow_clients(gateway, load)

        assert load.result() == {200: NORMAL}
        assert slow == {408: SLOW}
        assert len(gateway.simulator.requests) == NORMAL
        assert gateway.simulator.connections_opened <= AT_ONCE
        assert gateway.trouble() == []
