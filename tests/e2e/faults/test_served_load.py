"""R07, R15 under hypercorn: clients that do not read, and very many small events."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from statistics import quantiles

import pytest

from tests.e2e.faults.bench import ROUTES
from tests.e2e.faults.served import LOOPS, TIMEOUT, Served, as_exchange, text_of

LOOP = pytest.mark.parametrize("loop", LOOPS)
MIB = 1024 * 1024
SLOW = 5
SIZE = 16
"""MiB a slow client is sent."""

EVENTS = 50_000


def p99(values: list[float]) -> float:
    return quantiles(values, n=100)[98]


def gaps_of_a_fast_client(gateway: Served, events: int) -> list[float]:
    """Seconds between the events of a client that reads whatever comes."""
    with closing(gateway.request("openai", f"sim:count={events} sim:slow=0.01", stream=True)) as connection:
        times = [time.monotonic() for line in connection.getresponse() if line.startswith(b"data: ")]
    return [after - before for before, after in pairwise(times)]


def sent(gateway: Served) -> list[int]:
    """Bytes of each flood that the service could send so far."""
    return [request.bytes_accepted for request in gateway.simulator.requests if b"sim:flood" in request.body]


def plateau(gateway: Served) -> list[int]:
    """The same, once it has not grown for a while: the kernel's buffers take their time to fill."""
    before: list[int] = []
    calm, end = 0, time.monotonic() + TIMEOUT
    while len(before) < SLOW or calm < 4:
        assert time.monotonic() < end, "the upstream goes on sending"
        time.sleep(0.15)
        now = sent(gateway)
        calm = calm + 1 if now == before else 0
        before = now
    return before


@LOOP
def test_clients_that_do_not_read(served, loop):
    """R07: what slow clients cost is bounded, the service can send no more, a fast client does not notice, and in the
    end every byte is there."""
    gateway: Served = served(loop)
    gateway.warm_up()
    alone = p99(gaps_of_a_fast_client(gateway, 30))
    gateway.forget_peak()
    gateway.simulator.forget()
    before = gateway.memory()

    slow = [
        gateway.request(ROUTES[number % 2], f"sim:flood={SIZE}", stream=True, receive_buffer=4096)
        for number in range(SLOW)
    ]
    accepted = plateau(gateway)
    beside = p99(gaps_of_a_fast_client(gateway, 30))

    assert accepted == sent(gateway), "the upstream could go on sending"
    assert max(accepted) < SIZE * MIB
    assert beside <= 3 * alone + 0.1, (beside, alone)
    wanted = hashlib.sha256(b"0123456789abcdef" * (SIZE * MIB // 16)).digest()
    for number, connection in enumerate(slow):
        with closing(connection):
            content = as_exchange(connection.getresponse()).content
        assert hashlib.sha256(text_of(ROUTES[number % 2], content).encode()).digest() == wanted
    peak = gateway.memory("VmHWM") - before
    assert peak <= SLOW * 2 * MIB + 16 * MIB, f"{peak / MIB:.1f} MiB"
    assert gateway.trouble() == []


@contextmanager
def pinging(gateway: Served) -> Iterator[list[float]]:
    """Ask ``/health`` every 50 ms, and note how long each answer takes."""
    taken: list[float] = []
    stop = threading.Event()

    def ping() -> None:
        with closing(gateway.connect()) as sock:
            while not stop.wait(0.05):
                started = time.monotonic()
                sock.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
                while not sock.recv(65536).endswith(b'{"status":"ok"}'):
                    pass
                taken.append(time.monotonic() - started)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join()


@LOOP
@pytest.mark.parametrize("route", ROUTES)
def test_very_many_small_events(served, loop, route):
    """R15: fifty thousand events at five thousand a second or more, in flat memory, and others are answered."""
    gateway: Served = served(loop)
    gateway.warm_up()
    gateway.forget_peak()
    before = gateway.memory()
    with pinging(gateway) as pings:
        started = time.monotonic()
        exchange = gateway.ask(route, f"sim:long={EVENTS} sim:chunks=4096", stream=True)
        rate = EVENTS / (time.monotonic() - started)
    grown = gateway.memory("VmHWM") - before

    assert text_of(route, exchange.content) == "word " * EVENTS
    assert rate >= 5000
    assert max(pings) <= 0.4
    assert grown <= 8 * MIB
