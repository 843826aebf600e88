"""Responses over WebSocket: the handshake, requests one after the other, what a connection holds, and its end."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import define, field

from kiro_asgi import create_app
from kiro_asgi.asgi.protocol import ASGIApp, Message, Scope
from kiro_asgi.limits import WEBSOCKET_WAITING
from kiro_asgi.quota.settings import hash_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask, http_scope
from tests.dialects.openai_responses.grammar import events_of

pytestmark = pytest.mark.anyio

PATH = "/v1/responses"
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
DENIAL = {"websocket.http.response": {}}


def socket_scope(path: str = PATH, *, key: str | None = "k", headers: Any = (), **more: Any) -> Scope:
    scope = http_scope("GET", path, [*headers, *([("authorization", f"Bearer {key}")] if key else [])])
    del scope["method"]
    return {**scope, "type": "websocket", "scheme": "ws", "subprotocols": [], "extensions": DENIAL, **more}


@define
class Peer:
    """The client's end of a connection: every message in either direction."""

    to_app: Any
    messages: list[Message] = field(factory=list)
    arrived: anyio.Condition = field(factory=anyio.Condition)
    blocked: anyio.Event | None = None
    """Where it is set, nothing that is sent is taken until the event is."""

    async def send(self, message: Message) -> None:
        if self.blocked is not None and message["type"] == "websocket.send":
            await self.blocked.wait()
        async with self.arrived:
            self.messages.append(message)
            self.arrived.notify_all()

    async def say(self, *frames: Any) -> None:
        for frame in frames:
            text = frame if isinstance(frame, str) else json.dumps(frame)
            await self.to_app.send({"type": "websocket.receive", "text": text})

    async def leave(self) -> None:
        await self.to_app.send({"type": "websocket.disconnect", "code": 1005})

    async def answer(self, number: int) -> list[dict[str, Any]]:
        """The frames of the answer of that number, when it has ended."""
        with anyio.fail_after(10):
            async with self.arrived:
                while len(self.answers) <= number:
                    await self.arrived.wait()
        return self.answers[number]

    @property
    def answers(self) -> list[list[dict[str, Any]]]:
        """The frames of each answer that has ended."""
        told: list[list[dict[str, Any]]] = []
        begun: list[dict[str, Any]] = []
        for frame in self.frames:
            begun.append(frame)
            if frame["type"] in ENDS:
                told.append(begun)
                begun = []
        return told

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(it["text"]) for it in self.messages if it["type"] == "websocket.send"]

    @property
    def closed(self) -> int | None:
        return next((it["code"] for it in self.messages if it["type"] == "websocket.close"), None)


ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@asynccontextmanager
async def connected(app: ASGIApp, scope: Scope | None = None) -> AsyncIterator[Peer]:
    """A connection, which ends with the block; the application has returned then."""
    to_app, from_peer = anyio.create_memory_object_stream[Message](100)
    peer = Peer(to_app)
    with to_app, from_peer:
        async with anyio.create_task_group() as group:
            group.start_soon(app, scope or socket_scope(), from_peer.receive, peer.send)
            await to_app.send({"type": "websocket.connect"})
            yield peer
            if peer.closed is None:
                await peer.leave()


def create(prompt: Any, **more: Any) -> dict[str, Any]:
    return {"type": "response.create", "model": "claude-sonnet-4.5", "input": prompt, **more}


async def turn(peer: Peer, prompt: Any, **more: Any) -> list[dict[str, Any]]:
    """Ask, where nothing else is under way, and the frames of the answer."""
    number = len(peer.answers)
    await peer.say(create(prompt, **more))
    return await peer.answer(number)


def shape(events: list[dict[str, Any]]) -> list[tuple[str, int, tuple[str, ...]]]:
    """Events without what differs between two answers to the same question."""
    return [(it["type"], it["sequence_number"], tuple(it)) for it in events]


def text_of(frames: list[dict[str, Any]]) -> str:
    assert frames[-1]["type"] == "response.completed", frames[-1]
    return "".join(frame["delta"] for frame in frames if frame["type"] == "response.output_text.delta")


# The handshake.


