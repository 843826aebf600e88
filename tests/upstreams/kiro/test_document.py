"""Whole answers in JSON documents."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import AnswerTooLarge, KiroAsgiError, UpstreamThrottled
from kiro_asgi.limits import BODY_BYTES
from kiro_asgi.model.events import (
    ConversationId,
    Notice,
    RedactedThinking,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.helpers import byte_by_byte, kiro_stream, run_apart
from tests.upstreams.kiro.test_events import EXCHANGES

TYPES: Final = ["application/json", "Application/JSON; charset=utf-8", "application/x-amz-json-1.0"]


def decode(document: Any, content_type: str = TYPES[0]) -> list[Any]:
    body = json.dumps(document).encode()
    whole = run_apart(Pipeline(*KiroUpstream().decoder(content_type)), [body])
    assert run_apart(Pipeline(*KiroUpstream().decoder(content_type)), byte_by_byte(body)) == whole
    return whole


def told(content_type: str, body: bytes) -> list[Any]:
    answer = build_pipeline(KiroUpstream().decoder(content_type), Plan())
    return [*answer.feed([body]), *answer.drain(), *answer.flush()]


@pytest.mark.parametrize("content_type", TYPES)
@pytest.mark.parametrize(("events", "_"), EXCHANGES)
@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: {"events": each}], ids=["list", "events"])
def test_a_document_is_the_same_answer_as_a_stream(
    content_type: str, events: list[tuple[str, Any]], _: Any, wrap: Any
) -> None:
    """5.2: what a client is told does not depend on whether the service streamed."""
    document = json.dumps(wrap([{name: payload} for name, payload in events])).encode()

    assert told(content_type, document) == told("application/vnd.amazon.eventstream", kiro_stream(*events))


FACTS: Final = {"stopReason": "END_TURN", "usage": {"inputTokens": 3, "outputTokens": 4}, "conversationId": "c"}
KNOWN: Final = [ConversationId("c"), TokenUsage(3, 4), Stop(StopReason.END)]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"content": "Hi", **FACTS}, id="message"),
        pytest.param({"assistantResponseMessage": {"content": "Hi"}, **FACTS}, id="wrapped"),
        pytest.param({"outputMessages": [{"content": "Hi"}], **FACTS}, id="list"),
        pytest.param([{"content": "Hi"}, FACTS], id="objects"),
    ],
)
def test_messages(document: Any) -> None:
    """5.2: a message has its text; the facts beside it, or around it, come last."""
    assert decode(document) == [TextDelta("Hi"), *KNOWN]


def test_the_order_of_several_messages() -> None:
    """Messages of a list stay in their order, and are texts of their own."""
    document = {"outputMessages": [{"content": "a"}, {"content": "b"}, {"content": "c"}]}

    assert decode(document) == [TextDelta("a"), TextBreak(), TextDelta("b"), TextBreak(), TextDelta("c")]


def test_parts_of_a_message() -> None:
    """Thinking comes before the text, and calls, which are whole, behind it."""
    message = {
        "content": "Let me look.",
        "reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}},
        "toolUses": [{"toolUseId": "t", "name": "f", "input": {"a": 1}}, {"toolUseId": "u", "name": "g", "input": {}}],
    }

    assert decode({"assistantResponseMessage": message}) == [
        ThinkingDelta("Hm."),
        SignatureDelta("s"),
        TextDelta("Let me look."),
        ToolCallFragment("t", "f", '{"a":1}', stop=True),
        ToolCallFragment("u", "g", "", stop=True),
    ]
    assert decode({"reasoningContent": {"redactedContent": "r"}}) == [RedactedThinking("r")]


def test_an_unknown_event_is_named() -> None:
    """As of a stream."""
    assert decode([{"content": "Hi"}, {"fooEvent": {"a": 1}}]) == [TextDelta("Hi"), Notice("event.unknown", "fooEvent")]


def test_an_exception_in_a_document() -> None:
    """As of a stream: an answer that failed is no success."""
    with pytest.raises(UpstreamThrottled, match="slow"):
        decode([{"content": "Hi"}, {"throttlingException": {"message": "slow"}}])
    with pytest.raises(UpstreamThrottled):
        decode({"__type": "com.amazon.api#ThrottlingException"})


def test_a_document_that_never_ends() -> None:
    """A body is held up to a limit, and no further."""
    (decoder,) = KiroUpstream().decoder(TYPES[0])
    chunk = b" " * (1 << 20)
    with pytest.raises(AnswerTooLarge):
        for _ in range(BODY_BYTES // len(chunk) + 1):
            list(decoder.feed([chunk]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "content",
                    "events",
                    "outputMessages",
                    "toolUses",
                    "usage",
                    "stopReason",
                    "reasoningContent",
                    "toolUseEvent",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_document(document: Any) -> None:
    """R25: any JSON gives deltas or an error of ours."""
    try:
        assert decode(document)
    except KiroAsgiError as error:
        assert error.code
