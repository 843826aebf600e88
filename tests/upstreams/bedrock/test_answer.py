"""Answers of Bedrock as deltas."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import (
    KiroAsgiError,
    NotTheUpstream,
    UpstreamFault,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamThrottled,
)
from kiro_asgi.model.events import (
    Citation,
    Notice,
    RedactedThinking,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.upstreams.bedrock.answer import STOP_REASONS
from tests.growth import assert_linear
from tests.upstreams.bedrock.frames import call, chunk, delta, end, event, exception, read, stop

START = event("messageStart", role="assistant")

USAGE = {"inputTokens": 11, "outputTokens": 7, "totalTokens": 23, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 0}

METADATA = event("metadata", usage=USAGE, metrics={"latencyMs": 7})

EVERYTHING = b"".join(
    (
        START,
        delta(0, reasoningContent={"text": "Hm"}),
        delta(0, reasoningContent={"text": "m."}),
        delta(0, reasoningContent={"signature": "EqoB"}),
        stop(0),
        delta(1, reasoningContent={"redactedContent": b64encode(b"se").decode()}),
        delta(1, reasoningContent={"redactedContent": b64encode(b"cret").decode()}),
        stop(1),
        stop(2),
        delta(3, text="Grüße, "),
        delta(3, text="Welt"),
        delta(3, citation={"title": "Maps", "location": {"documentPage": {"documentIndex": 1, "start": 2, "end": 3}}}),
        stop(3),
        call(5, "tooluse_a", "look"),
        call(6, "tooluse_b", "leave"),
        delta(6, toolUse={"input": '{"at":'}),
        delta(5, toolUse={"input": '{"way":"north"}'}),
        delta(6, toolUse={"input": "1}"}),
        stop(5),
        stop(6),
        call(7, "tooluse_c", "wait"),
        stop(7),
        event("messageStop", stopReason="tool_use"),
        METADATA,
    )
)

PAGE = {
    "type": "page_location",
    "cited_text": "",
    "document_index": 1,
    "document_title": "Maps",
    "start_page_number": 2,
    "end_page_number": 3,
}

DELTAS = [
    ThinkingDelta("Hm"),
    ThinkingDelta("m."),
    SignatureDelta("EqoB"),
    RedactedThinking(b64encode(b"secret").decode()),
    TextDelta("Grüße, "),
    TextDelta("Welt"),
    Citation(11, 0, "Maps", location=PAGE),
    ToolCallFragment("tooluse_a", "look"),
    ToolCallFragment("tooluse_b", "leave"),
    ToolCallFragment("tooluse_b", input='{"at":'),
    ToolCallFragment("tooluse_a", input='{"way":"north"}'),
    ToolCallFragment("tooluse_b", input="1}"),
    ToolCallFragment("tooluse_a", stop=True),
    ToolCallFragment("tooluse_b", stop=True),
    ToolCallFragment("tooluse_c", "wait"),
    ToolCallFragment("tooluse_c", stop=True),
    TokenUsage(11, 7, 5, 0),
    Stop(StopReason.TOOL_CALL),
]


def test_every_kind_of_content() -> None:
    """Blocks go by their index, not by order of arrival; indices may skip; padding is no content."""
    assert read([EVERYTHING]) == DELTAS


@given(st.lists(st.integers(0, len(EVERYTHING)), max_size=12))
def test_cuts_do_not_matter(cuts: list[int]) -> None:
    """However the bytes are cut, the deltas are the same."""
    edges = [0, *sorted(cuts), len(EVERYTHING)]

    assert read(EVERYTHING[a:b] for a, b in pairwise(edges)) == DELTAS


@given(st.integers(0, len(EVERYTHING) - 1))
def test_an_answer_that_is_cut_off_is_an_error(length: int) -> None:
    """No part of a stream counts as an answer, unless nothing but ``metadata`` is missing."""
    try:
        read([EVERYTHING[:length]])
    except UpstreamProtocolError as error:
        assert error.code in ("stream.cut", "frame.truncated")
    else:
        assert length == len(EVERYTHING) - len(METADATA)


@given(st.binary(max_size=400))
def test_garbage_gives_typed_errors(garbage: bytes) -> None:
    """Foreign bytes end in an error of ours, never in another."""
    for kind in ("application/vnd.amazon.eventstream", "application/json"):
        with pytest.raises(KiroAsgiError):
            read([garbage], kind)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_NAMES = (
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
    "chunk",
)
_MEMBERS = st.sampled_from(
    ("contentBlockIndex", "delta", "start", "stopReason", "usage", "bytes", "text", "toolUse", "reasoningContent")
)


@given(st.lists(st.tuples(st.sampled_from(_NAMES), st.dictionaries(_MEMBERS, _JSON, max_size=4)), max_size=8))
def test_members_of_any_type_are_read(events: list[tuple[str, dict[str, Any]]]) -> None:
    """A member of a wrong type counts as absent: what ends the answer is an error of ours."""
    with suppress(KiroAsgiError):
        read([b"".join(event(name, **payload) for name, payload in events)])


REASONS = {said: reason for said, reason in STOP_REASONS.items() if isinstance(reason, StopReason)}


@pytest.mark.parametrize(("said", "reason"), REASONS.items())
def test_stop_reasons(said: str, reason: StopReason) -> None:
    """Each word of the service has its meaning."""
    assert read([delta(0, text="a") + stop(0) + end(said)])[-1] == Stop(reason)


def test_an_unknown_end_is_noted() -> None:
    """It is an end like any, and worth a line in the log."""
    assert read([delta(0, text="a") + end("tired")])[1:] == [Notice("stop.unknown", "tired"), Stop(StopReason.END)]


def test_which_stop_sequence_it_was() -> None:
    """The model's own field says so, in a stream below ``delta``."""
    fields = {"delta": {"stop_sequence": "###"}}
    said = event("messageStop", stopReason="stop_sequence", additionalModelResponseFields=fields)

    assert read([delta(0, text="a") + said])[-1] == Stop(StopReason.STOP_SEQUENCE, "###")


