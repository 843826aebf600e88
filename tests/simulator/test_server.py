"""The door: starting and stopping, HTTP, faults on the wire, and what is recorded."""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
import time

import anyio
import h11
import pytest

from kiro_asgi import simulator as simulators
from kiro_asgi.simulator import Head, Pause, RawBytes, Reset, Stall, answer, json_answer, text
from tests.simulator.asking import KEY, Answer, ask, call, connect, prompt, read_answer, send

CHAT = "/generateAssistantResponse"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def request_bytes(content: str) -> bytes:
    body = json.dumps(prompt(content)).encode()
    fields = [("host", "x"), ("content-length", str(len(body))), *KEY.items()]
    return (h11.Connection(h11.CLIENT).send(h11.Request(method="POST", target=CHAT, headers=fields)) or b"") + body


def raw(url: str, data: bytes) -> Answer:
    with connect(url) as sock:
        sock.sendall(data)
        wire = h11.Connection(h11.CLIENT)
        wire.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
        wire.send(h11.EndOfMessage())
        return read_answer(sock, wire)


def test_two_lines_start_it_in_sync_code():
    """``with running() as simulator`` is all; afterwards there is neither thread nor socket nor server."""
    before = threading.active_count(), descriptors()

    with simulators.running() as simulator:
        assert ask(simulator.url, "Sing.").text == "You said: Sing."

    assert (threading.active_count(), descriptors()) == before
    with pytest.raises(ConnectionRefusedError):
        connect(simulator.url)


@pytest.mark.anyio
async def test_two_lines_start_it_in_this_loop():
    """``async with serve() as simulator`` runs it in the caller's loop, asyncio or trio."""
    before = descriptors()

    async with simulators.serve() as simulator:
        answered = await anyio.to_thread.run_sync(ask, simulator.url, "Sing.")

    assert answered.text == "You said: Sing."
    assert descriptors() == before


@pytest.mark.anyio
async def test_it_stops_in_the_middle_of_answers():
    """Leaving the block ends stalled and flooding answers at once, and closes their sockets."""
    before = descriptors()
    async with simulators.serve() as simulator:
        with connect(simulator.url) as stalled, connect(simulator.url) as flooded:
            for sock, marker in ((stalled, "sim:stall-mid"), (flooded, "sim:flood=1000")):
                sock.sendall(request_bytes(marker))
            under_way = functools.partial(
                simulator.wait_until, lambda: sum(one.bytes_accepted > 500 for one in simulator.requests) == 2
            )
            assert await anyio.to_thread.run_sync(under_way)
            start = time.monotonic()
            simulator_requests = simulator.requests

    assert time.monotonic() - start < 3
    assert [one.complete for one in simulator_requests] == [False, False]
    assert simulator.connections_open == 0
    assert descriptors() == before


@pytest.mark.anyio
@pytest.mark.parametrize("error", [ValueError("mine"), KeyError("mine")])
async def test_errors_of_the_body_come_out_as_they_are(error):
    """An exception in the block is not wrapped in a group."""
    with pytest.raises(type(error)) as caught:
        async with simulators.serve():
            raise error

    assert caught.value is error