@pytest.mark.parametrize(
    ("scope", "status", "code"),
    [
        pytest.param(socket_scope(key="wrong"), 401, "invalid_api_key", id="wrong-key"),
        pytest.param(socket_scope(headers=[("origin", "https://evil.example")]), 403, "foreign_origin", id="page"),
        pytest.param(socket_scope("/v1/chat/completions"), 426, "websocket_not_supported", id="other-api"),
        pytest.param(socket_scope("/v1/nothing"), 404, "route_not_found", id="no-path"),
    ],
)
async def test_a_refused_handshake_has_its_status(gateway, scope, status, code):
    """C14: by the extension; a server that lacks it says 403, as for each handshake that is closed."""
    async with connected(gateway(), scope) as peer:
        pass
    start, body = peer.messages
    assert (start["type"], start["status"]) == ("websocket.http.response.start", status)
    assert json.loads(body["body"])["error"]["code"] == code

    async with connected(gateway(), {**scope, "extensions": {}}) as peer:
        pass
    assert peer.closed == 1000 and len(peer.messages) == 1


async def test_switched_off_it_is_426(gateway):
    """On which Codex goes on over HTTP at once."""
    async with connected(gateway(responses={"websocket": False})) as peer:
        pass
    assert peer.messages[0]["status"] == 426

    allowed = Exchange(http_scope("GET", PATH, [("authorization", "Bearer k")]))
    await allowed.run(gateway())
    assert (allowed.status, allowed.headers["allow"]) == (405, "POST")


async def test_a_page_that_may_use_the_gateway_may_connect(gateway):
    scope = socket_scope(headers=[("origin", "https://app.example")])
    async with connected(gateway(cors={"origins": ["https://app.example"]}), scope) as peer:
        assert text_of(await turn(peer, "sim:count=1")) == "1 "
    assert peer.messages[0]["type"] == "websocket.accept"
    assert dict(peer.messages[0]["headers"])[b"x-request-id"].startswith(b"req_")


async def test_what_is_not_ours_is_the_hosts(gateway, service):
    seen = []

    async def host(scope, receive, send):
        seen.append(scope["path"])

    app = create_app(settings_for(service.url, {}), inner=host)
    async with connected(app, socket_scope("/chat")):
        pass
    assert seen == ["/chat"]
    await app.aclose()


# Requests.


async def test_requests_are_answered_one_after_the_other(gateway, sim, caplog):
    """Each frame is the data of the event over HTTP; requests that come early wait; each is accounted for."""
    caplog.set_level("INFO", "kiro_asgi.access")
    app = gateway()
    async with connected(app) as peer:
        await peer.say(create("sim:count=3"), create("sim:text"), create("sim:tool=f {}", tools=[TOOL]))
        one, two, three = await peer.answer(0), await peer.answer(1), await peer.answer(2)
    over_http = await ask("responses", "sim:count=3", stream=True).run(app)

    assert shape(one) == shape(events_of(over_http.content))
    assert (text_of(one), text_of(two)[:4]) == ("1 2 3 ", "This")
    assert [it["type"] for it in three[-1]["response"]["output"]][-1] == "function_call"
    lines = [record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access"]
    assert [line.split()[:3] for line in lines[:4]] == [
        ["GET", PATH, "101"],
        *[["POST", PATH, "200"]] * 3,
    ]


async def test_one_client_has_so_many_connections(gateway, sim):
    """A further handshake is refused until one of them has ended; other clients are not in its way."""
    app = gateway(keys={"ada": {"hash": hash_of(b"ada-key")}}, responses={"websockets": 1}, fresh=True)
    async with connected(app) as peer:
        await turn(peer, "sim:count=1")
        async with connected(app) as refused, refused.arrived:
            while len(refused.messages) < 2:
                await refused.arrived.wait()
        async with connected(app, socket_scope(key="ada-key")) as other:
            assert text_of(await turn(other, "sim:count=1")) == "1 "
    async with connected(app) as peer:
        assert text_of(await turn(peer, "sim:count=1")) == "1 "

    start, body = refused.messages
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"5")
    assert "(responses.websockets)" in json.loads(body["body"])["error"]["message"]


