"""R41, R42: everybody is refused at once, or there is no service at all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from statistics import quantiles
from typing import Any

import anyio
import pytest

from kiro_asgi.simulator import RecordedRequest, Script, answer, refusal, text
from tests.asgi.driver import Exchange, ask
from tests.e2e.faults.bench import ROUTES, Gateway, no_leak
from tests.e2e.faults.verdicts import refused, whole

pytestmark = pytest.mark.anyio

CROWD = 200
STORM = 1.0
"""Seconds that the service refuses everybody, from the moment when everybody has asked once."""

BUSY = 6.0
"""Seconds that a busy machine may take for two tries of everybody: 400 handshakes of TLS, where that is the trouble."""

SLOW_DOWN = {"message": "Too many requests, please wait before trying again."}


async def all_at_once(door: Gateway, count: int, stream: Callable[[int], bool]) -> tuple[list[Exchange], list[float]]:
    """That many requests, and the seconds each took."""
    exchanges = [ask(ROUTES[n % 2], f"question {n}", stream=stream(n)) for n in range(count)]
    taken = [0.0] * count

    async def one(n: int) -> None:
        started = time.monotonic()
        await door.run(exchanges[n])
        taken[n] = time.monotonic() - started

    async with anyio.create_task_group() as group:
        for n in range(count):
            group.start_soon(one, n)
    return exchanges, taken


async def test_a_storm_of_429(gateway, simulator):
    """R41: two hundred clients are refused for a second: tries are bounded and spread, and who was patient enough is
    served; the others are told 429 with the time to wait."""
    door = gateway(retry={"attempts": 5, "base": 0.3, "jitter": 0.5}, limits={"connections": CROWD})
    calls: list[float] = []

    def storm(request: RecordedRequest) -> Script:
        calls.append(request.received_at)
        calm = len(calls) > CROWD and request.received_at - calls[CROWD - 1] > STORM
        return answer(*text("calm")) if calm else refusal(429, SLOW_DOWN["message"], retry_after="0.05")

    simulator.answer_with(storm)
    async with no_leak(door, idle=CROWD):
        exchanges, _ = await all_at_once(door, CROWD, lambda n: n % 4 < 2)

    statuses = Counter(exchange.status for exchange in exchanges)
    assert statuses[200] + statuses[429] == CROWD
    assert statuses[200] >= CROWD * 0.9, statuses
    for n, exchange in enumerate(exchanges):
        if exchange.status == 200:
            assert whole(ROUTES[n % 2], exchange, stream=n % 4 < 2).text == "calm"
        else:
            assert int(exchange.headers["retry-after"]) >= 1
    assert len(calls) <= CROWD * 5
    calls.sort()
    busiest = max(sum(start <= call < start + 0.1 for call in calls) for start in calls)
    assert busiest <= 0.4 * len(calls), (busiest, len(calls))


@pytest.mark.parametrize(
    ("told", "calls", "wait"),
    [
        pytest.param("0.01", 3, 1, id="seconds"),
        pytest.param("Sun, 06 Nov 1994 08:49:37 GMT", 3, 1, id="date-in-the-past"),
        pytest.param("soon", 3, 1, id="garbage"),
        pytest.param("1000000000", 1, None, id="absurd"),
    ],
)
@pytest.mark.parametrize("route", ROUTES)
async def test_what_the_service_asks_for_is_believed_within_bounds(gateway, simulator, route, told, calls, wait):
    """R41: nobody waits for a time that is too long, the client neither; what is no time counts as none."""
    door = gateway(retry={"attempts": 3})
    simulator.enqueue(*[refusal(429, SLOW_DOWN["message"], retry_after=told)] * 3)
    exchange = await door.ask(route, "hi", stream=True)

    refused(route, exchange, 429)
    assert len(simulator.requests) == calls
    assert exchange.headers.get("retry-after") == (wait and str(wait))
    assert exchange.headers["x-should-retry"] == "false"


STORMS: dict[str, Callable[[Any], str]] = {
    "500": lambda simulator: simulator.url,
    "503": lambda simulator: simulator.url,
    "refused": lambda simulator: "http://127.0.0.1:9",
    "not-tls": lambda simulator: simulator.url.replace("http:", "https:"),
}
"""Trouble to where the service is said to be."""


@pytest.mark.parametrize("trouble", STORMS)
async def test_a_storm_without_a_service(gateway, simulator, trouble):
    """R42: every client gets the right class of error, in its own API's form, soon; nothing is left over."""
    timeout = 2.0
    door = gateway(
        kiro={"endpoint": STORMS[trouble](simulator)},
        retry={"attempts": 2},
        limits={"connections": 50, "connect_timeout": timeout},
    )
    if trouble.isdigit():
        simulator.answer_with(lambda request: refusal(int(trouble), "Something failed."))
    async with no_leak(door, idle=50):
        exchanges, taken = await all_at_once(door, CROWD, lambda n: n % 4 < 2)

    for n, exchange in enumerate(exchanges):
        message = refused(ROUTES[n % 2], exchange, 502 if trouble == "500" else 503)
        assert message.startswith("Something failed." if trouble.isdigit() else "Stream connection failed: ")
    assert quantiles(taken, n=100)[98] <= timeout + 0.1 + BUSY, "waiting in line included"


@pytest.mark.parametrize("host", ["nowhere.invalid", "no..where", f"{'x' * 64}.invalid"])
async def test_a_service_that_has_no_address(gateway, host):
    """R42: a name that means no host, or cannot be one, is a failed connection like any other."""
    door = gateway(kiro={"endpoint": f"http://{host}"}, retry={"attempts": 1}, limits={"connect_timeout": 2.0})
    for route in ROUTES:
        message = refused(route, await door.ask(route, "hi", stream=True), 503)

        assert message.startswith("Stream connection failed: ")
