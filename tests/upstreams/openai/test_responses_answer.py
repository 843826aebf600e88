"""Events of the Responses API to deltas."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    NotTheUpstream,
    UpstreamFault,
    UpstreamProtocolError,
    UpstreamRejected,
    UpstreamThrottled,
)
from kiro_asgi.model.events import (
    Citation,
    Delta,
    ModelName,
    Notice,
    RefusalDelta,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.opaque import SameApi
from kiro_asgi.upstreams.openai.reasoning import opened
from kiro_asgi.upstreams.openai.upstream import ResponsesUpstream
from tests.growth import assert_linear
from tests.helpers import byte_by_byte, cut, run
from tests.upstreams.openai.chunks import DONE, new_ids, sse

END = Stop(StopReason.END)
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
SEALED = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gAAAA==",
}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": 0, **fields}


def message(*parts: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [*parts]}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], **more}


def ended(status: str = "completed", **fields: Any) -> dict[str, Any]:
    return event(status, response={"status": status, "output": [], **fields})


def decoder(content_type: str = "text/event-stream") -> Pipeline[bytes, Delta]:
    return Pipeline(*ResponsesUpstream(new_id=new_ids()).decoder(content_type), SameApi("", ""))


def deltas(*values: Any) -> list[Delta]:
    return run(decoder(), [sse(*values)])


TEXT = event("output_text.delta", content_index=0, delta="Hi")
WHOLE = (
    event("created", response={"model": "gpt-x", "output": []}),
    event("output_item.added", item={"type": "reasoning", "id": "rs_1", "summary": []}),
    event("reasoning_summary_part.added", summary_index=0),
    event("reasoning_summary_text.delta", summary_index=0, delta="hm"),
    event("reasoning_summary_part.added", summary_index=1),
    event("reasoning_summary_text.delta", summary_index=1, delta="so"),
    event("output_item.done", item=SEALED),
    event("output_item.added", output_index=1, item=message()),
    event("content_part.added", output_index=1, part=said("")),
    event("output_text.delta", output_index=1, content_index=0, delta="Hi é\u2028"),
    event("output_text.annotation.added", output_index=1, annotation={"type": "url_citation", "url": "u", "title": "t",
          "start_index": 1, "end_index": 2}),
    event("output_text.done", output_index=1, content_index=0, text="Hi é\u2028"),
    event("output_item.done", output_index=1, item=message(said("Hi é\u2028"))),
    event("output_item.added", output_index=2, item={**CALL, "arguments": ""}),
    event("function_call_arguments.delta", output_index=2, delta='{"a":'),
    event("function_call_arguments.delta", output_index=2, delta="1}"),
    event("function_call_arguments.done", output_index=2, arguments='{"a":1}'),
    event("output_item.done", output_index=2, item={**CALL, "arguments": '{"a":1}', "status": "completed"}),
    ended(
        model="gpt-x",
        usage={
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 2},
        },
    ),
)  # fmt: skip


def test_a_whole_answer() -> None:
    """Each kind of item; paragraphs of a summary apart; what is sealed comes back as the item that it was."""
    found = deltas(*WHOLE)
    [seal] = [each.signature for each in found if isinstance(each, SignatureDelta)]

    assert opened(seal, "openai") == SEALED
    assert [each for each in found if not isinstance(each, SignatureDelta)] == [
        ModelName("gpt-x"),
        ThinkingDelta("hm"),
        ThinkingDelta("\n\n"),
        ThinkingDelta("so"),
        TextDelta("Hi é\u2028"),
        Citation(4, 3, "t", "u"),
        ToolCallFragment("call_1", "f"),
        ToolCallFragment("call_1", "", '{"a":'),
        ToolCallFragment("call_1", "", "1}"),
        ToolCallFragment("call_1", "", "", stop=True),
        TokenUsage(5, 7, 4, 1, 2),
        Stop(StopReason.TOOL_CALL),
    ]


@given(st.lists(st.integers(0, len(sse(*WHOLE))), max_size=12))
def test_it_is_the_same_however_it_is_cut(cuts: list[int]) -> None:
    """Line ends and characters of several bytes included."""
    assert run(decoder(), cut(sse(*WHOLE), sorted(cuts))) == run(decoder(), [sse(*WHOLE)])


def test_byte_by_byte() -> None:
    """The least that may come at once."""
    assert run(decoder(), byte_by_byte(sse(*WHOLE))) == deltas(*WHOLE)


ITEMS = [
    SEALED,
    message(said("Hi", annotations=[{"type": "url_citation", "url": "u", "start_index": 0, "end_index": 2}])),
    {**CALL, "arguments": "{}", "status": "completed"},
]
TOLD = [
    ThinkingDelta("hm"),
    TextDelta("Hi"),
    Citation(2, 0, "", "u"),
    ToolCallFragment("call_1", "f"),
    ToolCallFragment("call_1", "", "{}"),
    ToolCallFragment("call_1", "", "", stop=True),
    Stop(StopReason.TOOL_CALL),
]


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(sse(*(event("output_item.done", output_index=n, item=it) for n, it in enumerate(ITEMS)), ended()),
                     id="ends of items"),
        pytest.param(sse(ended(output=ITEMS)), id="the last event"),
        pytest.param(json.dumps({"status": "completed", "output": ITEMS}).encode(), id="a document"),
    ],
)  # fmt: skip
def test_what_no_delta_brought_is_told_at_the_end(wire: bytes) -> None:
    """Some servers send no deltas of one thing or another, and some no stream."""
    found = run(decoder("application/json" if wire.startswith(b"{") else "text/event-stream"), [wire])

    assert [each for each in found if not isinstance(each, SignatureDelta)] == TOLD
    assert sum(isinstance(each, SignatureDelta) for each in found) == 1


def test_an_end_that_says_more_than_its_deltas() -> None:
    """The rest is told, and nothing twice."""
    call = {**CALL, "arguments": '{"a":1}'}
    assert deltas(
        TEXT,
        event("output_text.done", content_index=0, text="Hi there"),
        event("output_item.done", item=message(said("Hi there!"), said(" And"))),
        event("output_item.added", output_index=1, item=CALL),
        event("function_call_arguments.delta", output_index=1, delta='{"a"'),
        event("output_item.done", output_index=1, item=call),
        ended(output=[message(said("Hi there!"), said(" And")), call]),
    ) == [
        *map(TextDelta, ("Hi", " there", "!", " And")),
        ToolCallFragment("call_1", "f"),
        ToolCallFragment("call_1", "", '{"a"'),
        ToolCallFragment("call_1", "", ":1}"),
        ToolCallFragment("call_1", "", "", stop=True),
        Stop(StopReason.TOOL_CALL),
    ]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ended(), StopReason.END),
        (ended("incomplete", incomplete_details={"reason": "max_output_tokens"}), StopReason.LENGTH),
        (ended("incomplete", incomplete_details={"reason": "content_filter"}), StopReason.CONTENT_FILTER),
        (ended("incomplete", incomplete_details={"reason": "max_messages"}), StopReason.LENGTH),
        (ended("incomplete"), StopReason.LENGTH),
    ],
)
def test_reasons(end: Any, reason: StopReason) -> None:
    """Each word of the API; any other reason to stop early is a limit."""
    assert deltas(TEXT, end) == [TextDelta("Hi"), Stop(reason)]


def test_a_refusal_is_no_text() -> None:
    """It is told once, by its deltas or at its end."""
    refusal = {"type": "refusal", "refusal": "No."}
    assert deltas(
        event("refusal.delta", content_index=0, delta="N"),
        event("refusal.done", content_index=0, refusal="No."),
        event("output_item.done", item=message(refusal)),
        ended(output=[message(refusal)]),
    ) == [RefusalDelta("N"), RefusalDelta("o."), Stop(StopReason.REFUSAL)]


def test_what_a_message_was_is_told_at_its_end() -> None:
    """A comment on the way, or the answer itself."""
    found = deltas(TEXT, event("output_item.done", item={**message(said("Hi")), "phase": "commentary"}), ended())

    assert found == [TextDelta("Hi"), TextBreak("commentary"), END]


def test_a_call_that_is_cut_has_no_end() -> None:
    """So that whoever mends broken calls sees it."""
    cut_call = {**CALL, "arguments": '{"a', "status": "incomplete"}
    assert deltas(event("output_item.done", item=cut_call), ended("incomplete", output=[cut_call])) == [
        ToolCallFragment("call_1", "f"),
        ToolCallFragment("call_1", "", '{"a'),
        Stop(StopReason.LENGTH),
    ]


def test_thinking_that_is_told_twice_is_told_once() -> None:
    """A server with open weights has the thinking itself and a summary of it; the first that comes counts."""
    found = deltas(
        event("reasoning_text.delta", delta="hm"),
        event("reasoning_summary_text.delta", delta="in short"),
        event("output_item.done", item={"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}),
        ended(),
    )

    assert found == [ThinkingDelta("hm"), END]


@pytest.mark.parametrize(
    ("values", "error", "code"),
    [
        ([ended("failed", error={"code": "rate_limit_exceeded", "message": "slow"})], UpstreamThrottled,
         "rate_limit_exceeded"),
        ([ended("failed", error={"code": "server_error", "message": "oh"})], UpstreamFault, "server_error"),
        ([ended("failed")], UpstreamFault, "server_error"),
        ([ended("failed", error={"code": "bio_policy", "message": "no"})], UpstreamRejected, "bio_policy"),
        ([{"type": "error", "code": "context_length_exceeded", "message": "long", "param": None}], ContextTooLong,
         "context_length_exceeded"),
        ([{"type": "error", "error": {"type": "requests", "code": "rate_limit_exceeded", "message": "slow"}}],
         UpstreamThrottled, "rate_limit_exceeded"),
        ([], UpstreamProtocolError, "stream.cut"),
        ([event("queued"), {"type": "keepalive"}], UpstreamProtocolError, "stream.cut"),
    ],
)  # fmt: skip
def test_errors(values: list[Any], error: type[KiroAsgiError], code: str) -> None:
    """In both places, in both forms; and an end that is none."""
    with pytest.raises(error) as raised:
        deltas(TEXT, *values)

    assert raised.value.code == code


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"output": [', UpstreamProtocolError),
        (b'{"object": "list"}', UpstreamProtocolError),
        (b'{"error": {"message": "oh", "code": "server_error"}}', UpstreamFault),
        (b'{"status": "failed", "output": [], "error": {"code": "server_error", "message": "oh"}}', UpstreamFault),
    ],
)
def test_documents_that_are_no_answers(body: bytes, error: type[KiroAsgiError]) -> None:
    """Each with its class."""
    with pytest.raises(error):
        run(decoder("application/json"), [body])


def test_a_page_is_no_answer() -> None:
    """Somebody else has answered."""
    with pytest.raises(NotTheUpstream):
        ResponsesUpstream().decoder("text/html")


def test_what_is_unknown_is_passed_over_with_one_notice() -> None:
    """Events and items that the API may get one day, tools that the service ran for itself, and a sentinel."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    values = [event("new"), event("new"), event("output_item.done", output_index=1, item=search), TEXT, ended()]

    assert run(decoder(), [sse(*values) + DONE]) == [
        Notice("event.unknown", "response.new"),
        Notice("item.unknown", "web_search_call"),
        TextDelta("Hi"),
        END,
    ]


