"""R07: a client that takes nothing is dropped after a while, and what it held is there for others."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import anyio
import pytest

from kiro_asgi import simulator as simulators
from kiro_asgi.simulator import Head, Stall, text
from tests.asgi.driver import ask
from tests.cli.processes import serving
from tests.e2e.faults.bench import ROUTES, WATCHDOG, no_leak, until
from tests.e2e.faults.served import LOOPS, within
from tests.e2e.hosts.servers import served

LIMIT = 0.4
EACH_ROUTE = pytest.mark.parametrize("route", ROUTES)
on_each_loop = pytest.mark.anyio


async def never(message) -> None:
    """A `send` into buffers that are full."""
    await anyio.sleep_forever()


def stalled(route, *, stream=True, prompt="sim:flood=64"):
    exchange = ask(route, prompt, stream=stream, max_tokens=10**9)
    exchange.on_send = never
    return exchange


def outcomes(caplog) -> list[str]:
    return [record.getMessage().split()[3] for record in caplog.records if record.name == "kiro_asgi.access"]


@on_each_loop
@EACH_ROUTE
async def test_a_client_that_takes_nothing_is_dropped(gateway, route, caplog):
    """After `write_timeout` its call is over, the service is hung up on, and the log says why."""
    door = gateway(limits={"connections": 1, "write_timeout": LIMIT})
    async with no_leak(door, idle=0):
        began = anyio.current_time()
        with caplog.at_level(logging.INFO, "kiro_asgi.access"):
            exchange = await door.run(stalled(route))
        took = anyio.current_time() - began

        assert LIMIT <= took < LIMIT + 2
        assert exchange.messages == []
        assert outcomes(caplog) == ["stalled"]
        assert await until(lambda: door.simulator.requests[0].peer_closed_at)
    await door.works(route)


@on_each_loop
async def test_a_heartbeat_that_is_not_taken_counts(gateway):
    """A client that stops reading while the service is silent is dropped as well."""
    door = gateway(limits={"connections": 1, "write_timeout": LIMIT}, stream={"heartbeat": 0.1})
    door.simulator.enqueue((Head(), *text("one"), Stall()))
    exchange = ask("openai", "hi", stream=True)

    async def block(message):
        if b"ping" in message.get("body", b""):
            await anyio.sleep_forever()

    exchange.on_send = block
    async with no_leak(door, idle=0):
        await door.run(exchange, LIMIT + 3)

    assert b"one" in exchange.content
    assert not exchange.complete


@on_each_loop
@EACH_ROUTE
@pytest.mark.parametrize("prompt", ["sim:count=3", "sim:bad-request"])
async def test_a_whole_response_that_is_not_taken(gateway, route, prompt, caplog):
    """The same holds for a body that is sent at once, be it an answer or an error."""
    door = gateway(limits={"connections": 1, "write_timeout": LIMIT})
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        await door.run(stalled(route, stream=False, prompt=prompt), LIMIT + 3)

    assert outcomes(caplog) == ["stalled"]


@on_each_loop
async def test_a_slow_client_is_not_dropped(gateway):
    """What counts is one piece that is not taken, not how long all of them take."""
    door = gateway(limits={"connections": 1, "write_timeout": LIMIT})
    exchange = ask("openai", "sim:count=8 sim:slow=0.01", stream=True)

    async def slow(message):
        await anyio.sleep(LIMIT / 2)

    exchange.on_send = slow
    await door.run(exchange)

    assert exchange.complete


@on_each_loop
async def test_a_send_that_cannot_be_cancelled_holds_no_connection(gateway, caplog):
    """hypercorn shields what it sends on trio: the service is hung up on and the place is free all the same, and when
    the server gives the client up at last, nothing more is sent."""
    door = gateway(limits={"connections": 1, "write_timeout": LIMIT})
    given_up = anyio.Event()
    exchange = ask("openai", "sim:flood=64", stream=True, max_tokens=10**9)

    async def shielded(message):
        if message["type"] == "http.response.body":
            with anyio.move_on_after(WATCHDOG / 2, shield=True):
                await given_up.wait()

    exchange.on_send = shielded
    with caplog.at_level(logging.INFO, "kiro_asgi.access"), anyio.fail_after(WATCHDOG):
        async with no_leak(door, idle=1), anyio.create_task_group() as tasks:
            tasks.start_soon(exchange.run, door.app)
            assert await until(lambda: door.simulator.requests and door.simulator.requests[0].peer_closed_at, LIMIT + 3)
            await door.works()
            given_up.set()

    assert outcomes(caplog) == ["complete", "stalled"]
    assert len(exchange.messages) == 2


@on_each_loop
async def test_many_of_them_do_not_stop_a_healthy_one(gateway):
    """As many as there are connections: who comes then waits for a twelfth of what they are given otherwise."""
    many = 64
    door = gateway(limits={"connections": many, "write_timeout": 12 * LIMIT})
    async with no_leak(door, idle=many):
        with anyio.fail_after(WATCHDOG):
            async with anyio.create_task_group() as tasks:
                for _ in range(many):
                    tasks.start_soon(stalled("openai").run, door.app)
                assert await until(lambda: len(door.simulator.requests) == many, 10)
                began = anyio.current_time()
                await door.works()
                assert anyio.current_time() - began < 6 * LIMIT
                tasks.cancel_scope.cancel()


def asking(port: int) -> socket.socket:
    """A client that has asked for a long answer, and does not read it."""
    asked = ask("openai", "sim:flood=64", stream=True, max_tokens=10**9)
    headers = "".join(f"{name.decode()}: {value.decode()}\r\n" for name, value in asked.scope["headers"])
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    sock.sendall(f"POST {asked.scope['path']} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode() + asked.body[0])
    return sock


def sockets(pid: int) -> int:
    opened = (Path(f"/proc/{pid}/fd") / name for name in os.listdir(f"/proc/{pid}/fd"))
    return sum(os.readlink(each).startswith("socket:") for each in opened if each.is_symlink())


@pytest.mark.parametrize("loop", LOOPS)
def test_serve_closes_their_sockets(loop: str, tmp_path: Path) -> None:
    """On real sockets: both ends of a dropped call are closed, though the server waits until all is sent, and
    nothing is written but that they stalled, or were gone: the system's clock begins with a full window, ours with a
    full buffer, and either may end first."""
    with simulators.running(send_buffer=64 * 1024) as service:
        environ = {
            "KIRO_ASGI__CLIENT__API_KEYS": "k",
            "KIRO_ASGI__KIRO__API_KEY": "ksk_x",
            "KIRO_ASGI__KIRO__ENDPOINT": service.url,
            "KIRO_ASGI__KIRO__MODELS_TTL": "0",
            "KIRO_ASGI__LIMITS__WRITE_TIMEOUT": "1",
        }
        with serving("--loop", loop, "--access-log", cwd=tmp_path, **environ) as server:
            before = sockets(server.process.pid)
            clients = [asking(int(server.base.rsplit(":", 1)[1])) for _ in range(5)]
            assert within(5, lambda: len(service.requests) == 5)
            assert within(5, lambda: service.connections_open == 0)
            closed = within(8, lambda: sockets(server.process.pid) <= before)
            for client in clients:
                client.close()
            errors = server.stop().splitlines()

    assert closed
    assert len(errors) == 5
    assert {line.split(" 200 ")[1].split()[0] for line in errors} <= {"stalled", "disconnected"}


@pytest.mark.parametrize("server", ["uvicorn", "hypercorn", "hypercorn-trio"])
def test_other_servers_get_their_upstream_connection_back(server: str) -> None:
    """Whatever the server does with a client that has been dropped, the service is hung up on."""
    with (
        simulators.running(send_buffer=64 * 1024) as service,
        served(server, "alone:application", service.url, KIRO_ASGI__LIMITS__WRITE_TIMEOUT="1") as host,
    ):
        clients = [asking(int(host.url.rsplit(":", 1)[1])) for _ in range(2)]
        assert within(15, lambda: len(service.requests) == 2)
        assert within(4, lambda: service.connections_open == 0)
        for client in clients:
            client.close()
