"""Messages in, Chat Completions out: every defect of the converter that was studied is a test here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.errors import KiroAsgiError, UpstreamOverloaded, UpstreamProtocolError
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from tests.dialects.openai_chat.grammar import check, fold

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 2,
            "output_tokens": 1,
        },
    },
}
STOP = {"type": "message_stop"}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of one block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, words: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": words})


def tool(index: int, name: str, *pieces: str) -> list[dict[str, Any]]:
    start = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    return block(index, start, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def end(reason: str = "end_turn") -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}, STOP]


def converted(*events: dict[str, Any]) -> bytes:
    """The stream that a client of Chat Completions is sent; an error of the upstream is its end, as in the relay."""
    answer = build_pipeline(AnthropicUpstream().decoder("text/event-stream"), Plan())
    encoder = OpenAIChat().encoder(ResponseMeta("chatcmpl-1", "m", 1, ChatOptions(include_usage=True)))
    sent = bytearray()
    try:
        for event in events:
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            for each in encoder.feed(answer.feed([data])):
                sent += each
        for each in (*encoder.feed(answer.flush()), *encoder.flush()):
            sent += each
    except KiroAsgiError as error:
        return bytes(sent + b"".join(encoder.error(error)))
    return bytes(sent)


def answer(*events: dict[str, Any]) -> dict[str, Any]:
    """What a client puts together from a stream, which is checked to be legal."""
    return fold(check(converted(START, *events)))


@pytest.mark.parametrize("pieces", [(), ("",), ("{}",)])
def test_a_tool_without_arguments_is_called(pieces: tuple[str, ...]) -> None:
    """Its name and id go out though no piece of arguments ever comes; the arguments are an empty object."""
    found = answer(*tool(0, "f", *pieces), *end("tool_use"))

    function = {"name": "f", "arguments": "{}"}
    assert found["message"]["tool_calls"] == [{"id": "toolu_0", "type": "function", "function": function}]
    assert found["finish_reason"] == "tool_calls"


def test_parallel_calls_are_numbered() -> None:
    """From 0, in their order, whatever the numbers of their blocks."""
    found = answer(*text(0, "Hi"), *tool(1, "f", '{"x"', ":1}"), *tool(2, "g", '{"y":2}'), *end("tool_use"))

    assert [call["function"] for call in found["message"]["tool_calls"]] == [
        {"name": "f", "arguments": '{"x":1}'},
        {"name": "g", "arguments": '{"y":2}'},
    ]
    assert found["message"]["content"] == "Hi"


def test_the_prompt_is_counted_whole() -> None:
    """What was read from the cache, or written to it, is a part of the prompt."""
    usage = answer(*text(0, "Hi"), *end())["usage"]

    assert usage["prompt_tokens"] == 10
    assert usage["prompt_tokens_details"]["cached_tokens"] == 3
    assert usage["completion_tokens"] == 7
    assert usage["total_tokens"] == 17


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "length"),
        ("tomorrow", "stop"),
    ],
)
def test_stop_reasons(said: str, finish: str) -> None:
    """A refusal is no end, and a full window is a length."""
    assert answer(*text(0, "Hi"), *end(said))["finish_reason"] == finish


def test_thinking_becomes_reasoning_and_its_seal_nothing() -> None:
    """The API has no place for a signature, nor for what is sealed; neither breaks the answer."""
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
    )
    redacted = block(1, {"type": "redacted_thinking", "data": "QUJD"})
    found = answer(*thinking, *redacted, *text(2, "Hi"), *end())

    assert found["message"] == {"role": "assistant", "reasoning_content": "hm", "content": "Hi"}


def test_what_is_new_is_passed_over_and_the_rest_arrives() -> None:
    """Pings, citations, blocks and events of kinds that nobody knew."""
    citation = {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}}
    cited = block(0, {"type": "text", "text": ""}, citation, {"type": "text_delta", "text": "Hi"})
    odd = block(1, {"type": "hologram", "data": "x"}, {"type": "hologram_delta", "data": "y"})

    assert answer({"type": "ping"}, *cited, *odd, {"type": "novel"}, *end())["message"]["content"] == "Hi"


def test_an_error_is_an_error() -> None:
    """It is told in band, behind what came before; no reason follows it as if the answer were whole."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    chunks = check(converted(START, *text(0, "Hi"), error))

    assert "Overloaded" in chunks[-1]["error"]["message"]
    assert all(choice["finish_reason"] is None for chunk in chunks[:-1] for choice in chunk["choices"])


def test_an_answer_without_an_end_is_an_error() -> None:
    """No ``[DONE]`` makes a whole one of it."""
    chunks = check(converted(START, *text(0, "Hi")))

    assert "error" in chunks[-1]


def test_the_errors_are_of_the_tree() -> None:
    """A caller is told the same as the client."""
    decoder = build_pipeline(AnthropicUpstream().decoder("text/event-stream"), Plan())
    with pytest.raises(UpstreamOverloaded):
        list(
            decoder.feed(
                [b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n']
            )
        )

    decoder = build_pipeline(AnthropicUpstream().decoder("text/event-stream"), Plan())
    with pytest.raises(UpstreamProtocolError):
        list(decoder.feed([f"event: message_start\ndata: {json.dumps(START)}\n\n".encode()]) or decoder.flush())
        list(decoder.flush())
