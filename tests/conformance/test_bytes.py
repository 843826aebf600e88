"""What goes over the wire, byte by byte, where the clients would hide it.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from typing import Any

import pytest

from tests.conformance.asking import CHAT_TOOLS, MESSAGES_TOOLS, MODEL, SENTENCE, user
from tests.conformance.gateways import KEY, Gateway
from tests.conformance.raw import PATHS, Answer, exchange, post, request_bytes

CHAT_STREAM = re.compile(rb"(?:data: \{[^\r\n]*\}\n\n)+data: \[DONE\]\n\n")
MESSAGES_EVENT = re.compile(rb"event: ([a-z_]+)\ndata: (\{[^\r\n]*\})\n\n")

APIS = pytest.mark.parametrize("api", PATHS)

CONTENTS = pytest.mark.parametrize(
    "content",
    [
        "sim:text",
        "sim:unicode",
        "sim:parallel",
        "sim:thinking",
        "sim:text sim:empty-frames",
        "sim:filtered",
        "sim:exception",
        "sim:reset",
        "Say: a\r\nb\u2028c\u2029d\u0085e\x0bf",
    ],
)


def stream(gateway: Gateway, api: str, content: Any, path: str = "", **headers: str) -> Answer:
    document = {"model": MODEL, "max_tokens": 1000, "stream": True, "messages": user(content)}
    tools = {"tools": CHAT_TOOLS if api == "chat" else MESSAGES_TOOLS}
    return post(gateway, path or PATHS[api], {**document, **tools}, **headers)


@CONTENTS
def test_6_chat_frames(gateway: Gateway, content: str) -> None:
    """F010, F014: bare data lines and blank lines, no other field, never empty, ended by the sentinel, always."""
    body = stream(gateway, "chat", content).body

    assert CHAT_STREAM.fullmatch(body)
    assert body.count(b"[DONE]") == 1
    assert b"\xef\xbb\xbf" not in body


@CONTENTS
def test_49_messages_frames(gateway: Gateway, content: str) -> None:
    """F011, F012, F015: an event line, which names the type within the data, and a data line; no sentinel."""
    body = stream(gateway, "messages", content).body
    found = MESSAGES_EVENT.findall(body)

    assert MESSAGES_EVENT.sub(b"", body) == b""
    assert [name.decode() for name, _ in found] == [json.loads(data)["type"] for _, data in found]
    assert found[-1][0] in (b"message_stop", b"error")
    assert b"[DONE]" not in body


@APIS
def test_6_head_of_a_stream(gateway: Gateway, api: str) -> None:
    """F007, F008, F009, F028: the exact media type, no caching, no buffering, no compression, no length."""
    answer = stream(gateway, api, "sim:text", accept="application/json", accept_encoding="gzip, br")
    headers = answer.headers

    assert answer.status == 200
    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert headers["transfer-encoding"] == "chunked"
    assert {"content-encoding", "content-length"} & set(headers) == set()
    assert headers["x-request-id"] == headers["request-id"]


@APIS
def test_2_head_of_a_body(gateway: Gateway, api: str) -> None:
    """F004: JSON by its media type, whatever the client says that it accepts; with both request ids."""
    document = {"model": MODEL, "max_tokens": 99, "messages": user("sim:text")}
    answer = post(gateway, PATHS[api], document, accept="text/event-stream")

    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"] == answer.headers["request-id"]
    assert SENTENCE in json.dumps(json.loads(answer.body))


@APIS
@pytest.mark.parametrize("content", ["sim:text", "sim:tool", "sim:exception"])
def test_7_the_end_closes_the_body(gateway: Gateway, api: str, content: str) -> None:
    """F024: within 50 ms of the terminal event the body is over; a busy machine gets three chances."""
    terminal = b"event: error" if content == "sim:exception" else b"event: message_stop"
    answers = (stream(gateway, api, content) for _ in range(3))

    assert any(it.ended - it.when(b"[DONE]" if api == "chat" else terminal) < 0.05 for it in answers)


def test_12_no_arguments(gateway: Gateway) -> None:
    """The fragments of the arguments of a tool without any join to an empty object."""
    body = stream(gateway, "chat", "sim:tool=now").body
    chunks = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
    calls = [call for chunk in chunks for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", ())]

    assert "".join(call["function"].get("arguments", "") for call in calls) == "{}"
    assert [set(call) for call in calls] == [{"index", "id", "type", "function"}, {"index", "function"}]


@APIS
@pytest.mark.parametrize("content", ["sim:text", "sim:text sim:slow=0.03"], ids=["at-once", "slowly"])
def test_6_deltas_come_as_they_are_made(gateway: Gateway, api: str, content: str) -> None:
    """F020: a slow answer arrives in many reads, spread over its time."""
    answer = stream(gateway, api, content)
    spread = answer.ended - answer.when(b"This")

    assert (spread > 0.25 and len(answer.received) > 8) if "slow" in content else spread < 0.2


HEARTBEATS = {"chat": b": ping\n\n", "messages": b'event: ping\ndata: {"type":"ping"}\n\n'}


@APIS
@pytest.mark.parametrize(
    "content", ["sim:count=1 sim:no-trailers sim:slow=0.5", "sim:late=0.5"], ids=["in-the-middle", "at-first"]
)
def test_64_heartbeats(impatient: Gateway, api: str, content: str) -> None:
    """F016: silence of the service is bridged, in the middle of an answer and before its first word."""
    document = {"model": MODEL, "max_tokens": 99, "stream": True, "messages": user(content)}
    answer = post(impatient, PATHS[api], document)
    beat = HEARTBEATS[api]

    assert 1 <= answer.body.count(beat) <= 4
    assert answer.body.startswith((b": ping", b"data: ") if api == "chat" else b"event: message_start\n")
    rest = answer.body.replace(beat, b"")
    assert CHAT_STREAM.fullmatch(rest) if api == "chat" else MESSAGES_EVENT.sub(b"", rest) == b""
    assert b"[DONE]" in rest if api == "chat" else b"message_stop" in rest


@pytest.mark.parametrize("path", ["/", "/api/hello"])
def test_70_head_hello(gateway: Gateway, path: str) -> None:
    """What agents knock with is answered at once, whatever the answer."""
    began = time.monotonic()
    answer = exchange(gateway, request_bytes("HEAD", path, {}))

    assert answer.ended - began < 0.5
    assert 200 <= answer.status < 500
    assert answer.data.endswith(b"\r\n\r\n"), "an answer to HEAD has no body"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"authorization": f"Bearer {KEY}"}, id="bearer"),
        pytest.param({"authorization": "", "x_api_key": KEY}, id="x-api-key"),
    ],
)
@APIS
def test_60_both_ways_to_show_a_key(gateway: Gateway, api: str, headers: dict[str, str]) -> None:
    """F029: on every path."""
    document = {"model": MODEL, "max_tokens": 9, "messages": user("sim:text")}

    assert post(gateway, PATHS[api], document, **headers).status == 200


def test_60_wrong_key(gateway: Gateway) -> None:
    """The body that key checks of agents compare, to the letter and in its order."""
    answer = post(gateway, "/v1/messages", {}, authorization="", x_api_key="wrong")
    body = answer.body.decode()

    assert answer.status == 401
    assert '{"type":"authentication_error","message":"invalid x-api-key"}' in body
    assert body.startswith('{"type":"error","error":')


@APIS
def test_2_bodies_as_clients_write_them(gateway: Gateway, api: str) -> None:
    """Pretty-printed JSON, unknown queries and headers, packed or not; what is packed in an unknown way is refused."""
    document = {"model": MODEL, "max_tokens": 99, "messages": user("sim:text")}
    pretty = json.dumps(document, indent=2).encode()
    odd = post(gateway, PATHS[api] + "?beta=true&x=%20", pretty, x_stainless_lang="js", openai_project="p")
    packed = post(gateway, PATHS[api], gzip.compress(pretty), content_encoding="gzip")

    other = post(gateway, PATHS[api], pretty, content_encoding="compress")

    assert odd.status == 200
    assert packed.status == 200
    assert other.status == 415
    assert json.loads(other.body)["error"]["type"] == "invalid_request_error"
    assert other.headers["accept-encoding"].startswith("gzip, deflate")


def test_59_the_old_query(gateway: Gateway) -> None:
    """Older clients of the betas add a query to the path."""
    body = stream(gateway, "messages", "sim:text", "/v1/messages?beta=true").body

    assert body.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


def test_2_responses_in_the_wrong_place(gateway: Gateway) -> None:
    """A body of another API is recognised, as Cursor sends it, and answered in the API of the path."""
    answer = post(gateway, PATHS["chat"], {"model": MODEL, "input": "Hello"})

    assert (answer.status, json.loads(answer.body)["object"]) == (200, "chat.completion")
