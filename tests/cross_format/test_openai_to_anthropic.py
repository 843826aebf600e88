"""Chat Completions in, Messages out: every defect of the converter that was studied is a test here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError, UpstreamThrottled, UpstreamUnreachable
from kiro_asgi.model.signatures import UNSIGNED
from kiro_asgi.streaming import OpenAIToAnthropicState, SseDecoder
from kiro_asgi.testing.grammar.messages import check, check_cut, parse_sse
from tests.helpers import cut, run
from tests.upstreams.openai.chunks import DONE, calling, chunk, new_ids, piece, sse

USAGE = {
    "choices": [],
    "usage": {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}},
}
TEXT = chunk({"role": "assistant", "content": "Hi"})


def state(**settings: Any) -> OpenAIToAnthropicState:
    return OpenAIToAnthropicState("claude-x", new_id=new_ids(), **settings)


def converted(*values: Any, done: bool = True, **settings: Any) -> bytes:
    converter = state(**settings)
    return converter.feed(sse(*values) + DONE * done) + converter.finish()


def message(*values: Any, **settings: Any) -> dict[str, Any]:
    """The message that a client puts together from a stream, which is checked to be legal."""
    return check(converted(*values, **settings))


def test_counts_behind_the_reason_are_in_the_one_message_delta() -> None:
    """The usual tail of ``include_usage`` makes no second ``message_delta``, and leaves the stop reason alone."""
    found = message(calling(piece(0, "a", "f", "{}")), chunk(finish="tool_calls"), USAGE)
    events = [event["type"] for event in parse_sse(converted(TEXT, chunk(finish="stop"), USAGE))]

    assert found["stop_reason"] == "tool_use"
    assert found["usage"]["input_tokens"] == 7
    assert found["usage"]["cache_read_input_tokens"] == 3
    assert found["usage"]["output_tokens"] == 4
    assert events[-2:] == ["message_delta", "message_stop"]
    assert events.count("message_delta") == 1


def test_message_start_is_whole() -> None:
    """It has a stop reason and a stop sequence, null as yet, and the size of the prompt where that is known."""
    [start] = parse_sse(state(input_tokens=99).feed(sse(TEXT)))[:1]

    assert start["message"]["stop_reason"] is None
    assert start["message"]["stop_sequence"] is None
    assert start["message"]["model"] == "claude-x"
    assert start["message"]["usage"]["input_tokens"] == 99


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_becomes_thinking(name: str) -> None:
    """It is not dropped, and is a block of its own before the text."""
    found = message(chunk({name: "h"}), chunk({name: "m"}), TEXT, chunk(finish="stop"))

    assert found["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": UNSIGNED},
        {"type": "text", "text": "Hi"},
    ]


def test_thinking_in_tags_becomes_thinking() -> None:
    """Where the caller says that there is some."""
    chunks = chunk({"content": "<think>h"}), chunk({"content": "m</think>Hi"}), chunk(finish="stop")

    assert message(*chunks)["content"] == [{"type": "text", "text": "<think>hm</think>Hi"}]
    assert [block["type"] for block in message(*chunks, thinking_tags=("think",))["content"]] == ["thinking", "text"]


def test_parallel_calls_do_not_overlap_and_keep_their_order() -> None:
    """Each block is closed before the next opens; calls in turns come out whole."""
    chunks = (
        TEXT,
        calling(piece(0, "a", "f", '{"x"')),
        calling(piece(1, "b", "g", '{"y"')),
        calling(piece(0, arguments=":1}")),
        calling(piece(1, arguments=":2}")),
        chunk(finish="tool_calls"),
    )

    assert message(*chunks)["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {"y": 2}},
    ]


def test_text_behind_a_call_is_a_block_of_its_own() -> None:
    """It does not open inside the call's."""
    found = message(calling(piece(0, "a", "f", '{"x":1}')), chunk({"content": "so"}), chunk(finish="tool_calls"))

    assert sorted(block["type"] for block in found["content"]) == ["text", "tool_use"]


