"""The library face: whole answers in, whole answers out, however the bytes are cut."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kiro_asgi import KiroAsgiError, UpstreamError, streaming
from kiro_asgi.model.events import ContextUsage, Stop, StopReason, TextDelta
from kiro_asgi.model.message import TextBlock
from kiro_asgi.wire.sse import SseDecoder
from tests.helpers import byte_by_byte, cut, kiro_event, kiro_exception, kiro_stream, kiro_text, run

pytestmark = pytest.mark.anyio

MODEL = "claude-sonnet-4.5"


async def chunked(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def taken(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


def finished(work: Any) -> Any:
    """Run a coroutine that awaits nothing but other such coroutines."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the library waited for something")


def objects(data: bytes) -> list[Any]:
    """The JSON of every server-sent event."""
    events = run(SseDecoder(), [data])
    return [json.loads(event.data) for event in events if event.data != "[DONE]"]


def tool(call_id: str, name: str, *fragments: str, stop: bool = True) -> list[tuple[str, Any]]:
    ident = {"name": name, "toolUseId": call_id}
    events = [("toolUseEvent", ident), *(("toolUseEvent", {**ident, "input": part}) for part in fragments)]
    return [*events, ("toolUseEvent", {**ident, "stop": True})] if stop else events


TRAILER = [
    ("contextUsageEvent", {"contextUsagePercentage": 1.5}),
    ("meteringEvent", {"usage": 0.01, "unit": "credit", "unitPlural": "credits"}),
]

ANSWERS = {
    "text": kiro_text(["Grüße ", "aus ", "東京 🗼"]),
    "thinking-tags": kiro_text(["<thin", "king>hm", "m</thinking>", "\n\nyes"]),
    "native-thinking": kiro_stream(
        ("reasoningContentEvent", {"text": "hm"}),
        ("reasoningContentEvent", {"signature": "c2ln"}),
        ("assistantResponseEvent", {"content": "yes"}),
        *TRAILER,
    ),
    "tool": kiro_stream(
        ("assistantResponseEvent", {"content": "Let me see."}), *tool("t1", "f", '{"a":', "1}"), *TRAILER
    ),
    "parallel": kiro_stream(*tool("t1", "f", '{"a":1}'), *tool("t2", "g"), *TRAILER),
    "interleaved": kiro_stream(
        *tool("t1", "f", '{"a":', stop=False),
        *tool("t2", "g", '{"b":', stop=False),
        ("toolUseEvent", {"name": "f", "toolUseId": "t1", "input": "1}"}),
        ("toolUseEvent", {"name": "g", "toolUseId": "t2", "input": "2}"}),
        ("toolUseEvent", {"name": "f", "toolUseId": "t1", "stop": True}),
        ("toolUseEvent", {"name": "g", "toolUseId": "t2", "stop": True}),
        *TRAILER,
    ),
    "cut-tool": kiro_stream(("assistantResponseEvent", {"content": "x"}), *tool("t1", "f", '{"a":"lon', stop=False)),
    "bad-tool": kiro_stream(*tool("t1", "f", '{"a":"lon'), *TRAILER),
    "length": kiro_text(["cut of"], stop_reason="MAX_TOKENS"),
    "bare": kiro_text(["no trailer at all"], stop_reason=None)[
        : len(kiro_stream(("assistantResponseEvent", {"content": "no trailer at all"})))
    ],
    "objects-in-text": b'noise {"content":"a \xc3\xbc"} more {"content":"b"}{"contextUsagePercentage":1.0}',
}

STREAMS: dict[str, Callable[..., AsyncIterator[bytes]]] = {
    "openai": streaming.stream_kiro_to_openai,
    "anthropic": streaming.stream_kiro_to_anthropic,
    "responses": streaming.stream_kiro_to_responses,
}
COLLECTORS = {
    "openai": streaming.collect_openai_response,
    "anthropic": streaming.collect_anthropic_response,
    "responses": streaming.collect_responses_response,
}


UNREPEATED = ("id", "created", "created_at", "completed_at")


