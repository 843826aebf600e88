"""Streams: their grammar, their content, and that nothing a party sends can break out of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.encoder import ChatEncoder
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.errors import KiroAsgiError, UpstreamTimeout, UpstreamUnreachable
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Event,
    MessageEnd,
    MessageStart,
    RefusalDelta,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    Usage,
)
from kiro_asgi.model.message import fold as fold_events
from tests.dialects.openai_chat import grammar
from tests.dialects.strategies import HOSTILE, answers
from tests.helpers import run, run_apart

USAGE = Usage(7, 5, 2, 1, 3)

TEXT = [BlockStart(0, BlockKind.TEXT), TextDelta("a"), TextDelta("b"), BlockEnd(0)]
CALL = [BlockStart(0, BlockKind.TOOL_CALL, "call_1", "f"), ToolInputDelta('{"x"'), ToolInputDelta(":1}"), BlockEnd(0)]


def meta(**options: bool) -> ResponseMeta:
    return ResponseMeta("chatcmpl-1", "m", 12, ChatOptions(**options))


def answer(*events: Event, stop: StopReason = StopReason.END) -> list[Event]:
    return [MessageStart(), *events, MessageEnd(stop, usage=USAGE)]


def chunks(encoder: ChatEncoder, events: list[Event]) -> list[dict[str, Any]]:
    return grammar.check(b"".join(run(encoder, events)))


def deltas(events: list[Event], **options: bool) -> list[dict[str, Any]]:
    told = chunks(ChatEncoder(meta(**options)), events)
    return [choice["delta"] for chunk in told for choice in chunk["choices"]]


def test_a_stream_byte_by_byte() -> None:
    """F010, F014, F255, F258-F261: bare ``data`` lines; role, text, a finish with an empty delta, the sentinel."""
    start = (
        '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":12,"model":"m","choices":[{"index":0,"delta":'
    )
    expected = [
        start + '{"role":"assistant","content":""},"finish_reason":null,"logprobs":null}]}',
        start + '{"content":"a"},"finish_reason":null,"logprobs":null}]}',
        start + '{"content":"b"},"finish_reason":null,"logprobs":null}]}',
        start + '{},"finish_reason":"stop","logprobs":null}]}',
        "[DONE]",
    ]
    stream = b"".join(run(ChatEncoder(meta()), answer(*TEXT)))
    assert stream.decode() == "".join(f"data: {line}\n\n" for line in expected)


def test_a_delta_is_one_chunk_at_once() -> None:
    """F020, F259, F266: text leaves with the event that brought it."""
    encoder = ChatEncoder(meta())
    list(encoder.feed([MessageStart(), BlockStart(0, BlockKind.TEXT)]))
    (chunk,) = encoder.feed([TextDelta("now")])
    assert json.loads(chunk.removeprefix(b"data: "))["choices"][0]["delta"] == {"content": "now"}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(answer(), [{"role": "assistant", "content": ""}, {}], id="empty answer"),
        pytest.param(
            answer(BlockStart(0, BlockKind.THINKING), ThinkingDelta("t"), SignatureDelta("s"), BlockEnd(0)),
            [{"role": "assistant", "content": None}, {"reasoning_content": "t"}, {}],
            id="F178 thinking only, its signature left out",
        ),
        pytest.param(
            answer(BlockStart(0, BlockKind.REDACTED_THINKING, data="x"), BlockEnd(0)),
            [{"role": "assistant", "content": None}, {}],
            id="sealed thinking is left out",
        ),
        pytest.param(
            answer(*CALL),
            [
                {"role": "assistant", "content": None},
                {
                    "tool_calls": [
                        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
                    ]
                },
                {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
                {},
            ],
            id="F204 a call",
        ),
        pytest.param(
            answer(BlockStart(0, BlockKind.TOOL_CALL, "c", "f"), ToolInputDelta(""), BlockEnd(0)),
            [
                {"role": "assistant", "content": None},
                {
                    "tool_calls": [
                        {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
                    ]
                },
                {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
                {},
            ],
            id="a call without arguments",
        ),
    ],
)
def test_deltas(events: list[Event], expected: list[dict[str, Any]]) -> None:
    """Every kind of block becomes the deltas that clients know, or none."""
    assert deltas(events) == expected


def test_calls_are_numbered_over_the_whole_answer() -> None:
    """F203, R31: 0, 1, 2, whatever stands between them; text after a call is still content."""
    told = deltas(answer(*CALL, *TEXT, *CALL, BlockStart(3, BlockKind.TOOL_CALL, "c", "g"), BlockEnd(3)))
    calls = [call for delta in told for call in delta.get("tool_calls", ())]
    assert [call["index"] for call in calls if "id" in call] == [0, 1, 2]
    assert calls[-1] == {"index": 2, "function": {"arguments": "{}"}}
    assert "".join(delta.get("content") or "" for delta in told) == "ab"


def test_the_deprecated_form() -> None:
    """A request with ``functions`` is answered with ``function_call``, which has room for the first call only."""
    events = answer(*CALL, BlockStart(1, BlockKind.TOOL_CALL, "c", "g"), BlockEnd(1), stop=StopReason.TOOL_CALL)
    told = chunks(ChatEncoder(meta(legacy_functions=True)), events)
    assert [choice["delta"] for chunk in told for choice in chunk["choices"]] == [
        {"role": "assistant", "content": None},
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": '{"x"'}},
        {"function_call": {"arguments": ":1}"}},
        {},
    ]
    assert told[-1]["choices"][0]["finish_reason"] == "function_call"


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (StopReason.END, "stop"),
        (StopReason.STOP_SEQUENCE, "stop"),
        (StopReason.TOOL_CALL, "tool_calls"),
        (StopReason.LENGTH, "length"),
        (StopReason.CONTEXT_FULL, "length"),
        (StopReason.CONTENT_FILTER, "content_filter"),
        (StopReason.REFUSAL, "stop"),
    ],
)
def test_finish_reason(reason: StopReason, word: str) -> None:
    """F262: every stop reason has a word."""
    assert chunks(ChatEncoder(meta()), answer(*TEXT, stop=reason))[-1]["choices"][0]["finish_reason"] == word


USAGE_OBJECT = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 3,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}

ABSENT = "absent"


@pytest.mark.parametrize(
    ("asked", "in_finish", "on_deltas", "on_finish", "own_chunk"),
    [
        pytest.param(False, False, ABSENT, ABSENT, False, id="F263 not asked for"),
        pytest.param(True, False, None, None, True, id="F263 asked for"),
        pytest.param(False, True, ABSENT, USAGE_OBJECT, False, id="F264 in the finish chunk"),
        pytest.param(True, True, ABSENT, USAGE_OBJECT, False, id="F264 never both"),
    ],
)
def test_usage(asked: bool, in_finish: bool, on_deltas: Any, on_finish: Any, own_chunk: bool) -> None:
    """F263-F265: token counts in a chunk of their own if asked for, or in the finish chunk if so configured."""
    encoder = OpenAIChat(usage_in_finish_chunk=in_finish).encoder(meta(include_usage=asked))
    told = chunks(encoder, answer(*TEXT))
    if own_chunk:
        last = told.pop()
        assert (last["choices"], last["usage"]) == ([], USAGE_OBJECT)
    *before, finish = (chunk.get("usage", ABSENT) for chunk in told)
    assert before == [on_deltas] * 3
    assert finish == on_finish


@given(answers(), st.booleans(), st.booleans(), st.booleans())
def test_every_answer_is_a_legal_stream(events: list[Event], usage: bool, legacy: bool, in_finish: bool) -> None:
    """R31, F256: any legal events give a legal stream, which folds to the collected answer (groups M and W)."""
    dialect = OpenAIChat(usage_in_finish_chunk=in_finish)
    head = meta(include_usage=usage, legacy_functions=legacy)
    streamed = grammar.fold(chunks(dialect.encoder(head), events))
    whole = json.loads(b"".join(dialect.render(fold_events(events), head)))
    choice = whole["choices"][0]
    message = {key: value for key, value in choice["message"].items() if value or key != "refusal"}
    streamed["message"].setdefault("content", None)
    if not message["content"]:
        streamed["message"]["content"] = message["content"] = streamed["message"]["content"] or None
    streamed["message"] = {
        k: v for k, v in streamed["message"].items() if v or k not in ("reasoning_content", "refusal")
    }
    assert streamed["message"] == message
    assert streamed["finish_reason"] == choice["finish_reason"]
    assert streamed["usage"] == (whole["usage"] if usage or in_finish else None)


@given(answers(), st.data())
def test_a_broken_stream_is_legal_too(events: list[Event], data: st.DataObject) -> None:
    """F014, F083-F085, R31: after any event the error ends the stream, once, and nothing can follow."""
    encoder = ChatEncoder(meta(include_usage=data.draw(st.booleans())))
    told = b"".join(encoder.feed(events[: data.draw(st.integers(0, len(events)))]))
    told += b"".join(encoder.error(UpstreamTimeout(data.draw(HOSTILE))))
    told += b"".join(encoder.error(UpstreamTimeout("again"))) + b"".join(encoder.flush())
    assert grammar.check(told)[-1]["error"]["type"] == "timeout_error"


def test_nothing_follows_the_end() -> None:
    """R31: neither a second flush nor a late error adds to a finished stream."""
    encoder = ChatEncoder(meta())
    run(encoder, answer(*TEXT))
    assert b"".join(encoder.error(UpstreamUnreachable("late"))) == b""
    assert list(encoder.flush()) == []


@given(answers())
def test_cuts_do_not_matter(events: list[Event]) -> None:
    """The same bytes, whether events come one by one or together."""
    assert b"".join(run(ChatEncoder(meta()), events)) == b"".join(run_apart(ChatEncoder(meta()), events))


def expected_events(events: list[Event]) -> int:
    """Role, finish, usage and sentinel; one a delta; for a call its head and at least one piece of arguments.

    What a server tool gave is set apart from text before it, and all that was found is cited in one.
    """
    texts, pieces, length, cited = 0, [], 0, False
    for event in events:
        match event:
            case TextDelta(text):
                texts, length = texts + 1, length + len(text)
            case RefusalDelta() | ThinkingDelta():
                texts += 1
            case SignatureDelta(signature) if signature.startswith("router.details:"):
                texts += 1
            case Citation(url=url):
                cited = cited or bool(url)
            case BlockStart(value=ServerResult(output=output)):
                texts, cited = texts + (length > 0), cited or bool(output.hits)
            case BlockStart(kind=BlockKind.TOOL_CALL):
                pieces.append(0)
            case ToolInputDelta(text) if text:
                pieces[-1] += 1
    return 4 + texts + cited + sum(1 + max(1, count) for count in pieces)


@given(answers(), HOSTILE, HOSTILE)
def test_nothing_breaks_out_of_its_string(events: list[Event], call_id: str, model: str) -> None:
    """R26: line ends and separators in the model, ids, names and text add no event and no line."""
    head = ResponseMeta(f"chatcmpl-{call_id}", f"x\n\ndata: {{}}{model}", 1, ChatOptions(include_usage=True))
    stream = b"".join(run(ChatEncoder(head), events))
    told = grammar.check(stream)
    assert len(told) + 1 == expected_events(events)
    assert stream.count(b"\n") == 2 * (len(told) + 1)
    assert b"\r" not in stream and b"\x00" not in stream
    assert told[0]["model"] == head.model and told[0]["id"] == head.id


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "\ud83d\ude00", "\x00\x1f\x7f", "\uffff"])
def test_the_output_is_always_utf8(text: str) -> None:
    """R21: half a surrogate pair from upstream is replaced, everything else is kept."""
    told = deltas(answer(BlockStart(0, BlockKind.TEXT), TextDelta(text), BlockEnd(0)))
    assert told[1]["content"] == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@pytest.mark.parametrize("error", [UpstreamUnreachable("gone\r\n\r\ndata: x"), KiroAsgiError("odd", param="p")])
def test_the_error_chunk(error: KiroAsgiError) -> None:
    """F085, F256, F014: no choices, a top-level error, id, model and time of the stream; then the error by itself, for
    which the AI SDK's provider for Chat Completions looks, and the sentinel."""
    encoder = ChatEncoder(meta())
    told = grammar.check(b"".join(encoder.feed([MessageStart(), *TEXT])) + b"".join(encoder.error(error)))
    assert told[-1] == {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 12,
        "model": "m",
        "choices": [],
        "error": {
            "message": error.message,
            "type": "overloaded_error" if isinstance(error, UpstreamUnreachable) else "api_error",
            "param": error.param or None,
            "code": "stream_error",
        },
    }


