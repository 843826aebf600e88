"""Why answers ended, in words that no table has: compared with what the words say, for all services alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import (
    KiroAsgiError,
    UpstreamError,
    UpstreamFault,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamThrottled,
)
from kiro_asgi.model.events import Event, MessageEnd, Notice, StopReason
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.upstreams import ends
from kiro_asgi.upstreams.anthropic import answer as anthropic
from kiro_asgi.upstreams.bedrock import answer as bedrock
from kiro_asgi.upstreams.bedrock.claude import messages
from kiro_asgi.upstreams.gemini import answer as gemini
from kiro_asgi.upstreams.kiro import answer as kiro
from kiro_asgi.upstreams.openai import answer as chat
from kiro_asgi.upstreams.openai import responses_answer as responses
from kiro_asgi.wire.eventstream import encode_frame

SSE, JSON, FRAMES = "text/event-stream", "application/json", "application/vnd.amazon.eventstream"
ARGUMENTS = {"city": "Rome"}
WRITTEN = json.dumps(ARGUMENTS)


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (it.get("type", "x").encode(), json.dumps(it).encode()) for it in events
    )


def frames(*events: tuple[str, dict[str, Any]]) -> bytes:
    return b"".join(
        encode_frame({":event-type": name, ":message-type": "event"}, json.dumps(value).encode())
        for name, value in events
    )


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def _chat_call() -> dict[str, Any]:
    return {"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": WRITTEN}}


def _chat(word: Any, held: str) -> bytes:
    deltas = {"": {}, "text": {"content": "Hi"}, "call": {"tool_calls": [_chat_call()]}}
    parts = ({"delta": deltas[held]}, {"delta": {}, "finish_reason": word})
    return sse(*({"choices": [{"index": 0, **part}]} for part in parts)) + b"data: [DONE]\n\n"


def _chat_whole(word: Any, held: str) -> bytes:
    message = {"": {"content": None}, "text": {"content": "Hi"}, "call": {"tool_calls": [_chat_call()]}}[held]
    return body({"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": word}]})


def _item(held: str) -> list[dict[str, Any]]:
    text = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}
    call = {"type": "function_call", "id": "f", "call_id": "a", "name": "look", "arguments": WRITTEN}
    return {"": [], "text": [text], "call": [call]}[held]


def _response(word: Any, held: str, status: str = "incomplete") -> dict[str, Any]:
    return {"status": status, "incomplete_details": {"reason": word}, "output": _item(held)}


def _responses(word: Any, held: str) -> bytes:
    done = ({"type": "response.output_item.done", "output_index": n, "item": it} for n, it in enumerate(_item(held)))
    return sse(*done, {"type": "response.incomplete", "response": _response(word, held)})


def _responses_whole(word: Any, held: str) -> bytes:
    return body(_response(word, held))


def _responses_status(word: Any, held: str) -> bytes:
    return body({"status": word, "output": _item(held)})


def _block(held: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "a", "name": "look", "input": ARGUMENTS}
    return {"": [], "text": [{"type": "text", "text": "Hi"}], "call": [call]}[held]


def _messages(word: Any, held: str) -> bytes:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"content": []}}]
    for block in _block(held):
        events.append({"type": "content_block_start", "index": 0, "content_block": block})
        events.append({"type": "content_block_stop", "index": 0})
    return sse(*events, {"type": "message_delta", "delta": {"stop_reason": word}}, {"type": "message_stop"})


def _messages_whole(word: Any, held: str) -> bytes:
    return body({"type": "message", "content": _block(held), "stop_reason": word})


def _candidate(word: Any, held: str) -> dict[str, Any]:
    call = {"functionCall": {"name": "look", "args": ARGUMENTS}}
    parts = {"": [], "text": [{"text": "Hi"}], "call": [call]}[held]
    return {"candidates": [{"index": 0, "content": {"parts": parts}, "finishReason": word}]}


def _converse(held: str) -> list[tuple[str, dict[str, Any]]]:
    place = {"contentBlockIndex": 0}
    use = {"toolUse": {"toolUseId": "a", "name": "look"}}
    call = [
        ("contentBlockStart", {**place, "start": use}),
        ("contentBlockDelta", {**place, "delta": {"toolUse": {"input": WRITTEN}}}),
    ]
    held_by = {"": [], "text": [("contentBlockDelta", {**place, "delta": {"text": "Hi"}})], "call": call}
    return [*held_by[held], ("contentBlockStop", place)]


def _bedrock_whole(word: Any, held: str) -> bytes:
    call = {"toolUse": {"toolUseId": "a", "name": "look", "input": ARGUMENTS}}
    content = {"": [], "text": [{"text": "Hi"}], "call": [call]}[held]
    return body({"output": {"message": {"content": content}}, "stopReason": word})


def _kiro(word: Any, held: str) -> bytes:
    call = {"toolUseId": "a", "name": "look", "input": WRITTEN, "stop": True}
    said = {"": [], "text": [("assistantResponseEvent", {"content": "Hi"})], "call": [("toolUseEvent", call)]}
    return frames(*said[held], ("metadataEvent", {"stopReason": word}))


def ids() -> str:
    return "new"


@frozen
class Service:
    """One way in which a service says how an answer ended."""

    written: Callable[[Any, str], bytes]
    """The answer that ends with a word, after nothing, ``text`` or a whole ``call``."""

    stages: Callable[[], Any]


SERVICES = {
    "chat": Service(_chat, lambda: chat.stages(SSE, ids, "s")),
    "chat.whole": Service(_chat_whole, lambda: chat.stages(JSON, ids, "s")),
    "chat.native": Service(
        lambda word, held: _chat("stop", held).replace(
            b'"finish_reason": "stop"', b'"finish_reason": "stop", "native_finish_reason": %b' % body(word)
        ),
        lambda: chat.stages(SSE, ids, "s"),
    ),
    "responses": Service(_responses, lambda: responses.stages(SSE, ids, "s")),
    "responses.whole": Service(_responses_whole, lambda: responses.stages(JSON, ids, "s")),
    "responses.status": Service(_responses_status, lambda: responses.stages(JSON, ids, "s")),
    "messages": Service(_messages, lambda: (anthropic.reader(SSE), anthropic.MessageEvents())),
    "messages.whole": Service(_messages_whole, lambda: (anthropic.reader(JSON), anthropic.MessageEvents())),
    "gemini": Service(lambda word, held: sse(_candidate(word, held)), lambda: gemini.stages(SSE, ids)),
    "gemini.whole": Service(lambda word, held: body(_candidate(word, held)), lambda: gemini.stages(JSON, ids)),
    "bedrock": Service(
        lambda word, held: frames(*_converse(held), ("messageStop", {"stopReason": word})),
        lambda: bedrock.stages(FRAMES, messages),
    ),
    "bedrock.whole": Service(_bedrock_whole, lambda: bedrock.stages(JSON, messages)),
    "kiro": Service(_kiro, lambda: kiro.stages(FRAMES)),
}

INCOMPLETE = ("responses", "responses.whole")
"""Where a word only says what an incomplete answer lacks."""


def events_of(service: str, word: Any, held: str) -> Iterator[Event]:
    answer = build_pipeline(SERVICES[service].stages(), Plan())
    yield from answer.feed([SERVICES[service].written(word, held)])
    yield from answer.flush()


def end(service: str, word: Any, held: str = "text") -> MessageEnd:
    *_, last = events_of(service, word, held)
    assert isinstance(last, MessageEnd)
    return last


def failure(service: str, word: Any, held: str) -> KiroAsgiError | None:
    try:
        end(service, word, held)
    except KiroAsgiError as error:
        return error
    return None


FAILED = [
    "network_error",
    "engine_overloaded",
    "abort",
    "aborted",
    "connection_lost",
    "server_error",
    "upstream_timeout",
    "timed_out",
    "malformed_function_call",
    "malformed_tool_use",
    "internal_fault",
    "worker_crashed",
    "rate_limited",
    "quota_exceeded",
    "cancelled",
    "stream_interrupted",
    "unexpected_tool_call",
    "tool_use_failed",
    "generation_failed",
    "no_image",
    "insufficient_system_resource",
    "out_of_memory",
    "service_unavailable",
    "invalid_output",
    "too_many_tool_calls",
    "context_canceled",
    "capacity_exceeded",
    "max_retries_exceeded",
    "repetition_detected",
    "function_call_error",
]
FILTERED = [
    "sensitive",
    "refusal",
    "content_filtered",
    "safety_block",
    "prompt_blocked",
    "policy_violation",
    "moderation_hit",
    "guardrail_triggered",
    "model_armor",
    "prohibited_topic",
    "data_inspection_failed",
    "copyright_recitation",
    "jailbreak_detected",
    "pup_limited_disabled",
    "unsafe_content",
    "response_declined",
]
SHORT = [
    "model_context_window_exceeded",
    "context_full",
    "prompt_too_long",
    "token_limit_reached",
    "output_truncated",
    "max_answer_tokens",
    "length_capped",
    "out_of_tokens",
    "token_budget_spent_up",
    "answer_cut_short",
    "exceeded_limit",
]
WHOLE = ["natural_end", "end_of_turn", "eos_reached", "stopped", "finished", "generation_done", "success", "completed"]
EMPTY = ["tired", "mauve", "zebra", "other", "finish_reason_unspecified", "unknown"]


def _spellings(word: str) -> dict[str, str]:
    parts = word.split("_")
    pascal = "".join(map(str.capitalize, parts))
    return {
        "snake": word,
        "kebab": "-".join(parts),
        "upper": word.upper(),
        "camel": pascal[0].lower() + pascal[1:],
        "pascal": pascal,
        "words": " ".join(parts).capitalize(),
    }


SPELLINGS = st.sampled_from(["snake", "kebab", "upper", "camel", "pascal", "words"])
HELD = st.sampled_from(["", "text", "call"])
AROUND = st.sampled_from(["{}", "{}", "model_{}", "{}_by_service", "gen2_{}"])


def words(stems: list[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda stem, around, how: _spellings(around.format(stem))[how], st.sampled_from(stems), AROUND, SPELLINGS
    )


@pytest.mark.parametrize("service", SERVICES)
@given(word=words(FAILED), held=HELD)
def test_a_failure_is_an_error(service: str, word: str, held: str) -> None:
    """Whatever came before, a whole call too: nobody may take it for an answer."""
    assert isinstance(failure(service, word, held), UpstreamError)


@pytest.mark.parametrize("service", SERVICES)
@given(word=words(FILTERED), held=HELD)
def test_a_filter_is_a_filter(service: str, word: str, held: str) -> None:
    """It is said, and no call that was made before is run as the answer's end."""
    assert end(service, word, held).stop_reason is StopReason.CONTENT_FILTER


