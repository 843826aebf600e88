"""From an exchange to its end: tries, time limits, and endings after the commit."""

from __future__ import annotations

import json
import logging
from itertools import pairwise

import anyio
import pytest

from kiro_asgi import simulator
from kiro_asgi.simulator import CloseEarly, Head, Pause, Reset, Stall, answer, refusal, text
from tests.asgi.answers import ALL_DIALECTS, DIALECTS, comes_true, cut_of, error_of, partial_text, text_of, told_as
from tests.asgi.driver import ask

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
EVERY_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
GOOD = answer(*text("good"))


# Before the commit: tries.


@EACH_DIALECT
@EACH_MODE
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param((Reset(),), id="F061-reset"),
        pytest.param((CloseEarly(),), id="F061-hang-up"),
        pytest.param((Head(), Reset()), id="F061-reset-after-head"),
        pytest.param((Head(),), id="F034-empty"),
        pytest.param(refusal(500, "Something failed."), id="F068-500"),
        pytest.param(refusal(429, "Slow down."), id="F068-429"),
        pytest.param((Head(), simulator.ExceptionFrame("InternalServerException", "no")), id="exception-first"),
        pytest.param((Head(), simulator.CorruptChecksum(*text("x"))), id="R13-checksum"),
    ],
)
async def test_what_failed_before_the_commit_is_tried_again(dialect, stream, trouble, gateway, sim):
    """F061/F080: the client sees one answer and no trace of the failed tries; all that the service saw is equal."""
    sim.enqueue(trouble, trouble, GOOD)
    exchange = await ask(dialect, "hi", stream=stream).run(gateway())

    assert text_of(dialect, exchange) == "good"
    assert exchange.starts == 1
    assert len(sim.requests) == 3
    assert len({request.body for request in sim.requests}) == 1


@EACH_DIALECT
@EACH_MODE
@pytest.mark.parametrize("attempts", [1, 2, 4])
@pytest.mark.parametrize(
    ("script", "status"),
    [pytest.param((Reset(),), 503, id="reset"), pytest.param(refusal(429, "Slow down."), 429, id="429")],
)
async def test_the_number_of_tries_is_bounded(dialect, stream, attempts, script, status, gateway, sim):
    """F062/F065: as many tries as configured, then the failure as an HTTP status."""
    sim.enqueue(*[script] * attempts)
    exchange = await ask(dialect, "hi", stream=stream).run(gateway(retry={"attempts": attempts}))

    assert len(sim.requests) == attempts
    assert exchange.status == status
    words = error_of(dialect, exchange)["message"]
    assert words.startswith("Stream connection failed" if status == 503 else "Slow down.")


FINAL = [
    pytest.param("bad-request", 400, "Improperly formed", id="F072-400"),
    pytest.param("too-long", 400, "Input is too long", id="too-long"),
    pytest.param("bad-model", 404, "Invalid model ID", id="bad-model"),
    pytest.param("403", 502, "not authorized", id="R36-403-with-a-fixed-key"),
    pytest.param("suspended", 502, "suspended", id="suspended"),
    pytest.param("suspicious", 502, "suspicious activity", id="suspicious"),
    pytest.param("quota", 402, "limit", id="quota"),
]


@EACH_DIALECT
@EACH_MODE
@pytest.mark.parametrize(("marker", "status", "words"), FINAL)
async def test_what_another_try_does_not_help_is_told_at_once(dialect, stream, marker, status, words, gateway, sim):
    """F034/F072/F076: one call; the status and the service's words reach the client, which is told not to retry."""
    exchange = await ask(dialect, f"sim:{marker}", stream=stream).run(gateway())

    assert [request.path for request in sim.requests].count("/generateAssistantResponse") == 1
    assert exchange.status == status
    message = error_of(dialect, exchange)["message"]
    assert words in message and "(HTTP " in message
    assert exchange.headers["x-should-retry"] == "false"


@EACH_DIALECT
@EACH_MODE
async def test_a_redirect_is_never_followed(dialect, stream, gateway, sim):
    """R23: it would take our credential along."""
    exchange = await ask(dialect, "sim:redirect", stream=stream).run(gateway())

    assert exchange.status == 502
    assert "HTTP 302" in error_of(dialect, exchange)["message"]
    assert {request.path for request in sim.requests} == {"/generateAssistantResponse"}