def without_ids(value: Any) -> Any:
    """The same, without what differs from answer to answer."""
    if isinstance(value, dict):
        return {key: without_ids(item) for key, item in value.items() if key not in UNREPEATED}
    return [without_ids(item) for item in value] if isinstance(value, list) else value


def content(dialect: str, data: bytes) -> dict[str, Any]:
    """What a stream says, joined: text, thinking, calls, and why it ended."""
    if dialect == "responses":
        (end,) = (item for item in objects(data) if item["type"] in RESPONSE_ENDS)
        return _response(end["response"])
    said: dict[str, Any] = {"text": "", "thinking": "", "calls": {}, "stop": None}
    for item in objects(data):
        if dialect == "openai":
            for choice in item["choices"]:
                delta = choice["delta"]
                said["text"] += delta.get("content") or ""
                said["thinking"] += delta.get("reasoning_content") or ""
                for call in delta.get("tool_calls", ()):
                    said["calls"].setdefault(call["index"], ["", ""])
                    said["calls"][call["index"]][0] += call["function"].get("name", "")
                    said["calls"][call["index"]][1] += call["function"].get("arguments", "")
                said["stop"] = choice["finish_reason"] or said["stop"]
        elif item["type"] == "content_block_start" and item["content_block"]["type"] == "tool_use":
            said["calls"][item["index"]] = [item["content_block"]["name"], ""]
        elif item["type"] == "content_block_delta":
            delta = item["delta"]
            said["text"] += delta.get("text", "")
            said["thinking"] += delta.get("thinking", "")
            if "partial_json" in delta:
                said["calls"][item["index"]][1] += delta["partial_json"]
        elif item["type"] == "message_delta":
            said["stop"] = item["delta"]["stop_reason"]
    return {**said, "calls": [(name, json.loads(text)) for name, text in said["calls"].values()]}


def collected(dialect: str, body: dict[str, Any]) -> dict[str, Any]:
    """What a whole answer says, in the same shape."""
    if dialect == "openai":
        choice = body["choices"][0]
        message = choice["message"]
        return {
            "text": message["content"] or "",
            "thinking": message.get("reasoning_content", ""),
            "stop": choice["finish_reason"],
            "calls": [
                (call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in message.get("tool_calls", ())
            ],
        }
    if dialect == "responses":
        return _response(body)
    blocks = body["content"]
    return {
        "text": "".join(block["text"] for block in blocks if block["type"] == "text"),
        "thinking": "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        "stop": body["stop_reason"],
        "calls": [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"],
    }


RESPONSE_ENDS = ("response.completed", "response.incomplete")


def _response(body: dict[str, Any]) -> dict[str, Any]:
    def joined(kind: str) -> str:
        parts = [part for item in body["output"] if item["type"] == kind for part in item.get("content", ())]
        return "".join(part["text"] for part in parts)

    calls = [item for item in body["output"] if item["type"] == "function_call"]
    return {
        "text": joined("message"),
        "thinking": joined("reasoning"),
        "stop": body["status"],
        "calls": [(call["name"], json.loads(call["arguments"])) for call in calls],
    }


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_stream_says_what_the_whole_says(dialect, answer):
    """Streamed and collected answers hold the same text, thinking, calls and stop reason (F005, F437, F445 to F448)."""
    data = b"".join(await taken(STREAMS[dialect](chunked([ANSWERS[answer]]), model=MODEL)))
    body = await COLLECTORS[dialect](chunked([ANSWERS[answer]]), model=MODEL)

    assert content(dialect, data) == collected(dialect, body)
    assert MODEL in data.decode()


@functools.cache
def in_one_piece(dialect: str, answer: str) -> tuple[Any, Any]:
    """What an answer says that arrives at once, streamed and collected."""
    data = ANSWERS[answer]
    streamed = b"".join(finished(taken(STREAMS[dialect](chunked([data]), model=MODEL))))
    return content(dialect, streamed), without_ids(finished(COLLECTORS[dialect](chunked([data]), model=MODEL)))


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("answer", ANSWERS)
@given(cuts=st.lists(st.integers(0, 4000), max_size=30))
@example(cuts=[*range(4000)]).via("byte by byte")
def test_where_the_bytes_are_cut_does_not_matter(dialect, answer, cuts):
    """However the bytes arrive, the same events come out (R16, F102 to F104)."""
    data = ANSWERS[answer]
    streamed, whole = in_one_piece(dialect, answer)
    apart = finished(taken(STREAMS[dialect](chunked(cut(data, cuts)), model=MODEL)))

    assert content(dialect, b"".join(apart)) == streamed
    assert without_ids(finished(COLLECTORS[dialect](chunked(cut(data, cuts)), model=MODEL))) == whole


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param("text", ("Grüße aus 東京 🗼", "", [], "stop"), id="text"),
        pytest.param("thinking-tags", ("yes", "hmm", [], "stop"), id="thinking-tags"),
        pytest.param("native-thinking", ("yes", "hm", [], "stop"), id="native-thinking"),
        pytest.param("tool", ("Let me see.", "", [("f", {"a": 1})], "tool_calls"), id="tool"),
        pytest.param("parallel", ("", "", [("f", {"a": 1}), ("g", {})], "tool_calls"), id="parallel"),
        pytest.param("interleaved", ("", "", [("f", {"a": 1}), ("g", {"b": 2})], "tool_calls"), id="interleaved"),
        pytest.param("cut-tool", ("x", "", [], "length"), id="cut-without-a-trailer"),
        pytest.param("bad-tool", ("", "", [], "length"), id="stopped-with-invalid-json"),
        pytest.param("length", ("cut of", "", [], "length"), id="length"),
        pytest.param("bare", ("no trailer at all", "", [], "stop"), id="no-trailer"),
        pytest.param("objects-in-text", ("a üb", "", [], "stop"), id="objects-in-text"),
    ],
)
async def test_what_an_answer_says(answer, expected):
    """Every kind of answer comes out as what it means (F197, F209, decisions on the end of a stream)."""
    said = collected("openai", await streaming.collect_openai_response(chunked([ANSWERS[answer]]), model=MODEL))

    assert (said["text"], said["thinking"], said["calls"], said["stop"]) == expected


