"""Streams and collected answers: their grammar, their content, and that nothing a party sends can break out of them."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.gemini.content import opened
from kiro_asgi.dialects.gemini.encoder import ArrayEncoder, SseEncoder, render
from kiro_asgi.dialects.gemini.parsing import GeminiOptions
from kiro_asgi.errors import UpstreamThrottled
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Event,
    MessageEnd,
    MessageStart,
    SearchHit,
    ServerCall,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolOutput,
    Usage,
)
from kiro_asgi.model.message import fold
from kiro_asgi.model.prompt import ThinkingPart
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, THOUGHT, marked
from kiro_asgi.testing.grammar import gemini as grammar
from tests.dialects.strategies import answers
from tests.growth import assert_linear
from tests.helpers import run, run_apart

HEADING = ResponseMeta("r1", "m", 1, GeminiOptions(grounded=True))
USAGE = Usage(7, 5, 2, 1, 3)


def answer(*blocks: list[Event], stop: StopReason = StopReason.END) -> list[Event]:
    return [MessageStart(), *(event for block in blocks for event in block), MessageEnd(stop, usage=USAGE)]


def block(kind: BlockKind, *deltas: Event, **fields: Any) -> list[Event]:
    return [BlockStart(0, kind, **fields), *deltas, BlockEnd(0)]


def parts(events: list[Event]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = candidate(events)["content"]["parts"]
    return found


def candidate(events: list[Event]) -> dict[str, Any]:
    """Of the answer, which is the same streamed in two ways and collected."""
    streamed = grammar.check(grammar.events(b"".join(run(SseEncoder(HEADING), events))))
    assert streamed == grammar.check(grammar.array(b"".join(run(ArrayEncoder(HEADING), events))))
    collected = json.loads(b"".join(render(fold(events), HEADING)))
    assert streamed == grammar.check([collected])
    found: dict[str, Any] = streamed["candidates"][0]
    return found


def call(call_id: str = "c1", arguments: str = '{"x":1}') -> list[Event]:
    return block(BlockKind.TOOL_CALL, ToolInputDelta(arguments), call_id=call_id, name="f")


def thinking(text: str, signature: str) -> list[Event]:
    return block(BlockKind.THINKING, ThinkingDelta(text), SignatureDelta(signature))


def test_an_ordinary_answer_byte_for_byte() -> None:
    """The text as it comes, then an empty one with the reason to end and the token counts."""
    events = answer(block(BlockKind.TEXT, TextDelta("hé\u2028")))
    before = 'data: {"candidates":[{"content":{"parts":['
    tail = ',"modelVersion":"m","responseId":"r1"}\n\n'
    expected = (
        before + '{"text":"hé\\u2028"}],"role":"model"},"index":0}]' + tail + before + '{"text":""}],"role":"model"},'
        '"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,'
        '"totalTokenCount":15,"cachedContentTokenCount":2,"thoughtsTokenCount":3}' + tail
    )
    assert b"".join(run(SseEncoder(HEADING), events)).decode() == expected


@given(answers())
def test_every_stream_obeys_the_grammar(events: list[Event]) -> None:
    """However its events come, a stream is the same, legal, and says what the collected answer says."""
    whole = b"".join(run(SseEncoder(HEADING), events))
    assert b"".join(run_apart(SseEncoder(HEADING), events)) == whole
    streamed = grammar.check(grammar.events(whole))
    assert streamed == grammar.check(grammar.array(b"".join(run_apart(ArrayEncoder(HEADING), events))))
    assert streamed == grammar.check([json.loads(b"".join(render(fold(events), HEADING)))])


@given(answers(), st.integers(0, 60))
def test_an_error_ends_a_stream(events: list[Event], at: int) -> None:
    """An event with the error, which is its only member and begins with the code, then the same as a bare object."""
    encoder = SseEncoder(HEADING)
    begun = b"".join(encoder.feed(events[:at]))
    *told, bare = b"".join(encoder.error(UpstreamThrottled("busy", retry_after=3))).split(b"\n\n") or [b""]
    if at >= len(events):
        assert not told and not bare
        return
    assert told == [b"data: " + bare.removesuffix(b"\n")]
    assert bare.startswith(b'{"error":{"code":429,') and bare.endswith(b"\n")
    assert list(json.loads(bare)) == ["error"]
    grammar.events(begun)


def test_an_error_ends_an_array() -> None:
    """As its last element, also where it is the first."""
    for events in ([], [MessageStart(), BlockStart(0, BlockKind.TEXT), TextDelta("a")]):
        encoder = ArrayEncoder(HEADING)
        stream = b"".join([*encoder.feed(events), *encoder.error(UpstreamThrottled("busy"))])
        assert json.loads(stream)[-1]["error"]["code"] == 429


def test_heartbeats_are_legal_anywhere() -> None:
    """Empty lines between events, white space between elements."""
    for encoder in (SseEncoder(HEADING), ArrayEncoder(HEADING)):
        stream = encoder.heartbeat
        for event in answer(block(BlockKind.TEXT, TextDelta("a"), TextDelta("b"))):
            stream += b"".join(encoder.feed([event])) + encoder.heartbeat
        stream += b"".join(encoder.flush())
        if isinstance(encoder, ArrayEncoder):
            assert len(json.loads(stream)) == 3
        else:
            assert len([line for line in stream.split(b"\n") if line]) == 3
            assert all(line.startswith(b"data: ") for line in stream.split(b"\n") if line)


@pytest.mark.parametrize("stop", list(StopReason), ids=lambda stop: stop.value)
def test_every_reason_to_end_has_a_word(stop: StopReason) -> None:
    """Calls have none: clients look at the parts."""
    words = {
        StopReason.LENGTH: "MAX_TOKENS",
        StopReason.CONTEXT_FULL: "MAX_TOKENS",
        StopReason.PAUSED: "MAX_TOKENS",
        StopReason.COMPACTED: "MAX_TOKENS",
        StopReason.CONTENT_FILTER: "SAFETY",
        StopReason.REFUSAL: "SAFETY",
    }
    assert candidate(answer(call(), stop=stop))["finishReason"] == words.get(stop, "STOP")


def test_calls_are_told_whole() -> None:
    """However their arguments were spelled, they stand on one line; they are never told in pieces."""
    events = answer(call(arguments='{\n "x": "\u2028"}'), call("c2", "{}"))
    assert parts(events) == [
        {"functionCall": {"id": "c1", "name": "f", "args": {"x": "\u2028"}}},
        {"functionCall": {"id": "c2", "name": "f", "args": {}}},
    ]


def test_a_call_that_was_cut_is_not_told() -> None:
    """Nobody could make it; the reason to end says that something is missing."""
    events = answer(call(arguments='{"x": [1'), stop=StopReason.LENGTH)
    streamed = grammar.check(grammar.events(b"".join(run(SseEncoder(HEADING), events))))
    assert streamed["candidates"][0]["content"]["parts"] == []


@pytest.mark.parametrize(
    ("kind", "where"),
    [(CALL, {"functionCall"}), (TEXT, {"text"}), (THOUGHT, {"text", "thought"})],
)
def test_signatures_of_gemini_stay_where_they_were(kind: str, where: set[str]) -> None:
    """They are told as Google wrote them, on a part of the same kind."""
    events = answer(
        block(BlockKind.TEXT, TextDelta("a")),
        block(BlockKind.THINKING, SignatureDelta(marked(GEMINI, kind, "AA+/"))),
        call(),
    )
    (signed,) = [part for part in parts(events) if "thoughtSignature" in part]
    assert signed["thoughtSignature"] == "AA+/"
    assert signed.keys() == {*where, "thoughtSignature"}


def test_thinking_of_others_stands_on_the_next_call() -> None:
    """With its text, since there are clients that keep nothing but calls; the rest stands on the last part."""
    redacted = block(BlockKind.REDACTED_THINKING, data="hidden")
    events = answer(
        thinking("why", "sig"), redacted, block(BlockKind.TEXT, TextDelta("a")), call(), call("c2"), thinking("b", "s")
    )
    told = parts(events)
    first, second = (part for part in told if "functionCall" in part)
    assert opened(first["thoughtSignature"]) == (ThinkingPart("why", "sig"), ThinkingPart(redacted="hidden"))
    assert "thoughtSignature" not in second
    assert opened(told[-1]["thoughtSignature"]) == (ThinkingPart("b", "s"),)


def test_a_signature_that_is_no_base64_is_put_into_an_envelope() -> None:
    """Official clients refuse a whole piece of an answer for it."""
    signature = marked(GEMINI, CALL, "no base64!")
    (told,) = parts(answer(block(BlockKind.THINKING, SignatureDelta(signature)), call()))
    assert opened(told["thoughtSignature"]) == (ThinkingPart("", signature),)


def test_pages_are_told_with_their_places_in_bytes() -> None:
    """Searches, pages in order, and which part of the text rests on which page."""
    search = ServerCall("s1", "web_search", "web_search", {"query": "q"})
    found = ToolOutput((SearchHit("T", "https://a/"),), reworded=True)
    events = answer(
        block(BlockKind.SERVER_CALL, value=search),
        block(BlockKind.SERVER_RESULT, value=ServerResult(search, found)),
        block(BlockKind.TEXT, TextDelta("é "), TextDelta("añb."), Citation(4, 1, "T", "https://a/")),
    )
    assert candidate(events)["groundingMetadata"] == {
        "webSearchQueries": ["q"],
        "groundingChunks": [{"web": {"uri": "https://a/", "title": "T"}}],
        "groundingSupports": [
            {"segment": {"startIndex": 3, "endIndex": 7, "text": "añb"}, "groundingChunkIndices": [0]}
        ],
    }


def test_work_grows_with_the_answer() -> None:
    """R24: many deltas, calls, and thoughts that wait for the last part."""

    def texts(count: int) -> list[Event]:
        return answer(block(BlockKind.TEXT, *[TextDelta("a")] * count))

    def calls(count: int) -> list[Event]:
        return answer(*(call(f"c{number}") for number in range(count)))

    def thoughts(count: int) -> list[Event]:
        return answer(*(thinking("t", "anthropic:s") for _ in range(count)))

    for events in (texts, calls, thoughts):
        assert_linear(lambda count, events=events: partial(_drain, events(count)), 50)  # type: ignore[misc]


def _drain(events: list[Event]) -> int:
    return sum(map(len, run(SseEncoder(HEADING), events)))
