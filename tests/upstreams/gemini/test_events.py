"""The service's answers to deltas."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import (
    KiroAsgiError,
    NotTheUpstream,
    UpstreamFault,
    UpstreamProtocolError,
    UpstreamRejected,
    UpstreamThrottled,
)
from kiro_asgi.limits import NOTICES
from kiro_asgi.model.events import (
    Delta,
    Grounding,
    ModelName,
    Notice,
    SearchHit,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.model.message import TextBlock, ThinkingBlock, ToolCallBlock, fold
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.opaque import SameApi
from kiro_asgi.testing.grammar.events import check_events
from kiro_asgi.upstreams.gemini.answer import STOPS, stages
from tests.helpers import byte_by_byte, cut
from tests.stages.timing import assert_linear

END = Stop(StopReason.END)
SSE, JSON = "text/event-stream", "application/json; charset=UTF-8"


def chunk(*parts: Any, finish: str = "", **candidate: Any) -> dict[str, Any]:
    """One event with one candidate."""
    reason = {"finishReason": finish} if finish else {}
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": [*parts]}, **reason, **candidate}]}


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n" for event in events)


def numbered() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"call_{next(numbers)}"


def read_bytes(chunks: Sequence[bytes], content_type: str = SSE) -> list[Any]:
    pipeline = Pipeline[bytes, Delta](*stages(content_type, numbered()), SameApi("", ""))
    return [*pipeline.feed(chunks), *pipeline.flush()]


def read(*events: Any) -> list[Any]:
    return read_bytes([sse(*events)])


def shown(*parts: Any) -> list[Any]:
    """What some parts give, without the end."""
    *deltas, stop = read(chunk(*parts, finish="STOP"))
    assert stop == END
    return deltas


def error_of(*events: Any) -> KiroAsgiError:
    with pytest.raises(KiroAsgiError) as caught:
        read(*events)
    return caught.value


FUNCTION = {"name": "f", "args": {"a": 1}}
CALL = ToolCallFragment("call_1", "f", '{"a":1}', stop=True)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        pytest.param({"text": "Hi"}, [TextDelta("Hi")], id="F332-text"),
        pytest.param({"text": ""}, [], id="empty"),
        pytest.param({"text": "hm", "thought": True}, [ThinkingDelta("hm")], id="F333-thought"),
        pytest.param({"text": "Hi", "thought": False}, [TextDelta("Hi")], id="no-thought"),
        pytest.param({"functionCall": FUNCTION}, [CALL], id="F334-call"),
        pytest.param(
            {"functionCall": {"name": "f"}}, [ToolCallFragment("call_1", "f", "{}", stop=True)], id="no-arguments"
        ),
        pytest.param(
            {"functionCall": {"id": "x-1", "name": "f", "args": None}},
            [ToolCallFragment("x-1", "f", "{}", stop=True)],
            id="F206-own-id",
        ),
        pytest.param(
            {"functionCall": {"id": "not for clients", **FUNCTION}}, [CALL], id="an-id-that-no-client-would-take"
        ),
        pytest.param({"functionCall": {"args": {}}}, [Notice("tool_call.unnamed")], id="nobody-is-called"),
        pytest.param({"text": "Hi", "functionCall": None}, [TextDelta("Hi")], id="null-is-absent"),
        pytest.param(
            {"inlineData": {"mimeType": "image/png", "data": "iVBOR+/8="}},
            [TextDelta("![image](data:image/png;base64,iVBOR+/8=)")],
            id="image",
        ),
        pytest.param(
            {"inlineData": {"mimeType": "audio/wav", "data": "UklG"}},
            [TextDelta("[file](data:audio/wav;base64,UklG)")],
            id="file",
        ),
        pytest.param(
            {"inlineData": {"mimeType": "image/png", "data": "x) **y**"}},
            [Notice("event.malformed", "inlineData")],
            id="an-image-that-is-none",
        ),
        pytest.param(
            {"thought": True, "inlineData": {"mimeType": "image/png", "data": "iVBO"}},
            [Notice("event.unknown", "inlineData of a thought")],
            id="imagined",
        ),
        pytest.param(
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
            [TextDelta("\n```python\nprint(1)\n```\n")],
            id="code",
        ),
        pytest.param(
            {"executableCode": {"language": "x`\n", "code": "```\n````"}},
            [TextDelta("\n`````\n```\n````\n`````\n")],
            id="code-with-fences",
        ),
        pytest.param(
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
            [TextDelta("\n```\n1\n```\n")],
            id="run",
        ),
        pytest.param(
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
            [TextDelta("\n```\nOUTCOME_FAILED\nno\n```\n")],
            id="failed-run",
        ),
        pytest.param({"fileData": {"fileUri": "u"}}, [Notice("event.malformed", "fileData")], id="no-address"),
        pytest.param(
            {"fileData": {"fileUri": "https://f/(1)", "mimeType": "image/png"}},
            [TextDelta("![image](https://f/%281%29)")],
            id="file",
        ),
        pytest.param(
            {"inlineData": {"mimeType": "audio/L16;codec=pcm;rate=24000", "data": "QQ=="}},
            [TextDelta("[file](data:audio/L16;codec=pcm;rate=24000;base64,QQ==)")],
            id="parameters",
        ),
        pytest.param({"newPart": {}}, [Notice("content.unknown", "newPart")], id="unknown"),
    ],
)
def test_a_part(part: dict[str, Any], expected: list[Any]) -> None:
    """Parts become deltas by their kind, calls of functions among them (F458)."""
    assert shown(part) == expected


def test_parts_keep_their_order() -> None:
    """§2.2: calls, thinking and text of one event stand as the model gave them, not sorted by kind."""
    parts = {"functionCall": FUNCTION}, {"text": "t", "thought": True}, {"text": "a"}, {"functionCall": {"name": "g"}}

    assert shown(*parts) == [CALL, ThinkingDelta("t"), TextDelta("a"), ToolCallFragment("call_2", "g", "{}", stop=True)]


# Signatures.


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        pytest.param(
            {"text": "t", "thought": True}, [ThinkingDelta("t"), SignatureDelta("gemini.thought:S")], id="thought"
        ),
        pytest.param({"functionCall": FUNCTION}, [SignatureDelta("gemini.call:S"), CALL], id="call"),
        pytest.param({"text": "a"}, [TextDelta("a"), SignatureDelta("gemini.text:S")], id="text"),
        pytest.param({"text": ""}, [SignatureDelta("gemini.text:S")], id="F186-empty-text"),
        pytest.param({}, [SignatureDelta("gemini.text:S")], id="F186-alone"),
    ],
)
def test_a_signature(part: dict[str, Any], expected: list[Any]) -> None:
    """F335: it says on what it came: before a call, behind everything else."""
    assert shown({**part, "thoughtSignature": "S"}) == expected


def test_signatures_in_an_answer() -> None:
    """F182, F186, §2.3: each has a block of its own or seals its thinking, never text or a later thought."""
    parts = [
        {"text": "t", "thought": True, "thoughtSignature": "S1"},
        {"text": "a", "thoughtSignature": "S2"},
        {"text": "u", "thought": True},
        {"functionCall": FUNCTION, "thoughtSignature": "S3"},
        {"functionCall": {"name": "g"}},
        {"text": "", "thoughtSignature": "S4"},
    ]
    answer = build_pipeline(stages(SSE, numbered()), Plan())
    events = [*answer.feed([sse(chunk(*parts), chunk(finish="STOP"))]), *answer.flush()]

    check_events(events)
    assert fold(events).blocks == (
        ThinkingBlock("t", "gemini.thought:S1"),
        TextBlock("a"),
        ThinkingBlock("", "gemini.text:S2"),
        ThinkingBlock("u", "gemini.call:S3"),
        ToolCallBlock("call_1", "f", '{"a":1}'),
        ToolCallBlock("call_2", "g", "{}"),
        ThinkingBlock("", "gemini.text:S4"),
    )


# Calls that come again.


def call_with_id(known: str, **function: Any) -> dict[str, Any]:
    return {"functionCall": {"id": known, **FUNCTION, **function}}


@pytest.mark.parametrize(
    ("events", "ids"),
    [
        pytest.param([[call_with_id("x")], [call_with_id("x")]], ["x"], id="F202-same-id"),
        pytest.param([[call_with_id("x"), call_with_id("y")]], ["x", "y"], id="equal-but-for-the-id"),
        pytest.param([[call_with_id("x"), call_with_id("x", name="g")]], ["x", "call_1"], id="one-id-for-two"),
        pytest.param(
            [[call_with_id("x"), call_with_id("x", name="g")]] * 2, ["x", "call_1"], id="one-id-for-two-again"
        ),
        pytest.param([[{"functionCall": FUNCTION}]] * 3, ["call_1", "call_2", "call_3"], id="equal-without-ids"),
        pytest.param([[{"functionCall": FUNCTION}] * 2], ["call_1", "call_2"], id="two-in-one-event"),
        pytest.param(
            [[{"functionCall": FUNCTION, "thoughtSignature": "S"}]] * 2, ["gemini.call:S", "call_1"], id="its-signature"
        ),
    ],
)
def test_calls_that_come_again(events: list[list[Any]], ids: list[str]) -> None:
    """F202: services that repeat what they have sent repeat calls; each goes out once, with an id of its own.  Only an
    id or a signature tells a call that comes again from one that is made again: two equal calls are two calls."""
    *deltas, _ = read(*(chunk(*parts) for parts in events), chunk(finish="STOP"))

    assert [getattr(delta, "call_id", "") or delta.signature for delta in deltas] == ids


# The end.


@pytest.mark.parametrize("reason", [word for word, meaning in STOPS.items() if isinstance(meaning, StopReason)])
def test_why_it_ended(reason: str) -> None:
    """§1.3: natural ends, the limit and filters."""
    assert read(chunk({"text": "a"}, finish=reason)) == [TextDelta("a"), Stop(STOPS[reason])]


@pytest.mark.parametrize("reason", [word for word, meaning in STOPS.items() if not isinstance(meaning, StopReason)])
def test_an_answer_that_broke(reason: str) -> None:
    """§1.3: an answer that went wrong is a failure, named as the service names it."""
    error = error_of(chunk({"text": "a"}, finish=reason, finishMessage="secret words"))

    assert type(error) is (UpstreamRejected if reason == "MISSING_THOUGHT_SIGNATURE" else UpstreamFault)
    assert error.code == reason
    assert "secret" not in error.message


@pytest.mark.parametrize("reason", ["OTHER", "IMAGE_OTHER", "FINISH_REASON_UNSPECIFIED", "NEW_ONE"])
def test_another_reason(reason: str) -> None:
    """§1.3: it ends what there is, and is a failure where there is nothing."""
    assert read(chunk({"text": "a"}), chunk(finish=reason)) == [TextDelta("a"), Notice("stop.unknown", reason), END]
    error = error_of(chunk(finish=reason))
    assert type(error) is UpstreamFault
    assert error.code == "stream.empty"


def test_the_end_is_at_the_end() -> None:
    """§1.3: a reason may come twice, and more may follow it."""
    assert read(
        chunk({"text": "a"}, finish="STOP"),
        chunk({"text": "b"}),
        chunk(finish="MAX_TOKENS"),
        {"usageMetadata": {"promptTokenCount": 1}},
    ) == [TextDelta("a"), TextDelta("b"), TokenUsage(1), Stop(StopReason.LENGTH)]


@pytest.mark.parametrize("events", [[], [chunk({"text": "a"})], [{"usageMetadata": {"promptTokenCount": 1}}], [{}]])
def test_an_answer_that_was_cut(events: list[Any]) -> None:
    """An answer without a reason to end is never taken for a whole one."""
    error = error_of(*events)

    assert type(error) is UpstreamProtocolError
    assert error.code == "stream.cut"


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "BLOCK_REASON_UNSPECIFIED"])
def test_a_prompt_that_was_filtered(reason: str) -> None:
    """F339: no candidates, and no success either."""
    feedback = {"promptFeedback": {"blockReason": reason, "safetyRatings": []}}

    assert read(feedback) == [Stop(StopReason.CONTENT_FILTER)]
    answer = build_pipeline(stages(SSE, numbered()), Plan())
    assert check_events([*answer.feed([sse(feedback)]), *answer.flush()]).stop_reason is StopReason.CONTENT_FILTER


ERROR = {"error": {"code": 429, "message": "slow down, per minute", "status": "RESOURCE_EXHAUSTED"}}


LITELLM_ERROR = {"error": {"code": "429", "message": "Rate limit reached", "type": None}}


@pytest.mark.parametrize(
    "event", [ERROR, {"response": ERROR}, {**ERROR, "response": {"candidates": []}}, LITELLM_ERROR]
)
def test_an_error_in_the_middle(event: Any) -> None:
    """F339, §1.5: it is what the same report is with an HTTP status, and what came before it stands."""
    pipeline = Pipeline[bytes, Delta](*stages(SSE, numbered()), SameApi("", ""))
    deltas = pipeline.feed([sse(chunk({"text": "a"}, finish="STOP"), event)])

    assert next(deltas) == TextDelta("a")
    with pytest.raises(UpstreamThrottled):
        next(deltas)


# Reports.


@pytest.mark.parametrize(
    ("metadata", "usage"),
    [
        pytest.param(
            [
                {
                    "promptTokenCount": 10,
                    "cachedContentTokenCount": 4,
                    "candidatesTokenCount": 3,
                    "thoughtsTokenCount": 7,
                    "toolUsePromptTokenCount": 2,
                    "totalTokenCount": 22,
                }
            ],
            TokenUsage(8, 10, 4, None, 7),
            id="F336-all",
        ),
        pytest.param(
            [{"promptTokenCount": 9, "candidatesTokenCount": n} for n in (1, 2, 3)], TokenUsage(9, 3), id="F337-last"
        ),
        pytest.param([{"promptTokenCount": 9}, {"thoughtsTokenCount": 5}], TokenUsage(9, 5, None, None, 5), id="apart"),
        pytest.param([{"promptTokenCount": 0, "thoughtsTokenCount": 0}], None, id="nought"),
        pytest.param(
            [{"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}], None, id="nothing-at-all"
        ),
        pytest.param(
            [{"promptTokenCount": 3, "cachedContentTokenCount": 5}], TokenUsage(0, None, 5), id="never-below-nought"
        ),
        pytest.param([{"promptTokenCount": "9", "candidatesTokenCount": -1, "x": 1}], None, id="no-counts"),
        pytest.param([{}], None, id="nothing-said"),
    ],
)
def test_usage(metadata: list[Any], usage: TokenUsage | None) -> None:
    """§1.4, F336, F337: thoughts are output, what the cache held is not input twice, and it is told once."""
    events = [{**chunk({"text": "a"}), "usageMetadata": each} for each in metadata]

    assert read(*events, chunk(finish="STOP"))[len(events) : -1] == ([] if usage is None else [usage])


def test_the_model() -> None:
    """It is named once."""
    event = {**chunk({"text": "a"}), "modelVersion": "gemini-3"}

    assert read(event, event, chunk(finish="STOP")) == [ModelName("gemini-3"), TextDelta("a"), TextDelta("a"), END]


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(
            {
                "groundingMetadata": {
                    "webSearchQueries": ["q", " ", None, "r "],
                    "groundingChunks": [
                        {"web": {"uri": "https://a", "title": "A"}},
                        {"image": {}},
                        None,
                        {"retrievedContext": {"uri": "https://b"}},
                        {"web": {"uri": 1}},
                    ],
                    "groundingSupports": [],
                },
                "citationMetadata": {"citationSources": [{"uri": "https://c"}]},
            },
            [
                Grounding(
                    ("q", "r"),
                    (
                        SearchHit("A", "https://a"),
                        SearchHit("", ""),
                        SearchHit("", ""),
                        SearchHit("", "https://b"),
                        SearchHit("", ""),
                    ),
                )
            ],
            id="F316-F317-search",
        ),
        pytest.param(
            {"citationMetadata": {"citationSources": [{"uri": "https://c"}, {"startIndex": 1}]}},
            [Grounding((), (SearchHit("", "https://c"),))],
            id="citations",
        ),
        pytest.param({"groundingMetadata": {}, "citationMetadata": None}, [], id="F319-nothing"),
        pytest.param(
            {"urlContextMetadata": {"urlMetadata": []}}, [Notice("event.unknown", "urlContextMetadata")], id="ignored"
        ),
    ],
)
def test_what_was_read(candidate: Any, expected: list[Any]) -> None:
    """F316, F317: every query, and every source at its number."""
    assert read(chunk(finish="STOP", **candidate)) == [*expected, END]


def test_a_search_says_more_than_citations() -> None:
    """Citations that come behind the report of a search do not take its place."""
    search = {"groundingMetadata": {"webSearchQueries": ["q"]}}
    citations = {"citationMetadata": {"citations": [{"uri": "https://c"}]}}

    assert read(chunk(**search), chunk(finish="STOP", **citations)) == [Grounding(("q",)), END]


def test_other_candidates_are_passed_over() -> None:
    """One answer was asked for."""
    both = chunk({"text": "a"}, finish="STOP")
    both["candidates"].append({"index": 1, "content": {"parts": [{"text": "b"}]}, "finishReason": "SAFETY"})

    assert read(both) == [TextDelta("a"), Notice("event.unknown", "another candidate"), END]


# The bytes.


ANSWER = [
    {"response": {**chunk({"text": "hm", "thought": True}), "modelVersion": "m", "responseId": "r"}, "traceId": "t"},
    chunk({"text": 'é日🙂 {"a":["}'}),
    chunk({"functionCall": FUNCTION, "thoughtSignature": "S"}),
    {**chunk(finish="STOP"), "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2}},
]
EXPECTED = [
    ModelName("m"),
    ThinkingDelta("hm"),
    TextDelta('é日🙂 {"a":["}'),
    SignatureDelta("gemini.call:S"),
    CALL,
    TokenUsage(1, 2),
    END,
]
STREAM = sse(*ANSWER)
ARRAY = b"[" + b",\r\n".join(json.dumps(event, ensure_ascii=False, indent=2).encode() for event in ANSWER) + b"\n]\n"


@pytest.mark.parametrize("data", [STREAM, STREAM.replace(b"data: ", b"data:").replace(b"\r", b"")])
@given(st.lists(st.integers(0, 10_000)))
def test_a_stream_may_be_cut_anywhere(data: bytes, cuts: list[int]) -> None:
    """F327, F330, F338, §2.1: the deltas are the same, with or without a blank behind the name, wrapped or not."""
    assert read_bytes(cut(data, cuts)) == read_bytes(byte_by_byte(data)) == EXPECTED


@given(st.lists(st.integers(0, 10_000)))
def test_an_array_may_be_cut_anywhere(cuts: list[int]) -> None:
    """Without server-sent events, the same objects come as one array, in pieces."""
    assert read_bytes(cut(ARRAY, cuts), JSON) == EXPECTED


def test_a_whole_answer() -> None:
    """An answer in one go is one object."""
    assert read_bytes([json.dumps(chunk({"text": "a"}, finish="STOP")).encode()], JSON) == [TextDelta("a"), END]


def test_an_array_is_read_as_it_comes() -> None:
    """An event is given when it is whole, not when the array is."""
    pipeline = Pipeline[bytes, Delta](*stages(JSON, numbered()), SameApi("", ""))

    assert list(pipeline.feed([b"[" + json.dumps(chunk({"text": "a"})).encode()])) == [TextDelta("a")]


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"[{", ARRAY[: len(ARRAY) // 2], b"{]}"])
def test_an_array_that_was_cut(body: bytes) -> None:
    """Half an array is no answer, and neither is none."""
    with pytest.raises(UpstreamProtocolError) as caught:
        read_bytes([body], JSON)
    assert caught.value.code == "stream.cut"


def test_an_error_in_an_array() -> None:
    """§1.1: there, errors are the array's one element."""
    with pytest.raises(UpstreamThrottled):
        read_bytes([json.dumps([ERROR]).encode()], JSON)


