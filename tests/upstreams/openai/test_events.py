"""Chunks to deltas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    NotTheUpstream,
    UpstreamError,
    UpstreamFault,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamThrottled,
)
from kiro_asgi.model.events import (
    Delta,
    ModelName,
    Notice,
    RefusalDelta,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.stages.ending import MISSING
from tests.helpers import byte_by_byte, cut, run
from tests.upstreams.openai.chunks import DONE, calling, chunk, decoder, deltas, notices, piece, sse

END = Stop(StopReason.END)
TEXT = chunk({"content": "Hi"})
FINISH = chunk(finish="stop")


def test_text_comes_as_it_is_and_roles_say_nothing() -> None:
    """The first chunk has a role and no text; empty texts and nulls are nothing."""
    first = chunk({"role": "assistant", "content": ""}, model="gpt-x")

    assert run(decoder(), [sse(first, TEXT, chunk({"content": None, "refusal": None}), FINISH) + DONE]) == [
        ModelName("gpt-x"),
        TextDelta("Hi"),
        END,
    ]


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm", "content": "Hi"},
        {"content": "Hi", "reasoning": "hm", "reasoning_content": "hm"},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "Hi"},
            ]
        },
    ],
)
def test_thinking_is_thinking_under_each_of_its_names(delta: dict[str, Any]) -> None:
    """It comes before the text of the same chunk, and once where a server says it twice."""
    assert deltas(chunk(delta), FINISH) == [ThinkingDelta("hm"), TextDelta("Hi"), END]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "REFUSAL"), ("content_filter", "CONTENT_FILTER"), ("length", "LENGTH"), ("tool_calls", "TOOL_CALL")],
)
def test_a_refusal_is_no_text(finish: str, reason: str) -> None:
    """Whoever waits for JSON must not take an apology for it; an answer that was broken off says so all the same."""
    assert deltas(chunk({"refusal": "I "}), chunk({"refusal": "can't"}), chunk(finish=finish)) == [
        RefusalDelta("I "),
        RefusalDelta("can't"),
        Stop(StopReason[reason]),
    ]


def test_a_refusal_in_another_form_is_passed_over() -> None:
    """It is text, or nothing that can be told."""
    assert deltas(chunk({"refusal": {"why": "no"}}), FINISH) == [Notice("refusal.unreadable"), END]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", StopReason.END),
        ("length", StopReason.LENGTH),
        ("tool_calls", StopReason.TOOL_CALL),
        ("function_call", StopReason.TOOL_CALL),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("STOP", StopReason.END),
        ("MAX_TOKENS", StopReason.LENGTH),
    ],
)
def test_reasons(word: str, reason: StopReason) -> None:
    """Each word of the API, and those of others in any case."""
    assert deltas(TEXT, chunk(finish=word)) == [TextDelta("Hi"), Stop(reason)]


def test_unknown_reasons_are_ends_with_a_notice() -> None:
    """An answer is not lost for a new word."""
    assert deltas(TEXT, chunk(finish="tired")) == [TextDelta("Hi"), Notice("stop.unknown", "tired"), END]


def test_the_stop_sequence_that_was_met() -> None:
    """Two servers say which it was."""
    finish = chunk(finish="stop")
    finish["choices"][0]["stop_reason"] = "###"

    assert deltas(TEXT, finish)[-1] == Stop(StopReason.STOP_SEQUENCE, "###")
    finish["choices"][0]["stop_reason"] = 128_001
    assert deltas(TEXT, finish)[-1] == END


@pytest.mark.parametrize(
    ("word", "error"), [("error", UpstreamFault), ("insufficient_system_resource", UpstreamOverloaded)]
)
def test_answers_that_were_given_up_fail(word: str, error: type[UpstreamError]) -> None:
    """What came before is told first."""
    stages, found = decoder(), []
    with pytest.raises(error):
        found += [*stages.feed([sse(TEXT)])]
        found += [*stages.feed([sse(chunk(finish=word))])]

    assert found == [TextDelta("Hi")]


# Counts.

USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
COUNTS = TokenUsage(5, 5, 4, 1, 2)


@pytest.mark.parametrize(
    "stream",
    [
        (TEXT, chunk(finish="stop", usage=USAGE)),
        (TEXT, FINISH, {"choices": [], "usage": USAGE}),
        (TEXT, FINISH, {"usage": USAGE}),
        (chunk({"content": "Hi"}, usage=USAGE), FINISH),
        (
            chunk({"content": "Hi"}, usage={"prompt_tokens": 10, "completion_tokens": 1}),
            chunk(finish="stop", usage=USAGE),
        ),
        (TEXT, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]}),
    ],
)
def test_counts_may_come_anywhere_and_the_last_count(stream: tuple[Any, ...]) -> None:
    """They are told once, at the end: a later report contains an earlier one.  Cached tokens are of the prompt."""
    assert deltas(*stream) == [TextDelta("Hi"), COUNTS, END]


def test_counts_that_are_not_said_stay_unsaid() -> None:
    """Nothing is made up of nulls and nonsense; a cache is also told in another way."""
    usage = {"prompt_tokens": None, "completion_tokens": "7", "prompt_tokens_details": None}

    assert TokenUsage not in map(type, deltas(chunk(finish="stop", usage=usage)))
    hits = {"prompt_tokens": 5, "prompt_cache_hit_tokens": 9}
    assert deltas(chunk(finish="stop", usage=hits))[0] == TokenUsage(0, None, 9)


# Ends.


@pytest.mark.parametrize("done", [True, False])
def test_a_reason_ends_an_answer_with_and_without_done(done: bool) -> None:
    """Some servers leave the last line out."""
    assert deltas(TEXT, FINISH, done=done) == [TextDelta("Hi"), END]


def test_done_ends_an_answer_without_a_reason() -> None:
    """Some servers leave the reason out, which is said; the calls are whole then."""
    assert deltas(calling(piece(0, "a", "f"))) == [ToolCallFragment("a", "f", "", True), MISSING]


def test_neither_is_a_cut_stream() -> None:
    """An answer that just stops is not taken for a whole one."""
    stages = decoder()

    assert [*stages.feed([sse(TEXT)])] == [TextDelta("Hi")]
    with pytest.raises(UpstreamProtocolError) as caught:
        [*stages.flush()]
    assert caught.value.code == "stream.cut"


def test_an_answer_of_nothing_claims_no_end() -> None:
    """That there was no answer at all is for the neutral stages to say."""
    assert deltas() == [MISSING]


# Errors.


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}, UpstreamThrottled),
        ({"error": {"message": "x", "code": 429}}, UpstreamThrottled),
        ({"error": {"message": "x", "type": "throttling_error", "code": "429"}}, UpstreamThrottled),
        ({"error": {"message": "boom", "type": "server_error"}}, UpstreamFault),
        ({"error": "model runner has crashed"}, UpstreamFault),
        ({"object": "error", "message": "maximum context length is 4096 tokens", "code": 400}, ContextTooLong),
        ({"detail": "Internal error"}, UpstreamFault),
        (
            {"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"message": "x", "code": 503}},
            UpstreamOverloaded,
        ),
    ],
)
def test_errors_end_the_answer(value: dict[str, Any], error: type[KiroAsgiError]) -> None:
    """Whatever their form, in the middle of a stream, or as the whole body under a status of success."""
    stages = decoder()
    assert [*stages.feed([sse(TEXT)])] == [TextDelta("Hi")]
    with pytest.raises(error):
        [*stages.feed([sse(value)])]

    if "choices" not in value:
        with pytest.raises(error):
            run(decoder("application/json"), [json.dumps(value).encode()])


def test_an_event_named_error_is_one() -> None:
    """Whatever its data say."""
    with pytest.raises(UpstreamFault, match="the answer ended with an error"):
        run(decoder(), [b"event: error\ndata: {}\n\n"])


def test_chunks_that_say_nothing_are_passed_over() -> None:
    """Signs of life, filters' reports, fields of others; a null error is none."""
    idle = [
        {},
        {"type": "ping"},
        {"choices": [], "prompt_filter_results": [{}]},
        {"choices": None},
        {"error": None, **TEXT},
    ]

    assert deltas(*idle, FINISH) == [TextDelta("Hi"), END]


