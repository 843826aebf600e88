"""Answers of the Messages API as deltas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.errors import (
    AnswerTooLarge,
    ContextTooLong,
    KiroAsgiError,
    NotTheUpstream,
    UpstreamFault,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamThrottled,
)
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Delta,
    Event,
    MessageEnd,
    ModelName,
    Notice,
    RedactedThinking,
    RefusalDelta,
    SearchHit,
    ServerCall,
    ServerResult,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
    ToolInputDelta,
    ToolOutput,
    Usage,
)
from kiro_asgi.model.message import Message, TextBlock, ToolCallBlock, fold
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.blocks import BlockFramer
from kiro_asgi.stages.ending import MISSING, EndOfStream
from kiro_asgi.stages.opaque import SameApi
from kiro_asgi.stages.tool_calls import ToolCallAssembler
from kiro_asgi.stages.usage import UsageMeter
from kiro_asgi.testing.grammar.events import check_events
from kiro_asgi.upstreams.anthropic.answer import WholeMessage
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from tests.dialects.strategies import answers
from tests.helpers import cut, run, run_apart

DIALECT = AnthropicMessages()
HEADING = ResponseMeta("msg_1", "m", 1)
HEAD = {"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 7}}}
END = {"type": "message_stop"}


def sse(*events: Any) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events)


def start(block: Any, index: int = 0) -> Any:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(kind: str, index: int = 0, **fields: Any) -> Any:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int = 0) -> Any:
    return {"type": "content_block_stop", "index": index}


def end(reason: Any, sequence: Any = None, **usage: Any) -> Any:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": sequence}, "usage": usage}


def decoded(data: bytes, content_type: str = "text/event-stream; charset=utf-8") -> list[Delta]:
    return run(Pipeline(*AnthropicUpstream().decoder(content_type), SameApi("", "")), [data])


def deltas(*events: Any) -> list[Delta]:
    """What *events* amount to in the middle of a message."""
    return decoded(sse(*events, END))


def framed(items: Iterable[Delta]) -> list[Event]:
    stages = (ToolCallAssembler(drop_equal=False), EndOfStream(), UsageMeter(input_tokens=0), BlockFramer())
    return run(Pipeline(*stages), items)


def test_an_ordinary_answer() -> None:
    """Text, thinking and a call, with counts and reason at the end, once each."""
    assert decoded(
        sse(
            HEAD,
            start({"type": "thinking", "thinking": "", "signature": ""}),
            {"type": "ping"},
            delta("thinking_delta", thinking="hm"),
            delta("signature_delta", signature="c2ln"),
            stop(),
            start({"type": "redacted_thinking", "data": "QQ=="}, 1),
            stop(1),
            start({"type": "text", "text": ""}, 2),
            delta("text_delta", 2, text="so"),
            stop(2),
            start({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}, 3),
            delta("input_json_delta", 3, partial_json=""),
            delta("input_json_delta", 3, partial_json='{"a":'),
            delta("input_json_delta", 3, partial_json="1}"),
            stop(3),
            end("tool_use", output_tokens=9),
            END,
        )
    ) == [
        ModelName("m"),
        ThinkingDelta("hm"),
        SignatureDelta("c2ln"),
        RedactedThinking("QQ=="),
        TextDelta("so"),
        ToolCallFragment("toolu_1", "f"),
        ToolCallFragment("toolu_1", input='{"a":'),
        ToolCallFragment("toolu_1", input="1}"),
        ToolCallFragment("toolu_1", stop=True),
        TokenUsage(7, 9),
        Stop(StopReason.TOOL_CALL),
    ]


def _neutral(events: list[Event]) -> Iterator[Delta]:
    """The deltas that *events* were made of, without tools that are run on the way."""
    calls = {event.index for event in events if isinstance(event, BlockStart) and event.kind is BlockKind.TOOL_CALL}
    size, cited = 0, False
    for event in events:
        match event:
            case BlockStart(kind=BlockKind.REDACTED_THINKING, data=data) if data:
                yield RedactedThinking(data)
            case BlockStart(kind=BlockKind.TEXT | BlockKind.REFUSAL):
                if cited:
                    yield TextBreak()
                size, cited = 0, False
            case BlockStart(index, BlockKind.TOOL_CALL, name=name):
                yield ToolCallFragment(f"{index}", name)
            case ToolInputDelta(text):
                yield ToolCallFragment("", input=text)
            case BlockEnd(index) if index in calls:
                yield ToolCallFragment(f"{index}", stop=True)
            case _:
                size += len(event.text) if isinstance(event, TextDelta | RefusalDelta) else 0
                cited = cited or isinstance(event, Citation)
                yield from _read_again(event, size)


def _read_again(event: Event, size: int) -> Iterator[Delta]:
    """What stands in one event, behind *size* characters of a block, and is not a part of a call."""
    match event:
        case TextDelta(text) | RefusalDelta(text):
            yield TextDelta(text)
        case Citation(title=title, url=url, quote=quote):
            location = {"type": "web_search_result_location", "url": url, "title": title or None}
            yield Citation(size, 0, title, url, quote, {**location, "cited_text": quote, "encrypted_index": ""})
        case ThinkingDelta() | SignatureDelta():
            yield event
        case MessageEnd(reason, sequence):
            said = StopReason.CONTENT_FILTER if reason is StopReason.REFUSAL else reason
            yield Stop(said, sequence or None if said is StopReason.STOP_SEQUENCE else None)


def _bare(message: Message) -> Message:
    """*message* without the ids of its calls, and without what an upstream counts."""
    blocks = tuple(evolve(each, call_id="") if isinstance(each, ToolCallBlock) else each for each in message.blocks)
    return evolve(message, blocks=blocks, usage=Usage())


def _own(events: list[Event]) -> list[Event]:
    """*events* without blocks of tools that are run on the way; not an end that says that it calls, and does not."""
    gone = {event.index for event in events if isinstance(event, BlockStart) and event.value is not None}
    own = [event for event in events if getattr(event, "index", None) not in gone]
    calls = any(isinstance(event, BlockStart) and event.kind is BlockKind.TOOL_CALL for event in own)
    assume(calls or not (isinstance(own[-1], MessageEnd) and own[-1].stop_reason is StopReason.TOOL_CALL))
    return own


@given(answers())
def test_what_our_encoder_writes_is_read(events: list[Event]) -> None:
    """F428: an answer that was encoded for a client of this API and decoded again is the same answer."""
    events = _own(events)
    found = decoded(b"".join(run(DIALECT.encoder(HEADING), events)))
    usage = fold(events).usage

    assert _bare(fold(framed(found))) == _bare(fold(framed(_neutral(events))))
    counts = usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens
    told = TokenUsage(*counts, usage.thinking_tokens or None)
    counted = any((*counts, usage.thinking_tokens))
    assert [item for item in found if isinstance(item, TokenUsage)] == ([told] if counted else [])


@given(answers())
def test_a_whole_message_is_read_like_a_stream(events: list[Event]) -> None:
    """A service that answers whole although it was asked for a stream says the same with it."""
    events = _own(events)
    stream = decoded(b"".join(run(DIALECT.encoder(HEADING), events)))
    whole = decoded(b"".join(DIALECT.render(fold(events), HEADING)), "application/json")

    assert _bare(_parsed(framed(whole))) == _bare(_parsed(framed(stream)))


def test_a_whole_message_beyond_the_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of more than `BODY_BYTES` is refused when that shows, and not read as far as it goes."""
    monkeypatch.setattr("kiro_asgi.upstreams.json_events.BODY_BYTES", 4)
    message = WholeMessage()

    assert [*message.feed([b"12", b"34"])] == []
    with pytest.raises(AnswerTooLarge, match="more than 4 bytes") as raised:
        [*message.feed([b"5"])]
    assert raised.value.code == "answer_too_large"


