"""Event frames to deltas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import KiroAsgiError, UpstreamFault, UpstreamOverloaded, UpstreamRateExceeded, UpstreamThrottled
from kiro_asgi.limits import NOTICES
from kiro_asgi.model.events import (
    CodeReferences,
    ContextUsage,
    ConversationId,
    Declined,
    Delta,
    FollowupPrompt,
    Metering,
    ModelName,
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
from kiro_asgi.upstreams.kiro.answer import READERS, STOP_REASONS, FrameEventDecoder
from kiro_asgi.wire.eventstream import Frame, FrameDecoder, encode_frame
from tests.helpers import byte_by_byte, kiro_event, kiro_exception, kiro_stream, run
from tests.upstreams.faults import KIRO_NAMES as NAMES


def frame(event_type: str, payload: Any) -> Frame:
    return Frame({":message-type": "event", ":event-type": event_type}, json.dumps(payload).encode())


def read(*events: tuple[str, Any]) -> list[Any]:
    return run(FrameEventDecoder(), [frame(*event) for event in events])


def ending(kind: str, name: str, payload: bytes = b"", **headers: str) -> Frame:
    return Frame(
        {":message-type": kind, f":{kind}-{'type' if kind == 'exception' else 'code'}": name, **headers}, payload
    )


ID = "tooluse_AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(
    ("event_type", "payload", "expected"),
    [
        pytest.param("assistantResponseEvent", {"content": "Hi"}, [TextDelta("Hi")], id="F123-text"),
        pytest.param("assistantResponseEvent", {"content": ""}, [TextDelta("")], id="F123-empty-is-an-event"),
        pytest.param("assistantResponseEvent", {}, [], id="F123-missing"),
        pytest.param("assistantResponseEvent", {"content": None}, [], id="F123-null"),
        pytest.param("assistantResponseEvent", {"content": 'a\n"\\ü€😀'}, [TextDelta('a\n"\\ü€😀')], id="F100-escapes"),
        pytest.param(
            "assistantResponseEvent",
            {"content": "a", "modelId": "m"},
            [ModelName("m"), TextDelta("a")],
            id="model",
        ),
        pytest.param(
            "toolUseEvent",
            {"name": "f", "toolUseId": ID, "input": "{", "stop": True},
            [ToolCallFragment(ID, "f", "{", True)],
            id="F124-all-four",
        ),
        pytest.param(
            "toolUseEvent", {"name": "f", "toolUseId": ID}, [ToolCallFragment(ID, "f")], id="F125-F126-defaults"
        ),
        pytest.param(
            "toolUseEvent", {"toolUseId": ID, "input": "x"}, [ToolCallFragment(ID, "", "x")], id="F127-fragment"
        ),
        pytest.param(
            "toolUseEvent", {"toolUseId": ID, "stop": True}, [ToolCallFragment(ID, stop=True)], id="F128-stop"
        ),
        pytest.param(
            "toolUseEvent",
            {"name": "f", "toolUseId": ID, "input": {"a": [1]}},
            [ToolCallFragment(ID, "f", '{"a":[1]}')],
            id="object-input",
        ),
        pytest.param(
            "toolUseEvent", {"name": "f", "toolUseId": ID, "input": {}}, [ToolCallFragment(ID, "f")], id="no-input"
        ),
        pytest.param("toolUseEvent", {"name": 1, "stop": "yes"}, [], id="says-nothing"),
        pytest.param("meteringEvent", {"usage": 0.5, "unit": "credit"}, [Metering(0.5, "credit")], id="F129"),
        pytest.param("meteringEvent", {"unit": "credit"}, [], id="F129-absent"),
        pytest.param(
            "meteringEvent", {"usage": {"amount": 0.5, "unit": "credit"}}, [Metering(0.5, "credit")], id="F129-record"
        ),
        pytest.param("meteringEvent", {"usage": {"outputTokens": 8}}, [TokenUsage(output_tokens=8)], id="F129-tokens"),
        pytest.param("reasoningContentEvent", {"text": "hm"}, [ThinkingDelta("hm")], id="F130-text"),
        pytest.param("reasoningContentEvent", {"reasoningText": "hm"}, [ThinkingDelta("hm")], id="F130-reasoningText"),
        pytest.param(
            "reasoningContentEvent",
            {"reasoningText": {"text": "hm", "signature": "s"}},
            [ThinkingDelta("hm"), SignatureDelta("s")],
            id="F130-nested",
        ),
        pytest.param("reasoningContentEvent", {"text": ""}, [], id="F130-empty"),
        pytest.param("reasoningContentEvent", {"signature": "s"}, [SignatureDelta("s")], id="signature"),
        pytest.param(
            "reasoningContentEvent",
            {"text": "a", "signature": "s"},
            [ThinkingDelta("a"), SignatureDelta("s")],
            id="both",
        ),
        pytest.param("reasoningContentEvent", {"redactedContent": "QQ=="}, [RedactedThinking("QQ==")], id="redacted"),
        pytest.param(
            "followupPromptEvent", {"followupPrompt": {"content": "?"}}, [FollowupPrompt({"content": "?"})], id="F131"
        ),
        pytest.param("followupPromptEvent", {"followupPrompt": "?"}, [FollowupPrompt("?")], id="F131-text"),
        pytest.param(
            "codeReferenceEvent",
            {"references": [None, {"licenseName": "MIT"}, {}, 3]},
            [CodeReferences(({"licenseName": "MIT"},))],
            id="F132",
        ),
        pytest.param("codeReferenceEvent", {"references": [None]}, [], id="F132-nothing-left"),
        pytest.param("messageMetadataEvent", {"conversationId": "c"}, [ConversationId("c")], id="F133"),
        pytest.param("messageMetadataEvent", {"utteranceId": "u"}, [], id="F133-absent"),
        pytest.param("initial-response", {"conversationId": "c"}, [ConversationId("c")], id="initial-response"),
        pytest.param("contextUsageEvent", {"contextUsagePercentage": 1.5}, [ContextUsage(1.5)], id="F134"),
        pytest.param("contextUsageEvent", {"contextUsagePercentage": "1"}, [], id="F134-wrong-type"),
        pytest.param(
            "contextUsageEvent",
            {"contextUsagePercentage": 104},
            [ContextUsage(100.0), Stop(StopReason.CONTEXT_FULL)],
            id="F134-full",
        ),
        pytest.param(
            "metadataEvent",
            {"tokenUsage": {"uncachedInputTokens": 31, "outputTokens": 8, "cacheReadInputTokens": 0}},
            [TokenUsage(31, 8, 0, None)],
            id="F135",
        ),
        pytest.param("tokenUsageEvent", {"outputTokens": 8}, [TokenUsage(output_tokens=8)], id="F135-top-level"),
        pytest.param(
            "tokenUsageEvent", {"tokenUsage": {"outputTokens": 8}}, [TokenUsage(output_tokens=8)], id="F135-wrapped"
        ),
        pytest.param(
            "metadataEvent",
            {"stopReason": "END_TURN", "tokenUsage": {"contextUsagePercentage": 3}},
            [ContextUsage(3.0), Stop(StopReason.END)],
            id="F135-percentage-inside",
        ),
        pytest.param("metadataEvent", {"tokenUsage": {"outputTokens": -1}}, [], id="F135-negative"),
        pytest.param("messageStopEvent", {"stopReason": "MAX_TOKENS"}, [Stop(StopReason.LENGTH)], id="message-stop"),
        pytest.param("messageStopEvent", {}, [], id="message-stop-bare"),
        pytest.param("usageEvent", {"inputTokens": 3, "outputTokens": 4}, [TokenUsage(3, 4)], id="usage-counts"),
        pytest.param("usageEvent", {"usage": {"inputTokens": 3}}, [TokenUsage(3)], id="usage-record"),
        pytest.param("usageEvent", {"usage": 0.5, "unit": "credit"}, [Metering(0.5, "credit")], id="usage-price"),
        pytest.param("metricsEvent", {"tokenUsage": {"outputTokens": 4}}, [TokenUsage(None, 4)], id="metrics-counts"),
        pytest.param("metricsEvent", {"latencyMs": 12}, [], id="metrics-without-counts"),
    ],
)
def test_every_event_type_has_its_deltas(event_type: str, payload: Any, expected: list[Any]) -> None:
    """An event says what its payload holds; a field of the wrong type counts as absent."""
    assert read((event_type, payload)) == expected


@pytest.mark.parametrize(
    "event_type",
    [
        "citationEvent",
        "codeEvent",
        "documentCitationEvent",
        "dryRunSucceedEvent",
        "intentsEvent",
        "interactionComponentsEvent",
        "supplementaryWebLinksEvent",
        "toolResultEvent",
    ],
)
def test_known_events_without_use_are_silent(event_type: str) -> None:
    """An event that is known and of no use says nothing, not even a notice."""
    assert read((event_type, {"content": "secret", "text": "x"})) == []


def test_unknown_event_is_noticed_once_a_type() -> None:
    """F136, R30: an unknown event type leads to one notice, and never to output."""
    events = [("fooEvent", {"content": "x"})] * 3 + [("barEvent", {})]
    assert read(*events) == [Notice("event.unknown", "fooEvent"), Notice("event.unknown", "barEvent")]


def test_notices_are_bounded() -> None:
    """R47: a stream of ever new event types costs a bounded number of notices, and keeps nothing beyond them."""
    decoder = FrameEventDecoder()
    assert len(run(decoder, [frame(f"type{number}", {}) for number in range(1000)])) == NOTICES
    assert len(decoder._unknown) == NOTICES


@pytest.mark.parametrize("word", [*STOP_REASONS, "end_turn", "Tool_Use"])
def test_stop_reasons(word: str) -> None:
    """The service's words for stopping are compared without case."""
    assert read(("metadataEvent", {"stopReason": word})) == [Stop(STOP_REASONS[word.upper()])]


