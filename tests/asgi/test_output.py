"""What is sent, and when: one send a network read, signs of life, and a client that is slow."""

from __future__ import annotations

import anyio
import pytest

from kiro_asgi import simulator
from kiro_asgi.simulator import Head, Layout, Pause, Stall, answer, text
from tests.asgi.answers import ALL_DIALECTS, DIALECTS, PINGS, comes_true, cut_of, partial_text, text_of, told_as
from tests.asgi.driver import Exchange, ask

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
EVERY_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)


class Watch:
    """Notes when each body message was sent."""

    def __init__(self, exchange: Exchange) -> None:
        self.times: list[float] = []
        exchange.on_send = self

    async def __call__(self, message) -> None:
        if message["type"] == "http.response.body":
            self.times.append(anyio.current_time())


# At once, and at most one send a read.


@EACH_DIALECT
async def test_a_delta_is_there_before_the_next_one_is_sent(dialect, gateway, sim):
    """F020: the client has the first words while the service has not said any more, and never will."""
    sim.enqueue((Head(), *text("first words"), Stall()))
    exchange = ask(dialect, "hi", stream=True)
    async with anyio.create_task_group() as clients:
        clients.start_soon(exchange.run, gateway())
        assert await comes_true(sim, lambda: "first words" in partial_text(dialect, exchange.content))
        exchange.leave.set()

    assert not exchange.complete


@EACH_DIALECT
async def test_what_one_read_brings_goes_out_in_one_send(dialect, gateway, sim):
    """500 events in one HTTP chunk are a handful of sends, not 500."""
    exchange = await ask(dialect, "sim:count=500 sim:whole", stream=True).run(gateway())

    assert text_of(dialect, exchange).endswith(" 499 500 ")
    assert 1 <= len(exchange.messages) - 1 <= 12


@EACH_DIALECT
@pytest.mark.parametrize("size", [1, 40])
async def test_a_read_that_completes_no_event_sends_nothing(dialect, size, gateway, sim):
    """Bytes of half a frame are no reason to send: never more sends than events, however small the pieces are."""
    sim.enqueue(answer(*text("one ", "two ", "three"), head=Head(layout=Layout(chunk=size))))
    exchange = await ask(dialect, "hi", stream=True).run(gateway())

    assert text_of(dialect, exchange) == "one two three"
    events = 3 + len([*simulator.Trailers().pieces()])
    assert len(exchange.bodies) <= events + 1
    assert [bool(message["body"]) for message in exchange.messages[1:-1]] == [True] * (len(exchange.messages) - 2)


@EACH_DIALECT
async def test_each_paced_event_goes_out_alone(dialect, gateway, sim):
    """F020: with a pause after every event there is a send for each; the head travels with the first."""
    exchange = ask(dialect, "sim:count=5 sim:slow=0.1", stream=True)
    watch = Watch(exchange)
    await exchange.run(gateway())

    assert exchange.messages[0]["type"] == "http.response.start"
    texts = [partial_text(dialect, body) for body in exchange.bodies]
    assert [piece for piece in texts if piece] == ["1 ", "2 ", "3 ", "4 ", "5 "]
    assert all(later - earlier > 0.03 for earlier, later in zip(watch.times[:4], watch.times[1:5], strict=True))


# Signs of life.


@EACH_DIALECT
async def test_heartbeats_fill_a_silence(dialect, gateway, sim):
    """F016/F018: one at each tick while the upstream read goes on undisturbed; Anthropic's is an event."""
    sim.enqueue(answer(*text("one "), Pause(0.33), *text("two")))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(stream={"heartbeat": 0.1}))

    assert text_of(dialect, exchange) == "one two"
    assert exchange.bodies.count(PINGS[dialect]) == exchange.content.count(PINGS[dialect]) in (2, 3, 4)


@EACH_DIALECT
async def test_heartbeats_come_only_out_of_silence(dialect, gateway, sim):
    """F016: an answer that moves needs none."""
    app = gateway(stream={"heartbeat": 0.3})
    exchange = await ask(dialect, "sim:count=20 sim:slow=0.02", stream=True).run(app)

    assert PINGS[dialect] not in exchange.content


@EACH_DIALECT
@pytest.mark.parametrize("stream", [{"heartbeat": 0.0}, {}], ids=["off", "default"])
async def test_no_heartbeat(dialect, stream, gateway, sim):
    """F016: 0 switches them off, and by default they are rare."""
    sim.enqueue(answer(*text("one "), Pause(0.15), *text("two")))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(stream=stream))

    assert text_of(dialect, exchange) == "one two"
    assert b"ping" not in exchange.content