def test_a_port_can_be_chosen_and_taken():
    """A taken port is an `OSError`, also when the simulator is in a thread."""
    with simulators.running() as simulator:
        port = int(simulator.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"), simulators.running(port):
            raise AssertionError("not reached")
    with simulators.running(port) as again:
        assert again.url == simulator.url


def test_keep_alive(simulator):
    """Several requests on one connection, each answered in full; markers choose per request."""
    opened = simulator.connections_opened
    with connect(simulator.url) as sock:
        bodies = [b"", *(json.dumps(prompt(word)).encode() for word in ("hello", "sim:500", "hello"))]
        answers = [send(sock, ("POST", CHAT, KEY, body)) for body in bodies]

    assert [answer.status for answer in answers] == [400, 200, 500, 200]
    assert simulator.connections_opened == opened + 1
    assert simulator.wait_until(lambda: simulator.connections_open == 0)


@pytest.mark.parametrize(
    ("target", "headers", "opening"),
    [
        pytest.param(CHAT, {}, "assistantResponseEvent", id="rest"),
        pytest.param(
            "/",
            {"x-amz-target": "AmazonCodeWhispererStreamingService.GenerateAssistantResponse"},
            "initial-response",
            id="rpc",
        ),
        pytest.param(
            "/", {"x-amz-target": "AmazonQDeveloperStreamingService.SendMessage"}, "initial-response", id="send-message"
        ),
        pytest.param(
            CHAT,
            {"x-amz-target": "AmazonCodeWhispererStreamingService.GenerateAssistantResponse"},
            "assistantResponseEvent",
            id="hybrid",
        ),
    ],
)
def test_both_wire_styles(simulator, target, headers, opening):
    """The chat operation is found by path or by target; the conversation's id is in a header or in the first event."""
    answered = call(simulator.url, target, prompt("hello"), headers={**KEY, **headers})

    assert answered.frames[0][0] == opening
    assert answered.headers["content-type"] == "application/vnd.amazon.eventstream"
    assert ("x-amzn-codewhisperer-conversation-id" in answered.headers) == (opening == "assistantResponseEvent")
    assert simulator.requests[-1].operation == "GenerateAssistantResponse"


def test_waits_with_100_continue(simulator):
    """A client that expects 100-continue gets it before it sends its body."""
    with connect(simulator.url) as sock:
        sock.sendall(b"POST /refreshToken HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"{}")
        assert sock.recv(100).startswith(b"HTTP/1.1 400 Bad Request\r\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"POST /nowhere HTTP/1.1\r\nhost: x\r\n\r\n", 404, id="unknown-path"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: A.B\r\n\r\n", 404, id="unknown-target"),
        pytest.param(b"GET /mcp HTTP/1.1\r\nhost: x\r\n\r\n", 405, id="wrong-method"),
        pytest.param(b"nonsense\r\n\r\n", 400, id="no-http"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 100_000, 400, id="head-too-long"),
    ],
)
def test_other_requests(simulator, data, status):
    """What is not asked properly is refused, and the simulator lives on."""
    assert raw(simulator.url, data).status == status
    assert ask(simulator.url, "hello").status == 200


def test_records_requests(simulator):
    """Method, path, query, headers and body are there to be looked at; so is what became of the answer."""
    simulator.forget()
    call(simulator.url, "/ListAvailableModels?origin=AI_EDITOR", method="GET")
    answered = ask(simulator.url, "hello")

    listing, chat = simulator.requests
    assert (listing.method, listing.path, listing.query) == ("GET", "/ListAvailableModels", "origin=AI_EDITOR")
    assert (listing.operation, listing.status) == ("ListAvailableModels", 200)
    assert chat.headers["tokentype"] == "API_KEY"
    assert chat.json() == prompt("hello")
    assert simulator.wait_until(lambda: chat.complete)
    assert chat.bytes_accepted > len(answered.body)
    assert chat.peer_closed_at is None
    assert "ksk_test" not in repr(chat)


def test_requests_are_forgotten_in_time():
    """Only the newest *keep* requests are remembered."""
    with simulators.running(keep=2) as simulator:
        for word in ("a", "b", "c"):
            ask(simulator.url, word)

        assert [one.json() for one in simulator.requests] == [prompt("b"), prompt("c")]


def test_queued_scripts_come_first(simulator):
    """Scripts are used up in order, one a request for their operation, whatever is asked."""
    simulator.enqueue(answer(*text("one")), (*text("two"), Reset()))
    simulator.enqueue(json_answer(418, {}), operation="ListAvailableModels")

    assert call(simulator.url, "/ListAvailableModels", method="GET").status == 418
    assert call(simulator.url, CHAT, b"nonsense", headers={}).text == "one"
    assert ask(simulator.url, "hello").ending == "reset"
    assert ask(simulator.url, "hello").text == "You said: hello"