@pytest.mark.parametrize(("word", "notices"), [("", 0), ("WHATEVER", 1), (None, 0), (7, 1)])
def test_unknown_stop_reason_says_nothing(word: Any, notices: int) -> None:
    """A stop reason that we do not know is left to be inferred, with a notice."""
    assert read(("metadataEvent", {"stopReason": word})) == [Notice("stop.unknown", str(word))] * notices


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("END_TURN", StopReason.END),
        ("TOOL_USE", StopReason.TOOL_CALL),
        ("MAX_TOKENS", StopReason.LENGTH),
        ("STOP_SEQUENCE", StopReason.STOP_SEQUENCE),
        ("CONTENT_FILTERED", StopReason.CONTENT_FILTER),
        ("GUARDRAIL_INTERVENED", StopReason.CONTENT_FILTER),
        ("MAX_TOKENS_REACHED", StopReason.LENGTH),
        ("TIMEOUT", StopReason.LENGTH),
    ],
)
def test_stop_reason_table(word: str, reason: StopReason) -> None:
    """Each word of the live service, and those of older contracts, has its meaning (F383, F385)."""
    assert STOP_REASONS[word] is reason


def test_full_window_does_not_override_a_reason() -> None:
    """The last reason wins; so a full window is only a reason where none was given before."""
    full = ("contextUsageEvent", {"contextUsagePercentage": 100})
    said = ("metadataEvent", {"stopReason": "END_TURN"})
    assert read(said, full)[-1] == ContextUsage(100.0)
    assert read(full, said)[-1] == Stop(StopReason.END)