def _parsed(events: Iterable[Event]) -> Message:
    """The message, the arguments of its calls in one spelling."""
    message = fold(events)
    blocks = (
        evolve(each, input=json.dumps(json.loads(each.input))) if isinstance(each, ToolCallBlock) else each
        for each in message.blocks
    )
    return evolve(message, blocks=tuple(blocks))


@given(answers(), st.lists(st.integers(0, 5000), max_size=6))
def test_cuts_change_nothing(events: list[Event], cuts: list[int]) -> None:
    """However the bytes arrive, the deltas are the same."""
    data = b"".join(run(DIALECT.encoder(HEADING), events))
    pipeline: Pipeline[bytes, Delta] = Pipeline(*AnthropicUpstream().decoder("text/event-stream"), SameApi("", ""))
    assert run_apart(pipeline, cut(data, cuts)) == decoded(data)


# Tool calls.


def test_a_call_without_arguments() -> None:
    """F431: a call for which no arguments come is a call with none."""
    call = start({"type": "tool_use", "id": "t", "name": "f", "input": {}})
    found = deltas(call, stop())
    assert found == [ToolCallFragment("t", "f"), ToolCallFragment("t", stop=True), MISSING]
    assert fold(framed(found)).blocks == (ToolCallBlock("t", "f", "{}"),)


