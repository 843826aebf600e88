"""What is kept of one answer: counted where it is kept, and given back when it goes."""

from __future__ import annotations

import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import pytest
from hypothesis import given

from kiro_asgi.errors import AnswerTooLarge
from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.model.events import (
    CodeReferences,
    Delta,
    Event,
    Notice,
    RedactedThinking,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallFragment,
)
from kiro_asgi.model.message import MessageBuilder
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.stages.parts.open_calls import ToolCallAccumulator
from kiro_asgi.stages.tool_calls import EMISSIONS, ToolCallAssembler
from tests.growth import assert_linear
from tests.stages.deltas import answers

MIB = 1024 * 1024
ROOM = 4 * MIB

F = ToolCallFragment


def endless(*deltas: Callable[[int], Delta]) -> Iterator[Delta]:
    """Deltas without end, a few MiB of them."""
    for number in range(10**6):
        for make in deltas:
            yield make(number)


SHAPES: dict[str, Callable[[], Iterator[Delta]]] = {
    "text": lambda: endless(lambda n: TextDelta(f"{n:01000}")),
    "letters": lambda: endless(lambda n: TextDelta(f"{n % 1000}x")),
    "wide-text": lambda: endless(lambda n: TextDelta(f"{n:0500}\U0001f600")),
    "thinking": lambda: endless(lambda n: ThinkingDelta(f"{n:01000}")),
    "signatures": lambda: endless(lambda n: ThinkingDelta("t"), lambda n: SignatureDelta(f"{n:01000}")),
    "redacted": lambda: endless(lambda n: RedactedThinking(f"{n:01000}")),
    "blocks": lambda: endless(lambda n: TextDelta("a"), lambda n: ThinkingDelta("b")),
    "calls": lambda: endless(lambda n: F(f"c{n}", "f", f'{{"n":{n}}}', stop=True)),
    "names": lambda: endless(lambda n: F(f"c{n}", f"{n:01000}", "{}", stop=True)),
    "notices": lambda: endless(lambda n: Notice("odd", f"{n:010000}")),
    "references": lambda: endless(lambda n: CodeReferences(({"a": [[]] * 1000},))),
}
"""Answers that have to be kept when they are collected."""

HELD: dict[str, Callable[[], Iterator[Delta]]] = {
    "one-open-call": lambda: endless(lambda n: F("c", "f", f'{{"a":"{n:01000}')),
    "open-calls": lambda: endless(lambda n: F(f"c{n % 100}", "f", f'{{"a":"{n:01000}')),
    "names-of-open-calls": lambda: endless(lambda n: F(f"c{n}", f"{n:01000}", "{")),
    "many-open-calls": lambda: endless(lambda n: F(f"c{n}", "f", "{")),
    "calls-without-arguments": lambda: endless(lambda n: F(f"c{n}", "f", "", stop=True)),
}
"""Answers that have to be kept even when they are sent as they come."""


def passed_on(events: Iterable[Event]) -> None:
    """Let go of *events* at once, as a stream does."""
    deque(events, maxlen=0)


def measured(plan: Plan, deltas: Iterator[Delta], take: Callable[[Iterable[Event]], None]) -> int:
    """The most memory that an answer took, in bytes, with what *take* keeps, until there was no room any more."""
    answer = build_pipeline((), plan)
    tracemalloc.start()
    try:
        with pytest.raises(AnswerTooLarge) as ended:
            for delta in chain((TextDelta("a"),), deltas):
                take(answer.feed([delta]))  # type: ignore[list-item]  # there is no decoder
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert ended.value.code == "answer_too_large"
        assert not ended.value.retry_safe


def assert_bounded(measure: Callable[[], int]) -> None:
    """Assert that an answer takes its room and a little; twice, as what other threads of the process take counts."""
    bound = 1.3 * ROOM + MIB
    assert measure() <= bound or measure() <= bound


@pytest.mark.parametrize("shape", SHAPES)
def test_a_kept_answer_takes_no_more_than_its_room(shape: str) -> None:
    """Whatever it is made of, memory stays at the limit and a little; 100 MB of text took 1.7 GB."""
    plan = Plan(answer_bytes=ROOM, kept_whole=True, tool_input_bytes=64 * MIB)

    assert_bounded(lambda: measured(plan, SHAPES[shape](), MessageBuilder().feed))


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("shape", HELD)
def test_what_is_held_takes_no_more_than_its_room(shape: str, emission: str) -> None:
    """The same for what waits in a stream that is not kept."""
    plan = Plan(answer_bytes=ROOM, tool_emission=emission, tool_input_bytes=64 * MIB)

    assert_bounded(lambda: measured(plan, HELD[shape](), passed_on))


@pytest.mark.parametrize("emission", EMISSIONS)
@given(deltas=answers())
def test_what_goes_gives_its_room_back(emission: str, deltas: list[Delta]) -> None:
    """At the end nothing is taken but what tells that there was a call."""
    budget = AnswerBudget()
    stage = ToolCallAssembler(emission=emission, budget=budget)
    for delta in deltas:
        for _ in stage.feed([delta]):
            assert budget.size >= 0
    for _ in stage.flush():
        pass
    ids = {delta.call_id for delta in deltas if isinstance(delta, ToolCallFragment)}
    calls = sum(isinstance(delta, ToolCallFragment) for delta in deltas)

    assert 0 <= budget.size <= calls * 3 * ITEM
    assert bool(budget.size) <= bool(ids)


def test_the_library_has_a_limit_of_its_own() -> None:
    """Whoever collects calls without a gateway is bounded by default."""
    accumulator = ToolCallAccumulator()

    with pytest.raises(AnswerTooLarge):
        for number in range(40):
            accumulator.feed([F(f"c{number}", "f", "x" * MIB)])


def test_the_size_of_a_value_needs_no_recursion() -> None:
    """However deep it is, and each part of it is looked at once."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    assert size_of_value(deep) > 100_000 * 56
    assert_linear(lambda size: lambda: size_of_value([[{"a": [1]}]] * size), 100)
