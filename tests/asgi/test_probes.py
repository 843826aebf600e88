"""``/health`` and ``/ready``, and what a host does with an application that is to end."""

from __future__ import annotations

import logging

import anyio
import pytest

from kiro_asgi.simulator import Head, Pause, text
from tests.asgi.answers import text_of
from tests.asgi.driver import Exchange, ask, get, http_scope

pytestmark = pytest.mark.anyio


async def test_a_drained_gateway_is_not_ready_and_serves_on(gateway, sim, caplog):
    """R45: the balancer is told, clients of HTTP/1 are sent elsewhere for their next request, and nobody is refused."""
    app = gateway(fresh=True)
    before = await get("/ready", key=None).run(app)
    app.drain()
    app.drain()
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        after, stranger = await get("/ready").run(app), await get("/ready", key=None).run(app)
        alive = await get("/health").run(app)
    served = await ask("openai", "sim:count=2", stream=True).run(app)
    http2 = ask("openai", "sim:count=2", stream=True)
    http2.scope["http_version"] = "2"

    assert (before.status, before.json()) == (200, {"ready": True})
    assert (after.status, after.json()["reasons"]) == (503, ["draining"])
    assert (stranger.status, stranger.json()) == (503, {"ready": False})
    assert (alive.status, alive.json()) == (200, {"status": "ok"})
    assert (text_of("openai", served), served.headers["connection"]) == ("1 2 ", "close")
    assert "connection" not in (await http2.run(app)).headers
    assert caplog.text == "", "probes come every few seconds"


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_the_head_of_a_probe(path, gateway):
    head, whole = await Exchange(http_scope("HEAD", path)).run(gateway()), await get(path, key=None).run(gateway())

    assert (head.status, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))


async def test_idle_when_the_last_answer_has_ended(gateway, sim):
    sim.enqueue((Head(), *text("one "), Pause(0.1), *text("two ")))
    app, exchange = gateway(fresh=True), ask("openai", "hi", stream=True)
    await app.idle()
    async with anyio.create_task_group() as clients:
        clients.start_soon(exchange.run, app)
        while not exchange.messages:  # noqa: ASYNC110 - of what is watched nothing can set an event
            await anyio.sleep(0.005)
        with anyio.move_on_after(0.01) as patience:
            await app.idle()
        await app.idle()
        ended = exchange.complete

    assert patience.cancelled_caught
    assert ended


async def test_the_end_of_the_hosts_lifespan_drains(gateway):
    app, received = gateway(fresh=True), ["lifespan.shutdown", "lifespan.startup"]

    async def receive():
        return {"type": received.pop()}

    async def send(message):
        pass

    await app({"type": "lifespan"}, receive, send)

    assert app.readiness().reasons == ("draining",)


async def test_a_state_server_that_is_away_only_degrades(gateway):
    """What does not need it is served: no balancer should take all gateways out for it."""
    pytest.importorskip("valkey")
    app = gateway(fresh=True, state={"engine": "valkey", "url": "valkey://127.0.0.1:1"})
    for _ in range(5):
        await ask("responses", "sim:text", stream=False, previous_response_id="resp_none").run(app)
    ready = await get("/ready").run(app)

    assert (ready.status, ready.json()["degraded"]) == (200, ["store"])