def test_arguments_in_the_start() -> None:
    """Some services say them there; those that come in pieces count more."""
    call = start({"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}})
    assert fold(framed(deltas(call, stop()))).blocks == (ToolCallBlock("t", "f", '{"a":1}'),)
    pieces = deltas(call, delta("input_json_delta", partial_json="{}"), stop())
    assert fold(framed(pieces)).blocks == (ToolCallBlock("t", "f", "{}"),)


def test_calls_side_by_side() -> None:
    """F198: pieces go to the call whose index they name."""
    found = deltas(
        start({"type": "tool_use", "id": "a", "name": "f"}, 0),
        start({"type": "tool_use", "id": "b", "name": "g"}, 1),
        delta("input_json_delta", 0, partial_json='{"x":'),
        delta("input_json_delta", 1, partial_json='{"y":2}'),
        delta("input_json_delta", 0, partial_json="1}"),
        stop(1),
        stop(0),
    )
    assert {*fold(framed(found)).blocks} == {ToolCallBlock("a", "f", '{"x":1}'), ToolCallBlock("b", "g", '{"y":2}')}


def test_ids_are_distinct() -> None:
    """F193: a service that gives an id twice, or none, still makes several calls."""
    calls = [start({"type": "tool_use", "id": call_id, "name": "f"}, index) for index, call_id in enumerate("aa")]
    found = deltas(calls[0], stop(0), calls[1], stop(1), start({"type": "tool_use", "name": "g"}, 2), stop(2))
    assert [item.call_id for item in found if isinstance(item, ToolCallFragment) and item.stop] == [
        "a",
        "a_2",
        "toolu_2",
    ]


def test_a_call_that_was_cut() -> None:
    """An answer that reached its length in the middle of a call reports the call as cut."""
    call = start({"type": "tool_use", "id": "t", "name": "f"})
    message = fold(framed(deltas(call, delta("input_json_delta", partial_json='{"a'), stop(), end("max_tokens"))))
    assert [info.call_id for info in message.truncations] == ["t"]
    assert message.stop_reason is StopReason.LENGTH


# Searches.

SEARCHED = (
    start({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
    delta("input_json_delta", partial_json='{"query":'),
    delta("input_json_delta", partial_json='"q"}'),
    stop(),
)


LOCATION = {
    "type": "web_search_result_location",
    "url": "https://a",
    "title": "T",
    "cited_text": "so it is",
    "encrypted_index": "Eo8",
}


def test_a_search() -> None:
    """F214, F216: the service's own search is a call and a result; the model's words behind them are not doubled."""
    page = {"type": "web_search_result", "title": "T", "url": "https://a", "encrypted_content": "x", "page_age": "May"}
    answered = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    found = deltas(
        *SEARCHED,
        start(answered, 1),
        stop(1),
        start({"type": "text", "text": "", "citations": []}, 2),
        delta("citations_delta", 2, citation=LOCATION),
        delta("text_delta", 2, text="It is so."),
        stop(2),
        start({"type": "text", "text": ""}, 3),
        delta("text_delta", 3, text=" Or not."),
        stop(3),
        end("end_turn"),
    )
    call = ServerCall("srvtoolu_1", "web_search", "web_search", {"query": "q"})
    result = ServerResult(call, ToolOutput((SearchHit("T", "https://a", published="May", encrypted_content="x"),)))
    source = Citation(9, 0, "T", "https://a", "so it is", LOCATION)
    assert found[:6] == [call, result, TextDelta("It is so."), source, TextBreak(), TextDelta(" Or not.")]
    events = framed(found)
    assert check_events(events).stop_reason is StopReason.END
    texts = TextBlock("It is so.", (source,)), TextBlock(" Or not.", continues=True)
    assert fold(events).blocks == (call, result, *texts)


def test_a_search_that_failed() -> None:
    """What went wrong is the service's own word, told once."""
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    answered = start({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": error}, 1)
    _, found, again, _ = deltas(*SEARCHED, answered, stop(1), answered, stop(1))
    assert isinstance(found, ServerResult) and found.output == ToolOutput(error_code="max_uses_exceeded")
    assert again == Notice("result.stray", "web_search_tool_result")


@pytest.mark.parametrize(
    ("events", "notice"),
    [
        ([start({"type": "web_search_tool_result", "tool_use_id": "x", "content": []}), stop()],
         Notice("result.stray", "web_search_tool_result")),
        ([start({"type": "server_tool_use", "id": "s", "name": "web_search"}), delta("input_json_delta",
         partial_json="["), stop()], Notice("server_call.arguments", "web_search")),
        ([start({"type": "hologram"}), delta("input_json_delta", partial_json="1"), stop()],
         Notice("block.unknown", "hologram")),
        ([delta("hologram_delta")], Notice("delta.unknown", "hologram_delta")),
        ([{"type": "hologram"}], Notice("event.unknown", "hologram")),
    ],
)  # fmt: skip
def test_what_is_not_known_is_noted(events: list[Any], notice: Notice) -> None:
    """Nothing unknown ends an answer, or vanishes without a word."""
    assert deltas(*events) == [notice, MISSING]


# The end.


@pytest.mark.parametrize(
    ("said", "sequence", "expected"),
    [
        ("end_turn", None, [Stop(StopReason.END)]),
        ("tool_use", None, [Stop(StopReason.TOOL_CALL)]),
        ("max_tokens", None, [Stop(StopReason.LENGTH)]),
        ("stop_sequence", "END", [Stop(StopReason.STOP_SEQUENCE, "END")]),
        ("end_turn", "END", [Stop(StopReason.END)]),
        ("refusal", None, [Stop(StopReason.CONTENT_FILTER)]),
        ("model_context_window_exceeded", None, [Stop(StopReason.CONTEXT_FULL)]),
        ("pause_turn", None, [Stop(StopReason.PAUSED)]),
        ("compaction", None, [Stop(StopReason.COMPACTED)]),
        ("bored", None, [Notice("stop.unknown", "bored"), Stop(StopReason.END)]),
        (None, None, [MISSING]),
    ],
)
def test_stop_reasons(said: Any, sequence: Any, expected: list[Delta]) -> None:
    """Each reason for the end has its word of ours."""
    assert deltas(end(said, sequence)) == expected


def test_counts_are_cumulative() -> None:
    """A later count replaces an earlier one, but a 0 that only fills a place does not; they are said once."""
    first = {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0}
    last = {"input_tokens": 0, "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}}
    found = deltas(
        {"type": "message_start", "message": {"usage": first}}, end(None, **last), end(None, output_tokens=6)
    )
    assert found == [TokenUsage(7, 6, 3, 0, 2), MISSING]


def test_a_service_that_does_not_count() -> None:
    """It writes 0 everywhere, which no answer takes."""
    nothing = {"input_tokens": 0, "output_tokens": 0}

    assert deltas({"type": "message_start", "message": {"usage": nothing}}, end(None, **nothing)) == [MISSING]


@pytest.mark.parametrize("length", range(4))
def test_an_answer_without_its_end_was_cut(length: int) -> None:
    """F431: what ends before its last event is an error, however much of it came."""
    events = [HEAD, delta("text_delta", text="a"), end("end_turn")][:length]
    with pytest.raises(UpstreamProtocolError) as caught:
        decoded(sse(*events))
    assert caught.value.code == "stream.cut"


def test_nothing_follows_the_end() -> None:
    """What comes behind the last event is no part of the answer."""
    assert decoded(sse(end("end_turn"), END, delta("text_delta", text="a"), end("refusal"))) == [Stop(StopReason.END)]


@pytest.mark.parametrize(
    ("report", "kind", "code"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, UpstreamOverloaded, "overloaded"),
        ({"type": "rate_limit_error", "message": "slow"}, UpstreamThrottled, "throttled"),
        ({"type": "api_error", "message": "oops"}, UpstreamFault, "internal"),
        ({"type": "invalid_request_error", "message": "prompt is too long"}, ContextTooLong, "context_too_long"),
        ({"type": "hologram"}, UpstreamFault, "internal"),
        ({"type": "engine_rate_limited"}, UpstreamThrottled, "engine_rate_limited"),
        ("Overloaded", UpstreamOverloaded, "overloaded"),
        (None, UpstreamFault, "internal"),
    ],
)
@pytest.mark.parametrize("name", ["error", "message_delta_"])
def test_errors_in_the_middle(report: Any, kind: type[KiroAsgiError], code: str, name: str) -> None:
    """F430: an error ends the answer with what it says, under whatever name it comes."""
    event = {"type": "error", "error": report} if name == "error" else {"type": name, "error": report or True}
    stage: Pipeline[bytes, Delta] = Pipeline(*AnthropicUpstream().decoder("text/event-stream"), SameApi("", ""))
    found = stage.feed([sse(HEAD, delta("text_delta", text="a"), event)])
    assert [next(found), next(found)] == [ModelName("m"), TextDelta("a")]
    with pytest.raises(kind) as caught:
        next(found)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', UpstreamOverloaded),
        (b'{"hello":1}', NotTheUpstream),
        (b"<html>", NotTheUpstream),
    ],
)
def test_json_that_is_no_message(body: bytes, kind: type[KiroAsgiError]) -> None:
    """A report of an error is that error; anything else is not the service."""
    with pytest.raises(kind):
        decoded(body, "application/json")


def test_other_media_types() -> None:
    """A web page is not an answer."""
    with pytest.raises(NotTheUpstream):
        AnthropicUpstream().decoder("text/html")


LEAVES = ["", "a", "web_search", "toolu_1", "end_turn", "{}"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(LEAVES),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "error", "text", "id"]), inner)
    ),
    max_leaves=4,
)
KINDS = ["text", "thinking", "tool_use", "server_tool_use", "web_search_tool_result", "redacted_thinking", "x"]
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | ANYTHING},
    optional=dict.fromkeys(["id", "name", "input", "text", "signature", "data", "content", "tool_use_id"], ANYTHING),
)
PIECE = st.fixed_dictionaries(
    {"type": st.sampled_from(["text_delta", "input_json_delta", "signature_delta", "thinking_delta"]) | ANYTHING},
    optional=dict.fromkeys(["text", "partial_json", "thinking", "signature", "stop_reason"], ANYTHING),
)
TYPES = ["content_block_start", "content_block_delta", "content_block_stop", "message_delta", "x"]
EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional={
        "index": st.integers(0, 2) | ANYTHING,
        "content_block": BLOCK | ANYTHING,
        "delta": PIECE | ANYTHING,
        "message": ANYTHING,
        "usage": ANYTHING,
    },
)


@given(st.lists(EVENT, max_size=8))
def test_nonsense_is_read_without_harm(events: list[Any]) -> None:
    """Any JSON gives legal events or an error of ours, and nothing else."""
    try:
        events_of = framed(deltas(HEAD, *events, end("end_turn", output_tokens=1)))
    except KiroAsgiError:
        return
    check_events(events_of)