@EACH_DIALECT
async def test_back_off_grows(dialect, gateway, sim):
    """F064/F068: the delays between tries are base, twice, four times the base."""
    base = 0.04
    app = gateway(retry={"base": base, "attempts": 4})
    sim.enqueue(*[refusal(429, "Slow down.")] * 4)
    await ask(dialect, "hi", stream=True).run(app)

    times = [request.received_at for request in sim.requests]
    delays = [later - earlier for earlier, later in pairwise(times)]
    assert len(delays) == 3
    assert all(base * 2**n <= delay < base * 2**n + 0.4 for n, delay in enumerate(delays)), delays


@EACH_DIALECT
async def test_retry_after_wins_where_it_is_longer(dialect, gateway, sim):
    """F068: a service that asks for more time gets it."""
    sim.enqueue(refusal(429, "Slow down.", retry_after="0.2"), GOOD)
    exchange = await ask(dialect, "hi", stream=True).run(gateway())

    first, second = (request.received_at for request in sim.requests)
    assert text_of(dialect, exchange) == "good"
    assert 0.2 <= second - first < 1


@EACH_DIALECT
@EACH_MODE
async def test_a_retry_after_beyond_the_cap_is_the_clients_affair(dialect, stream, gateway, sim):
    """R41: who is asked to wait for long passes the request on instead of holding it."""
    app = gateway(retry={"max_wait": 5.0})
    exchange = await ask(dialect, "sim:429-retry-after=77", stream=stream).run(app)

    assert (exchange.status, len(sim.requests)) == (429, 1)
    assert exchange.headers["retry-after"] == "77"


async def test_a_broken_connection_discredits_the_idle_ones(gateway, sim):
    """F063: before a try after connection trouble, the connections that are kept are closed."""
    app = gateway(fresh=True)
    async with anyio.create_task_group() as clients:
        for _ in range(3):
            clients.start_soon(ask("openai", "sim:late=0.1", stream=False).run, app)
    before, used = sim.connections_open, {request.connection for request in sim.requests}
    sim.forget()
    sim.enqueue((Reset(),), GOOD)
    exchange = await ask("openai", "hi", stream=False).run(app)

    first, second = (request.connection for request in sim.requests)
    assert text_of("openai", exchange) == "good"
    assert len(used) == 3 and first in used and second not in used
    assert await comes_true(sim, lambda: sim.connections_open == before - 2)


async def test_a_refusal_does_not_cost_the_connection(gateway, sim):
    """A service that answers, if only to refuse, has a working connection."""
    sim.enqueue(refusal(500, "Something failed."), refusal(429, "Slow down."), GOOD)
    await ask("openai", "hi", stream=False).run(gateway(fresh=True))

    assert len({request.connection for request in sim.requests}) == 1


async def test_a_client_that_leaves_between_two_tries_ends_them(gateway, sim):
    """R02: nobody is asked on behalf of nobody."""
    exchange = ask("anthropic", "sim:429", stream=True)
    async with anyio.create_task_group() as clients:
        clients.start_soon(exchange.run, gateway(retry={"rate_base": 0.3}))
        assert await comes_true(sim, lambda: sim.requests and sim.requests[0].complete)
        exchange.leave.set()

    await anyio.sleep(0.4)
    assert exchange.unanswered
    assert len(sim.requests) == 1


async def test_each_failed_try_is_logged(gateway, sim, caplog):
    """F079: what the client never hears of is written down, with the request's id."""
    sim.enqueue((Reset(),), GOOD)
    with caplog.at_level(logging.WARNING):
        exchange = await ask("openai", "hi", stream=False).run(gateway())

    (record,) = caplog.records
    assert "attempt 1 failed" in record.getMessage() and "UpstreamUnreachable" in record.getMessage()
    assert record.request_id == exchange.headers["request-id"]


# After the commit: no second start.


BROKEN = [
    pytest.param((Reset(),), "overloaded_error", id="reset"),
    pytest.param((CloseEarly(),), "overloaded_error", id="fin"),
    pytest.param((simulator.TornFrame(*text("never")),), "api_error", id="torn"),
    pytest.param((simulator.CorruptChecksum(*text("never")), *text("never")), "api_error", id="checksum"),
    pytest.param((simulator.ExceptionFrame("ThrottlingException", "Slow down."),), "rate_limit_error", id="429"),
    pytest.param((simulator.ExceptionFrame("InternalServerException", "Sorry."),), "api_error", id="500"),
    pytest.param((Stall(),), "timeout_error", id="silence"),
]