def test_an_event_of_no_type_is_passed_over() -> None:
    """Whatever stands in the place of its name."""
    assert deltas({"type": {"a": 1}}, {"type": None}, ended()) == [Notice("event.unknown", ""), END]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(
        {"type", "item", "delta", "text", "summary", "content", "output", "response", "error", "arguments", "usage"}
    )), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
NAMES = st.sampled_from(
    sorted({value["type"] for value in WHOLE} | {"error", "response.failed", "response.incomplete"})
)


@given(st.lists(st.builds(lambda kind, fields: {"output_index": 0, **fields, "type": kind}, NAMES,
                          st.dictionaries(st.sampled_from(sorted({key for value in WHOLE for key in value})), JSON)),
                max_size=8))  # fmt: skip
def test_garbage_gives_only_errors_of_ours(values: list[dict[str, Any]]) -> None:
    """Whatever stands where something else belongs."""
    with suppress(KiroAsgiError):
        deltas(*values, ended())


@pytest.mark.parametrize("make", [
    pytest.param(lambda size: [TEXT] * size, id="deltas"),
    pytest.param(lambda size: [event("output_item.added", output_index=n, item=CALL) for n in range(size)], id="items"),
    pytest.param(lambda size: [event("output_text.done", content_index=0, text="x" * size)] * size, id="ends"),
])  # fmt: skip
def test_work_grows_with_the_answer(make: Any) -> None:
    """And no faster."""

    def work(size: int) -> Any:
        return partial(run, decoder(), [sse(*make(size), ended())])

    assert_linear(work, 60)