def test_calls_without_arguments_and_without_ids() -> None:
    """The first has an empty object as input, the second gets an id."""
    found = message(calling(piece(0, None, "f")), chunk(finish="tool_calls"))

    assert found["content"] == [{"type": "tool_use", "id": "new1", "name": "f", "input": {}}]


@pytest.mark.parametrize("done", [True, False])
def test_the_end_is_told_once_however_it_comes(done: bool) -> None:
    """With or without ``[DONE]``; nothing follows."""
    converter = state()
    stream = converter.feed(sse(TEXT, chunk(finish="stop")) + DONE * done) + converter.finish()

    assert check(stream)["stop_reason"] == "end_turn"
    assert converter.finish() == converter.feed(sse(TEXT)) == b""
    assert converter.failure is None


def test_an_answer_without_an_end_is_an_error() -> None:
    """A client is not left waiting for ``message_stop``, and does not take a part for the whole."""
    converter = state()
    stream = converter.feed(sse(TEXT)) + converter.finish()

    assert check_cut(stream)["type"] == "api_error"
    assert isinstance(converter.failure, UpstreamProtocolError)
    assert converter.failure.code == "stream.cut"


@pytest.mark.parametrize(
    ("word", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("new", "end_turn")],
)
def test_stop_reasons(word: str, reason: str) -> None:
    """A filtered answer is no end of a turn."""
    assert message(TEXT, chunk(finish=word))["stop_reason"] == reason


def test_a_call_that_was_cut_is_not_delivered() -> None:
    """Half of its arguments would be run."""
    found = message(TEXT, calling(piece(0, "a", "f", '{"x"')), chunk(finish="length"))

    assert [block["type"] for block in found["content"]] == ["text"]
    assert found["stop_reason"] == "max_tokens"


def test_errors_in_the_stream_reach_the_client() -> None:
    """As the API's own, behind what came before, and nothing comes behind them."""
    converter = state()
    stream = converter.feed(sse(TEXT)) + converter.feed({"error": {"message": "slow", "code": "rate_limit_exceeded"}})

    assert check_cut(stream)["type"] == "rate_limit_error"
    assert isinstance(converter.failure, UpstreamThrottled)
    assert converter.feed(sse(TEXT)) == converter.finish() == b""


def test_a_failure_of_the_callers_own() -> None:
    """It ends the stream, once."""
    converter, failure = state(), UpstreamUnreachable("gone")
    stream = converter.feed(sse(TEXT)) + converter.error(failure)

    assert "gone" in check_cut(stream)["message"]
    assert converter.failure is failure
    assert converter.error(failure) == b""


def _without_ids(stream: bytes) -> list[dict[str, Any]]:
    events = parse_sse(stream)
    events[0]["message"].pop("id")
    return events


STREAM = sse(
    TEXT,
    chunk({"reasoning_content": "é日"}),
    calling(piece(0, "a", "f", '{"x"'), piece(1, None, "g", "")),
    calling(piece(0, arguments=":1}")),
    chunk(finish="tool_calls"),
    USAGE,
)  # fmt: skip


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_the_result_does_not_depend_on_cuts(cuts: list[int]) -> None:
    """Bytes may be cut inside an event, a character, anywhere."""
    converter = state()
    pieces = [converter.feed(each) for each in cut(STREAM, cuts)]

    whole = state()
    assert _without_ids(b"".join(pieces) + converter.finish()) == _without_ids(whole.feed(STREAM) + whole.finish())


def test_events_may_be_bytes_decoded_or_plain_objects() -> None:
    """Three ways to say the same."""
    events = run(SseDecoder(), [STREAM])
    results = []
    for form in ([STREAM], events, [json.loads(event.data) for event in events]):
        converter = state()
        results.append(_without_ids(b"".join(map(converter.feed, form)) + converter.finish()))

    assert results[0] == results[1] == results[2]
