"""The stages one after the other, in the order in which an answer runs through them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.model.events import (
    ContextUsage,
    Delta,
    MessageEnd,
    ModelName,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFragment,
)
from kiro_asgi.model.message import Message, TextBlock, ThinkingBlock, ToolCallBlock, fold
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.blocks import BlockFramer
from kiro_asgi.stages.ending import EndOfStream
from kiro_asgi.stages.filters import RepeatFilter
from kiro_asgi.stages.limits import Limits
from kiro_asgi.stages.thinking import MODES, SCANS, ThinkingSplitter
from kiro_asgi.stages.tool_calls import EMISSIONS, ToolCallAssembler
from kiro_asgi.stages.usage import UsageMeter
from kiro_asgi.testing.grammar.events import check_events
from tests.helpers import run, run_apart
from tests.stages.deltas import answers


def pipeline(
    *,
    emission: str = "complete",
    mode: str = "as_reasoning_content",
    scan: str = "start",
    repeats: bool = False,
    stop: tuple[str, ...] = (),
    max_tokens: int | None = None,
    lead_in: str = "",
) -> Pipeline[Delta, Any]:
    return Pipeline(
        *([RepeatFilter()] if repeats else []),
        ThinkingSplitter(mode=mode, scan=scan),
        Limits(stop=stop, max_tokens=max_tokens),
        ToolCallAssembler(emission=emission, max_bytes=50),
        EndOfStream(),
        UsageMeter(input_tokens=3, context_window=1000),
        BlockFramer(input_tokens=3, lead_in=lead_in),
    )


OPTIONS = st.fixed_dictionaries(
    {
        "emission": st.sampled_from(EMISSIONS),
        "mode": st.sampled_from(MODES),
        "scan": st.sampled_from(SCANS),
        "repeats": st.booleans(),
        "stop": st.sampled_from([(), ("stop",), ("ha", "a`")]),
        "max_tokens": st.none() | st.integers(0, 20),
        "lead_in": st.sampled_from(["", "I call."]),
    }
)


@given(answers(), OPTIONS)
def test_every_answer_obeys_the_grammar(deltas: list[Delta], options: dict[str, Any]) -> None:
    """R31: whatever the upstream sends and however it is set up, the events are legal and the message is whole."""
    events = run_apart(pipeline(**options), deltas)

    end = check_events(events)
    assert fold(events).stop_reason is end.stop_reason


@given(answers(), OPTIONS)
def test_how_deltas_arrive_changes_nothing(deltas: list[Delta], options: dict[str, Any]) -> None:
    """The same deltas in one call or in many give the same events."""
    assert run(pipeline(**options), deltas) == run_apart(pipeline(**options), deltas)


@given(answers(), st.data())
def test_how_text_is_cut_changes_nothing(deltas: list[Delta], data: st.DataObject) -> None:
    """The same text in more deltas folds to the same message."""
    options = {**data.draw(OPTIONS), "repeats": False, "max_tokens": None}
    halves: list[Delta] = []
    for delta in deltas:
        if isinstance(delta, TextDelta | ThinkingDelta):
            place = data.draw(st.integers(0, len(delta.text)))
            halves += [type(delta)(delta.text[:place]), type(delta)(delta.text[place:])]
        else:
            halves.append(delta)

    assert fold(run(pipeline(**options), halves)) == fold(run(pipeline(**options), deltas))


def calls_and_rest(message: Message) -> tuple[dict[str, Any], str, str]:
    """Calls by id, all text, all thinking: what does not depend on the order of blocks."""
    return (
        {block.call_id: json.loads(block.input) for block in message.blocks if isinstance(block, ToolCallBlock)},
        message.text,
        "".join(block.text for block in message.blocks if isinstance(block, ThinkingBlock)),
    )


def well_formed() -> st.SearchStrategy[list[Delta]]:
    """Text, thinking and calls of which each has its own id and arguments."""
    kinds = st.lists(st.sampled_from(["text", "thinking", "call"]), max_size=8)
    return kinds.map(
        lambda drawn: [delta for n, kind in enumerate(drawn) for delta in _some(kind, n)] + [ContextUsage(1)]
    )


def _some(kind: str, number: int) -> Iterable[Delta]:
    match kind:
        case "text":
            return [TextDelta(f"text {number} ")]
        case "thinking":
            return [ThinkingDelta(f"thought {number} ")]
    call_id = f"c{number}"
    return [
        ToolCallFragment(call_id, "f"),
        ToolCallFragment(call_id, "f", f'{{"n":{number}'),
        TextDelta(""),
        ToolCallFragment(call_id, "f", "}"),
        ToolCallFragment(call_id, "f", stop=True),
    ]


@given(well_formed())
def test_emission_modes_say_the_same(deltas: list[Delta]) -> None:
    """F139, F209: the modes differ in when calls go out, and in nothing else."""
    messages = [fold(run(pipeline(emission=emission), deltas)) for emission in EMISSIONS]

    assert len({message.stop_reason for message in messages}) == 1
    assert len({message.usage for message in messages}) == 1
    assert [calls_and_rest(message) for message in messages[1:]] == [calls_and_rest(messages[0])] * 2
    if deltas[:-1]:
        end = messages[EMISSIONS.index("end")].blocks
        kinds = [type(block) is ToolCallBlock for block in end]
        assert kinds == sorted(kinds)


def test_an_empty_stream_emits_nothing() -> None:
    """The error comes before any event, so that it can still be answered with a status, or tried again."""
    stage = pipeline()

    assert list(stage.feed([ModelName("m")])) == []
    with pytest.raises(UpstreamProtocolError):
        next(stage.flush())


@pytest.mark.parametrize(
    ("deltas", "stop_reason", "blocks"),
    [
        pytest.param(
            [
                TextDelta("<think>t</think>"),
                TextDelta("a"),
                ToolCallFragment("c", "f", "{}", True),
                Stop(StopReason.TOOL_CALL),
            ],
            StopReason.TOOL_CALL,
            (ThinkingBlock("t"), TextBlock("a"), ToolCallBlock("c", "f", "{}")),
            id="agent-turn",
        ),
        pytest.param(
            [TextDelta("a"), ToolCallFragment("c", "f", '{"a'), ContextUsage(1.0)],
            StopReason.LENGTH,
            (TextBlock("a"),),
            id="call-cut-by-the-end",
        ),
        pytest.param(
            [TextDelta("a"), TextDelta("bst"), TextDelta("op c")],
            StopReason.STOP_SEQUENCE,
            (TextBlock("ab"),),
            id="stop",
        ),
        pytest.param(
            [ThinkingDelta("t"), ContextUsage(1.0)], StopReason.LENGTH, (ThinkingBlock("t"),), id="thinking-only"
        ),
        pytest.param([ContextUsage(1.0)], StopReason.END, (TextBlock(""),), id="empty-answer"),
    ],
)
def test_whole_answers(deltas: list[Delta], stop_reason: StopReason, blocks: tuple[Any, ...]) -> None:
    """R31: what typical answers come to."""
    message = fold(run_apart(pipeline(stop=("stop",)), deltas))

    assert (message.stop_reason, message.blocks) == (stop_reason, blocks)


def test_nothing_follows_the_end() -> None:
    """The message's end is the last event, with the usage of all that was shown."""
    events = run(pipeline(), [TextDelta("abcd" * 10)])

    assert isinstance(events[-1], MessageEnd)
    assert events[-1].usage.output_tokens == 10
