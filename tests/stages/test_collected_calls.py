"""Calls of an answer that goes out in one piece: each at its place, with the most complete arguments that came."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kiro_asgi.errors import AnswerTooLarge
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import Delta, TextDelta, ThinkingDelta, ToolCallFragment, ToolCallStart, ToolInputDelta
from kiro_asgi.stages.tool_calls import ToolCallAssembler
from tests.helpers import run


def whole(call_id: str, arguments: str) -> ToolCallFragment:
    return ToolCallFragment(call_id, "f", arguments, stop=True)


def told(deltas: Iterable[Delta]) -> list[str]:
    """Texts and arguments in their order."""
    found = []
    for delta in deltas:
        match delta:
            case TextDelta(text) | ThinkingDelta(text):
                found.append(text)
            case ToolInputDelta(text):
                found.append(text)
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([whole("a", '{"x":"P"}'), whole("a", '{"x":"Paris"}')], ['{"x":"Paris"}']),
        ([whole("a", '{"x":"Paris"}'), whole("a", '{"x":"P"}')], ['{"x":"Paris"}']),
        ([whole("a", ""), whole("a", '{"x":1}')], ['{"x":1}']),
        ([whole("a", '{"x":1}'), whole("a", "")], ['{"x":1}']),
        (
            [TextDelta("1"), whole("a", "{}"), TextDelta("2"), whole("b", '{"y":1}'), whole("a", '{"x":1}')],
            ["1", '{"x":1}', "2", '{"y":1}'],
        ),
        ([whole("a", '{"x":1}'), ThinkingDelta("hm"), TextDelta("3")], ['{"x":1}', "hm", "3"]),
        ([TextDelta("1"), TextDelta("2")], ["1", "2"]),
    ],
)
def test_the_most_complete_call_of_an_id_is_the_call(given: list[Delta], expected: list[str]) -> None:
    """Where the first of them came; text and thinking stay where they are."""
    assert told(run(ToolCallAssembler(emission="collected"), given)) == expected


def test_what_waits_has_its_room() -> None:
    """Text behind a call takes as much as that answer may, and gives it back."""
    budget = AnswerBudget(100_000)
    assembler = ToolCallAssembler(emission="collected", budget=budget)
    run(assembler, [whole("a", '{"x":1}'), TextDelta("x" * 50_000)])
    run(ToolCallAssembler(emission="collected", budget=budget), [whole("a", '{"x":1}'), TextDelta("x" * 50_000)])
    with pytest.raises(AnswerTooLarge):
        run(assembler, [TextDelta("x" * 50_000)] * 2)


def test_the_order_is_that_of_their_ends() -> None:
    """As in an answer that is streamed, where the pieces of calls alternate."""
    pieces = [
        ToolCallFragment("a", "f", '{"x"'),
        ToolCallFragment("b", "f", "{}", stop=True),
        ToolCallFragment("a", "", ":1}", stop=True),
    ]
    deltas = run(ToolCallAssembler(emission="collected"), pieces)

    assert [delta.call_id for delta in deltas if type(delta) is ToolCallStart] == ["b", "a"]