@EVERY_DIALECT
@pytest.mark.parametrize(("ending", "kind"), BROKEN)
async def test_a_failure_after_the_commit_is_told_in_the_stream(dialect, ending, kind, gateway, sim, caplog):
    """F025/F078/F080/F082/F083/F084/F085/F086/F087: what came stays, one error ends it, nobody asks again."""
    sim.enqueue((Head(), *text("one ", "two "), *ending))
    app = gateway(stream={"idle_timeout": 0.2})
    with caplog.at_level(logging.WARNING):
        exchange = await ask(dialect, "hi", stream=True).run(app)

    error = cut_of(dialect, exchange)
    assert error["type"] == told_as(dialect, kind)
    assert error["message"]
    assert partial_text(dialect, exchange.content) == "one two "
    assert (exchange.starts, exchange.complete, len(sim.requests)) == (1, True, 1)
    assert b"message_stop" not in exchange.content and b'finish_reason":"' not in exchange.content
    (record,) = caplog.records
    assert "answer broken off" in record.getMessage() and record.request_id == exchange.headers["request-id"]


@EACH_DIALECT
async def test_a_collected_answer_may_break_late(dialect, gateway, sim):
    """F080: as nothing was sent, half an answer can be thrown away and asked for again."""
    sim.enqueue((Head(), *text("one ", "two "), Reset()), GOOD)
    exchange = await ask(dialect, "hi", stream=False).run(gateway())

    assert text_of(dialect, exchange) == "good"
    assert len(sim.requests) == 2


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        pytest.param("no-trailers", ["answer complete, but: stream.no_terminal_signal (1)"], id="no-terminal-signal"),
        pytest.param("unknown-event", [], id="unknown-event"),
        pytest.param("text", [], id="nothing-odd"),
    ],
)
async def test_what_was_passed_over_is_written_down(marker, told, gateway, sim, caplog):
    """R04/F136/F443: an answer that may not be whole is flagged in the log; a new kind of event is not."""
    with caplog.at_level(logging.WARNING):
        await ask("openai", f"sim:{marker}", stream=True).run(gateway())

    assert [record.getMessage() for record in caplog.records] == told


# Time limits.


@pytest.mark.parametrize("times", [1, 2])
async def test_a_silent_service_is_asked_as_often_as_set(times, gateway, sim):
    """R05/F059: tries after silence are counted by a setting of their own."""
    app = gateway(kiro={"first_token_timeout": 0.1}, retry={"attempts": 5, "timeout_attempts": times})
    exchange = await ask("openai", "sim:stall", stream=True).run(app)

    assert exchange.status == 504
    assert await comes_true(sim, lambda: len(sim.requests) == times)  # the last was given up when it had hardly come


@EACH_DIALECT
@EACH_MODE
@pytest.mark.parametrize("marker", ["stall", "stall-headers"])
async def test_silence_before_the_first_event_is_a_504(dialect, stream, marker, gateway, sim):
    """F059/F034/R05: within the limit and not much later, without another try; the service is hung up on."""
    app = gateway(kiro={"first_token_timeout": 0.2})
    began = anyio.current_time()
    exchange = await ask(dialect, f"sim:{marker}", stream=stream).run(app)
    took = anyio.current_time() - began

    assert exchange.status == 504
    assert error_of(dialect, exchange)["message"]
    assert 0.2 <= took < 5  # of 15 that other limits would leave it, on a busy machine too
    (request,) = sim.requests
    assert await comes_true(sim, lambda: request.peer_closed_at)


async def test_the_first_event_counts_not_the_first_byte(gateway, sim):
    """F059: bytes that make no event, one at a time, do not reset the limit."""
    frame = simulator.RawBytes(b"\0")
    sim.enqueue((Head(), *[part for _ in range(8) for part in (frame, Pause(0.05))]))
    exchange = await ask("openai", "hi", stream=True).run(gateway(kiro={"first_token_timeout": 0.2}))

    assert exchange.status == 504