def test_model_is_named_when_it_changes() -> None:
    """The model's name is repeated in every event and reported once, until it changes."""
    events = [
        ("assistantResponseEvent", {"content": text, "modelId": model})
        for text, model in zip("abcd", "xxyx", strict=True)
    ]
    assert [delta.value for delta in read(*events) if type(delta) is ModelName] == ["x", "y", "x"]


@given(st.lists(st.tuples(st.text(max_size=8), st.sampled_from([None, "", "m", "n", "mä"])), max_size=8))
def test_the_short_cut_changes_nothing(pieces: list[tuple[str, str | None]]) -> None:
    """Plain text is read without the JSON parser, with the same result: spaces in the JSON lead past the short cut."""
    payloads = [{"content": text} if model is None else {"content": text, "modelId": model} for text, model in pieces]
    headers = {":event-type": "assistantResponseEvent"}
    compact = [Frame(headers, json.dumps(each, separators=(",", ":")).encode()) for each in payloads]
    spaced = [Frame(headers, json.dumps(each).encode()) for each in payloads]
    assert run(FrameEventDecoder(), compact) == run(FrameEventDecoder(), spaced)


def test_wrapped_payload_is_unwrapped() -> None:
    """A payload that stands in a wrapper named for its event means the same."""
    assert read(("assistantResponseEvent", {"assistantResponseEvent": {"content": "a"}})) == [TextDelta("a")]