def test_a_sentinel_is_no_event() -> None:
    """F331: the service sends none, some others do, and it does not stand for a reason."""
    assert read_bytes([STREAM + b"data: [DONE]\n\n"]) == EXPECTED
    with pytest.raises(UpstreamProtocolError):
        read_bytes([b"data: [DONE]\n\n"])


def test_a_line_that_is_no_json() -> None:
    """F329: one bad event costs a notice, and nothing else."""
    bad = b'data: {"candidates"\n\ndata: [1]\n\n'

    assert read_bytes([bad + STREAM]) == [*[Notice("event.undecodable")] * 2, *EXPECTED]


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xe4\xb8", b"\xed\xa0\x80", b"\xc0\xaf"])
def test_a_line_that_is_no_utf_8(bad: bytes) -> None:
    """F329: a line that would be JSON, but is not UTF-8, is skipped with a notice; none of it becomes text."""
    line = b'data: {"candidates":[{"content":{"parts":[{"text":"a%sb"}]}}]}\n\n' % bad

    assert read_bytes([line + STREAM]) == [Notice("event.undecodable", "not UTF-8"), *EXPECTED]


def test_an_element_of_an_array_that_is_no_utf_8() -> None:
    """F329: as of a line."""
    element = b'{"candidates":[{"content":{"parts":[{"text":"a\xffb"}]}}]}'

    found = read_bytes([b"[" + element + b"," + ARRAY[1:]], JSON)

    assert sorted(found, key=lambda delta: type(delta) is Notice) == [*EXPECTED, Notice("event.undecodable")]