async def test_errors_have_a_status_and_a_code(gateway, sim):
    """Before the first event in a frame of their own, afterwards as the response's end; the connection stays."""
    async with connected(gateway()) as peer:
        frames = [
            create("Hello.", model="nobody/knows"),
            create("Hello.", previous_response_id="resp_0"),
            create("Hello.", background=True),
            create("Hello.", stream_id="a"),
            create("Hello.", generate="no"),
            {"type": "response.create"},
            {"type": "response.guess"},
            "no JSON",
            create("sim:bad-request"),
            create("sim:reset"),
        ]
        await peer.say(*frames)
        answers = [await peer.answer(number) for number in range(len(frames))]
        last = await turn(peer, "sim:count=1")

    told = [(it[-1]["status"], it[-1]["error"]["code"]) for it in answers[:-1]]
    assert told[:8] == [
        (404, "model_not_found"),
        (400, "previous_response_not_found"),
        (400, "unsupported_value"),
        (400, "invalid_stream_id"),
        (400, "invalid_value"),
        (400, "missing_required_parameter"),
        (400, "unknown_event_type"),
        (400, "invalid_json"),
    ]
    assert answers[1][0]["error"]["param"] == "previous_response_id"
    assert all(len(it) == 1 and it[0]["headers"] is not None for it in answers[:8])
    assert answers[-1][-1]["type"] == "response.failed" and "error" not in {it["type"] for it in answers[-1]}
    assert text_of(last) == "1 "


async def test_what_is_not_stored_is_held_by_the_connection(gateway, sim):
    """Until a request that goes on with it fails, or the connection ends; a warm-up asks no service."""
    app = gateway()
    async with connected(app) as peer:
        long = [{"role": role, "content": "My name is Ada."} for role in ("assistant", "user")]
        compact = [{"type": "compaction", "compact_threshold": 1}]
        warm = (await turn(peer, long, generate=False, store=False, context_management=compact))[-1]["response"]
        assert (warm["output"], warm["usage"]["total_tokens"], len(sim.requests)) == ([], 0, 0)
        one = (await turn(peer, [], previous_response_id=warm["id"], store=False))[-1]["response"]
        two = (await turn(peer, "And?", previous_response_id=one["id"], store=False))[-1]["response"]
        assert "My name is Ada." in sim.requests[-1].body.decode()
        await turn(peer, "sim:bad-request", previous_response_id=two["id"], store=False)
        (gone,) = await turn(peer, "And?", previous_response_id=two["id"])
    async with connected(app) as peer:
        (unknown,) = await turn(peer, "And?", previous_response_id=one["id"])

    assert {gone["error"]["code"], unknown["error"]["code"]} == {"previous_response_not_found"}


async def test_an_answer_cannot_be_steered(gateway, sim):
    """That is said at once, and the answer goes on."""
    async with connected(gateway()) as peer:
        await peer.say(create("sim:count=5 sim:slow=0.05"), {"type": "response.steer", "input": "Faster."})
        answer = await peer.answer(0)

    steered = [it for it in answer if it["type"] == "response.steer.failed"]
    assert [it["error"]["code"] for it in steered] == ["steering_not_supported"]
    assert answer[-1]["type"] == "response.completed"


async def test_a_conversation_goes_on_over_either(gateway, sim):
    """What is said over WebSocket is in the conversation, and is bound by the limits of the key."""
    app = gateway(keys={"team": {"hash": hash_of(b"k2"), "requests_per_minute": 3}})
    scope = socket_scope(key="k2")
    made = Exchange(http_scope("POST", "/v1/conversations", [("authorization", "Bearer k2")]), [b"{}"])
    await made.run(app)
    conversation = made.json()["id"]
    async with connected(app, scope) as peer:
        await turn(peer, "My name is Ada.", conversation=conversation, store=False)
        again = await turn(peer, "And?", conversation={"id": conversation})
        over = [await turn(peer, "sim:count=1") for _ in range(2)][-1]

    assert again[-1]["response"]["conversation"] == {"id": conversation}
    assert "My name is Ada." in sim.requests[1].body.decode()
    assert (over[0]["status"], over[0]["error"]["code"], "retry-after" in over[0]["headers"]) == (
        429,
        "rate_limit_exceeded",
        True,
    )


# The end.


async def test_a_drained_gateway_ends_it_after_its_answer(gateway, sim):
    """1012, on which clients connect anew, elsewhere; one that waits for nothing is closed at once."""
    app = gateway(fresh=True)
    async with connected(app) as busy, connected(app) as waits:
        await turn(waits, "sim:count=1")
        await busy.say(create("sim:count=5 sim:slow=0.05"), create("sim:count=1"))
        async with busy.arrived:
            while not busy.frames:
                await busy.arrived.wait()
        app.drain()
        with anyio.fail_after(10):
            await app.idle()
    async with connected(app) as late:
        pass

    assert text_of(busy.answers[0]) == "1 2 3 4 5 " and len(busy.answers) == 1
    assert (busy.closed, waits.closed) == (1012, 1012)
    assert (late.messages[0]["status"], dict(late.messages[0]["headers"])[b"retry-after"]) == (503, b"1")