@pytest.mark.parametrize("service", SERVICES)
@given(word=words(SHORT), held=HELD)
def test_a_limit_is_a_limit(service: str, word: str, held: str) -> None:
    """Of the answer, or of all that the model can read."""
    assert end(service, word, held).stop_reason in (StopReason.LENGTH, StopReason.CONTEXT_FULL)


@pytest.mark.parametrize("service", [name for name in SERVICES if name not in INCOMPLETE])
@given(word=words(WHOLE), held=st.sampled_from(["text", "call"]))
def test_an_end_is_an_end(service: str, word: str, held: str) -> None:
    """Another word for it is no loss, and needs no notice."""
    found = end(service, word, held)

    assert found.stop_reason is (StopReason.TOOL_CALL if held == "call" else StopReason.END)
    assert [it.code for it in found.notices if it.code.startswith("stop.")] == []


@pytest.mark.parametrize("service", [name for name in SERVICES if name != "chat.native"])
@given(word=words(EMPTY), held=st.sampled_from(["text", "call"]))
def test_a_word_that_says_nothing_is_told(service: str, word: str, held: str) -> None:
    """The answer is as good as it looks; the notice says that this is not known."""
    found = end(service, word, held)
    whole = StopReason.TOOL_CALL if held == "call" else StopReason.END

    assert found.stop_reason is (StopReason.LENGTH if service in INCOMPLETE else whole)
    assert Notice("stop.unknown", word) in found.notices


