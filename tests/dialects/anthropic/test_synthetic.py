"""A whole message played as a stream: an answer that was collected first, for a client that wants events."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.model.events import BlockStart, StopReason, Usage
from kiro_asgi.model.message import (
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    fold,
    replay,
    split_sentences,
    unsplit,
)
from kiro_asgi.testing.grammar.messages import check, parse_sse

HEADING = ResponseMeta("msg_1", "claude-sonnet-4.5", 1_700_000_000)
MESSAGE = Message(
    (
        ThinkingBlock("Let me see.", "c2ln"),
        TextBlock("First. Second! Third"),
        ToolCallBlock("t1", "f", '{"a":1}'),
        RedactedThinkingBlock("ZGF0YQ=="),
        TextBlock("Done."),
    ),
    StopReason.TOOL_CALL,
    usage=Usage(input_tokens=7, output_tokens=9),
)


def stream(message: Message, cut=unsplit) -> list[dict]:
    encoder = AnthropicMessages().encoder(HEADING)
    data = b"".join([*encoder.feed(replay(message, cut)), *encoder.flush()])
    check(data)
    return parse_sse(data)


def test_every_block_is_a_triple_at_its_position():
    """F269, F270, F272, F275, F276, F285: N blocks are N starts and stops, numbered by position, between one start and
    one stop of the message."""
    events = stream(MESSAGE)

    assert [event["index"] for event in events if event["type"] == "content_block_start"] == [0, 1, 2, 3, 4]
    assert [event["index"] for event in events if event["type"] == "content_block_stop"] == [0, 1, 2, 3, 4]
    assert [event["type"] for event in events].count("message_start") == 1
    assert events[-1]["type"] == "message_stop"


def test_text_is_one_delta_and_calls_are_serialised():
    """F274, F286, F288: a text is one delta; a call is one piece of JSON; sealed thinking is in its start alone."""
    deltas = [event["delta"] for event in stream(MESSAGE) if event["type"] == "content_block_delta"]

    assert [delta["text"] for delta in deltas if delta["type"] == "text_delta"] == ["First. Second! Third", "Done."]
    assert [json.loads(delta["partial_json"]) for delta in deltas if "partial_json" in delta] == [{"a": 1}]


def test_the_end_tells_why_and_how_much():
    """F278, F280, F289: stop reason and usage are those of the message."""
    (delta,) = [event for event in stream(MESSAGE) if event["type"] == "message_delta"]

    assert delta["delta"]["stop_reason"] == "tool_use"
    assert delta["usage"]["output_tokens"] == 9


def test_text_may_be_cut_into_sentences():
    """F287: there is more than one delta, and together they are the text."""
    texts = [event["delta"]["text"] for event in stream(MESSAGE, split_sentences) if "text" in event.get("delta", {})]

    assert texts == ["First. ", "Second! ", "Third", "Done."]


@given(text=st.text(), marks=st.lists(st.sampled_from(["a. ", "b!", "?\n", "。", "...", " "]), max_size=8))
def test_sentences_lose_nothing(text, marks):
    """F287: however a text is cut, its pieces join to it; and a message that is unfolded folds to itself."""
    whole_text = "".join([text, *marks])
    message = Message((TextBlock(whole_text),), StopReason.END)

    assert "".join(split_sentences(whole_text)) == whole_text
    assert fold(replay(message, split_sentences)).text == whole_text


def test_the_encoder_takes_typed_events_only():
    """F290: an event is a value of its own class, not a dictionary with a type in it."""
    encoder = AnthropicMessages().encoder(HEADING)

    assert any(isinstance(event, BlockStart) for event in replay(MESSAGE))
    with pytest.raises(AssertionError, match="not an event"):
        list(encoder.feed([{"type": "text_delta", "text": "a"}]))  # type: ignore[list-item]