PATCH = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_7", "name": "patch"}
TEXTS = ('*** "é"\n\u2028\\', "")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("told", ["deltas", "done", "item", "end"])
def test_a_call_with_a_text_is_one_with_a_string(text: str, told: str) -> None:
    """Wherever the text is told first; also of an item that only the last event has."""
    whole = {**PATCH, "input": text, "status": "completed"}
    pieces = [event("custom_tool_call_input.delta", delta=each) for each in (text[:3], text[3:])]
    done = event("custom_tool_call_input.done", input=text)
    begun = event("output_item.added", item={**PATCH, "input": "", "status": "in_progress"})
    ways = {"deltas": [begun, *pieces, done], "done": [begun, done], "item": [begun], "end": []}
    last = [] if told == "end" else [event("output_item.done", item=whole)]
    found = deltas(*ways[told], *last, ended(output=[whole]))

    calls = [each for each in found if isinstance(each, ToolCallFragment)]
    assert (calls[0].call_id, calls[0].name) == ("call_7", "patch")
    assert json.loads("".join(each.input for each in calls)) == {"input": text}
    assert [each.stop for each in calls] == [*([False] * (len(calls) - 1)), True]
    assert found[-1] == Stop(StopReason.TOOL_CALL)


def test_a_call_with_a_text_that_is_cut_has_no_end() -> None:
    """What came of it is told, and no more."""
    begun = event("output_item.added", item={**PATCH, "input": ""})
    found = deltas(begun, event("custom_tool_call_input.delta", delta='a"'), ended("incomplete"))
    assert "".join(each.input for each in found if isinstance(each, ToolCallFragment)) == '{"input":"a\\"'
    assert not any(each.stop for each in found if isinstance(each, ToolCallFragment))
