"""R17, R19-R22, R26, R27: whatever a client sends, it gets a 4xx or an answer, and the next client is served."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest

from tests.asgi.driver import PATHS, Exchange, http_scope, post
from tests.e2e.faults.bench import ROUTES, no_leak
from tests.e2e.faults.verdicts import check_transport, refused, strict, whole

pytestmark = pytest.mark.anyio

ROUTE = pytest.mark.parametrize("route", ROUTES)
STREAM = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])
DEEP = 100_000


def body(content: str = "sim:count=3", **more: Any) -> dict[str, Any]:
    return {
        "model": "claude-sonnet-4.5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": content}],
        **more,
    }


def spliced(value: bytes, **more: Any) -> bytes:
    """A body with *value* where the word HERE stands."""
    return json.dumps(body(**more)).encode().replace(b'"HERE"', value)


def tools(route: str, schema: Any) -> list[Any]:
    if route == "anthropic":
        return [{"name": "f", "description": "x", "input_schema": schema}]
    return [{"type": "function", "function": {"name": "f", "description": "x", "parameters": schema}}]


def called(route: str, arguments: Any) -> list[Any]:
    """A conversation with a call of that input in it."""
    if route == "anthropic":
        call = [{"type": "tool_use", "id": "c", "name": "f", "input": arguments}]
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]}
        return [{"role": "user", "content": "x"}, {"role": "assistant", "content": call}, result]
    call = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}]
    result = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    return [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": call}, result]


def deep_bodies(route: str) -> dict[str, bytes]:
    """Bodies that are nested a hundred thousand levels deep somewhere."""
    found = {}
    for name, opening, closing in (("lists", b"[", b"]"), ("objects", b'{"a":', b"}")):
        nest = opening * DEEP + b"1" + closing * DEEP
        found |= {
            f"{name}-alone": nest,
            f"{name}-unclosed": opening * DEEP,
            f"{name}-in-schema": spliced(nest, tools=tools(route, {"properties": {"a": "HERE"}})),
            f"{name}-in-call": spliced(nest, messages=called(route, {"a": "HERE"})),
            f"{name}-in-content": spliced(nest, messages=[{"role": "user", "content": "HERE"}]),
            f"{name}-in-unknown-field": spliced(nest, nobody_knows="HERE"),
            f"{name}-in-metadata": spliced(nest, metadata={"user_id": "HERE"}),
        }
    return found


@ROUTE
async def test_deep_bodies_are_the_clients_fault(gateway, route):
    """R19: nesting without end is a 400 wherever it is, and never a RecursionError."""
    door = gateway()
    async with no_leak(door):
        for name, data in deep_bodies(route).items():
            exchange = await door.run(post(PATHS[route], data))
            assert refused(route, exchange, 400), name
        count = await door.run(post("/v1/messages/count_tokens", b"[" * DEEP))
        assert refused("anthropic", count, 400)
        assert door.simulator.requests == ()
        await door.works(route)


async def test_deep_arguments_in_a_text_are_only_a_text(gateway):
    """R19: arguments of an earlier call are a text in this API; nested too deep for an object, they are still served
    or refused, and nothing breaks."""
    door = gateway()
    for arguments in ("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, '{"a":' * DEEP):
        exchange = await door.run(post(PATHS["openai"], body(messages=called("openai", arguments))))
        check_transport(exchange)
        assert exchange.status in (200, 400), exchange.content[:300]
    await door.works("openai")


INVALID = {
    "utf8": b'{"model":"a\xff"}',
    "utf8-overlong": b'{"model":"\xc0\xaf"}',
    "utf8-surrogate": b'{"model":"\xed\xa0\x80"}',
    "utf16": json.dumps(body()).encode("utf-16"),
    "truncated": json.dumps(body()).encode()[:-1],
    "empty": b"",
    "null": b"null",
    "number": b"1",
    "text": b'"x"',
    "nan": spliced(b"NaN", temperature="HERE"),
    "infinity": spliced(b"Infinity", temperature="HERE"),
    "overflow": spliced(b"1e400", temperature="HERE"),
    "digits": spliced(b"9" * 5000, max_tokens="HERE"),
    "negative-digits": spliced(b"-" + b"9" * 5000, max_tokens="HERE"),
    "trailing": json.dumps(body()).encode() + b"{}",
}


@ROUTE
@STREAM
async def test_bodies_that_are_no_strict_json(gateway, route, stream):
    """R20/R21: invalid UTF-8, numbers that are none, half a document: 400, in the API's own form."""
    door = gateway()
    for name, data in INVALID.items():
        wanted = b'"stream":true' if stream else b'"stream":false'
        data = data.replace(b'{"model"', b"{" + wanted + b',"model"', 1)
        assert refused(route, await door.run(post(PATHS[route], data)), 400), name
    assert door.simulator.requests == ()


