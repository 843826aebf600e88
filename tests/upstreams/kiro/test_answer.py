"""Which stages read an answer, and the fallback for answers without frames."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import KiroAsgiError, UpstreamProtocolError, UpstreamThrottled
from kiro_asgi.limits import NOTICES
from kiro_asgi.model.events import (
    ContextUsage,
    FollowupPrompt,
    Metering,
    Notice,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.upstreams.kiro.answer import FrameEventDecoder
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.wire.eventstream import Frame
from tests.helpers import byte_by_byte, cut, kiro_stream, kiro_text, run, run_apart

FRAMES = "application/vnd.amazon.eventstream"
UNKNOWN = ["", "application/octet-stream", "text/plain; charset=utf-8", "application/x-ndjson"]


def decode(content_type: str, chunks: list[bytes], **settings: Any) -> list[Any]:
    return run_apart(Pipeline(*KiroUpstream(settings=KiroSettings(**settings)).decoder(content_type)), chunks)


def scanned(items: list[dict[str, Any]]) -> list[Any]:
    """What objects say of which no type is known."""
    return run(FrameEventDecoder(), [Frame({}, json.dumps(item).encode()) for item in items])


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param({"content": "a"}, [TextDelta("a")], id="F110"),
        pytest.param({"name": "f", "toolUseId": "i"}, [ToolCallFragment("i", "f")], id="F111"),
        pytest.param({"input": '{"a'}, [ToolCallFragment("", "", '{"a')], id="F112"),
        pytest.param({"stop": True}, [ToolCallFragment("", stop=True)], id="F113"),
        pytest.param({"followupPrompt": {"content": "?"}}, [FollowupPrompt({"content": "?"})], id="F114"),
        pytest.param({"usage": 0.5}, [Metering(0.5)], id="F115-number"),
        pytest.param({"usage": 0.5, "unit": "credit"}, [Metering(0.5, "credit")], id="F115-unit-beside"),
        pytest.param({"usage": {"usage": 2, "unit": "credit"}}, [Metering(2.0, "credit")], id="F115-unit-inside"),
        pytest.param({"usage": {"inputTokens": 3, "outputTokens": 4}}, [TokenUsage(3, 4)], id="F115-tokens"),
        pytest.param({"usage": {"input_tokens": 3, "output_tokens": 4}}, [TokenUsage(3, 4)], id="F115-tokens-snake"),
        pytest.param({"usage": {"unit": "credit"}}, [], id="F115-unit-only"),
        pytest.param({"usage": {"unit": "credit", "usage": 10**400}}, [], id="F115-no-number"),
        pytest.param({"contextUsagePercentage": 2}, [ContextUsage(2.0)], id="F116"),
        pytest.param({"stopReason": "END_TURN"}, [Stop(StopReason.END)], id="stop-reason"),
        pytest.param({"who": "knows"}, [Notice("event.unknown", "who")], id="unknown"),
        pytest.param({}, [], id="empty"),
    ],
)
def test_scanned_objects(item: dict[str, Any], expected: list[Any]) -> None:
    """Without frames, keys tell what an object is; a number or a record with a unit is a price, counts are tokens."""
    assert scanned([item]) == expected


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "content",
                "name",
                "input",
                "stop",
                "toolUseId",
                "followupPrompt",
                "usage",
                "contextUsagePercentage",
                "unit",
            ]
        ),
        st.none()
        | st.integers()
        | st.text()
        | st.dictionaries(st.sampled_from(["unit", "usage", "amount"]), st.integers()),
    )
)
def test_any_object_is_survived(item: dict[str, Any]) -> None:
    """R25: an object with known keys and any values gives deltas."""
    notices = [delta for delta in scanned([item]) if type(delta) is Notice]
    assert notices == ([Notice("event.unknown", "unit")] if item.keys() == {"unit"} else [])


EVENTS = [
    {"content": "Hel"},
    {"content": 'lo {"content":"no"} 😀'},
    {"name": "f", "toolUseId": "t"},
    {"input": '{"a"'},
    {"input": ":1}"},
    {"stop": True},
    {"usage": {"inputTokens": 7, "outputTokens": 3}},
    {"stopReason": "TOOL_USE"},
]
TEXT_TYPES = [FRAMES, "application/json", "application/x-amz-json-1.1", *UNKNOWN]


def _written(events: list[Any], form: str) -> bytes:
    texts = [json.dumps(event, ensure_ascii=False) for event in events]
    match form:
        case "pretty":
            texts = [json.dumps(event, indent=1) for event in events]
        case "list":
            texts = [json.dumps(events)]
    return ("\n" if form == "lines" else "").join(texts).encode()


@pytest.mark.parametrize("form", ["row", "lines"])
@pytest.mark.parametrize("content_type", TEXT_TYPES)
def test_events_in_a_row_are_one_answer_under_any_media_type(content_type: str, form: str) -> None:
    """F122, 5.1: whatever the service calls its text, and wherever that is cut."""
    body = _written(EVENTS, form)
    told = decode(content_type, [body])

    assert told == scanned(EVENTS)
    assert decode(content_type, byte_by_byte(body)) == told
    assert decode(content_type, [b" \n" + body]) == told


MESSAGES = [{"content": "Seven"}, {"content": "  "}, {"content": "degrees"}]
COUNTS = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}
DOCUMENTS = {
    "messages-first": {"outputMessages": MESSAGES, "usage": COUNTS, "stopReason": "MAX_TOKENS"},
    "counts-first": {"usage": COUNTS, "stopReason": "MAX_TOKENS", "outputMessages": MESSAGES},
    "a-key-of-its-own-first": {"id": "x", "usage": COUNTS, "outputMessages": MESSAGES, "stopReason": "MAX_TOKENS"},
    "in-a-list": [{"outputMessages": MESSAGES}, {"usage": COUNTS, "stopReason": "MAX_TOKENS"}],
}


@pytest.mark.parametrize("indent", [None, 1], ids=["compact", "pretty"])
@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("content_type", TEXT_TYPES)
def test_a_whole_answer_is_one_under_any_media_type(content_type: str, document: str, indent: int | None) -> None:
    """5.2: nothing of it is lost, in whatever order and form it is written."""
    body = json.dumps(DOCUMENTS[document], indent=indent).encode()
    whole = [TextDelta("Seven"), TextBreak(), TextBreak(), TextDelta("degrees"), TokenUsage(5, 3)]

    assert decode(content_type, [body]) == [*whole, Stop(StopReason.LENGTH)]
    assert decode(content_type, byte_by_byte(body)) == [*whole, Stop(StopReason.LENGTH)]


@pytest.mark.parametrize("content_type", TEXT_TYPES)
@pytest.mark.parametrize(
    "body",
    [b'{"accounts":[]}', b"[]", b"{}", b"<html>No.</html>", b'{"content":', b"\n", b'[{"a":{"content":1}}]', b"null"],
)
def test_what_holds_no_answer_is_an_error(content_type: str, body: bytes) -> None:
    """No client is told of success."""
    answer = build_pipeline(KiroUpstream().decoder(content_type), Plan())
    with pytest.raises(KiroAsgiError):
        deque([*answer.feed([body]), *answer.flush()])


@pytest.mark.parametrize("content_type", TEXT_TYPES)
def test_a_reported_error_is_one(content_type: str) -> None:
    """It has the service's words."""
    with pytest.raises(UpstreamThrottled, match="Slow down"):
        decode(content_type, [b'{"message":"Slow down","__type":"ThrottlingException"}'])


