"""Requests in the Gemini API to Gemini itself: they go on as they are, and answers come back as they are."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kiro_asgi import create_app
from kiro_asgi.dialects.gemini.content import sealed
from kiro_asgi.model.prompt import ThinkingPart
from kiro_asgi.simulator import Head, Layout, Pause, RawBytes
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post

pytestmark = pytest.mark.anyio

MODEL = "gemini-2.5-flash"
BODY = b'{ "contents": [{"parts": [{"text": "say \\"model\\": 1.0"}]}],\n "novel": {"x": 1.0} }'
FIRST = (
    b'data: {"candidates": [{"content": {"role": "model","parts": [{"text": "One"}]},"index": 0}],"novel": 1.0}\r\n\r\n'
)
LAST = (
    b'data: {"candidates": [{"content": {"role": "model","parts": [{"text": ", two."}]},"finishReason": "STOP"}],'
    b'"usageMetadata": {"promptTokenCount": 11,"cachedContentTokenCount": 4,"candidatesTokenCount": 2,'
    b'"thoughtsTokenCount": 7},"modelVersion": "gemini-2.5-flash"}\r\n\r\n'
)
WHOLE = json.dumps(json.loads(LAST[6:]), indent=2).encode()
FAILED = b'data: {"error": {"code": 503,"message": "busy","status": "UNAVAILABLE"}}\r\n\r\n'
STREAM, COLLECT = "streamGenerateContent", "generateContent"
EACH_MODE = pytest.mark.parametrize("verb", [STREAM, COLLECT])


def asking(verb: str, body: Any = BODY, model: str = MODEL) -> Exchange:
    query = b"alt=sse&key=k" if verb == STREAM else b""
    return post(f"/v1beta/models/{model}:{verb}", body, query_string=query)


def events(data: bytes, *more: Any, chunk: int | None = None) -> tuple[Any, ...]:
    layout = Layout() if chunk is None else Layout(chunk=chunk)
    return (Head(content_type="text/event-stream", layout=layout), RawBytes(data), *more)


def answered(verb: str) -> tuple[Any, ...]:
    return events(FIRST + LAST) if verb == STREAM else (Head(content_type="application/json"), RawBytes(WHOLE))


@pytest.fixture
async def direct(sim):
    apps = []

    def make(**slices: Any):
        gemini = {"endpoint": sim.url, "api_key": "upstream-key", **slices.pop("gemini", {})}
        rows = {"models": [f"{MODEL}=gemini", f"mine=gemini/{MODEL}"]}
        apps.append(create_app(settings_for(sim.url, {"gemini": gemini, "routing": rows, **slices})))
        return apps[-1]

    yield make
    for app in apps:
        await app.aclose()


@EACH_MODE
@pytest.mark.parametrize("model", [MODEL, "mine"])
async def test_bytes_go_on_as_they_are(direct, sim, verb, model, caplog):
    """Whatever the client calls the model: its name stands in the address, which is ours, as the key is."""
    sim.enqueue(answered(verb), operation="gemini.chat")
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        exchange = await asking(verb, model=model).run(direct())

    (request,) = sim.requests
    assert (request.body, request.headers["x-goog-api-key"]) == (BODY, "upstream-key")
    assert (request.path, request.query) == (f"/v1beta/models/{MODEL}:{verb}", "alt=sse" if verb == STREAM else "")
    assert exchange.content == (FIRST + LAST if verb == STREAM else WHOLE)
    assert exchange.headers["content-type"].startswith("text/event-stream" if verb == STREAM else "application/json")
    assert "tokens=7+9 " in caplog.messages[-1], "cached tokens are apart, thoughts are among those of the answer"


@pytest.mark.parametrize("chunk", [1, 50])
async def test_cuts_leave_no_trace(direct, sim, chunk):
    sim.enqueue(events(FIRST + LAST, chunk=chunk), operation="gemini.chat")
    assert (await asking(STREAM).run(direct())).content == FIRST + LAST


async def test_an_answer_that_begins_with_an_error_is_asked_for_again(direct, sim):
    sim.enqueue(events(FAILED), events(FIRST + LAST), operation="gemini.chat")
    assert (await asking(STREAM).run(direct())).content == FIRST + LAST
    assert len(sim.requests) == 2


@pytest.mark.parametrize("rest", [b"", FAILED])
async def test_an_answer_that_breaks_off_ends_with_an_error_of_ours(direct, sim, rest):
    sim.enqueue(events(FIRST + rest), operation="gemini.chat")
    told = (await asking(STREAM).run(direct())).content
    begin, error, *_ = told.replace(b"\r\n", b"\n").split(b"\n\n")
    assert begin == FIRST.strip()
    assert json.loads(error.removeprefix(b"data: "))["error"]["code"] >= 500


async def test_a_sign_of_life_is_no_comment(direct, sim):
    """Google's clients take a comment for an error."""
    sim.enqueue((*events(FIRST)[:1], Pause(0.3), RawBytes(FIRST), Pause(0.3), RawBytes(LAST)), operation="gemini.chat")
    told = (await asking(STREAM).run(direct(stream={"heartbeat": 0.1, "early_commit_after": 0.05}))).content
    before, within, after = told.partition(FIRST)
    assert before.strip(b"\n") == b"", "before the answer"
    assert within, "the first event, whole"
    assert after.removesuffix(LAST).strip(b"\n") == b"", "within the answer"
    assert before, "there was none before"
    assert after != LAST, "there was none within"