ODD_TEXTS = {
    "lone-surrogate": rb'"say \ud83d"',
    "apart": rb'"say \ude00\ud83d"',
    "nul": rb'"say \u0000 and \u001b[31m"',
    "separators": '"say \u2028\u2029\ufeff\x7f"'.encode(),
    "line-ends": rb'"say \r\n\r\ndata: {}\n\n"',
    "big-number-in-text": b'"say 1e400 NaN"',
}


@ROUTE
@STREAM
async def test_odd_texts_are_answered_in_strict_json(gateway, route, stream):
    """R20/R21/R26: what is JSON is served; what goes to the upstream and what comes back is strict."""
    door = gateway()
    for name, content in ODD_TEXTS.items():
        data = spliced(content, content="HERE", stream=stream)
        exchange = await door.run(post(PATHS[route], data))
        assert whole(route, exchange, stream=stream).text.startswith("You said: say"), name
        strict(door.simulator.requests[-1].body)


@ROUTE
async def test_equal_keys_are_refused(gateway, route):
    """R21: a service may take the other one, so the message names it."""
    door = gateway()
    data = json.dumps(body()).encode().replace(b"{", b'{"max_tokens":50,"model":"x",', 1)
    exchange = await door.run(post(PATHS[route], data))
    assert exchange.status == 400
    assert b"model: stands twice in one object; send it once" in exchange.content


@ROUTE
async def test_compressed_bodies(gateway, route):
    """R22: a compressed body is read as far as the limits allow, so nothing can be blown up."""
    door = gateway()
    bomb = gzip.compress(bytes(10 * 1024 * 1024))
    headers = [("authorization", "Bearer k"), ("content-encoding", "gzip"), ("content-type", "application/json")]
    exchange = await door.run(Exchange(http_scope("POST", PATHS[route], headers), [bomb]))
    assert refused(route, exchange, 413)
    small = gzip.compress(json.dumps(body()).encode())
    exchange = await door.run(Exchange(http_scope("POST", PATHS[route], headers), [small[:9], small[9:]]))
    assert whole(route, exchange, stream=False).text == "1 2 3 "


@ROUTE
async def test_a_hundred_megabytes(gateway, route):
    """R17: too large a body is refused as soon as that shows, whatever Content-Length says."""
    limit = 1024 * 1024
    door = gateway(limits={"body_bytes": limit})
    chunk = bytes(64 * 1024)
    for announced in (None, "10", str(100 * limit)):
        headers = [("authorization", "Bearer k")] + ([("content-length", announced)] if announced else [])
        exchange = Exchange(http_scope("POST", PATHS[route], headers), [chunk] * 1600)
        await door.run(exchange)
        assert refused(route, exchange, 413)
        assert len(exchange.body) >= 1600 - limit // len(chunk) - 1, "read on after the limit"
    await door.works(route)


EVIL = "x\r\nX-Evil: 1\r\n\r\nevent: evil\ndata: {}\n\n\u2028\0"
SAFE = re.compile(r"[!-~]([ -~]*[!-~])?").fullmatch


def renamed(document: Any, name: str) -> Any:
    """*document* with *name* replaced by something evil."""
    return json.loads(json.dumps(document).replace(f'"{name}"', json.dumps(EVIL)))


@ROUTE
@STREAM
async def test_a_clients_values_reach_no_header_and_no_event_name(gateway, route, stream):
    """R26/R27: model, tool names, ids, users, stop texts; in headers and in fields; served or refused."""
    door = gateway()
    evil: list[dict[str, Any]] = [
        {"model": EVIL},
        {"tools": renamed(tools(route, {"type": "object"}), "f")},
        {"messages": renamed(called(route, "{}" if route == "openai" else {}), "c")},
        {"metadata": {"user_id": EVIL}, "user": EVIL},
        {("stop_sequences" if route == "anthropic" else "stop"): [EVIL]},
        {EVIL: EVIL},
    ]
    names = ("x-request-id", "request-id", "anthropic-version", "anthropic-beta", "user-agent", "origin", "traceparent")
    for more in evil:
        exchange = post(PATHS[route], body(stream=stream, **more))
        exchange.scope["headers"] += [(name.encode(), EVIL.encode()) for name in names]
        await door.run(exchange)

        check_transport(exchange)
        assert exchange.status in (200, 400, 404), exchange.content[:300]
        if exchange.status == 200:
            whole(route, exchange, stream=stream)
        else:
            refused(route, exchange, exchange.status)
        for name, value in exchange.headers.items():
            assert SAFE(value) and "evil" not in f"{name}: {value}".lower(), (name, value)
    for request in door.simulator.requests:
        assert "x-evil" not in request.headers