@pytest.mark.parametrize("content_type", [FRAMES, "Application/VND.amazon.eventstream; x=y", *UNKNOWN])
@pytest.mark.parametrize("split", [lambda data: [data], byte_by_byte], ids=["whole", "bytes"])
def test_frames_are_read_under_every_media_type(content_type: str, split: Any) -> None:
    """F090: frames are read where the media type names them, and recognised elsewhere, however they are cut."""
    deltas = decode(content_type, split(kiro_text(["grüß ", "dich"])))
    assert deltas[:3] == [TextDelta("grüß "), TextDelta("dich"), Stop(StopReason.END)]


@pytest.mark.parametrize("content_type", UNKNOWN)
@given(cuts=st.lists(st.integers(0, 200), max_size=6))
def test_embedded_objects_are_read_where_the_type_is_unknown(content_type: str, cuts: list[int]) -> None:
    """What does not begin like a frame is searched for objects, however it is cut."""
    data = 'noise{"content":"grüß"}\n\x00{"contentX":1}{"contextUsagePercentage":2}'.encode()
    assert decode(content_type, cut(data, cuts)) == [TextDelta("grüß"), ContextUsage(2.0)]


def test_damaged_objects_are_notices() -> None:
    """F120: an object that is no JSON is dropped, those behind it are read, and a notice says how many were."""
    data = b'{"content":"a"}{"content":x}{"content":"b"}{"usage":?}{"stop":true}'
    known = [TextDelta("a"), TextDelta("b"), ToolCallFragment("", stop=True)]

    for chunks in ([data], byte_by_byte(data)):
        found = decode("", chunks)
        assert [it for it in found if not isinstance(it, Notice)] == known
        assert [it.code for it in found if isinstance(it, Notice)] == ["event.undecodable"] * 2


