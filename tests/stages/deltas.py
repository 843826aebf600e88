"""Random answers as an upstream may send them, sense or nonsense."""

from __future__ import annotations

from hypothesis import strategies as st

from kiro_asgi.model.events import (
    Citation,
    CodeReferences,
    ContextUsage,
    ConversationId,
    Delta,
    FollowupPrompt,
    Metering,
    ModelName,
    Notice,
    RedactedThinking,
    RefusalDelta,
    ServedTier,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.model.handling import Tier

TEXTS = st.sampled_from(
    ["", "a", "ha ", "\n", "<thin", "king>", "<thinking>", "</thinking>", "`", "é日🙂", "stop", "st"]
)
INPUTS = st.sampled_from(["", "{}", '{"a":', '"x"', "}", "[1]", " ", "null"])
COUNTS = st.none() | st.integers(0, 99)


def fragments() -> st.SearchStrategy[ToolCallFragment]:
    """Fragments of a few calls, in any disorder."""
    return st.builds(
        ToolCallFragment,
        st.sampled_from(["", "c1", "c2", "c3"]),
        st.sampled_from(["", "f", "g"]),
        INPUTS,
        st.booleans(),
    )


def content() -> st.SearchStrategy[Delta]:
    """What shows in an answer."""
    return st.one_of(
        st.builds(TextDelta, TEXTS),
        st.builds(RefusalDelta, TEXTS),
        st.builds(TextBreak, st.sampled_from(["", "commentary", "final_answer"])),
        st.just(Citation(1, 0, "t", "https://example.org/")),
        st.builds(ThinkingDelta, TEXTS),
        st.builds(SignatureDelta, st.sampled_from(["", "s1", "s2"])),
        st.just(RedactedThinking("AAAA")),
        fragments(),
    )


def trailers() -> st.SearchStrategy[Delta]:
    """What does not."""
    return st.one_of(
        st.builds(Stop, st.sampled_from(StopReason)),
        st.builds(TokenUsage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS),
        st.builds(ContextUsage, st.floats(0, 100)),
        st.builds(Metering, st.floats(0, 1), st.just("credit")),
        st.just(FollowupPrompt({"content": "more?"})),
        st.just(CodeReferences(({"licenseName": "MIT"},))),
        st.just(ConversationId("conv")),
        st.sampled_from(Tier).map(ServedTier),
        st.just(ModelName("model")),
        st.just(Notice("something.odd")),  # nothing lost, which would be an error: see `test_ending`
    )


def answers() -> st.SearchStrategy[list[Delta]]:
    """Whole answers; never empty ones, which are an error, nor ones that say that they call, and show nothing."""
    return st.lists(content() | trailers(), max_size=25).map(lambda deltas: [*deltas, *_shown(deltas)])


def _shown(deltas: list[Delta]) -> list[Delta]:
    called = any(isinstance(delta, Stop) and delta.reason is StopReason.TOOL_CALL for delta in deltas)
    return [RefusalDelta("a"), ContextUsage(1.5)] if called else [ContextUsage(1.5)]
