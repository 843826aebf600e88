"""R03-R06, R22, R23, R41, R42 for every upstream: what goes wrong behind the gateway ends in the client's own words."""

from __future__ import annotations

import json
from typing import Any, Final

import anyio
import pytest

from kiro_asgi.simulator import Head, RawBytes, Script
from kiro_asgi.wire.sse import SseDecoder
from tests.asgi.driver import PATHS, Exchange, post
from tests.e2e.faults.bench import ROUTES, Gateway, no_leak, until
from tests.e2e.faults.verdicts import broken, check_transport, lost, refused, whole

pytestmark = pytest.mark.anyio

LIMIT: Final = 0.15
MIB: Final = 1024 * 1024
SIZE: Final = 16 * MIB
MODELS: Final = {
    "kiro": "kiro/claude-sonnet-4.5",
    "gemini": "gemini/gemini-2.5-flash",
    "anthropic": "anthropic/claude-haiku-4-5-20251001",
    "openai": "openai/gpt-4o",
}
CHATS: Final = {name: f"{name}.chat" for name in MODELS} | {"kiro": "GenerateAssistantResponse"}
TYPES: Final = dict.fromkeys(MODELS, "text/event-stream") | {"kiro": "application/vnd.amazon.eventstream"}

PAIRS: Final = (
    ("anthropic", "kiro"),
    ("openai", "gemini"),
    *((route, upstream) for route in ROUTES for upstream in ("anthropic", "openai")),
)
"""Every upstream, and those that speak a client's API both ways."""

EACH_PAIR = pytest.mark.parametrize(("route", "upstream"), PAIRS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])

CUT: Final = ("reset", "fin", "half-close", "torn", "exception")
"""An answer that has begun, and does not end."""

BROKEN: Final = ("reset", "fin", "half-close")
"""Of these, the ones whose connection breaks."""

REFUSED: Final = {
    "reset-first": 503,
    "reset-headers": 503,
    "hang-up": 503,
    "empty": 502,
    "html": 502,
    "redirect": 502,
    "429": 429,
}
"""Nothing was said, so there is a status."""

SPEAKS: Final = {"anthropic": "anthropic", "openai": "openai"}
"""Routes whose bytes go through to an upstream."""


def slices(url: str, **more: Any) -> dict[str, dict[str, Any]]:
    """All four upstreams at one address, each asked at most twice; *more* for each of them."""
    return {
        "kiro": {"api_key": "ksk_canary", **more},
        "gemini": {"api_key": "canary-gemini", "endpoint": url, **more},
        "anthropic": {"api_key": "canary-anthropic", "endpoint": url, **more},
        "openai": {"api_key": "canary-openai", "endpoint": f"{url}/v1", **more},
        "retry": {"max_wait": 1.0},
    }


@pytest.fixture
def door(gateway: Any, simulator: Any) -> Gateway:
    """In front of all four."""
    made: Gateway = gateway(**slices(simulator.url))
    return made


@pytest.fixture
def hasty(gateway: Any, simulator: Any) -> Gateway:
    """The same with little patience."""
    limits = {"limits": {"connections": 1, "request_timeout": 2 * LIMIT}, "stream": {"idle_timeout": LIMIT}}
    made: Gateway = gateway(**slices(simulator.url, first_token_timeout=LIMIT), **limits)
    return made


def ask(route: str, upstream: str, prompt: str, *, stream: bool) -> Exchange:
    limit = 10**9 if upstream == "kiro" else 999  # that the gateway itself would see to
    messages = [{"role": "user", "content": prompt}]
    return post(PATHS[route], {"model": MODELS[upstream], "stream": stream, "max_tokens": limit, "messages": messages})


def cut(route: str, upstream: str, exchange: Exchange) -> str:
    """What came before a stream was broken off; what goes through keeps the service's form, open blocks included."""
    if SPEAKS[route] != upstream:
        return broken(route, exchange)
    check_transport(exchange)
    events = [each.data for each in SseDecoder().feed([exchange.content])]
    told = events[:-1] if events[-1] == "[DONE]" else events
    if route == "openai":
        assert json.loads(told.pop()) == {"error": json.loads(told[-1])["error"]}, "not in both forms"
    assert exchange.status == 200
    assert [place for place, data in enumerate(told) if '"error"' in data] == [len(told) - 1]
    assert not any(word in exchange.content for word in (b"message_stop", b'"finish_reason":"')), "a normal finish"
    return "".join(told[:-1])


def calls(door: Gateway, upstream: str) -> int:
    """How often the upstream was asked for an answer; then that is forgotten."""
    asked = [request.operation for request in door.simulator.requests]
    door.simulator.forget()
    return asked.count(CHATS[upstream])


