"""Ids of calls that are unique over a conversation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import ToolCallFragment, ToolCallStart
from kiro_asgi.model.prompt import Role, ToolCallPart, ToolResult, Turn
from kiro_asgi.stages.parts.call_ids import CallIds
from kiro_asgi.stages.tool_calls import EMISSIONS, ToolCallAssembler
from tests.helpers import run
from tests.stages.timing import assert_linear


def history(*ids: str) -> tuple[Turn, ...]:
    """A conversation with calls of these *ids*."""
    calls = Turn(Role.ASSISTANT, tuple(ToolCallPart(each, "f", {}) for each in ids))
    return calls, Turn(Role.USER, tuple(ToolResult(each) for each in ids))


@pytest.mark.parametrize(
    ("before", "given_id", "expected"),
    [
        ((), "call_0", "call_0"),
        (("call_1",), "call_0", "call_0"),
        (("call_0",), "call_0", "call_1"),
        (("functions.t:0", "functions.t:1"), "functions.t:0", "functions.t:2"),
        (("call_9",), "call_9", "call_10"),
        (("toolu_x",), "toolu_x", "toolu_x_1"),
        (("toolu_x", "toolu_x_1"), "toolu_x", "toolu_x_2"),
        (("7",), "7", "8"),
        (("a" + "9" * 5_000,), "a" + "9" * 5_000, "a" + "9" * 5_000 + "_1"),
        (("c_٣",), "c_٣", "c_٣_1"),
    ],
)
def test_an_id_that_was_used_goes_on_counting(before: tuple[str, ...], given_id: str, expected: str) -> None:
    """The number at its end, if it has one that is no random one."""
    assert CallIds(history(*before)).shown(given_id) == expected


def test_an_id_that_only_a_result_has_is_used() -> None:
    """The call would get the result of another."""
    assert CallIds(history("a")[1:]).shown("a") == "a_1"


FEW = st.sampled_from(["c0", "c1", "c2", "c0_1", "x", "x_1", "x_2"])


@given(st.lists(FEW), st.lists(FEW))
def test_ids_are_unique_and_stay(before: list[str], calls: list[str]) -> None:
    """Whatever the conversation has and the answer brings."""
    ids = CallIds(history(*before))
    shown = {call: ids.shown(call) for call in calls}

    assert len({*shown.values()}) == len(shown)
    assert not {*shown.values()} & {*before}
    assert shown == {call: ids.shown(call) for call in calls}


@pytest.mark.parametrize("emission", EMISSIONS)
def test_fragments_find_their_call_by_the_id_of_the_service(emission: str) -> None:
    """Two calls whose pieces alternate, and one that comes again with its arguments."""
    assembler = ToolCallAssembler(emission=emission, drop_equal=False, conversation=history("c0", "c1"))
    deltas = run(
        assembler,
        [
            ToolCallFragment("c0", "f", '{"a'),
            ToolCallFragment("c1", "f", ""),
            ToolCallFragment("c0", "", '":1}', stop=True),
            ToolCallFragment("c1", "", "", stop=True),
            ToolCallFragment("c1", "f", '{"b":2}', stop=True),
        ],
    )
    text = "".join(getattr(delta, "json", "") for delta in deltas)

    assert [delta.call_id for delta in deltas if type(delta) is ToolCallStart] == ["c2", "c3"]
    assert text == '{"a":1}{"b":2}'


def test_many_used_ids_cost_no_more_than_reading_them() -> None:
    """A service that repeats each id of a long conversation."""

    def repeat(size: int) -> Callable[[], object]:
        used = [f"c{number}" for number in range(size)]
        ids = CallIds(history(*used))
        return lambda: [*map(ids.shown, used)]

    assert_linear(repeat, 1_000)