async def test_thoughts_are_translated_where_they_are_not_to_be_handed_back(direct, sim):
    """The operator's ``replay_thinking = false`` is the gateway's to do."""
    body = json.dumps({"contents": THROUGH["thoughts"]["contents"]}).encode()
    sim.enqueue(events(FIRST + LAST), operation="gemini.chat")
    await asking(COLLECT, body).run(direct(gemini={"replay_thinking": False}))
    assert b"thoughtSignature" not in sim.requests[0].body


SIGNED = sealed([ThinkingPart("Hm.", "signature")])
THOUGHT = {"text": "Hm.", "thought": True, "thoughtSignature": "AAAA"}
CALLING = {"functionCallingConfig": {"mode": "NONE"}}
TRANSLATED = {
    "tools.calls": {"tools": [{"functionDeclarations": [{"name": "now"}]}]},
    "tools.choice": {"toolConfig": CALLING},
    "snake_case": {"tool_config": {"function_calling_config": {"mode": "NONE"}}},
    "output.checked": {"generationConfig": {"responseMimeType": "application/json"}},
    "thinking.asked": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    "signatures.foreign": {
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [{"text": "Ho", "thoughtSignature": SIGNED}]},
            {"role": "user", "parts": [{"text": "Go on."}]},
        ]
    },
}
THROUGH = {
    "plain": {},
    "sampling": {"generationConfig": {"temperature": 0.5, "candidateCount": 1}},
    "safety": {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
    "served": {"tools": [{"codeExecution": {}}]},
    "cached": {"cachedContent": "cachedContents/x"},
    "thoughts": {
        "contents": [{"parts": [{"text": "Hi"}]}, {"role": "model", "parts": [THOUGHT]}, {"parts": [{"text": "?"}]}]
    },
}


@pytest.mark.parametrize("name", [*TRANSLATED, *THROUGH])
async def test_what_goes_through(direct, sim, name):
    """What is ours to do keeps a request from it; what only Google knows goes on."""
    more = TRANSLATED.get(name) or THROUGH.get(name) or {}
    body = json.dumps({"contents": [{"parts": [{"text": "sim:text"}]}], **more}).encode()
    objects = FIRST.replace(b"One", b"{") + LAST.replace(b", two.", b"}")  # which is JSON, too
    sim.enqueue(answered(COLLECT) if name in THROUGH else events(objects), operation="gemini.chat")
    exchange = await asking(COLLECT, body).run(direct())

    (request,) = sim.requests
    assert (request.body == body) is (name in THROUGH)
    assert exchange.status == 200


@pytest.mark.parametrize(
    "slices",
    [{"stream": {"relay": "never"}}, {"gemini": {"safety_threshold": "BLOCK_NONE"}}],
    ids=["never", "threshold"],
)
async def test_the_operator_may_want_it_translated(direct, sim, slices):
    sim.enqueue(events(FIRST + LAST), operation="gemini.chat")
    assert (await asking(COLLECT).run(direct(**slices))).status == 200
    assert sim.requests[0].body != BODY


async def test_an_array_is_translated(direct, sim):
    """Those who do not ask for events get one array, which Google is not asked for."""
    sim.enqueue(events(FIRST + LAST), operation="gemini.chat")
    exchange = await post(f"/v1beta/models/{MODEL}:{STREAM}", {"contents": [{"parts": [{"text": "Hi"}]}]}).run(direct())
    assert isinstance(json.loads(exchange.content), list)


async def test_a_body_that_is_none(direct, sim):
    exchange = await asking(COLLECT, b"[]").run(direct())
    assert (exchange.status, exchange.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert not sim.requests