async def test_an_interrupted_gateway_ends_it_at_once(gateway, sim):
    """An answer under way ends with its error; whether there was one or not, 1012 follows."""
    app = gateway(fresh=True)
    async with connected(app) as busy, connected(app) as waits:
        await turn(waits, "sim:count=1")
        await busy.say(create("sim:stall-mid"))
        with anyio.fail_after(10):
            async with busy.arrived:
                while not any(it["type"] == "response.output_text.delta" for it in busy.frames):
                    await busy.arrived.wait()
            app.interrupt()
            await app.idle()

    assert busy.frames[-1]["type"] == "response.failed"
    assert [peer.messages[-1]["type"] for peer in (busy, waits)] == ["websocket.close"] * 2
    assert (busy.closed, waits.closed) == (1012, 1012)


async def test_a_client_that_leaves_ends_its_answer(gateway, sim):
    async with connected(gateway()) as peer:
        await peer.say(create("sim:stall-mid"))
        with anyio.fail_after(10):
            async with peer.arrived:
                while not any(it["type"] == "response.output_text.delta" for it in peer.frames):
                    await peer.arrived.wait()
    assert peer.closed is None


@pytest.mark.parametrize(
    ("settings", "frames", "code"),
    [
        pytest.param({"idle_timeout": 0.05}, [], 1001, id="idle"),
        pytest.param({"lifetime": 0.05}, [], 1001, id="lifetime"),
        pytest.param({"frame_bytes": 10}, ["x" * 11], 1009, id="too-big"),
        pytest.param({}, ["no JSON"] * 5, 1007, id="garbage"),
    ],
)
async def test_limits_close_it(gateway, settings, frames, code):
    """Each with its code; at the end of its life, after an error that says so."""
    to_app, from_peer = anyio.create_memory_object_stream[Message](100)
    peer = Peer(to_app)
    with to_app, from_peer, anyio.fail_after(10):
        await to_app.send({"type": "websocket.connect"})
        await peer.say(*frames)
        await gateway(responses=settings)(socket_scope(), from_peer.receive, peer.send)
    assert peer.closed == code
    if "lifetime" in settings:
        assert peer.frames[-1]["error"]["code"] == "websocket_connection_limit_reached"


async def test_what_was_read_is_not_kept(gateway, sim):
    """Neither by errors that wait for their turn, nor while the client does not take the reply to a frame, nor between
    two requests: what is held is counted."""
    size = 1024 * 1024
    async with connected(gateway()) as peer:
        await turn(peer, "Hi.")
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()

            async def settle(most: float) -> None:
                with anyio.fail_after(10):
                    while tracemalloc.get_traced_memory()[0] - before > most * size:  # noqa: ASYNC110 - memory
                        await anyio.sleep(0.01)

            await turn(peer, "x" * size)
            await settle(0.5)
            await peer.say(create("sim:stall-mid"))
            for _ in range(WEBSOCKET_WAITING):
                await peer.say(" " * size)
                await settle(0.5)
            peer.blocked = anyio.Event()
            await peer.say(json.dumps({"type": "response.interrupt", "more": " " * size}))
            await settle(0.5)
        finally:
            tracemalloc.stop()
            if peer.blocked is not None:
                peer.blocked.set()


async def test_nothing_is_sent_after_the_end(gateway):
    """Not even the error about a frame that waits when a worse one ends the connection: a server raises then."""
    received = [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": "no JSON"},
        {"type": "websocket.receive", "bytes": b"\xff"},
        {"type": "websocket.disconnect", "code": 1003},
    ]
    sent: list[str] = []

    async def receive() -> Message:  # as of a server that has read all of it: without a turn for others
        return received.pop(0)

    async def send(message: Message) -> None:
        sent.append(message["type"])

    with anyio.fail_after(10):
        await gateway()(socket_scope(), receive, send)
    assert sent[-1] == "websocket.close" and sent.count("websocket.close") == 1