@pytest.mark.parametrize(("tokens", "thinking", "seconds"), [(0, False, 0.6), (8_000, False, 2.6), (8_000, True, 4.0)])
async def test_a_longer_prompt_is_waited_for_longer(tokens, thinking, seconds, gateway, sim):
    """Decision 0a: one second more for every 4,000 estimated tokens, and with thinking a time of its own at least."""
    app = gateway(kiro={"first_token_timeout": 0.6, "thinking_first_token_timeout": 4.0})
    asked = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if thinking else {}
    sim.enqueue((Pause(seconds - 0.5), *answer(*text("late"))))
    exchange = ask("anthropic", "word " * tokens, stream=True, max_tokens=2000, **asked)
    assert text_of("anthropic", await exchange.run(app)) == "late"

    sim.enqueue((Pause(seconds + 1.2), *answer(*text("too late"))))
    exchange = ask("anthropic", "word " * tokens, stream=True, max_tokens=2000, **asked)
    assert (await exchange.run(app)).status == 504


async def test_a_silent_service_is_asked_once_more(gateway, sim):
    """Decision 0a: silence is met twice; the client, told by the gateway's last try, need not try itself."""
    sim.enqueue((simulator.Stall(),), GOOD)
    app = gateway(kiro={"first_token_timeout": 0.8}, retry={"timeout_attempts": 2})
    assert text_of("openai", await ask("openai", "hi", stream=True).run(app)) == "good"
    sim.forget()
    exchange = await ask("openai", "sim:stall", stream=True).run(app)

    assert (exchange.status, len(sim.requests), exchange.headers["x-should-retry"]) == (504, 2, "false")


async def test_waiting_for_a_connection_is_not_the_services_silence(gateway, sim):
    """F059: the limit on the first event counts from when the service is asked."""
    app = gateway(fresh=True, kiro={"first_token_timeout": 0.5}, limits={"connections": 1})
    answers = []

    async def one() -> None:
        answers.append(await ask("openai", "sim:count=8 sim:slow=0.1", stream=True).run(app))

    async with anyio.create_task_group() as clients:
        clients.start_soon(one)
        clients.start_soon(one)

    assert [answer.status for answer in answers] == [200, 200]


@EACH_DIALECT
@EACH_MODE
async def test_waiting_for_a_connection_has_a_limit(dialect, stream, gateway, sim):
    """R44: `request_timeout` bounds it, also where those who have the connections never give them back: 503."""
    app = gateway(fresh=True, limits={"connections": 2, "request_timeout": 1.5})
    stuck = [ask(dialect, "sim:flood=64", stream=True, max_tokens=10**9) for _ in range(2)]

    async def block(message):
        await anyio.sleep_forever()

    async with anyio.create_task_group() as clients:
        for exchange in stuck:
            exchange.on_send = block
            clients.start_soon(exchange.run, app)
        assert await comes_true(sim, lambda: len(sim.requests) == 2)
        await anyio.sleep(0.1)
        with anyio.fail_after(15):
            third = await ask(dialect, "hi", stream=stream).run(app)
        clients.cancel_scope.cancel()

    assert third.status == 503
    assert third.headers["retry-after"] == "1"
    assert len(sim.requests) == 2


async def test_who_asks_for_thinking_waits_longer(gateway, sim):
    """F059: silent deliberation is normal there."""
    app = gateway(kiro={"first_token_timeout": 0.1, "thinking_first_token_timeout": 5.0})
    plain, thoughtful = {}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    statuses = []
    for more in (plain, thoughtful):
        sim.enqueue((Pause(0.3), *GOOD))
        statuses.append((await ask("anthropic", "hi", stream=True, **more).run(app)).status)

    assert statuses == [504, 200]


@EACH_DIALECT
async def test_the_first_token_limit_ends_with_the_first_event(dialect, gateway, sim):
    """F060: a gap later on is another matter."""
    sim.enqueue(answer(*text("one "), Pause(1.3), *text("two")))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(kiro={"first_token_timeout": 1.0}))

    assert text_of(dialect, exchange) == "one two"