def test_what_is_not_read_is_noted_once() -> None:
    """More choices than one, citations, and what has no known form."""
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    text = {"choices": [{"index": 0, "delta": {"content": "Hi"}}, {"index": 1, "delta": {"content": "no"}}]}
    cited = chunk({"annotations": [{"type": "url_citation"}]})

    assert notices(text, other, other, cited, chunk({"content": 7}), {"choices": 7}, chunk(7), FINISH) == [
        "choice.surplus",
        "annotation.unknown",
        "content.unreadable",
        "chunk.unreadable",
    ]
    assert deltas(text, FINISH) == [TextDelta("Hi"), Notice("choice.surplus"), END]


# Documents.


def whole(**message: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "tool_calls"}
    return json.dumps({"object": "chat.completion", "model": "m", "choices": [choice], "usage": USAGE}).encode()


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "", "text/event-stream"])
def test_a_whole_message_is_read_as_well(content_type: str) -> None:
    """Some servers answer with one, though a stream was asked for, and not all of them say so."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    body = whole(content="Hi", reasoning_content="hm", tool_calls=[call])

    assert run(decoder(content_type), byte_by_byte(b"\r\n" + body)) == [
        ModelName("m"),
        ThinkingDelta("hm"),
        TextDelta("Hi"),
        ToolCallFragment("a", "f", '{"x":1}'),
        ToolCallFragment("a", "", "", True),
        COUNTS,
        Stop(StopReason.TOOL_CALL),
    ]


@pytest.mark.parametrize("body", [b'{"choices"', b'{"hello":1}'])
def test_a_document_that_is_no_answer_fails(body: bytes) -> None:
    """Cut, or something else."""
    with pytest.raises(UpstreamProtocolError):
        run(decoder("application/json"), [body])


def test_web_pages_are_no_answers() -> None:
    """A proxy's page has a media type that says so."""
    with pytest.raises(NotTheUpstream):
        decoder("text/html")