def test_damage_that_never_ends_is_not_told_for_ever() -> None:
    """F120: notices are bounded, whatever a service sends."""
    assert [it.code for it in decode("", [b'{"content":x}' * 1000])] == ["event.undecodable"] * NOTICES


def test_wrong_checksums_are_notices_where_they_are_tolerated() -> None:
    """F093: one for each frame, whether its media type was declared or recognised; none where nobody looks."""
    data = bytearray(kiro_text(["a"]))
    data[-1] ^= 1
    for content_type in (FRAMES, ""):
        found = decode(content_type, [bytes(data * 2)], checksums="warn")
        assert found.count(Notice("frame.checksum")) == 2
        assert Notice("frame.checksum") not in decode(content_type, [bytes(data * 2)], checksums="off")


def test_short_bodies() -> None:
    """A body shorter than a frame's beginning is searched as well; an empty one says nothing."""
    assert decode("", []) == decode("", [b""]) == decode("", [b"hello"]) == []
    assert decode("", [b'{"stop":true}']) == [ToolCallFragment("", stop=True)]


@pytest.mark.parametrize("content_type", [FRAMES, *UNKNOWN])
@pytest.mark.parametrize("bit", range(12 * 8))
def test_a_damaged_beginning_is_never_searched_for_text(content_type: str, bit: int) -> None:
    """R13: no single wrong bit turns a frame into text in which objects are looked for."""
    data = bytearray(kiro_text(["a"]))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(UpstreamProtocolError):
        decode(content_type, [bytes(data)])


def test_checksums_can_be_ignored() -> None:
    """The setting reaches the frame decoder, declared or recognised."""
    data = bytearray(kiro_stream(("assistantResponseEvent", {"content": "a"})))
    data[-1] ^= 1
    for content_type in (FRAMES, ""):
        assert decode(content_type, [bytes(data)], checksums="off") == [TextDelta("a")]
        with pytest.raises(UpstreamProtocolError):
            decode(content_type, [bytes(data)])


@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=utf-8", "image/png", "text/event-stream"])
def test_foreign_media_types_are_refused(content_type: str) -> None:
    """R23: a page is no answer."""
    with pytest.raises(UpstreamProtocolError) as caught:
        KiroUpstream().decoder(content_type)
    assert caught.value.code == "upstream.content_type"


def test_error_report_with_status_200() -> None:
    """R23: an error report is one even under the status of a success."""
    body = json.dumps({"message": "slow down", "reason": "USER_REQUEST_RATE_EXCEEDED"}).encode()
    with pytest.raises(UpstreamThrottled, match="slow down"):
        decode("application/json", byte_by_byte(body))


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"message": "hello"}', b"[" * 100_000, b'{"usage": 5}', b'{"content": {}}', b"[null]"]
)
def test_json_without_an_answer(body: bytes) -> None:
    """R23: a JSON document in which there is no answer is no success."""
    with pytest.raises(UpstreamProtocolError) as caught:
        decode("application/json", [body])
    assert caught.value.code == "upstream.content_type"


@given(st.lists(st.binary(max_size=40), max_size=5), st.sampled_from([FRAMES, *UNKNOWN, "application/json"]))
def test_any_bytes_give_deltas_or_our_errors(chunks: list[bytes], content_type: str) -> None:
    """R25: arbitrary bytes under every media type, whole or apart: the same deltas or an error of ours."""
    outcomes = []
    for parts in (chunks, [b"".join(chunks)]):
        try:
            outcomes.append(decode(content_type, parts))
        except KiroAsgiError as error:
            outcomes.append([repr(error)])
    assert outcomes[0] == outcomes[1]
