from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic._models import validate_type
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message as SdkMessage
from anthropic.types import RawMessageStreamEvent
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicEncoder, AnthropicMessages
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.errors import AnswerTooLarge, UpstreamFault
from kiro_asgi.limits import ANSWER_BYTES
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockMembers,
    BlockStart,
    Citation,
    Event,
    MessageEnd,
    MessageStart,
    RefusalDelta,
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
from kiro_asgi.model.signatures import UNSIGNED
from kiro_asgi.model.unread import Unread
from kiro_asgi.testing.grammar.messages import check, check_cut, parse_sse
from tests.dialects.strategies import TEXT, answers
from tests.helpers import run, run_apart

DIALECT = AnthropicMessages()
HEADING = ResponseMeta("msg_1", "m", 1)
START = MessageStart(Usage(input_tokens=7))
END = MessageEnd(StopReason.END, usage=Usage(7, 3))


def stream(*events: Event, meta: ResponseMeta = HEADING, dialect: AnthropicMessages = DIALECT) -> bytes:
    return b"".join(run(dialect.encoder(meta), events))


SEARCH = ServerCall("tooluse_a-1", "web_search", "web_search", {"query": "q"})
HITS = (SearchHit("t", "https://a/", "snippet", "2026-03-14"),)
HIT = {
    "type": "web_search_result",
    "title": "t",
    "url": "https://a/",
    "encrypted_content": "plain.c25pcHBldA==",
    "page_age": "2026-03-14",
}


def block(kind: BlockKind, *pieces: Event, index: int = 0, **fields: Any) -> list[Event]:
    return [BlockStart(index, kind, **fields), *pieces, BlockEnd(index)]


def test_an_ordinary_answer_byte_for_byte() -> None:
    """F267, F268, F270, F271, F278, F279, F459: the exact bytes of a short text answer."""
    expected = (
        'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
        '"role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,'
        '"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}\n\n'
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text",'
        '"text":""}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
        '"text":"héllo\\n"}}\n\n'
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
        '"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":3}}\n\n'
        'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )

    assert stream(START, *block(BlockKind.TEXT, TextDelta("héllo\n")), END).decode() == expected


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            block(BlockKind.THINKING, ThinkingDelta("a"), ThinkingDelta("b"), SignatureDelta("s")),
            [
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "a"},
                {"type": "thinking_delta", "thinking": "b"},
                {"type": "signature_delta", "signature": "s"},
            ],
            id="F180-F181-F182-thinking",
        ),
        pytest.param(
            block(BlockKind.THINKING, ThinkingDelta("a")),
            [
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "a"},
                {"type": "signature_delta", "signature": UNSIGNED},
            ],
            id="thinking-unsigned",
        ),
        pytest.param(
            block(BlockKind.REDACTED_THINKING, data="b64"),
            [{"type": "redacted_thinking", "data": "b64"}],
            id="redacted-thinking",
        ),
        pytest.param(
            block(BlockKind.TOOL_CALL, ToolInputDelta('{"a":1}'), call_id="toolu_1", name="f"),
            [
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"a":1}'},
            ],
            id="F205-F206-F207-F208-F210-F460-tool-call",
        ),
        pytest.param(
            block(BlockKind.TOOL_CALL, call_id="c", name="f"),
            [
                {"type": "tool_use", "id": "c", "name": "f", "input": {}},
                {"type": "input_json_delta", "partial_json": "{}"},
            ],
            id="F207-tool-call-without-arguments",
        ),
        pytest.param(
            block(
                BlockKind.TOOL_CALL, ToolInputDelta(""), ToolInputDelta("{"), ToolInputDelta("}"), call_id="c", name="f"
            ),
            [
                {"type": "tool_use", "id": "c", "name": "f", "input": {}},
                {"type": "input_json_delta", "partial_json": "{"},
                {"type": "input_json_delta", "partial_json": "}"},
            ],
            id="tool-call-in-pieces",
        ),
        pytest.param(
            block(BlockKind.SERVER_CALL, value=SEARCH),
            [
                {"type": "server_tool_use", "id": "srvtoolu_a1", "name": "web_search", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"query":"q"}'},
            ],
            id="F214-server-call",
        ),
        pytest.param(
            block(BlockKind.SERVER_RESULT, value=ServerResult(SEARCH, ToolOutput(HITS))),
            [{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_a1", "content": [HIT]}],
            id="F215-server-result",
        ),
    ],
)
def test_blocks(events: list[Event], expected: list[dict[str, Any]]) -> None:
    """Each kind of block has its start, its pieces and its stop, all with its index (F277)."""
    start, *pieces, stop = parse_sse(stream(*events))

    assert [start["content_block"], *(piece["delta"] for piece in pieces)] == expected
    assert stop == {"type": "content_block_stop", "index": 0}
    assert {event["index"] for event in (start, *pieces, stop)} == {0}


