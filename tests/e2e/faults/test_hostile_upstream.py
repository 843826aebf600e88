"""R19-R23, R26, R27: whatever the upstream says, the client reads strict JSON in legal events, or one error."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest

from kiro_asgi.simulator import (
    CloseEarly,
    Event,
    Head,
    Layout,
    RawBytes,
    Step,
    Trailers,
    answer,
    json_answer,
    plain_answer,
    serve,
    text,
    thinking,
    tool_call,
)
from kiro_asgi.simulator.kiro.encoder import encode
from tests.e2e.faults.bench import ALL_ROUTES, ROUTES, no_leak, raw_event, raw_exception
from tests.e2e.faults.verdicts import broken, check_transport, refused, strict, whole

pytestmark = pytest.mark.anyio

ROUTE = pytest.mark.parametrize("route", ROUTES)
EVERY_ROUTE = pytest.mark.parametrize("route", ALL_ROUTES)
STREAM = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collected"])

DEEP = 100_000
NEST = b"[" * DEEP + b"]" * DEEP
POEM = "Zażółć gęślą jaźń – 日本語のテキスト – 👩‍👩‍👧‍👦 – Ελληνικά – 🇳🇴 – עברית – \u2028\u2029\x7f\ufeff. " * 30


def fragments(raw: str) -> tuple[Step, ...]:
    """A tool call whose arguments are *raw*."""
    return tool_call("get_weather", raw, fragment=1000)


ODD: dict[str, tuple[Step, ...]] = {
    "utf8-invalid": (raw_event("assistantResponseEvent", b'{"content":"a\xff\xc3b"}'),),
    "utf8-overlong": (raw_event("assistantResponseEvent", b'{"content":"\xc0\xaf"}'),),
    "utf8-surrogate": (raw_event("assistantResponseEvent", b'{"content":"\xed\xa0\x80"}'),),
    "surrogate-lone": (raw_event("assistantResponseEvent", rb'{"content":"a\ud800b"}'),),
    "surrogates-apart": (
        raw_event("assistantResponseEvent", rb'{"content":"\ud83d"}'),
        raw_event("assistantResponseEvent", rb'{"content":"\ude00"}'),
    ),
    "surrogate-thinking": (raw_event("reasoningContentEvent", rb'{"text":"\udc00","signature":"\ud800"}'),),
    "surrogate-tool": fragments('{"city": "\\ud83d"}'),
    "bom-tool": fragments('\ufeff{"city": "x"}'),
    "surrogate-tool-name": (raw_event("toolUseEvent", rb'{"name":"\ud800","toolUseId":"\ud801","input":"{}"}'),),
    "nan": (raw_event("assistantResponseEvent", b'{"content":NaN}'), raw_event("meteringEvent", b'{"usage":NaN}')),
    "nan-tool": fragments('{"city": NaN, "b": -Infinity}'),
    "overflow": (raw_event("contextUsageEvent", b'{"contextUsagePercentage":1e400}'),),
    "overflow-tool": fragments('{"city": 1e400}'),
    "huge-integer": (
        raw_event("metadataEvent", b'{"tokenUsage":{"outputTokens":' + b"9" * 5000 + b',"uncachedInputTokens":-1}}'),
    ),
    "huge-percentage": (raw_event("contextUsageEvent", b'{"contextUsagePercentage":' + b"9" * 300 + b"}"),),
    "huge-integer-tool": fragments('{"city": ' + "9" * 5000 + "}"),
    "wrong-types": tuple(
        raw_event(name, b'{"content":[1],"text":{"a":1},"name":2,"toolUseId":{},"input":[[]],"usage":"x","stop":"y"}')
        for name in ("assistantResponseEvent", "reasoningContentEvent", "toolUseEvent", "meteringEvent")
    ),
    "not-objects": tuple(raw_event("assistantResponseEvent", body) for body in (b"1", b'"x"', b"null", b"[]", b"")),
    "equal-keys": (raw_event("assistantResponseEvent", b'{"content":"a","content":"b"}'),),
    "deep": (
        raw_event("assistantResponseEvent", b'{"content":' + NEST + b"}"),
        raw_event("assistantResponseEvent", b'{"a":' * DEEP),
        raw_event("unheardOf", NEST),
        raw_event("followupPromptEvent", b'{"followupPrompt":{"content":' + NEST + b"}}"),
    ),
    "deep-tool": fragments('{"city":' + NEST.decode() + "}"),
    "deep-tool-unclosed": fragments('{"a":' * DEEP),
    "deep-tool-object": (raw_event("toolUseEvent", b'{"name":"f","toolUseId":"1","input":{"a":' + NEST + b"}}"),),
    "event-names": (
        raw_event("x\r\n\r\ndata: {}\r\n\r\n", b"{}"),
        raw_event("", b'{"content":"unnamed"}'),
        raw_event("assistantResponseEvent\0", b"{}"),
    ),
}

REPAIRED = {"surrogate-tool", "surrogate-tool-name", "bom-tool"}
"""Calls that are given all the same."""

UNREADABLE = "deep-tool-object"
"""An event of which nothing can be read, not even that it was about a call: an error, where nothing else comes."""

CUT = "deep-tool-unclosed"
"""A call that did not come to its end; all others did, and are malformed."""


@ROUTE
@STREAM
async def test_odd_payloads_do_not_spoil_an_answer(gateway, route, stream):
    """R19/R20/R21: events that make no sense are passed over or repaired; the rest is delivered, all of it strict."""
    door = gateway()
    async with no_leak(door):
        for name, steps in ODD.items():
            door.simulator.enqueue(answer(*text("before"), *steps, *text("after")))
            exchange = await door.ask(route, "x", stream=stream, max_tokens=10**9)

            said = whole(route, exchange, stream=stream).text
            assert re.fullmatch(r"before.*after(\n\n\[Notice from the gateway\] .* malformed .*)?", said, re.DOTALL), (
                name
            )
        await door.works(route)


@ROUTE
@STREAM
async def test_arguments_that_are_no_strict_json_are_withheld_or_made_strict(gateway, route, stream):
    """R19/R21: a client never gets arguments that its parser refuses; where a call cannot be given it is told why."""
    door = gateway()
    for name in (name for name in ODD if "tool" in name):
        door.simulator.enqueue(answer(*ODD[name], trailers=Trailers("TOOL_USE")))
        exchange = await door.ask(route, "x", stream=stream, max_tokens=10**9)

        if name == UNREADABLE:
            assert exchange.status == 502, name
            assert "holds nothing that can be shown" in exchange.content.decode(), name
            continue
        given = whole(route, exchange, stream=stream)  # reads the arguments strictly, too
        assert bool(given.calls) == (name in REPAIRED), name
        ended = ("max_tokens", "length") if name == CUT else ("end_turn", "stop")
        assert given.stop in (("tool_use", "tool_calls") if given.calls else ended), name
        assert ("malformed" in given.text) == (not given.calls and name != CUT), name


@ROUTE
@STREAM
async def test_text_survives_every_cut(gateway, route, stream):
    """R20: characters of several bytes, cut anywhere by frames of the transport, arrive as they were."""
    door = gateway()
    for size in (1, 7, 64):
        script = answer(*text(POEM, *POEM[:200]), head=Head(layout=Layout(chunk=size * 13, write=size * 29)))
        door.simulator.enqueue(script)
        exchange = await door.ask(route, "x", stream=stream, max_tokens=100_000)
        assert whole(route, exchange, stream=stream).text == POEM + POEM[:200]


INJECTED = "x\r\n\r\nevent: message_stop\r\ndata: {}\n\n\u2028\u2029\0\x1b[31m"
HARMLESS = "harmless"


def with_names(name: str) -> tuple[Step, ...]:
    """An answer in which everything that has a name is called *name*."""
    return answer(
        Event("initial-response", {"conversationId": name}),
        *thinking(name, signature=name),
        *text(name, model=name),
        *tool_call(name, {name: name}, call_id=name),
        Event("followupPromptEvent", {"followupPrompt": {"content": name}}),
        Event("codeReferenceEvent", {"references": [{"licenseName": name, "url": name}]}),
        trailers=Trailers("TOOL_USE"),
    )


def lines_of(content: bytes) -> list[str]:
    """What a client sees that cuts lines at whatever the WHATWG says, names of fields only."""
    return [line.split(":")[0] for line in re.split(r"\r\n|\r|\n", content.decode())]


TOOLS: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "t", "input_schema": {"type": "object"}},
    "openai": {"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "t", "parameters": {"type": "object"}, "strict": False},
}


@EVERY_ROUTE
async def test_names_cannot_inject_events(gateway, route):
    """R26: line ends and more in texts, ids, names and models change neither the number nor the kinds of events."""
    door = gateway()
    exchanges = []
    for name in (HARMLESS, INJECTED):
        door.simulator.enqueue(with_names(name))
        exchange = await door.ask(route, "x", stream=True, tools=[TOOLS[route]])
        whole(route, exchange, stream=True)
        exchanges.append(exchange)

    harmless, injected = exchanges
    assert lines_of(injected.content) == lines_of(harmless.content)
    assert b"\r" not in injected.content and b"\0" not in injected.content and b"\x1b" not in injected.content


@EVERY_ROUTE
@STREAM
async def test_error_texts_cannot_inject_events(gateway, route, stream):
    """R26: the same for what an exception says, in the middle and before the first event."""
    door = gateway(retry={"attempts": 1})
    report = json.dumps({"message": INJECTED, "reason": INJECTED}).encode()
    for name in ("InternalServerException", INJECTED):
        door.simulator.enqueue((*text("a"), raw_exception(name, report)))
        exchange = await door.ask(route, "x", stream=stream)
        assert broken(route, exchange) == "a" if stream else refused(route, exchange, 502)
        door.simulator.enqueue((raw_exception(name, report),), json_answer(500, {"message": INJECTED}))
        assert "\r" not in refused(route, await door.ask(route, "x", stream=stream), 502)
        assert "\r" not in refused(route, await door.ask(route, "x", stream=stream), 502)


SAFE = re.compile(r"[!-~]([ -~]*[!-~])?").fullmatch


@ROUTE
async def test_headers_of_the_upstream_are_not_passed_on(gateway, route):
    """R27: what the upstream puts in its headers reaches no header of ours, but for a time to wait, as a number."""
    door = gateway(retry={"attempts": 1})
    headers = (("retry-after", "7; X-Evil: 1"), ("x-amzn-requestid", "evil"), ("x-evil", "1"), ("set-cookie", "evil"))
    for script in (json_answer(429, {"message": "evil"}, headers), answer(*text("x"), head=Head(headers=headers))):
        door.simulator.enqueue(script)
        exchange = await door.ask(route, "x", stream=True)
        check_transport(exchange)
        for name, value in exchange.headers.items():
            assert SAFE(value) and "evil" not in f"{name}: {value}".lower(), (name, value)


ZEROS = gzip.compress(bytes(10 * 1024 * 1024))
FRAMES = b"".join(encode(step) for step in text("packed"))

FOREIGN = {
    "html": plain_answer(200, b"<!DOCTYPE html><p>ksk_canary Please sign in", "text/html"),
    "html-as-frames": plain_answer(200, b"<!DOCTYPE html><p>Please sign in", "application/vnd.amazon.eventstream"),
    "html-without-type": plain_answer(200, b"<!DOCTYPE html><p>Please sign in", "text/plain"),
    "json-error": json_answer(200, {"message": "no", "reason": "SIMULATED"}),
    "json-other": json_answer(200, [1, 2, 3]),
    "json-deep": plain_answer(200, NEST, "application/json"),
    "json-error-500-deep": plain_answer(500, NEST, "application/json"),
    "empty": plain_answer(200, b"", "application/vnd.amazon.eventstream"),
    "empty-untyped": plain_answer(200, b"", "text/plain"),
    "204": (Head(204, length=0),),
    "206": plain_answer(206, FRAMES, "application/vnd.amazon.eventstream"),
    "304": (Head(304, length=0),),
    "gzip": (
        Head(headers=(("content-encoding", "gzip"),)),
        RawBytes(gzip.compress(FRAMES)),
    ),
    "gzip-bomb": (Head(headers=(("content-encoding", "gzip"),)), RawBytes(ZEROS)),
    "gzip-bomb-untyped": plain_answer(200, ZEROS, "text/plain", (("content-encoding", "gzip"),)),
    "frames-as-html": plain_answer(200, FRAMES, "text/html"),
    "short-body": (Head(length=10_000), RawBytes(FRAMES), CloseEarly()),
}


@ROUTE
@STREAM
async def test_a_foreign_answer_is_an_error(gateway, route, stream):
    """R22/R23: what is no answer of the service is a 502 with a bounded message, never something like a success."""
    door = gateway(retry={"attempts": 1})
    async with no_leak(door):
        for name, script in FOREIGN.items():
            door.simulator.enqueue(script)
            exchange = await door.ask(route, "x", stream=stream)
            if name == "short-body" and stream:
                assert broken(route, exchange) == "packed"
                continue
            status = exchange.status
            assert 400 <= status < 600, (name, status)
            message = refused(route, exchange, status)
            assert message and len(message) < 600, name
            assert "ksk_canary" not in exchange.content.decode(), name
        assert {request.headers["accept-encoding"] for request in door.simulator.requests} == {"identity"}
        await door.works(route)


@ROUTE
@STREAM
async def test_redirects_are_not_followed(gateway, route, stream):
    """R23/R40: nobody else is asked, and nobody else sees the credential."""
    door = gateway(retry={"attempts": 1})
    async with serve() as other:
        location = (("location", f"{other.url}/generateAssistantResponse"),)
        for status in (301, 302, 303, 307, 308):
            door.simulator.forget()
            door.simulator.enqueue(plain_answer(status, b"", "text/plain", location))
            exchange = await door.ask(route, "x", stream=stream)

            assert 400 <= exchange.status < 600
            assert refused(route, exchange, exchange.status)
            assert other.connections_opened == 0
            assert len(door.simulator.requests) == 1
            assert "location" not in exchange.headers


async def test_the_strict_parser_is_strict():
    """The judge itself: what it must refuse, it refuses."""
    for wrong in ("NaN", "-Infinity", "1e400", '{"a":1,"a":2}', '"\\ud800"', "9" * 30):
        with pytest.raises((AssertionError, UnicodeEncodeError)):
            strict(wrong)
