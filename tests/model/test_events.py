"""Events are values: they can be compared, hashed, and turned into plain data and back."""

from __future__ import annotations

import json
import re
from typing import get_args

import pytest
from attrs import asdict, fields, has
from attrs.exceptions import FrozenInstanceError
from cattrs import Converter
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model import events
from kiro_asgi.model.events import (
    Appendix,
    BlockEnd,
    BlockKind,
    BlockMembers,
    BlockStart,
    Citation,
    CodeReferences,
    ContextUsage,
    ConversationId,
    FollowupPrompt,
    Grounding,
    MalformedCall,
    MessageEnd,
    MessageMembers,
    MessageStart,
    Metering,
    ModelName,
    Notice,
    OpaqueBlock,
    OpaqueEvent,
    RedactedThinking,
    RefusalDelta,
    SearchHit,
    ServedTier,
    ServerCall,
    ServerResult,
    SideRun,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
    ToolOutput,
    TruncationInfo,
    Usage,
)
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.unread import Unread

MALFORMED = MalformedCall("t2", "f", "invalid JSON", 3, "00")
CUT = TruncationInfo("t1", "f", "unbalanced delimiters", 3, "00")

CALL = ServerCall("t1", "web_search", "web_search", {"query": "fjords"})
RESULT = ServerResult(CALL, ToolOutput((SearchHit("Fjords", "https://example.org/"),)))
UNREAD = Unread("anthropic", {"type": "hologram", "of": [1, {"a": None}]})
HOLOGRAM = OpaqueBlock(UNREAD, ({"type": "hologram"}, {"of": 1}), (Notice("block.unknown", "hologram"), TextDelta("a")))

SAMPLES = [
    TextDelta("a"),
    RefusalDelta("a"),
    TextBreak(),
    Citation(3, 1, "Fjords", "https://example.org/", "deep", {"type": "web_search_result_location"}),
    ThinkingDelta("a"),
    SignatureDelta("s"),
    RedactedThinking("ZGF0YQ=="),
    RedactedThinking("ZGF0YQ==", UNREAD),
    ToolInputDelta("{}"),
    ToolCallFragment("t1"),
    ToolCallFragment("t1", "f", "{}", True),
    ToolCallFragment("t1", unread=UNREAD),
    ToolCallStart("t1", "f"),
    ToolCallEnd("t1"),
    ToolCallCut(CUT),
    ToolCallMalformed(MALFORMED),
    CALL,
    RESULT,
    Stop(StopReason.END),
    Stop(StopReason.STOP_SEQUENCE, "END"),
    TokenUsage(),
    TokenUsage(1, 0, None, 2, 3),
    ContextUsage(1.5),
    Metering(0.01, "credit"),
    FollowupPrompt({"content": "more?"}),
    Grounding(("fjords",), (SearchHit("Fjords", "https://example.org/"),)),
    Appendix("Sources:"),
    CodeReferences(({"url": "x"},)),
    ConversationId("c"),
    ModelName("m"),
    ServedTier(Tier.FLEX),
    Notice("event.unknown", "x"),
    Usage(1, 2, metering=Metering(1.0)),
    Usage(8, 9, side_runs=(SideRun("compaction", "", 7, 7),), tier=Tier.PRIORITY),
    TokenUsage(1, 2, side_runs=(SideRun("advisor_message", "m", 7, 7, 1, 2),)),
    MessageMembers(UNREAD),
    MessageMembers(UNREAD, (Notice("content.unknown", "of"),)),
    BlockMembers(BlockKind.TEXT, UNREAD),
    HOLOGRAM,
    OpaqueEvent(UNREAD, (Notice("event.unknown", "hologram"),)),
    ServerCall("t1", "web_search", "web_search", {}, UNREAD),
    MessageStart(),
    BlockStart(0, BlockKind.TOOL_CALL, "t1", "f"),
    BlockStart(0, BlockKind.SERVER_CALL, value=CALL),
    BlockStart(0, BlockKind.SERVER_RESULT, value=RESULT),
    BlockStart(0, BlockKind.OPAQUE, value=HOLOGRAM),
    BlockStart(0, BlockKind.TEXT, unread=UNREAD),
    MessageStart(unread=(UNREAD,)),
    BlockEnd(0),
    MessageEnd(StopReason.LENGTH, truncations=(CUT,), notices=(Notice("a"),)),
]


def test_every_kind_of_event_has_a_sample():
    """No event is forgotten below (F140, F141)."""
    assert {*get_args(events.Delta), *get_args(events.Event)} == {type(sample) for sample in SAMPLES}


@pytest.mark.parametrize("event", SAMPLES, ids=repr)
def test_an_event_goes_through_plain_data_and_back(event):
    """Every event can be stored as JSON-like data, absent fields included (F142, F144, F145)."""
    converter = Converter()

    assert converter.structure(converter.unstructure(event), type(event)) == event


@pytest.mark.parametrize("event", SAMPLES, ids=repr)
def test_an_event_tells_what_it_is(event):
    """F142: by the name of its class, as an object and as plain data, whichever way it becomes that, and cattrs finds
    the class by it."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
    converter = Converter()
    data = converter.unstructure(event)

    assert (event.event_type, asdict(event)["event_type"], data["event_type"]) == (name, name, name)
    assert json.loads(json.dumps(data))["event_type"] == name
    unions = [union for union in (events.Delta, events.Event) if type(event) in get_args(union)]
    assert [converter.structure(data, union) for union in unions] == [event] * len(unions)


@pytest.mark.parametrize("event", SAMPLES, ids=repr)
def test_an_event_cannot_be_changed(event):
    """What one stage passes on no other can alter."""
    assert has(type(event))
    with pytest.raises(FrozenInstanceError):
        setattr(event, next((field.name for field in fields(type(event))), "any"), None)


HITS = st.lists(st.builds(SearchHit, *[st.text(max_size=5)] * 4), max_size=4).map(tuple)


@given(HITS, st.text())
def test_spans_are_where_the_hits_are_told(hits: tuple[SearchHit, ...], text: str) -> None:
    """Every hit has a span, in order, and the text of that span is the hit's."""
    output = ToolOutput(hits, text)

    assert [(output.told[start:end], hit) for start, end, hit in output.spans()] == [(str(hit), hit) for hit in hits]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        pytest.param(
            ToolOutput((SearchHit("Fjords", "https://a/", "Deep.", "2026-03-14"), SearchHit("B", "https://b/"))),
            "Fjords (2026-03-14)\nhttps://a/\nDeep.\n\nB\nhttps://b/",
            id="F215-hits",
        ),
        pytest.param(ToolOutput(text="sunny"), "sunny", id="text"),
        pytest.param(ToolOutput(text="too slow", error_code="unavailable"), "too slow", id="error"),
        pytest.param(ToolOutput(error_code="unavailable"), "unavailable", id="error-without-words"),
        pytest.param(ToolOutput(), "Nothing was found.", id="nothing"),
    ],
)
def test_every_output_has_words(output: ToolOutput, told: str) -> None:
    """Nothing that a tool gives is silent."""
    assert output.told == told