async def test_a_collected_answer_keeps_the_most_complete_call():
    """Of calls with one id the most complete arguments win, over the whole answer (F199, F439)."""
    data = kiro_stream(*tool("t1", "f"), *tool("t1", "f", '{"a":1}'), *TRAILER)

    body = await streaming.collect_anthropic_response(chunked([data]), model=MODEL)

    assert collected("anthropic", body)["calls"] == [("f", {"a": 1})]


BROKEN = {
    "torn": kiro_text(["a"])[:-3],
    "exception": kiro_event("assistantResponseEvent", {"content": "a"}) + kiro_exception("ThrottlingException", "slow"),
    "checksum": kiro_event("assistantResponseEvent", {"content": "a"}) + kiro_event("x", {})[:-1] + b"\x00",
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_openai_stream_ends_in_its_own_error(broken):
    """What was said is delivered, then the API's error and its end, and the caller is told too (F078, F079, F085)."""
    got = []
    with pytest.raises(UpstreamError):
        async for data in streaming.stream_kiro_to_openai(chunked([BROKEN[broken]]), model=MODEL):
            got.append(data)

    last, alone = objects(b"".join(got))[-2:]
    assert alone == {"error": last["error"]}
    assert (last["choices"], last["error"]["code"]) == ([], "stream_error")
    assert got[-1].endswith(b"data: [DONE]\n\n")
    assert b'"content":"a"' in b"".join(got)
    assert b'"stop"' not in b"".join(got)


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_anthropic_stream_ends_in_its_own_error(broken):
    """What was said is delivered, then an error event and nothing else (F078, F079, F086, F291)."""
    got = []
    with pytest.raises(UpstreamError):
        async for data in streaming.stream_kiro_to_anthropic(chunked([BROKEN[broken]]), model=MODEL):
            got.append(data)

    types = [item["type"] for item in objects(b"".join(got))]
    assert types[-2:] == ["content_block_stop", "error"]
    assert "message_stop" not in types


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_responses_stream_ends_in_its_own_error(broken):
    """What was said is delivered, then an error, then the response that has failed (F304 to F307)."""
    got = []
    with pytest.raises(UpstreamError):
        async for data in streaming.stream_kiro_to_responses(chunked([BROKEN[broken]]), model=MODEL):
            got.append(data)

    types = [item["type"] for item in objects(b"".join(got))]
    assert types[-2:] == ["error", "response.failed"]
    assert "response.completed" not in types


@pytest.mark.parametrize(("summary", "member"), [("auto", "summary"), (None, "content")])
async def test_thinking_is_a_summary_where_that_is_wanted(summary, member):
    """The Responses API has two places for thinking (F315)."""
    data = [ANSWERS["native-thinking"]]
    body = await streaming.collect_responses_response(chunked(data), model=MODEL, reasoning_summary=summary)

    assert [part["text"] for part in body["output"][0][member]] == ["hm"]


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("data", [b"", kiro_exception("ThrottlingException", "slow down")], ids=["empty", "refused"])
async def test_a_failure_before_the_first_event_yields_nothing(stream, data):
    """Nothing is sent for an answer that never began, so it can still be tried again (F080, F089)."""
    got = []
    with pytest.raises(KiroAsgiError):
        async for item in stream(chunked([data]), model=MODEL):
            got.append(item)

    assert got == []


@pytest.mark.parametrize("collect", COLLECTORS.values(), ids=COLLECTORS)
@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_answer_is_never_collected(collect, broken):
    """An upstream error during collection is an error, not a shorter answer (F441)."""
    with pytest.raises(UpstreamError):
        await collect(chunked([BROKEN[broken]]), model=MODEL)


async def test_deltas_and_events():
    """Upstream bytes become deltas, and server-sent events become events (F147, F449, F450)."""
    deltas = await taken(streaming.parse_kiro_stream(chunked(byte_by_byte(kiro_text(["a", "b"])))))
    events = await taken(streaming.parse_sse_stream(chunked([b"event: x\ndata: 1\n", b"\ndata: 2\n\n"])))

    assert deltas[:4] == [TextDelta("a"), TextDelta("b"), Stop(StopReason.END), ContextUsage(1.5)]
    assert [(event.event, event.data) for event in events] == [("x", "1"), ("message", "2")]


async def test_usage_is_sent_where_it_is_wanted():
    """A usage chunk without choices comes before the end, only when asked for (F263)."""
    data = kiro_text(["a"])
    with_usage = b"".join(await taken(streaming.stream_kiro_to_openai(chunked([data]), model="m", include_usage=True)))
    without = b"".join(await taken(streaming.stream_kiro_to_openai(chunked([data]), model="m")))

    assert next(item for item in objects(with_usage) if not item["choices"])["usage"]["completion_tokens"] > 0
    assert all(item["choices"] for item in objects(without))


@pytest.mark.parametrize("stream", [*STREAMS.values(), streaming.parse_kiro_stream], ids=[*STREAMS, "deltas"])
async def test_a_stream_that_is_left_closes_its_source(stream):
    """Whoever stops reading and closes the stream has closed what it read from (F023)."""
    closed = []

    async def source():
        try:
            for _ in range(100):
                yield ANSWERS["tool"]
        finally:
            closed.append(True)

    answer = stream(source()) if stream is streaming.parse_kiro_stream else stream(source(), model=MODEL)
    await anext(answer)
    await answer.aclose()

    assert closed == [True]


def test_every_name_is_exported():
    """What the page promises can be imported (F451 to F456)."""
    assert [name for name in streaming.__all__ if not hasattr(streaming, name)] == []


@pytest.mark.parametrize("name", ANSWERS)
async def test_collects_a_neutral_message(name: str) -> None:
    """It has the text of the same answer as a client's API would show it, and that answer's tokens."""
    message = await streaming.collect_kiro_message(chunked([ANSWERS[name]]), input_tokens=3)
    body = await streaming.collect_openai_response(chunked([ANSWERS[name]]), model=MODEL, input_tokens=3)
    text = "".join(block.text for block in message.blocks if isinstance(block, TextBlock))

    assert text == (body["choices"][0]["message"]["content"] or "")
    assert message.usage.output_tokens == body["usage"]["completion_tokens"]