def test_missing_message_type_is_an_event() -> None:
    """A frame that does not say what it is, is an event; one without payload has an empty one."""
    frames = [
        Frame({":event-type": "assistantResponseEvent"}, b'{"content":"a"}'),
        Frame({":event-type": "metadataEvent"}, b""),
    ]
    assert run(FrameEventDecoder(), frames) == [TextDelta("a")]


@pytest.mark.parametrize("payload", [b"{", b"\xff", b'{"content":"\xff"}', b"[1]", b"null", b'"a"', b"[" * 100_000])
def test_bad_payload_is_passed_over(payload: bytes) -> None:
    """F105, R19, R20: what is no JSON object costs one notice; the events around it are delivered."""
    headers = {":event-type": "assistantResponseEvent"}
    good = Frame(headers, b'{"content":"a"}')
    first, notice, last = run(FrameEventDecoder(), [good, Frame(headers, payload), good])
    assert first == last == TextDelta("a")
    assert notice.code == "event.undecodable"


@pytest.mark.parametrize(
    ("name", "payload", "error", "code"),
    [
        pytest.param(
            "ThrottlingException",
            {"message": "slow", "reason": "USER_REQUEST_RATE_EXCEEDED"},
            UpstreamRateExceeded,
            "USER_REQUEST_RATE_EXCEEDED",
            id="reason",
        ),
        pytest.param("ThrottlingError", {"message": "slow"}, UpstreamThrottled, "throttled", id="error-suffix"),
        pytest.param("error", {"message": "oops", "reason": None}, UpstreamFault, "internal", id="modelled-error"),
        pytest.param(
            "InternalServerException",
            {"message": "x", "reason": "MODEL_TEMPORARILY_UNAVAILABLE"},
            UpstreamOverloaded,
            "MODEL_TEMPORARILY_UNAVAILABLE",
            id="overloaded",
        ),
        pytest.param("NewException", {"message": "x"}, UpstreamFault, "internal", id="unknown"),
    ],
)
def test_exception_frames_raise(name: str, payload: Any, error: type[KiroAsgiError], code: str) -> None:
    """F107: an exception frame becomes the error that its status would mean; what came before is delivered."""
    frames = [
        frame("assistantResponseEvent", {"content": "Partial"}),
        ending("exception", name, json.dumps(payload).encode()),
    ]
    deltas = FrameEventDecoder().feed(frames)
    assert next(deltas) == TextDelta("Partial")
    with pytest.raises(error) as caught:
        next(deltas)
    assert (type(caught.value), caught.value.code, caught.value.message) == (error, code, payload["message"])


