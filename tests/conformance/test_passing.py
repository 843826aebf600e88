"""Answers that go through as bytes, as the official clients see them: whole, cut, broken off, with unknown events.

The clients are as users have them: strict ones refuse what they do not know, from whomever it comes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import anthropic
import openai
import pytest

from kiro_asgi.simulator import Head, RawBytes
from tests.conformance.asking import user
from tests.conformance.gateways import EVERY_SERVICE, KEY, TRANSIENT_RETRIES, Gateway, watched

UNKNOWN: Final = b'event: novel\ndata: {"type": "novel", "object": "novel", "choices": [], "x": 1}\n\n'
ERROR: Final = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Too much."}}\n\n'


def _chunk(**members: Any) -> bytes:
    whole = {"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 9, "model": "gpt-4o", **members}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


def _event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def _choice(delta: Any, reason: str | None = None) -> bytes:
    return _chunk(choices=[{"index": 0, "delta": delta, "finish_reason": reason}])


_START: Final = {
    "id": "msg_9", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "content": [],
    "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 7, "output_tokens": 1},
}  # fmt: skip

BEGUN: Final = {
    "chat": _choice({"role": "assistant", "content": "One, "}),
    "messages": _event("message_start", message=_START)
    + _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    + _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "One, "}),
}
REST: Final = {
    "chat": _choice({"content": "two."})
    + _choice({}, "stop")
    + _chunk(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}),
    "messages": _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "two."})
    + _event("content_block_stop", index=0)
    + _event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 9}),
}
END: Final = {"chat": b"data: [DONE]\n\n", "messages": _event("message_stop")}
OPERATIONS: Final = {"chat": "openai.chat", "messages": "anthropic.chat"}
WHOLE: Final = (["One, ", "two."], [(7, 9)], None)
EACH_PAIR: Final = pytest.mark.parametrize("api", OPERATIONS)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Bytes go through, as they do by default."""
    settings = {**TRANSIENT_RETRIES, **EVERY_SERVICE, "KIRO_ASGI__STREAM__RELAY": "auto"}
    with watched(tmp_path_factory.mktemp("passing"), **settings) as running:
        yield running


def script(gateway: Gateway, api: str, data: bytes) -> None:
    """The service's next answer is *data*."""
    assert gateway.service is not None
    gateway.service.enqueue((Head(content_type="text/event-stream"), RawBytes(data)), operation=OPERATIONS[api])


def seen(gateway: Gateway, api: str) -> tuple[list[str], Any, Exception | None]:
    """The pieces of text, the last counts of tokens, and what the official client raised."""
    pieces: list[str] = []
    counts: list[Any] = []
    try:
        counts.extend(_READ[api](gateway, pieces))
    except (openai.APIError, anthropic.APIError) as error:
        return pieces, counts, error
    return pieces, counts, None


def _chat(gateway: Gateway, pieces: list[str]) -> Iterator[Any]:
    asked: Any = {"model": "openai/gpt-4o", "messages": user("Hi"), "stream_options": {"include_usage": True}}
    with (
        openai.OpenAI(base_url=gateway.openai_base, api_key=KEY, max_retries=0) as client,
        client.chat.completions.create(**asked, stream=True) as chunks,
    ):
        for chunk in chunks:
            assert not chunk.id or (chunk.id, chunk.created, chunk.model) == ("chatcmpl-9", 9, "openai/gpt-4o")
            pieces.extend(choice.delta.content for choice in chunk.choices if choice.delta.content)
            if chunk.usage:
                yield chunk.usage.prompt_tokens, chunk.usage.completion_tokens


def _messages(gateway: Gateway, pieces: list[str]) -> Iterator[Any]:
    asked: Any = {"model": "anthropic/claude-haiku-4-5", "max_tokens": 99, "messages": user("Hi")}
    with (
        anthropic.Anthropic(base_url=gateway.base, api_key=KEY, max_retries=0) as client,
        client.messages.stream(**asked) as events,
    ):
        pieces.extend(events.text_stream)
        message = events.get_final_message()
        assert (message.id, message.model) == ("msg_9", "anthropic/claude-haiku-4-5")
        yield message.usage.input_tokens, message.usage.output_tokens


_READ: Final = {"chat": _chat, "messages": _messages}


@EACH_PAIR
@pytest.mark.parametrize("extra", [b"", UNKNOWN, b": comment\n\n"], ids=["plain", "unknown", "comment"])
def test_a_whole_answer(gateway: Gateway, api: str, extra: bytes) -> None:
    """F256, F429: one id, time and model in all chunks, the client's name for it; counts are the service's own."""
    script(gateway, api, BEGUN[api] + extra + REST[api] + extra + END[api])

    assert seen(gateway, api) == WHOLE


def test_a_sentinel_that_is_missing(gateway: Gateway) -> None:
    """F014: a completion that has come to its end is one, though its service forgets to say so."""
    script(gateway, "chat", BEGUN["chat"] + REST["chat"])

    assert seen(gateway, "chat") == WHOLE


@EACH_PAIR
@pytest.mark.parametrize("cut", [b"", b"data: {", UNKNOWN], ids=["between", "within", "unknown"])
def test_a_cut_answer(gateway: Gateway, api: str, cut: bytes) -> None:
    """R03: what has come is shown, and that it is not all is an error, also where only the end is missing."""
    script(gateway, api, BEGUN[api] + cut)
    pieces, _, raised = seen(gateway, api)

    assert pieces == ["One, "]
    assert raised is not None
    assert "before it was complete" in str(raised)


@EACH_PAIR
def test_an_answer_that_the_service_breaks_off(gateway: Gateway, api: str) -> None:
    """F084, F085: the service's words, as an error of the API, behind what had come; nothing behind them is read."""
    script(gateway, api, BEGUN[api] + ERROR + REST[api] + END[api])
    pieces, _, raised = seen(gateway, api)

    assert pieces == ["One, "]
    assert raised is not None
    assert "Too much." in str(raised)


@EACH_PAIR
def test_an_answer_that_begins_with_an_error(gateway: Gateway, api: str) -> None:
    """Nothing was shown, so the gateway asks once more, and the client sees one answer."""
    script(gateway, api, ERROR)
    script(gateway, api, BEGUN[api] + REST[api] + END[api])

    assert seen(gateway, api) == WHOLE