@EACH_DIALECT
async def test_silence_in_the_middle_ends_the_answer(dialect, gateway, sim):
    """R06: at the idle limit, with an in-band error; the service is hung up on."""
    app = gateway(stream={"idle_timeout": 0.2})
    began = anyio.current_time()
    exchange = await ask(dialect, "sim:stall-mid", stream=True).run(app)
    took = anyio.current_time() - began

    assert cut_of(dialect, exchange)["type"] == "timeout_error"
    assert 0.2 <= took < 5  # of 15 that other limits would leave it, on a busy machine too
    assert await comes_true(sim, lambda: sim.requests[0].peer_closed_at)


async def test_bytes_that_make_no_event_do_not_count(gateway, sim):
    """R06: the idle limit is measured on events; a frame that comes byte by byte and never ends is none."""
    drip = (simulator.RawBytes(b"\0\0\x10\0"), *(simulator.RawBytes(b"\0"), Pause(0.05)) * 40)
    sim.enqueue((Head(), *text("one"), *drip))
    app = gateway(stream={"idle_timeout": 0.3})
    exchange = await ask("openai", "hi", stream=True).run(app)

    assert partial_text("openai", exchange.content) == "one"
    assert cut_of("openai", exchange)["type"] == told_as("openai", "timeout_error")


async def test_no_idle_limit(gateway, sim):
    """R06: 0 switches it off."""
    sim.enqueue(answer(*text("one "), Pause(0.3), *text("two")))
    exchange = await ask("openai", "hi", stream=True).run(gateway(stream={"idle_timeout": 0.0}))

    assert text_of("openai", exchange) == "one two"


@EACH_DIALECT
async def test_a_slow_client_is_not_taken_for_a_silent_service(dialect, gateway, sim):
    """R06: the idle limit does not run while a send waits."""
    sim.enqueue(answer(*text("one "), Pause(0.05), *text("two "), Pause(0.05), *text("three")))
    exchange = ask(dialect, "hi", stream=True)

    async def slow(message):
        await anyio.sleep(0.6)

    exchange.on_send = slow
    await exchange.run(gateway(stream={"idle_timeout": 0.5}))

    assert text_of(dialect, exchange) == "one two three"


@EACH_DIALECT
async def test_one_call_has_a_limit_of_its_own(dialect, gateway, sim):
    """F056: however lively the answer is."""
    app = gateway(limits={"request_timeout": 1.0})
    began = anyio.current_time()
    exchange = await ask(dialect, "sim:count=1000 sim:slow=0.02", stream=True).run(app)

    assert cut_of(dialect, exchange)["type"] == "timeout_error"
    assert 1.0 <= anyio.current_time() - began < 10  # of 20 that the answer would take


# Early commit.


@EACH_DIALECT
@pytest.mark.parametrize("marker", ["late=0.9", "late=0.9 sim:initial"])
async def test_the_head_goes_out_while_the_service_thinks(dialect, marker, gateway, sim):
    """F059: after `early_commit_after` the client has a head, a start and a sign of life; the answer follows."""
    seen = []

    async def note(message):
        seen.append((message["type"], anyio.current_time() - began, message.get("body", b"")))

    exchange = ask(dialect, f"sim:{marker}", stream=True)
    exchange.on_send = note
    began = anyio.current_time()
    await exchange.run(gateway(stream={"early_commit_after": 0.1}))

    kinds = [kind for kind, _, _ in seen]
    assert kinds[:3] == ["http.response.start", "http.response.body", "http.response.body"]
    assert seen[1][1] < 0.7 < seen[2][1]
    assert b"ping" in seen[1][2] and partial_text(dialect, seen[1][2]) == ""
    assert text_of(dialect, exchange) == "This is a simulated answer,"


@EVERY_DIALECT
@pytest.mark.parametrize("marker", ["stall", "stall-headers", "late=600"])
async def test_after_an_early_commit_a_failure_is_told_in_the_stream(dialect, marker, gateway, sim):
    """F082: the status is gone, so the error comes after the head; there is no second try."""
    app = gateway(stream={"early_commit_after": 0.05}, kiro={"first_token_timeout": 0.2})
    exchange = await ask(dialect, f"sim:{marker}", stream=True).run(app)

    assert cut_of(dialect, exchange)["type"] == told_as(dialect, "timeout_error")
    assert (exchange.starts, exchange.complete, len(sim.requests)) == (1, True, 1)