@pytest.mark.parametrize("case", [str, str.lower, str.upper, lambda name: name[0].lower() + name[1:]])
@pytest.mark.parametrize("header", [":exception-type", ":error-code", ":event-type"])
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"error", "ContentLengthExceeded"}))
def test_a_frame_is_known_however_its_name_is_written(name: str, header: str, case: Any) -> None:
    """F107: an exception ends the answer with its own error in any case, and where it comes as an event, too."""
    written, kinds = case(f"{name}Exception"), {":exception-type": "exception", ":error-code": "error"}
    found = Frame({":message-type": kinds.get(header, "event"), header: written}, b'{"message": "x"}')
    wrapped = Frame(found.headers, json.dumps({written: {"message": "x"}}).encode())

    for each in (found, wrapped):
        with pytest.raises(KiroAsgiError) as caught:
            run(FrameEventDecoder(), [each])
        assert (type(caught.value), caught.value.code) == NAMES[name]
        assert caught.value.message.endswith("x")


@pytest.mark.parametrize("case", [str, str.lower, str.upper, lambda name: name[0].lower() + name[1:]])
def test_the_output_limit_is_known_however_it_is_written(case: Any) -> None:
    """F107: an answer that has reached its greatest length is good, whatever case says so."""
    frames = [frame("assistantResponseEvent", {"content": "a"}), ending("exception", case(OUTPUT_LIMIT_NAME))]

    assert run(FrameEventDecoder(), frames) == [TextDelta("a"), Stop(StopReason.LENGTH)]


OUTPUT_LIMIT_NAME = "ContentLengthExceededException"

WHY = {"category": "cyber", "explanation": "It could do harm.", "recommendedModel": "claude-sonnet-4.5"}
DECLINED = Declined("cyber", "It could do harm.", "claude-sonnet-4.5")
BETTER = Notice("declined.recommended_model", "claude-sonnet-4.5")


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param({"refusal": WHY}, [BETTER, Stop(StopReason.CONTENT_FILTER, declined=DECLINED)], id="alone"),
        pytest.param(
            {"refusal": WHY, "stopReason": "END_TURN"},
            [BETTER, Stop(StopReason.CONTENT_FILTER, declined=DECLINED)],
            id="beside-a-reason",
        ),
        pytest.param({"refusal": {}}, [Stop(StopReason.CONTENT_FILTER)], id="says-nothing"),
        pytest.param(
            {"refusal": {"category": 7, "explanation": "No."}},
            [Stop(StopReason.CONTENT_FILTER, declined=Declined("", "No."))],
            id="wrong-type",
        ),
        pytest.param({"refusal": None, "stopReason": "END_TURN"}, [Stop(StopReason.END)], id="null"),
        pytest.param({"refusal": "no"}, [], id="no-object"),
    ],
)
def test_refusals_of_the_service(payload: Any, expected: list[Any]) -> None:
    """A refusal ends the answer, with what the service says of it."""
    assert read(("metadataEvent", payload)) == expected


def test_no_reason_takes_a_refusal_back() -> None:
    """What comes behind a refusal does not make the answer a good one."""
    events = [("metadataEvent", {"refusal": {}}), ("messageStopEvent", {"stopReason": "END_TURN"})]

    assert read(*events) == [Stop(StopReason.CONTENT_FILTER)]


def test_error_frame_raises() -> None:
    """F107: an error frame has its code and message in headers, and no payload."""
    with pytest.raises(UpstreamFault, match=r"^broken$") as caught:
        run(FrameEventDecoder(), [ending("error", "InternalFailure", **{":error-message": "broken"})])
    assert caught.value.code == "internal"


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"message": 3, "reason": []}'])
def test_exception_frame_with_any_payload_raises(payload: bytes) -> None:
    """An exception is one whatever its payload; its name is what is left to tell."""
    with pytest.raises(UpstreamThrottled, match="ThrottlingException"):
        run(FrameEventDecoder(), [ending("exception", "ThrottlingException", payload)])


