from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Event,
    MessageEnd,
    MessageStart,
    Metering,
    RefusalDelta,
    ServerCall,
    ServerResult,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolOutput,
    TruncationInfo,
    Usage,
    UsageSource,
)
from kiro_asgi.model.message import (
    Block,
    Message,
    RedactedThinkingBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    fold,
    replay,
)
from kiro_asgi.testing.grammar.events import check_events

COUNTS = st.integers(0, 10**6)


def blocks() -> st.SearchStrategy[Block]:
    return st.one_of(
        st.builds(TextBlock, st.text()),
        st.builds(RefusalBlock, st.text()),
        st.builds(ThinkingBlock, st.text(), st.text(max_size=5)),
        st.builds(RedactedThinkingBlock, st.text(min_size=1, max_size=5)),
        st.builds(
            ToolCallBlock,
            st.text(min_size=1, max_size=5),
            st.text(min_size=1, max_size=5),
            st.sampled_from(["{}", '{"a": [1]}']),
        ),
    )


def cited() -> st.SearchStrategy[list[Block]]:
    """Texts of which each continues the one before."""
    sources = st.lists(st.builds(Citation, st.integers(2, 3), st.integers(0, 2)), max_size=2).map(tuple)
    texts = st.lists(st.builds(TextBlock, st.text(), sources), min_size=1, max_size=3)
    return texts.map(lambda each: [each[0], *(evolve(block, continues=True) for block in each[1:])])


def served() -> st.SearchStrategy[list[Block]]:
    """What a server tool leaves in an answer."""
    calls = st.builds(ServerCall, st.text(min_size=1, max_size=3), st.just("f"), st.just("web_search"))
    outputs = st.builds(ToolOutput, text=st.text(max_size=3), error_code=st.sampled_from(["", "unavailable"]))
    results = st.builds(ServerResult, calls, outputs)
    return results.map(lambda result: [result.call, result, TextBlock(result.output.told)])


def messages() -> st.SearchStrategy[Message]:
    usage = st.builds(
        Usage,
        *[COUNTS] * 5,
        st.sampled_from(UsageSource),
        st.sampled_from(UsageSource),
        st.none() | st.builds(Metering, st.floats(0, 1)),
    )
    cuts = st.builds(TruncationInfo, st.just("cut-call"), st.text(max_size=3), st.just("reason"), COUNTS)
    return st.builds(
        Message,
        st.lists(blocks().map(lambda block: [block]) | served() | cited(), min_size=1, max_size=5).map(
            lambda groups: tuple(block for group in groups for block in group)
        ),
        st.sampled_from(StopReason),
        st.none() | st.text(max_size=3),
        usage,
        st.lists(cuts, max_size=2).map(tuple),
        st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=3)), max_size=2).map(tuple),
    )


@given(messages())
def test_fold_undoes_unfold(message: Message) -> None:
    """F139: a message and its events say the same."""
    assert fold(replay(message)) == message


@given(messages())
def test_unfolded_events_obey_the_grammar(message: Message) -> None:
    """A collected answer can be streamed by the same encoders."""
    check_events(replay(message))


@given(messages(), st.data())
def test_folding_does_not_depend_on_how_deltas_are_cut(message: Message, data: st.DataObject) -> None:
    """F139: only the joined text of a block counts."""

    def recut() -> Iterator[Event]:
        for event in replay(message):
            match event:
                case TextDelta(text) | RefusalDelta(text) | ThinkingDelta(text) | ToolInputDelta(text):
                    place = data.draw(st.integers(0, len(text)))
                    yield type(event)(text[:place])
                    yield type(event)(text[place:])
                case _:
                    yield event

    assert fold(recut()) == message


def test_text_is_that_of_all_text_blocks() -> None:
    """Thinking and calls are not text."""
    message = Message((TextBlock("a"), ThinkingBlock("t"), ToolCallBlock("c", "f", "{}"), TextBlock("b")))

    assert message.text == "ab"


def test_a_call_without_arguments_has_an_empty_object() -> None:
    """Arguments always parse."""
    start = BlockStart(0, BlockKind.TOOL_CALL, "c", "f")

    assert fold([MessageStart(), start, BlockEnd(0), MessageEnd(StopReason.TOOL_CALL)]).blocks == (
        ToolCallBlock("c", "f", "{}"),
    )


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="nothing"),
        pytest.param([MessageStart()], id="no-end"),
        pytest.param([MessageStart(), BlockEnd(0), MessageEnd(StopReason.END)], id="end-of-no-block"),
    ],
)
def test_events_against_the_grammar_are_a_bug(events: list[Any]) -> None:
    """A stage that makes such a stream must not go unnoticed."""
    with pytest.raises(AssertionError):
        fold(events)