def test_notices_are_bounded() -> None:
    """A service that sends nothing but nonsense does not fill the log."""
    assert len(read_bytes([b"data: no\n\n" * 1000 + STREAM])) == NOTICES + len(EXPECTED)


def test_a_page_is_no_answer() -> None:
    """Whatever is neither a stream nor JSON comes from somebody else."""
    with pytest.raises(NotTheUpstream):
        stages("text/html", numbered())


# Anything at all.

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1 << 60) | st.floats(0, 9) | st.sampled_from(["", "a", "OTHER", "`é"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall", "name"),
                    *("args", "id", "inlineData", "mimeType", "data", "executableCode", "codeExecutionResult"),
                    *("output", "groundingMetadata", "webSearchQueries", "groundingChunks", "web", "uri", "index"),
                    *("finishReason", "usageMetadata", "promptTokenCount", "promptFeedback", "blockReason"),
                    *("response", "error", "code"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in entries for place in places(inner, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed = value.copy()
    changed[path[0]] = replaced(value[path[0]], path[1:], new)
    return changed


WHOLE: dict[str, Any] = {
    **chunk(
        {"text": "t", "thought": True, "thoughtSignature": "S"},
        {"functionCall": {"id": "x", **FUNCTION}, "thoughtSignature": "S"},
        {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        finish="STOP",
        groundingMetadata={"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "u", "title": "t"}}]},
        citationMetadata={"citationSources": [{"uri": "u"}]},
    ),
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "thoughtsTokenCount": 3},
    "promptFeedback": {"blockReason": "SAFETY"},
    "modelVersion": "m",
    "error": None,
}


@given(st.lists(st.tuples(st.sampled_from(places(WHOLE)), VALUES), min_size=1, max_size=3), st.data())
def test_anything_in_any_place(changes: list[tuple[tuple[Any, ...], Any]], data: st.DataObject) -> None:
    """Whatever stands where something else is expected is passed over, or is an error that has a name."""
    event: Any = WHOLE
    for path, value in changes:
        if path in places(event):
            event = replaced(event, path, value)
    stream = sse({"response": event} if data.draw(st.booleans()) else event)
    answer = build_pipeline(stages(SSE, numbered()), Plan())
    try:
        events = [*answer.feed([stream]), *answer.flush()]
    except KiroAsgiError:
        return
    check_events(events)


def test_one_long_event_takes_linear_time() -> None:
    """F328: an event that comes in many pieces, up to 10 MB, is not put together again for each of them."""

    def make(size: int) -> Callable[[], object]:
        data = sse(chunk({"text": "x" * size}, finish="STOP"))
        pieces = [data[at : at + 1_000] for at in range(0, len(data), 1_000)]
        return lambda: read_bytes(pieces)

    assert_linear(make, 2_500_000)