@pytest.mark.parametrize(
    ("service", "tables"),
    [
        ("chat", chat.REASONS),
        ("messages", anthropic.STOP_REASONS),
        ("gemini", gemini.STOPS),
        ("bedrock", bedrock.STOP_REASONS),
        ("kiro", kiro.STOP_REASONS),
    ],
)
@given(data=st.data())
def test_a_known_word_is_known_however_it_is_spelt(service: str, tables: dict[str, Any], data: st.DataObject) -> None:
    """``MAX_TOKENS``, ``max-tokens`` and ``maxTokens`` are one word."""
    word, meaning = data.draw(st.sampled_from([*tables.items()]))
    spelt = _spellings(word.lower())[data.draw(SPELLINGS)]

    if isinstance(meaning, StopReason):
        assert end(service, spelt).stop_reason is (StopReason.END if meaning is StopReason.TOOL_CALL else meaning)
    else:
        assert type(failure(service, spelt, "text")) is meaning


@pytest.mark.parametrize("table", [chat.REASONS, anthropic.STOP_REASONS, gemini.STOPS, bedrock.STOP_REASONS])
def test_the_tables_agree_with_the_words(table: dict[str, Any]) -> None:
    """What a service documents is what another's word would be taken for, but for words that do not say it."""
    for word, meaning in table.items():
        if word not in ("LANGUAGE", "MISSING_THOUGHT_SIGNATURE"):
            assert ends.meaning_of(word) is meaning, word