@EACH_DIALECT
async def test_a_heartbeat_never_opens_an_answer(dialect, gateway, sim):
    """F034: before the commit the status is still open, so nothing is sent; afterwards there is no late shower."""
    sim.enqueue((Pause(0.2), *answer(*text("late"))))
    exchange = ask(dialect, "hi", stream=True)
    watch = Watch(exchange)
    began = anyio.current_time()
    await exchange.run(gateway(stream={"heartbeat": 0.1, "early_commit_after": 0.0}))

    assert text_of(dialect, exchange) == "late"
    assert watch.times[0] - began >= 0.2
    assert b"ping" not in exchange.content


@EACH_DIALECT
async def test_heartbeats_go_on_after_an_early_commit(dialect, gateway, sim):
    """F016: a client that was given a head early is kept patient until the first event."""
    sim.enqueue((Pause(0.33), *answer(*text("late"))))
    app = gateway(stream={"heartbeat": 0.1, "early_commit_after": 0.05})
    exchange = await ask(dialect, "hi", stream=True).run(app)

    assert text_of(dialect, exchange) == "late"
    assert exchange.content.count(PINGS[dialect]) in (2, 3, 4)


@EVERY_DIALECT
async def test_heartbeats_end_with_the_stream(dialect, gateway, sim):
    """F016: the last thing sent is the end; a failure ends them too."""
    sim.enqueue((Head(), *text("one"), Stall()))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(stream={"heartbeat": 0.05, "idle_timeout": 0.2}))
    sent = len(exchange.messages)
    await anyio.sleep(0.12)

    assert cut_of(dialect, exchange)["type"] == told_as(dialect, "timeout_error")
    assert exchange.content.count(PINGS[dialect]) >= 2
    assert [message["more_body"] for message in exchange.messages[1:]] == [True] * (sent - 2) + [False]
    assert len(exchange.messages) == sent


@EACH_DIALECT
async def test_no_heartbeat_while_a_send_is_blocked(dialect, gateway, sim):
    """F017: a client that does not read is not sent more, and gets at most one heartbeat when it reads again."""
    sim.enqueue((Head(), *text("one"), Stall()))
    exchange = ask(dialect, "hi", stream=True)
    sending, blocked, most = 0, False, 0

    async def block_once(message):
        nonlocal sending, blocked, most
        sending += 1
        most = max(most, sending)
        if message["type"] == "http.response.body" and not blocked:
            blocked = True
            await anyio.sleep(0.25)
            resumed.set()
        sending -= 1

    resumed = anyio.Event()
    exchange.on_send = block_once
    async with anyio.create_task_group() as clients:
        clients.start_soon(exchange.run, gateway(stream={"heartbeat": 0.06}))
        await resumed.wait()
        await anyio.sleep(0.03)
        pings = exchange.content.count(PINGS[dialect])
        exchange.leave.set()

    assert pings <= 1
    assert most == 1, "two sends at the same time"


# A slow client.


@EACH_DIALECT
async def test_a_client_that_does_not_read_stops_the_reading(dialect, anyio_backend, gateway):
    """F021: while a send is blocked the service is not read, so nothing piles up but socket buffers."""
    exchange = ask(dialect, "sim:flood=256", stream=True, max_tokens=100_000_000)

    async def block(message):
        if message["type"] == "http.response.body":
            await anyio.sleep_forever()

    exchange.on_send = block
    async with simulator.serve(send_buffer=65_536) as service, anyio.create_task_group() as clients:
        clients.start_soon(exchange.run, gateway(kiro={"endpoint": service.url}))
        await anyio.sleep(0.3)
        accepted = service.requests[0].bytes_accepted
        await anyio.sleep(0.2)
        still = service.requests[0].bytes_accepted
        exchange.leave.set()

    assert 0 < accepted == still < 16 << 20


@pytest.mark.parametrize("error", [ConnectionResetError, BrokenPipeError, OSError])
@pytest.mark.parametrize("at", [1, 2, 3])
@EACH_DIALECT
async def test_a_send_that_fails_is_the_end(dialect, at, error, gateway, sim):
    """R11: servers may say with an `OSError` that the client is gone; nothing is sent after that."""
    exchange = ask(dialect, "sim:count=20 sim:slow=0.005", stream=True)
    calls = 0

    async def fail(message):
        nonlocal calls
        calls += 1
        if calls >= at:
            raise error("gone")

    exchange.on_send = fail
    await exchange.run(gateway())

    assert calls == at