def test_reset(simulator):
    """Neither a script that no request came for nor an answerer is left to the next test; `forget` leaves them."""
    simulator.enqueue(answer(*text("one")), answer(*text("two")), answer(*text("three")))
    assert ask(simulator.url, "hello").text == "one"
    simulator.forget()
    assert ask(simulator.url, "hello").text == "two"
    simulator.answer_with(lambda request: (RawBytes(b"x"),))
    simulator.reset()

    assert simulator.requests == ()
    assert ask(simulator.url, "hello").text == "You said: hello"


def test_answer_with(simulator):
    """An answerer sees every request and answers those it wants."""
    simulator.answer_with(lambda request: (RawBytes(b"x" * 3),) if request.path == "/anything" else None)
    try:
        assert call(simulator.url, "/anything").body == b"xxx"
        assert ask(simulator.url, "hello").text == "You said: hello"
    finally:
        simulator.answer_with(None)


def test_revoked_tokens_are_refused(simulator):
    """A revoked token gets 403 everywhere."""
    simulator.revoke("aoaOld")
    headers = {"authorization": "Bearer aoaOld"}

    assert call(simulator.url, CHAT, prompt("hello"), headers=headers).status == 403
    assert call(simulator.url, "/ListAvailableModels", method="GET", headers=headers).status == 403


@pytest.mark.parametrize(
    "script", [(Stall(),), (Head(), Stall()), (*text("a"), Pause(60)), (*text("a"), simulators.HalfClose())]
)
def test_a_peer_that_leaves_is_seen_while_silent(simulator, script):
    """R01, R02: the time at which the peer closed is recorded, before the first byte as well as later."""
    simulator.forget()
    simulator.enqueue(script)
    ask(simulator.url, "hello", timeout=0.1)
    left = time.monotonic()
    [request] = simulator.requests

    assert simulator.wait_until(lambda: request.peer_closed_at)
    assert request.peer_closed_at - left < 10  # the answer would take a minute
    assert not request.complete
    assert simulator.wait_until(lambda: simulator.connections_open == 0)


def test_back_pressure():
    """R07: a flood stops when nobody reads, goes on when somebody does, and ends when the peer resets."""
    with simulators.running(send_buffer=16_384) as simulator, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", int(simulator.url.rpartition(":")[2])))
        sock.sendall(request_bytes("sim:flood=64"))
        assert simulator.wait_until(lambda: simulator.requests and simulator.requests[0].bytes_accepted)
        [request] = simulator.requests
        time.sleep(0.2)
        before = request.bytes_accepted
        time.sleep(0.1)
        assert request.bytes_accepted == before < 1 << 20
        assert ask(simulator.url, "hello").status == 200

        while request.bytes_accepted < before + 200_000:
            assert sock.recv(65536)
        sock.close()

        assert simulator.wait_until(lambda: request.peer_closed_at)
        assert request.bytes_accepted < 64 << 20


@pytest.mark.anyio
async def test_one_byte_a_write():
    """R16: with ``sim:bytes`` a reader that keeps up gets the body in very small pieces."""
    async with simulators.serve() as simulator:
        port = int(simulator.url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request_bytes("sim:text sim:bytes"))
            pieces: list[bytes] = []
            with anyio.fail_after(5):
                while not b"".join(pieces[-5:]).endswith(b"0\r\n\r\n"):
                    pieces.append(await stream.receive())

    assert sorted(map(len, pieces))[len(pieces) // 2] <= 4
    assert len(pieces) > 300


def test_many_at_once(simulator):
    """Fifty connections are answered side by side: none waits for a stalled one."""
    with connect(simulator.url) as stalled:
        stalled.sendall(b"POST /mcp HTTP/1.1\r\n")
        socks = [connect(simulator.url) for _ in range(50)]
        try:
            body = json.dumps(prompt("hello")).encode()
            texts = {send(sock, ("POST", CHAT, KEY, body)).text for sock in socks}
        finally:
            for sock in socks:
                sock.close()

    assert len(texts) == 1
    assert simulator.wait_until(lambda: simulator.connections_open == 0)