def test_the_heartbeat_is_a_comment() -> None:
    """A keep-alive may stand between any two chunks and is no event."""
    encoder = ChatEncoder(meta())
    stream = encoder.heartbeat.join(run(encoder, answer(*TEXT)))
    assert encoder.heartbeat.startswith(b":") and encoder.heartbeat.endswith(b"\n\n")
    assert grammar.check(stream) == chunks(ChatEncoder(meta()), answer(*TEXT))


@given(answers())
def test_the_official_helper_folds_it(events: list[Event]) -> None:
    """The SDK's own accumulator rebuilds role, text, thinking and calls from the stream."""
    head = meta(include_usage=True)
    stream = b"".join(run(ChatEncoder(head), events))
    state = ChatCompletionStreamState()
    for payload in grammar.payloads(stream)[:-1]:
        list(state.handle_chunk(grammar.CHUNK.validate_json(payload)))
    snapshot = state.current_completion_snapshot
    whole = json.loads(b"".join(OpenAIChat().render(fold_events(events), head)))["choices"][0]["message"]
    message = snapshot.choices[0].message
    assert message.role == "assistant"
    assert (message.content or "") == (whole["content"] or "")
    assert (getattr(message, "reasoning_content", None) or "") == whole.get("reasoning_content", "")
    calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    assert calls == [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in whole.get("tool_calls", ())
    ]