@pytest.mark.parametrize(
    ("end", "delta"),
    [
        pytest.param(MessageEnd(StopReason.END), {"stop_reason": "end_turn", "stop_sequence": None}, id="F280-end"),
        pytest.param(
            MessageEnd(StopReason.TOOL_CALL), {"stop_reason": "tool_use", "stop_sequence": None}, id="F211-tool"
        ),
        pytest.param(
            MessageEnd(StopReason.LENGTH), {"stop_reason": "max_tokens", "stop_sequence": None}, id="F281-length"
        ),
        pytest.param(
            MessageEnd(StopReason.CONTEXT_FULL),
            {"stop_reason": "model_context_window_exceeded", "stop_sequence": None},
            id="context-full",
        ),
        pytest.param(
            MessageEnd(StopReason.STOP_SEQUENCE, "END"),
            {"stop_reason": "stop_sequence", "stop_sequence": "END"},
            id="stop-sequence",
        ),
        pytest.param(
            MessageEnd(StopReason.CONTENT_FILTER),
            {
                "stop_reason": "refusal",
                "stop_sequence": None,
                "stop_details": {"type": "refusal", "category": None, "explanation": None},
            },
            id="content-filter",
        ),
    ],
)
def test_stop_reasons(end: MessageEnd, delta: dict[str, Any]) -> None:
    """Every reason has its word, the same in a stream and in a body."""
    body = json.loads(b"".join(DIALECT.render(fold([START, end]), HEADING)))

    assert parse_sse(stream(START, end))[-2]["delta"] == delta
    assert {key: body[key] for key in delta} == delta


def test_usage_that_nobody_knows_does_not_overwrite_the_estimate() -> None:
    """An end without prompt tokens says nothing about them: clients would take the 0."""
    unknown = MessageEnd(StopReason.END, usage=Usage(output_tokens=3))
    cached = MessageEnd(StopReason.END, usage=Usage(0, 3, cache_read_tokens=9, thinking_tokens=2))

    assert parse_sse(stream(START, unknown))[-2]["usage"] == {"output_tokens": 3}
    assert parse_sse(stream(START, cached))[-2]["usage"] == {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 9,
        "output_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 2},
    }


CALL = (BlockStart(1, BlockKind.TOOL_CALL, "a", "look"), ToolInputDelta("{}"), BlockEnd(1))


@pytest.mark.parametrize("kind", [(BlockKind.TEXT, TextDelta), (BlockKind.REFUSAL, RefusalDelta)])
@pytest.mark.parametrize(
    ("pieces", "content"),
    [
        (None, []),
        ([], []),
        ([""], []),
        ([" ", "\n\n", "\t"], []),
        ([" ", "\n", "Hi", " "], ["text"]),
        (["Hi", "", " "], ["text"]),
        (["\n" * 9000, "\n" * 9000], []),
    ],
)
@pytest.mark.parametrize("more", [(), CALL])
def test_no_block_is_without_a_word(kind: Any, pieces: Any, content: Any, more: Any) -> None:
    """F282: the API refuses such text as input, and clients send back what they got; blanks before a word are kept."""
    block = [] if pieces is None else [BlockStart(0, kind[0]), *map(kind[1], pieces), BlockEnd(0)]
    events = [START, *block, *more, END]
    whole = json.loads(b"".join(DIALECT.render(fold(events), HEADING)))["content"]
    streamed = parse_sse(stream(*events))
    opened = [event["content_block"]["type"] for event in streamed if event["type"] == "content_block_start"]
    text = "".join(event["delta"].get("text", "") for event in streamed if event["type"] == "content_block_delta")

    assert opened == [*content, *["tool_use"] * bool(more)]
    assert [event["index"] for event in streamed if event["type"] == "content_block_start"] == [*range(len(opened))]
    assert text == ("".join(pieces) if content else "")
    assert [block["type"] for block in whole] == opened