@pytest.mark.parametrize(
    ("word", "error", "again"),
    [
        ("network_error", UpstreamFault, True),
        ("engine_overloaded", UpstreamOverloaded, True),
        ("rate_limit_exceeded", UpstreamThrottled, True),
        ("quota_exceeded", UpstreamQuotaSpent, False),
        ("NO_IMAGE", UpstreamError, False),
    ],
)
def test_a_failure_is_tried_again_as_its_kind_allows(word: str, error: type[UpstreamError], again: bool) -> None:
    """What would be the same once more is not asked for."""
    found = failure("chat", word, "")

    assert type(found) is error
    assert (found.retry_safe, found.code) == (again, word)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("word", [7, ["network_error"], {"type": "network_error"}, "network_error" * 100_000, "é" * 9])
def test_words_that_are_none_do_no_harm(service: str, word: Any) -> None:
    """An end of another type is classed by what it shows, or passed on, or an error: never an exception of ours."""
    failure(service, word, "text")


def test_the_service_says_more_than_the_router() -> None:
    """OpenRouter has few words of its own; a word of the service's that says no more leaves them as they are."""
    assert end("chat.native", "tired").stop_reason is StopReason.END
    assert end("chat.native", "STOP", "call").stop_reason is StopReason.TOOL_CALL
    assert isinstance(failure("chat.native", "network_error", ""), UpstreamFault)


def test_the_error_beside_an_end_says_what_it_was() -> None:
    """OpenRouter puts it into the choice."""
    choice = {"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 429, "message": "slow down"}}
    answer = build_pipeline(chat.stages(SSE, ids, "s"), Plan())

    with pytest.raises(UpstreamThrottled):
        [*answer.feed([sse({"choices": [choice]})])]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"type": "response.completed", "response": {"status": "cancelled"}}, UpstreamFault),
        ({"type": "response.completed", "response": {"status": "failed"}}, UpstreamFault),
        ({"type": "response.cancelled", "response": {}}, UpstreamFault),
        ({"type": "response.tired", "response": {}}, UpstreamProtocolError),
        ({"type": "response.completed", "response": {"status": "incomplete"}}, StopReason.LENGTH),
        ({"type": "response.completed", "response": {"incomplete_details": {"reason": "sensitive"}}}, "CONTENT_FILTER"),
        ({"type": "response.done", "response": {"status": "completed"}}, StopReason.END),
        ({"type": "response.completed", "response": {"status": "in_progress"}}, StopReason.END),
    ],
)
def test_the_status_of_a_response_decides(event: dict[str, Any], expected: Any) -> None:
    """The kind of the event does, where it has none, or one that is no end."""
    answer = build_pipeline(responses.stages(SSE, ids, "s"), Plan())
    text = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}
    try:
        *_, last = [*answer.feed([sse(text, event)]), *answer.flush()]
    except KiroAsgiError as error:
        assert type(error) is expected
    else:
        assert last.stop_reason is (StopReason[expected] if isinstance(expected, str) else expected)


@pytest.mark.parametrize("status", ["in_progress", "queued"])
def test_a_response_that_has_not_ended_is_no_answer(status: str) -> None:
    """A document without an end is as good as a stream without one."""
    error = failure("responses.status", status, "text")

    assert (type(error), error.code if error else "") == (UpstreamProtocolError, "stream.cut")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("SAFETY", StopReason.CONTENT_FILTER), ("MODEL_ARMOR", StopReason.CONTENT_FILTER), ("JAILBREAK", "CONTENT_FILTER"),
     ("OTHER", "CONTENT_FILTER"), ("NEW", "CONTENT_FILTER"), ("INTERNAL_ERROR", UpstreamFault)],
)  # fmt: skip
def test_a_prompt_is_blocked_or_a_check_of_it_fails(reason: str, expected: Any) -> None:
    """Gemini's ``blockReason``; with or without an end beside it."""
    for candidates in ([], [{"finishReason": "STOP", "index": 0}]):
        answer = build_pipeline(gemini.stages(SSE, ids), Plan())
        event = {"promptFeedback": {"blockReason": reason}, "candidates": candidates}
        try:
            *_, last = [*answer.feed([sse(event)]), *answer.flush()]
        except KiroAsgiError as error:
            assert type(error) is expected
        else:
            assert last.stop_reason is (StopReason[expected] if isinstance(expected, str) else expected)