# Properties.

LEAVES = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "x", "stop", "{}", "{", "error"])
SHAPES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
FUNCTIONS = st.fixed_dictionaries({}, optional={"name": SHAPES, "arguments": SHAPES})
CALLS = SHAPES | st.lists(
    st.fixed_dictionaries({}, optional={"index": SHAPES, "id": SHAPES, "function": FUNCTIONS | SHAPES}), max_size=3
)
DELTAS = SHAPES | st.fixed_dictionaries(
    {}, optional={"content": SHAPES, "reasoning": SHAPES, "tool_calls": CALLS, "function_call": FUNCTIONS | SHAPES}
)
CHOICES = st.fixed_dictionaries(
    {}, optional={"index": SHAPES, "delta": DELTAS, "finish_reason": SHAPES, "usage": SHAPES}
)
CHUNKS = SHAPES | st.fixed_dictionaries(
    {}, optional={"choices": SHAPES | st.lists(CHOICES, max_size=2), "usage": SHAPES, "model": SHAPES, "error": SHAPES}
)


def outcome(pieces: list[bytes]) -> tuple[list[Delta], str]:
    """The deltas, and the error that ended them."""
    stages, found = decoder(), []
    try:
        for each in pieces:
            for delta in stages.feed([each]):
                found.append(delta)
        for delta in stages.flush():
            found.append(delta)
    except KiroAsgiError as error:
        return found, repr(error)
    return found, ""


@given(st.lists(CHUNKS, max_size=6), st.lists(st.integers(0, 1000), max_size=4))
def test_any_json_is_read_or_refused_however_it_is_cut(values: list[Any], cuts: list[int]) -> None:
    """Garbage of any shape leads to deltas, notices and typed errors, the same wherever the bytes are cut."""
    data = sse(*values) + DONE

    assert outcome([data]) == outcome(cut(data, cuts)) == outcome(byte_by_byte(data))


@given(st.binary(max_size=40), st.lists(st.integers(0, 1000), max_size=4))
def test_any_bytes(data: bytes, cuts: list[int]) -> None:
    """No bytes are an answer that was never sent."""
    assert outcome([data]) == outcome(cut(data, cuts))


@pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b"\r\n\r\n", b": ping\n\n"])
def test_what_may_stand_before_the_first_event(head: bytes) -> None:
    """A byte order mark, empty lines and comments, cut anywhere."""
    assert run(decoder(), byte_by_byte(head + sse(TEXT, FINISH))) == [TextDelta("Hi"), END]


@pytest.mark.parametrize(
    ("details", "thinking"),
    [
        ([{"type": "reasoning.text", "text": "hm", "format": "anthropic-claude-v1", "index": 0}], ["hm"]),
        ([{"type": "reasoning.summary", "summary": "so"}], ["so"]),
        ([{"type": "reasoning.encrypted", "data": "x"}], []),
        ([7, {"type": "novel"}], []),
    ],
)
def test_thinking_in_details_alone(details: list[Any], thinking: list[str]) -> None:
    """OpenRouter's form, with ``reasoning`` or without."""
    for beside in {}, {"reasoning": "".join(thinking)}:
        found = run(decoder(), [sse(chunk({"content": "", "reasoning_details": details, **beside}), FINISH) + DONE])

        assert [each.text for each in found if isinstance(each, ThinkingDelta)] == thinking


def test_counts_of_groq() -> None:
    """They stand under ``x_groq`` in the last chunk."""
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    assert TokenUsage(9, 2) in run(
        decoder(), [sse(TEXT, chunk(finish="stop", x_groq={"id": "r", "usage": usage})) + DONE]
    )


@pytest.mark.parametrize("pieces", [1, 10_000])
def test_an_error_line_of_llama_cpp(pieces: int) -> None:
    """A field that server-sent events have not; what came before it is told, then it is an error, not a cut."""
    line = b'error: {"code":500,"message":"context shift is disabled","type":"server_error"}\n\n'
    data, seen = sse(TEXT) + line, []
    stages = decoder()
    with pytest.raises(UpstreamFault, match="context shift"):
        for at in range(0, len(data), pieces):
            for delta in stages.feed([data[at : at + pieces]]):
                seen.append(delta)

    assert seen == [TextDelta("Hi")]


def test_the_signature_of_a_call() -> None:
    """Google's own server of this API puts it on the call; it stands before the call, marked as Gemini's."""
    entry = {**piece(0, "c1", "f", "{}"), "extra_content": {"google": {"thought_signature": "c2ln"}}}
    found = run(decoder(), [sse(calling(entry), chunk(finish="tool_calls")) + DONE])

    assert found[:2] == [SignatureDelta("gemini.call:c2ln"), ToolCallFragment("c1", "f", "{}", stop=True)]