@pytest.mark.parametrize("kind", [(BlockKind.TEXT, TextDelta), (BlockKind.REFUSAL, RefusalDelta)])
def test_all_that_comes_before_the_first_word_is_kept(kind: Any) -> None:
    """However many objects of members and blanks there are."""
    members = [BlockMembers(kind[0], Unread("anthropic", {f"x_{number}": 1})) for number in range(300)]
    blanks = [kind[1]("\n" * 100)] * 100
    streamed = parse_sse(stream(START, *block(kind[0], *members, *blanks, kind[1]("Hi")), END))
    deltas = [event["delta"] for event in streamed if event["type"] == "content_block_delta"]

    assert {name for delta in deltas for name in delta if name.startswith("x_")} == {f"x_{n}" for n in range(300)}
    assert "".join(delta["text"] for delta in deltas) == "\n" * 10_000 + "Hi"


@pytest.mark.parametrize(
    "piece", [BlockMembers(BlockKind.TEXT, Unread("anthropic", {"x": "y" * 1_000_000})), TextDelta(" " * 1_000_000)]
)
def test_what_comes_before_the_first_word_has_a_limit(piece: Event) -> None:
    """It waits in memory, whoever holds the events back."""
    encoder = DIALECT.encoder(HEADING)
    run(encoder, [START, BlockStart(0, BlockKind.TEXT), *[piece] * (ANSWER_BYTES // 1_010_000)])
    with pytest.raises(AnswerTooLarge):
        run(encoder, [piece] * 2)


def test_code_references_are_an_event_of_their_own_if_asked_for() -> None:
    """F283, F284: after the blocks, before `message_delta`; only if switched on and only if there are any."""
    reference = {"licenseName": "MIT", "repository": "a/b"}
    end = MessageEnd(StopReason.END, references=(reference,))
    text = block(BlockKind.TEXT, TextDelta("a"))
    loud = AnthropicMessages(emit_code_references=True)
    events = parse_sse(stream(START, *text, end, dialect=loud))

    assert [event["type"] for event in events[-4:]] == [
        "content_block_stop",
        "code_references",
        "message_delta",
        "message_stop",
    ]
    assert events[-3] == {"type": "code_references", "references": [reference]}
    assert check(stream(START, *text, end, dialect=loud))["content"] == [{"type": "text", "text": "a"}]
    assert b"code_references" not in stream(START, *text, end)
    assert b"code_references" not in stream(START, *text, END, dialect=loud)


@given(answers())
def test_every_stream_obeys_the_grammar(events: list[Event]) -> None:
    """R31, F282: start once, blocks closed and numbered, one end; whatever is fed when."""
    whole = run(DIALECT.encoder(HEADING), events)

    check(b"".join(whole))
    assert b"".join(run_apart(DIALECT.encoder(HEADING), events)) == b"".join(whole)
    assert all(part.endswith(b"\n\n") for part in whole)


@given(answers())
def test_a_stream_adds_up_to_the_body(events: list[Event]) -> None:
    """F005, F436, F438: a folded stream and a collected answer are the same message."""
    assert check(stream(*events)) == json.loads(b"".join(DIALECT.render(fold(events), HEADING)))


@given(answers())
def test_the_official_sdk_accepts_every_event(events: list[Event]) -> None:
    """The strict models of the official SDK take every event and the body, and its helper adds up to that body.

    Only its beta has compactions, see `tests.asgi.test_compacted`.
    """
    assume(getattr(events[-1], "stop_reason", None) is not StopReason.COMPACTED)
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for data in parse_sse(stream(*events)):
        event: Any = validate_type(type_=RawMessageStreamEvent, value=data)  # type: ignore[arg-type]
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    body = json.loads(b"".join(DIALECT.render(fold(events), HEADING)))
    expected = validate_type(type_=SdkMessage, value=body)

    assert [each.to_dict() for each in snapshot.content] == [each.to_dict() for each in expected.content]
    assert snapshot.stop_reason == expected.stop_reason
    assert snapshot.usage == expected.usage


@given(answers(), TEXT, TEXT)
def test_nothing_from_outside_leaves_its_string(events: list[Event], identity: str, model: str) -> None:
    """R26: names, ids, models and text cannot forge an event, whatever line ends they hold."""
    meta = ResponseMeta(identity, model, 1)
    data = stream(*events, meta=meta)
    plain = stream(*map(harmless, events))

    assert [event["type"] for event in parse_sse(data)] == [event["type"] for event in parse_sse(plain)]
    assert b"\r" not in data and b"\x00" not in data
    assert data.count(b"\n") == plain.count(b"\n")
    assert (check(data)["id"], check(data)["model"]) == (identity, model)


def harmless(event: Event) -> Event:
    """The same event without foreign text."""
    match event:
        case BlockStart(value=ServerCall(kind=kind)):
            return evolve(event, value=ServerCall("c", "n", kind))
        case BlockStart(value=ServerResult(ServerCall(kind=kind), output)):
            hits = tuple(SearchHit("t", "u") for _ in output.hits)
            code = output.error_code and "unavailable"
            return evolve(event, value=ServerResult(ServerCall("c", "n", kind), ToolOutput(hits, "x", code)))
        case BlockStart(index, kind):
            return BlockStart(index, kind, "c", "n", "d")
        case TextDelta():
            return TextDelta("x" if event.text.strip() else event.text and " ")
        case Citation():
            return Citation(1)
        case ThinkingDelta():
            return ThinkingDelta("x")
        case SignatureDelta():
            return SignatureDelta("x")
        case MessageEnd(reason, _, usage):
            return MessageEnd(reason, "s", usage)
    return event


@given(answers(), st.data())
def test_an_error_ends_the_stream_legally(events: list[Event], data: st.DataObject) -> None:
    """F291, R31: the open block is closed, the error is last, there is no `message_stop`, and nothing follows."""
    stop = data.draw(st.integers(0, len(events) - 1))
    encoder = DIALECT.encoder(HEADING)
    head = b"".join(encoder.feed(events[:stop]))
    tail = b"".join(encoder.error(UpstreamFault("gone\r\n\r\nevent: x", code="c")))

    assert check_cut(head + tail) == {"type": "api_error", "message": "gone\r\n\r\nevent: x"}
    assert [*encoder.feed(events[stop:]), *encoder.flush()] == []


def test_nothing_follows_the_end() -> None:
    """F279: `message_stop` comes once and last."""
    encoder = AnthropicEncoder(HEADING)
    data = b"".join([*encoder.feed([START, END, TextDelta("late"), END]), *encoder.feed([END]), *encoder.flush()])

    check(data)
    assert data.count(b"event: message_stop") == 1


def test_a_heartbeat_may_stand_anywhere_inside() -> None:
    """F292: it is a ping event, which the SDKs skip."""
    events = [START, *block(BlockKind.TEXT, TextDelta("a")), END]
    encoder = DIALECT.encoder(HEADING)
    parts = [*encoder.feed(events)]

    assert parse_sse(encoder.heartbeat) == [{"type": "ping"}]
    assert check(encoder.heartbeat.join(parts)) == check(b"".join(parts))


def test_half_characters_do_not_break_the_stream() -> None:
    """R21: a lone surrogate becomes U+FFFD, so the output stays UTF-8."""
    data = stream(START, *block(BlockKind.TEXT, TextDelta("a\ud800b")), END, meta=ResponseMeta("i", "\udfff", 1))

    assert check(data)["content"] == [{"type": "text", "text": "a\ufffdb"}]
    assert check(data)["model"] == "\ufffd"


def test_what_is_no_event_is_a_bug() -> None:
    """A delta that should have been framed does not pass silently."""
    with pytest.raises(AssertionError, match="not an event"):
        stream(START, object())  # type: ignore[arg-type]
