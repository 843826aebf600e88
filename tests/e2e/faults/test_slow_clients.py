"""R07: a client that does not read stops the reading from the upstream, at the cost of a bounded memory."""

from __future__ import annotations

import tracemalloc

import anyio
import pytest

from tests.asgi.driver import ask
from tests.e2e.faults.bench import ROUTES, WATCHDOG, no_leak
from tests.e2e.faults.verdicts import whole

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
SLOW = 3
SIZE = 12 * MIB
"""Of an answer: more than the buffers of the system grow to for one that is read in many small pieces."""


class Gate:
    """A `send` that lets *free* messages pass and then waits for `open`."""

    def __init__(self, free: int) -> None:
        self.open = anyio.Event()
        self.free, self.bytes, self.waiting = free, 0, 0
        self.most_at_once = 0

    async def __call__(self, message: dict[str, bytes]) -> None:
        self.waiting += 1
        self.most_at_once = max(self.most_at_once, self.waiting)
        if not self.free:
            await self.open.wait()
        self.free = max(self.free - 1, 0)
        self.waiting -= 1
        self.bytes += len(message.get("body", b""))


@pytest.mark.parametrize("route", ROUTES)
async def test_a_blocked_send_stops_the_upstream(gateway, route):
    """R07: clients that read nothing cost at most 2 MiB each, the service can send no more, nobody else waits,
    and in the end every byte is there."""
    door = gateway(limits={"connections": SLOW + 1}, stream={"heartbeat": 0.05})
    slow = [ask(route, f"sim:flood={SIZE // MIB}", stream=True, max_tokens=10**9) for _ in range(SLOW)]
    gates = [Gate(free=4) for _ in slow]
    for exchange, gate in zip(slow, gates, strict=True):
        exchange.on_send = gate
    async with no_leak(door, idle=SLOW + 1):
        await door.works(route)
        with anyio.fail_after(WATCHDOG):
            async with anyio.create_task_group() as tasks:
                tracemalloc.start()
                try:
                    for exchange in slow:
                        tasks.start_soon(exchange.run, door.app)
                    before = await plateau(door)
                    await door.works(route)
                    await anyio.sleep(0.2)
                    after, peak = accepted(door), tracemalloc.get_traced_memory()[1]
                finally:
                    tracemalloc.stop()
                for gate in gates:
                    gate.open.set()

        assert len(before) == SLOW
        assert after == before, "the upstream could go on sending"
        assert max(after) < SIZE
        assert peak <= SLOW * 2 * MIB, f"{peak / MIB:.1f} MiB"
        assert [gate.most_at_once for gate in gates] == [1] * SLOW, "two sends at once"
        for exchange in slow:
            assert whole(route, exchange, stream=True).text == "0123456789abcdef" * (SIZE // 16)


def accepted(door):
    """Bytes of each flood that the service could send so far."""
    return [request.bytes_accepted for request in door.simulator.requests if b"sim:flood" in request.body]


async def plateau(door):
    """The same, once it has not grown for a while: the kernel's buffers take their time to fill."""
    before: list[int] = []
    calm = 0
    while len(before) < SLOW or calm < 4:
        await anyio.sleep(0.2)
        now = accepted(door)
        calm = calm + 1 if now == before else 0
        before = now
    return before
