from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import (
    Delta,
    Event,
    Notice,
    ServerCall,
    ServerResult,
    Stop,
    StopReason,
    TextDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallStart,
    ToolInputDelta,
    ToolOutput,
)
from kiro_asgi.model.message import Message, TextBlock, ToolCallBlock, fold
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.stages.filters import ServerTools
from kiro_asgi.stages.parts.argument_text import truncation_info
from kiro_asgi.stages.tool_calls import EMISSIONS, ToolCallAssembler
from kiro_asgi.testing.grammar.events import check_events
from tests.helpers import run, run_apart
from tests.stages.deltas import answers

KINDS = {"web_search": "web_search"}
OUTPUT = ToolOutput(text="found")


def deltas_of(call_id: str, name: str, *pieces: str) -> list[Delta]:
    return [ToolCallStart(call_id, name), *map(ToolInputDelta, pieces), ToolCallEnd(call_id)]


def searching(call_id: str, **arguments: Any) -> ServerCall:
    return ServerCall(call_id, "web_search", "web_search", arguments)


@pytest.mark.parametrize("feed", [run, run_apart], ids=["at-once", "one-by-one"])
@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(
            [TextDelta("a"), *deltas_of("s", "web_search", '{"query":', '"q"}'), TextDelta("b")],
            [TextDelta("a"), searching("s", query="q"), TextDelta("b")],
            id="F214-taken-out",
        ),
        pytest.param(deltas_of("c", "f", "{}"), deltas_of("c", "f", "{}"), id="another-tool-passes"),
        pytest.param(deltas_of("s", "web_search"), [searching("s")], id="no-arguments"),
        pytest.param(
            [ToolCallStart("s", "web_search"), Notice("n"), ToolInputDelta("{}"), ToolCallEnd("s")],
            [Notice("n"), searching("s")],
            id="what-does-not-belong-passes",
        ),
        pytest.param(
            [
                ToolCallStart("s", "web_search"),
                ToolInputDelta('{"'),
                ToolCallCut(truncation_info("s", "web_search", '{"')),
                *deltas_of("c", "f", "{}"),
            ],
            [ToolCallCut(truncation_info("s", "web_search", '{"')), *deltas_of("c", "f", "{}")],
            id="cut-and-never-run",
        ),
    ],
)
def test_calls_of_server_tools_are_taken_out(deltas: list[Delta], expected: list[Delta], feed: Any) -> None:
    """F214: such a call is flagged, whole, and no part of it is a client's tool call any more."""
    stage = ServerTools(KINDS)

    assert feed(stage, deltas) == expected
    assert stage.calls == [delta for delta in expected if isinstance(delta, ServerCall)]


@given(answers(), st.sampled_from(EMISSIONS))
def test_without_such_calls_nothing_changes(deltas: list[Delta], emission: str) -> None:
    """What is no call of these tools passes untouched."""
    assembled = run(ToolCallAssembler(emission=emission), deltas)

    assert run(ServerTools(KINDS), assembled) == assembled


def ended(answer: Answer, deltas: list[Delta], output: ToolOutput = OUTPUT) -> list[Event]:
    """All events of an answer whose server tools all give *output*."""
    return [
        *answer.feed(deltas),  # type: ignore[arg-type]  # there is no decoder before
        *answer.drain(),
        *answer.resolve(ServerResult(call, output) for call in answer.pending),
        *answer.flush(),
    ]


def answer_of(deltas: list[Delta], **plan: Any) -> Message:
    events = ended(build_pipeline((), Plan(server_tools=KINDS, **plan)), deltas)
    check_events(events)
    return fold(events)


def fragment(call_id: str, name: str, **arguments: Any) -> ToolCallFragment:
    return ToolCallFragment(call_id, name, json.dumps(arguments), True)


CALLED = Stop(StopReason.TOOL_CALL)
SEARCH, CLIENT = fragment("s", "web_search", query="q"), fragment("c", "f")


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize(
    ("calls", "stop_reason", "blocks"),
    [
        pytest.param([SEARCH], StopReason.END, [], id="F216-only-server-tools"),
        pytest.param([SEARCH, CLIENT], StopReason.TOOL_CALL, [ToolCallBlock("c", "f", "{}")], id="F216-a-call-beside"),
    ],
)
def test_a_whole_answer(emission: str, calls: list[Delta], stop_reason: StopReason, blocks: list[Any]) -> None:
    """F214-F216: call, result and text are there, the client's call too, and only that one counts for the end."""
    message = answer_of([TextDelta("a"), *calls, CALLED], tool_emission=emission)
    call = searching("s", query="q")

    assert message.blocks == (TextBlock("a"), call, *blocks, ServerResult(call, OUTPUT), TextBlock("found"))
    assert message.stop_reason is stop_reason


@given(answers(), st.sampled_from(EMISSIONS), st.integers(0, 3))
def test_every_answer_obeys_the_grammar(deltas: list[Delta], emission: str, searches: int) -> None:
    """R31: whatever else the upstream sends, events are legal, and each call has its result."""
    calls = [fragment(f"s{number}", "web_search", query=str(number)) for number in range(searches)]
    message = answer_of([*deltas, *calls], tool_emission=emission)

    results = [block for block in message.blocks if isinstance(block, ServerResult)]
    assert [result.call for result in results] == [block for block in message.blocks if isinstance(block, ServerCall)]
    assert [result.call.call_id for result in results] == [f"s{number}" for number in range(searches)]


def test_what_a_tool_gave_is_not_the_models_output() -> None:
    """Its text costs no answer tokens; the call does."""
    few = answer_of([SEARCH], input_tokens=1).usage

    assert (
        few == fold(ended(build_pipeline((), Plan(server_tools=KINDS, input_tokens=1)), [SEARCH], ToolOutput())).usage
    )
    assert few.output_tokens == 5


def test_without_server_tools_the_end_is_one_step() -> None:
    """A library that has none just flushes."""
    answer = build_pipeline((), Plan())

    assert fold([*answer.feed([TextDelta("a"), SEARCH]), *answer.flush()]).blocks == (  # type: ignore[list-item]
        TextBlock("a"),
        ToolCallBlock("s", "web_search", '{"query": "q"}'),
    )
    assert answer.pending == ()