def test_a_malformed_answer_is_an_error() -> None:
    """Also after text: no agent may take that for all that the model meant to do."""
    for before in (START, delta(0, text="Let me look.") + stop(0)):
        with pytest.raises(UpstreamFault) as raised:
            read([before + end("malformed_tool_use")])

        assert raised.value.code == "malformed_tool_use"


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (exception("throttlingException", message="Too many requests"), UpstreamThrottled),
        (event("throttlingException", message="Too many requests"), UpstreamThrottled),
        (exception("serviceUnavailableException", message="busy"), UpstreamOverloaded),
        (exception("modelStreamErrorException", message="x", originalStatusCode=429), UpstreamThrottled),
    ],
)
def test_exceptions_within_an_answer(frame: bytes, kind: type[KiroAsgiError]) -> None:
    """They mean what they mean as a status, also where a relay sends them as events."""
    with pytest.raises(kind):
        read([START + frame])


def test_a_call_twice_has_two_ids() -> None:
    """Whatever the service says, no two calls have one id."""
    answer = call(0, "same", "a") + stop(0) + call(1, "same", "b") + stop(1) + end("tool_use")
    ids = [each.call_id for each in read([answer]) if isinstance(each, ToolCallFragment) and each.name]

    assert ids == ["same", "same_2"]


def test_frames_of_the_messages_api() -> None:
    """InvokeModel's frames hold the events of the Messages API, with figures of the service's in the last one."""
    answer = b"".join(
        (
            chunk(type="message_start", message={"model": "claude-haiku-4-5", "usage": {"input_tokens": 3}}),
            chunk(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
            chunk(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "hi"}),
            chunk(type="content_block_stop", index=0),
            chunk(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
            chunk(type="message_stop", **{"amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}}),
        )
    )

    assert read([answer])[1:] == [TextDelta("hi"), TokenUsage(3, 2), Stop(StopReason.END)]


def test_an_answer_that_is_not_streamed() -> None:
    """A whole document says what a stream would have said."""
    content = [
        {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "EqoB"}}},
        {"text": "hi"},
        {"citationsContent": {"content": [{"text": "cited"}], "citations": [{"title": "T"}]}},
        {"toolUse": {"toolUseId": "a", "name": "look", "input": {"way": "north"}}},
    ]
    answer = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
    }

    assert read([json.dumps(answer).encode()], "application/json") == [
        ThinkingDelta("Hm"),
        SignatureDelta("EqoB"),
        TextDelta("hi"),
        TextDelta("cited"),
        Citation(5, 0, "T"),
        ToolCallFragment("a", "look"),
        ToolCallFragment("a", input='{"way":"north"}'),
        ToolCallFragment("a", stop=True),
        TokenUsage(1, 2),
        Stop(StopReason.TOOL_CALL),
    ]


@pytest.mark.parametrize("text", ["c2U", "c2U=\n!", "gr\u00fc\u00dfe", "\ufffd", "\ud800x"])
def test_redacted_thinking_that_is_no_base64_is_left_out(text: str) -> None:
    """Whatever its characters: the rest of the answer comes all the same, and a notice tells of it."""
    wire = delta(0, reasoningContent={"redactedContent": text}) + stop(0) + delta(1, text="a") + end()

    assert Notice("delta.undecodable", "redactedContent") in (deltas := read([wire]))
    assert TextDelta("a") in deltas and not any(isinstance(each, RedactedThinking) for each in deltas)


def test_a_page_is_no_answer() -> None:
    """What a proxy says in the service's place is told from an empty answer."""
    with pytest.raises(NotTheUpstream):
        read([b"<html>"], "text/html")
    with pytest.raises(NotTheUpstream):
        read([b"{}"], "application/json")


def test_work_is_linear() -> None:
    """More blocks, more of one, more at once, more of an answer that is not streamed: twice the work, no more."""

    def blocks(count: int) -> bytes:
        return b"".join(delta(at, text="a") + stop(at) for at in range(count)) + end()

    def open_calls(count: int) -> bytes:
        return b"".join(call(at, "same", "a") for at in range(count)) + end("tool_use")

    def redacted(count: int) -> bytes:
        return delta(0, reasoningContent={"redactedContent": "c2U="}) * count + stop(0) + end()

    for answer in (blocks, open_calls, redacted):
        assert_linear(lambda count, answer=answer: partial(read, [answer(count)]), 50)  # type: ignore[misc]