def test_output_limit_is_a_stop_and_nothing_follows() -> None:
    """`ContentLengthExceededException` keeps the text and ends the answer; what comes after it does not count."""
    frames = [
        frame("assistantResponseEvent", {"content": "a"}),
        ending("exception", "ContentLengthExceededException", b'{"message":"too long"}'),
        frame("metadataEvent", {"stopReason": "END_TURN"}),
        ending("exception", "ThrottlingException", b"{}"),
    ]
    assert run(FrameEventDecoder(), frames) == [TextDelta("a"), Stop(StopReason.LENGTH)]


def test_invalid_state_raises() -> None:
    """An event that reports an invalid state is a failure."""
    with pytest.raises(UpstreamFault, match="lost") as caught:
        read(("invalidStateEvent", {"reason": "INVALID_TASK_ASSIST_PLAN", "message": "lost"}))
    assert caught.value.code == "INVALID_TASK_ASSIST_PLAN"


FIELDS = st.sampled_from(
    [
        "content",
        "modelId",
        "toolUseId",
        "name",
        "input",
        "stop",
        "text",
        "reasoningText",
        "signature",
        "redactedContent",
        "tokenUsage",
        "stopReason",
        "usage",
        "unit",
        "contextUsagePercentage",
        "references",
        "followupPrompt",
        "conversationId",
        "message",
        "reason",
        "uncachedInputTokens",
        "outputTokens",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(sorted(READERS)) | st.text(max_size=5), st.dictionaries(FIELDS, JSON, max_size=5) | JSON)
def test_any_payload_gives_deltas_or_our_errors(event_type: str, payload: Any) -> None:
    """R25: arbitrary JSON under any event type yields deltas whose fields have their types, or an error of ours."""
    try:
        deltas = read((event_type, payload))
    except KiroAsgiError:
        return
    for delta in deltas:
        for name, kind in type(delta).__annotations__.items():
            value = getattr(delta, name)
            assert {"str": str, "bool": bool, "float": float}.get(kind, object) in type(value).__mro__


@given(
    st.dictionaries(
        st.sampled_from([":message-type", ":event-type", ":exception-type", ":error-code"]),
        st.integers() | st.binary() | st.booleans() | st.sampled_from(["exception", "error", "event", "toolUseEvent"]),
    ),
    st.binary(max_size=20),
)
def test_any_headers_give_deltas_or_our_errors(headers: dict[str, Any], payload: bytes) -> None:
    """R25: headers of any type are survived."""
    try:
        deltas = run(FrameEventDecoder(), [Frame(headers, payload)])
    except KiroAsgiError as error:
        named = [headers.get(name) for name in (":message-type", ":event-type")]
        assert {"exception", "error"} & {name for name in named if type(name) is str}, error
    else:
        assert all(type(delta) in (Notice, ToolCallFragment) for delta in deltas)


EXCHANGES = [
    pytest.param(
        [
            ("messageMetadataEvent", {"conversationId": "5f0c6a52", "utteranceId": "u-1"}),
            ("assistantResponseEvent", {"content": "2, 3", "modelId": "claude-sonnet-4.5"}),
            ("assistantResponseEvent", {"content": " and 5.", "modelId": "claude-sonnet-4.5"}),
            (
                "metadataEvent",
                {
                    "stopReason": "END_TURN",
                    "tokenUsage": {
                        "uncachedInputTokens": 31,
                        "cacheReadInputTokens": 0,
                        "cacheWriteInputTokens": 0,
                        "outputTokens": 8,
                        "totalTokens": 39,
                    },
                },
            ),
            ("contextUsageEvent", {"contextUsagePercentage": 0.0195}),
            ("meteringEvent", {"usage": 0.0123, "unit": "credit", "unitPlural": "credits"}),
        ],
        [
            ConversationId("5f0c6a52"),
            ModelName("claude-sonnet-4.5"),
            TextDelta("2, 3"),
            TextDelta(" and 5."),
            TokenUsage(31, 8, 0, 0),
            Stop(StopReason.END),
            ContextUsage(0.0195),
            Metering(0.0123, "credit"),
        ],
        id="text",
    ),
    pytest.param(
        [
            ("assistantResponseEvent", {"content": "Let me check."}),
            ("assistantResponseEvent", {"content": ""}),
            ("toolUseEvent", {"name": "get_weather", "toolUseId": ID}),
            ("toolUseEvent", {"input": '{"ci', "name": "get_weather", "toolUseId": ID}),
            ("toolUseEvent", {"input": 'ty": "Oslo"}', "name": "get_weather", "toolUseId": ID}),
            ("toolUseEvent", {"name": "get_weather", "stop": True, "toolUseId": ID}),
            ("metadataEvent", {"stopReason": "TOOL_USE"}),
        ],
        [
            TextDelta("Let me check."),
            TextDelta(""),
            ToolCallFragment(ID, "get_weather"),
            ToolCallFragment(ID, "get_weather", '{"ci'),
            ToolCallFragment(ID, "get_weather", 'ty": "Oslo"}'),
            ToolCallFragment(ID, "get_weather", stop=True),
            Stop(StopReason.TOOL_CALL),
        ],
        id="tool-call",
    ),
    pytest.param(
        [
            ("reasoningContentEvent", {"text": "The sum "}),
            ("reasoningContentEvent", {"text": "is even."}),
            ("reasoningContentEvent", {"signature": "c2lnLWZvci1kZW1v"}),
            ("assistantResponseEvent", {"content": "Even.", "modelId": "claude-opus-4.8"}),
        ],
        [
            ThinkingDelta("The sum "),
            ThinkingDelta("is even."),
            SignatureDelta("c2lnLWZvci1kZW1v"),
            ModelName("claude-opus-4.8"),
            TextDelta("Even."),
        ],
        id="thinking",
    ),
]


@pytest.mark.parametrize(("events", "expected"), EXCHANGES)
def test_exchanges(events: list[tuple[str, Any]], expected: list[Any]) -> None:
    """R16: ordinary answers give the same deltas whole and byte by byte."""
    data = kiro_stream(*events)
    for chunks in ([data], byte_by_byte(data)):
        assert run(FrameEventDecoder(), run(FrameDecoder(), chunks)) == expected


def test_exception_in_the_middle_of_bytes() -> None:
    """F107: from bytes to the error, with the text before it delivered first."""
    data = kiro_event("assistantResponseEvent", {"content": "Partial ans"}) + kiro_exception(
        "ThrottlingException", "Too many requests, please wait before trying again.", "USER_REQUEST_RATE_EXCEEDED"
    )
    deltas = FrameEventDecoder().feed(FrameDecoder().feed([data]))
    assert next(deltas) == TextDelta("Partial ans")
    with pytest.raises(UpstreamThrottled, match="please wait"):
        next(deltas)


def test_encoded_error_frame_round_trip() -> None:
    """An error frame survives the wire."""
    data = encode_frame({":message-type": "error", ":error-code": "InternalFailure", ":error-message": "boom"})
    with pytest.raises(UpstreamFault, match="boom"):
        run(FrameEventDecoder(), run(FrameDecoder(), [data]))


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"content":"a"}', TextDelta("a")),
        (b'{"assistantResponseEvent":{"content":"a"}}', TextDelta("a")),
        (b'{"hologram":"a"}', Notice("event.unknown", "hologram")),
        (b"[]", Notice("event.undecodable", ": not an object")),
    ],
)
def test_a_frame_without_headers_is_an_event(payload: bytes, expected: Delta) -> None:
    """F099: what is not said about a frame is taken to be an event, in JSON, of the type that its payload shows."""
    frames = run(FrameDecoder(), [encode_frame({}, payload)])

    assert run(FrameEventDecoder(), frames) == [expected]
