"""R08, R09 under hypercorn: clients that stop writing, and clients that all leave at once."""

from __future__ import annotations

import socket
import time
from contextlib import closing

import pytest

from tests.e2e.faults.bench import ROUTES
from tests.e2e.faults.served import LOOPS, TIMEOUT, Served, as_exchange, reset, within
from tests.e2e.faults.test_served_load import pinging

LOOP = pytest.mark.parametrize("loop", LOOPS)
CROWD = 100


def half_closed(gateway: Served, route: str) -> str:
    """What becomes of an answer when its client has closed its own side of the connection: the access log's word."""
    lines = len(gateway.errors().splitlines())
    with closing(gateway.request(route, "sim:count=40 sim:slow=0.005", stream=True)) as connection:
        assert connection.sock is not None
        connection.sock.shutdown(socket.SHUT_WR)
        try:
            as_exchange(connection.getresponse())
        except (OSError, ValueError, EOFError):
            pass
        except Exception as error:  # noqa: BLE001 - http.client's own, for an answer that is torn
            assert type(error).__module__ == "http.client", error
        assert within(5, lambda: len(gateway.errors().splitlines()) > lines)
    (line,) = gateway.errors().splitlines()[lines:]
    return "disconnected" if " disconnected " in line else "complete" if " complete " in line else line


@LOOP
@pytest.mark.parametrize("route", ROUTES)
def test_a_client_that_closes_its_own_side(served, loop, route):
    """R08: the server takes it for a client that left, every time; the upstream is released and nothing breaks."""
    gateway: Served = served(loop)
    gateway.warm_up()
    files = gateway.files()
    outcomes = {half_closed(gateway, route) for _ in range(8)}

    assert outcomes == {"disconnected"}
    assert within(1, lambda: all(request.finished_at for request in gateway.simulator.requests))
    assert gateway.files() <= files, "an idle upstream connection may be gone, nothing may be left"
    assert gateway.trouble() == []


@LOOP
def test_everybody_leaves_at_once(served, loop):
    """R09: a hundred streams are reset at once: others are answered meanwhile, and everything is released."""
    gateway: Served = served(loop)
    gateway.warm_up()
    files = gateway.files()
    gateway.simulator.forget()
    streams = [
        gateway.request(ROUTES[n % 2], "sim:count=500 sim:slow=0.2", stream=True, receive_buffer=4096)
        for n in range(CROWD)
    ]
    assert within(TIMEOUT, lambda: len(gateway.simulator.requests) == CROWD)
    for connection in streams:
        reset(connection)
    time.sleep(0.3)
    with pinging(gateway) as pings:
        time.sleep(0.2)
        started = time.monotonic()
        for connection in streams:
            connection.close()
        took = time.monotonic() - started
        assert within(2, lambda: all(request.finished_at for request in gateway.simulator.requests))
        time.sleep(0.3)

    assert took <= 0.25, "no storm: 50 ms, but for what a busy machine adds"
    assert max(pings) <= 0.5, sorted(pings)[-3:]
    assert within(2, lambda: gateway.files() <= files)
    assert gateway.trouble() == []