@EACH_PAIR
@EACH_MODE
async def test_what_goes_wrong(door, upstream, route, stream):
    """An answer that is cut ends in one error, never in a finish; one that never began has a status; there are as many
    calls as the policy allows, and no connection is lost."""
    async with no_leak(door):
        for fault in CUT:
            exchange = await door.run(ask(route, upstream, f"sim:{fault}", stream=stream))
            if stream:
                assert cut(route, upstream, exchange), fault
                assert calls(door, upstream) == 1, fault
            else:
                assert lost(route, exchange), fault
                assert exchange.status == 503 or fault not in BROKEN, fault
                assert calls(door, upstream) == 2, fault
        for fault, status in REFUSED.items():
            exchange = await door.run(ask(route, upstream, f"sim:{fault}", stream=stream))
            assert refused(route, exchange, status), fault
            assert 1 <= calls(door, upstream) <= 2, fault
        exchange = await door.run(ask(route, upstream, "sim:exception-first", stream=stream))
        if stream and SPEAKS[route] == upstream == "anthropic":  # the start of the message went through already
            assert cut(route, upstream, exchange)
        else:
            assert refused(route, exchange, 502)
        exchange = await door.run(ask(route, upstream, "sim:count=3", stream=stream))
        assert "1 2 3" in whole(route, exchange, stream=stream).text


@EACH_PAIR
@EACH_MODE
async def test_an_end_without_its_sign(door, upstream, route, stream):
    """Only Kiro may stop without a word: from any other an answer without its last sign is a cut one."""
    exchange = await door.run(ask(route, upstream, "sim:eof", stream=stream))

    if upstream == "kiro":
        assert whole(route, exchange, stream=stream).text
    elif stream:
        assert cut(route, upstream, exchange)
    else:
        assert lost(route, exchange)


@EACH_PAIR
@EACH_MODE
async def test_silence(hasty, upstream, route, stream):
    """R05, R06: no head, no event, or no further event; each ends on time, in one call, with its connection closed."""
    async with no_leak(hasty, idle=0):
        for fault in ("stall", "stall-headers"):
            exchange = await hasty.run(ask(route, upstream, f"sim:{fault}", stream=stream), within=5)
            assert refused(route, exchange, 504), fault
            assert calls(hasty, upstream) == 1, fault
        exchange = await hasty.run(ask(route, upstream, "sim:stall-mid", stream=stream), within=5)
        assert cut(route, upstream, exchange) if stream else refused(route, exchange, 504)


def garbage(route: str, upstream: str, *, stream: bool) -> dict[str, Script]:
    """Bodies that are not the upstream's, under its own media type; JSON is that of a collected answer."""
    through = not stream and SPEAKS[route] == upstream
    head = Head(content_type="application/json" if through else TYPES[upstream])
    squeezed = Head(content_type=head.content_type, headers=(("content-encoding", "gzip"),))
    return {
        "noise": (head, RawBytes(bytes(range(256)) * 16)),
        "text": (head, RawBytes(b"Internal Server Error\n\n")),
        "lines": (head, RawBytes(b": x\n\nid: 1\n\nevent: x\n\n")),
        "gzip": (squeezed, RawBytes(b"\x1f\x8b\x08\x00\n\n\n\n" * 8)),
    }


@EACH_PAIR
@EACH_MODE
async def test_garbage(door, upstream, route, stream):
    """R22, R23: what is no answer is told as a bad gateway, with none of its bytes."""
    async with no_leak(door):
        for name, script in garbage(route, upstream, stream=stream).items():
            door.simulator.enqueue(script, script, operation=CHATS[upstream])
            exchange = await door.run(ask(route, upstream, "x", stream=stream))
            assert refused(route, exchange, 502), name
            for _ in range(2 - calls(door, upstream)):  # what is not worth another try is left in the queue
                await door.run(ask(route, upstream, "x", stream=False))


@pytest.mark.parametrize(("route", "upstream"), (*PAIRS[:2], ("anthropic", "anthropic"), ("openai", "openai")))
async def test_a_client_that_does_not_read_stops_the_upstream(door, simulator, route, upstream):
    """R07: whether bytes go through or not, what is not read is not fetched; when the client leaves, the call ends."""
    exchange, sent = ask(route, upstream, f"sim:flood={SIZE // MIB}", stream=True), 0

    async def block(message: object) -> None:
        nonlocal sent
        sent += 1
        if sent > 3:
            await anyio.sleep_forever()

    exchange.on_send = block
    async with no_leak(door, idle=0), anyio.create_task_group() as tasks:
        tasks.start_soon(exchange.run, door.app)
        assert await until(lambda: sent > 3)
        await anyio.sleep(0.4)
        assert simulator.requests[-1].bytes_accepted < SIZE // 4  # what buffers on the way hold
        exchange.leave.set()