@EACH_DIALECT
async def test_an_early_commit_between_two_tries(dialect, gateway, sim):
    """F080: a message that was opened while a try was being waited for is not opened again by the try."""
    sim.enqueue((Reset(),), GOOD)
    app = gateway(stream={"early_commit_after": 0.4}, retry={"base": 0.6})
    exchange = await ask(dialect, "hi", stream=True).run(app)

    assert text_of(dialect, exchange) == "good"
    assert exchange.starts == 1


@EACH_DIALECT
async def test_no_early_commit(dialect, gateway, sim):
    """0 keeps the status open until there is an event."""
    app = gateway(stream={"early_commit_after": 0.0}, kiro={"first_token_timeout": 0.3})
    exchange = await ask(dialect, "sim:stall", stream=True).run(app)

    assert exchange.status == 504


@EACH_DIALECT
@pytest.mark.parametrize("early", [0.1, 0.2])
async def test_a_first_try_keeps_its_status(dialect, early, gateway, sim):
    """F059: where the first try may not take longer than the commit would wait, silence is told as a status."""
    app = gateway(stream={"early_commit_after": 0.2}, kiro={"first_token_timeout": early})
    exchange = await ask(dialect, "sim:stall", stream=True).run(app)

    assert exchange.status == 504


async def test_a_collected_answer_is_never_committed_early(gateway, sim):
    """F034: there is nobody to keep patient, so the status stays true."""
    app = gateway(stream={"early_commit_after": 0.02, "heartbeat": 0.02}, kiro={"first_token_timeout": 0.2})
    exchange = await ask("openai", "sim:stall", stream=False).run(app)

    assert exchange.status == 504


# The client leaves; sizes.


@EACH_DIALECT
@EACH_MODE
@pytest.mark.parametrize("marker", ["stall", "stall-mid", "flood=64"])
async def test_a_client_that_leaves_takes_the_service_along(dialect, stream, marker, gateway, sim):
    """F022/F023/R01/R02: the connection is closed at once, whatever the service is doing, and the slot is free.

    With a stream, the time is looked at a few times before the client leaves.
    """
    app = gateway(fresh=True, limits={"connections": 1}, stream={"heartbeat": 0.01})
    exchange = ask(dialect, f"sim:{marker}", stream=stream)
    async with anyio.create_task_group() as clients:
        clients.start_soon(exchange.run, app)
        assert await comes_true(sim, lambda: sim.requests)
        await anyio.sleep(0.05)
        left = anyio.current_time()
        exchange.leave.set()

    assert anyio.current_time() - left < 1
    assert await comes_true(sim, lambda: sim.requests[0].peer_closed_at)
    sim.enqueue(GOOD)
    assert text_of(dialect, await ask(dialect, "hi", stream=stream).run(app)) == "good"


@EACH_DIALECT
@EACH_MODE
async def test_the_end_is_sent_to_its_end(dialect, stream, gateway, sim):
    """Some servers announce that the client has left as soon as the last message is handed to them, before they have
    sent it: that cancels nothing, and the answer counts as complete."""
    exchange = ask(dialect, "sim:count=3", stream=stream)
    ended = []

    async def linger(message):
        if message["type"] == "http.response.body" and not message["more_body"]:
            exchange.leave.set()
            await anyio.sleep(0.1)
            ended.append(message)

    exchange.on_send = linger
    await exchange.run(gateway())

    assert len(ended) == 1
    assert text_of(dialect, exchange) == "1 2 3 "


async def test_a_long_answer_has_no_size_limit(gateway, sim):
    """F057/F058: 64 MiB pass, and none of it is kept."""
    size = 0
    exchange = ask("openai", "sim:flood=64", stream=True)

    async def count(message):
        nonlocal size
        size += len(message.get("body", b""))
        message["body"] = b""

    exchange.on_send = count
    await exchange.run(gateway())

    assert exchange.complete and exchange.status == 200
    assert size > 64 << 20


async def test_what_the_client_asked_for_is_all_the_service_is_asked(gateway, sim):
    """F054/R28: neither our keys nor the client's headers travel on."""
    exchange = ask("openai", "sim:text", stream=False)
    exchange.scope["headers"] += [(b"cookie", b"canary"), (b"x-forwarded-for", b"canary"), (b"user-agent", b"canary")]
    await exchange.run(gateway())

    (request,) = sim.requests
    assert "canary" not in json.dumps(request.headers)
    assert request.headers["user-agent"].startswith("kiro-asgi/")
