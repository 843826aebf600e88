"""Telling tool calls apart, as servers number and name them, well or badly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import Notice, ToolCallCut, ToolCallEnd, ToolCallFragment, ToolCallStart, ToolInputDelta
from kiro_asgi.stages.tool_calls import ToolCallAssembler
from tests.helpers import run
from tests.upstreams.openai.chunks import calling, chunk, deltas, piece

FINISH = chunk(finish="tool_calls")


def fragments(*values: Any) -> list[ToolCallFragment]:
    return [delta for delta in deltas(*values) if isinstance(delta, ToolCallFragment)]


def calls(*values: Any, finish: Any = FINISH) -> list[tuple[str, str, Any]]:
    """Id, name and arguments of every call that is delivered."""
    found = run(ToolCallAssembler(), deltas(*values, finish))
    starts = [delta for delta in found if isinstance(delta, ToolCallStart)]
    inputs = [json.loads(delta.json) for delta in found if isinstance(delta, ToolInputDelta)]
    assert len(starts) == len(inputs) == sum(isinstance(delta, ToolCallEnd) for delta in found)
    return [(start.call_id, start.name, value) for start, value in zip(starts, inputs, strict=True)]


A, B = ("a", "f", {"x": 1}), ("b", "g", {"y": 2})

FORMS: dict[str, tuple[Any, ...]] = {
    "as the API has it": (
        calling(piece(0, "a", "f", "")),
        calling(piece(0, arguments='{"x"')),
        calling(piece(0, arguments=":1}")),
        calling(piece(1, "b", "g", "")),
        calling(piece(1, arguments='{"y":2}')),
    ),
    "in turns": (
        calling(piece(0, "a", "f", '{"x"')),
        calling(piece(1, "b", "g", '{"y"')),
        calling(piece(0, arguments=":1}")),
        calling(piece(1, arguments=":2}")),
    ),
    "both at once": (calling(piece(0, "a", "f", '{"x":1}'), piece(1, "b", "g", '{"y":2}')),),
    "every number 0": (
        calling(piece(0, "a", "f", '{"x"')),
        calling(piece(0, "a", None, ":1}")),
        calling(piece(0, "b", "g", '{"y":2}')),
    ),
    "without numbers": (
        calling(piece(None, "a", "f", '{"x"')),
        calling(piece(None, None, None, ":1}")),
        calling(piece(None, "b", "g", '{"y":2}')),
    ),
    "without numbers, in turns": (
        calling(piece(None, "a", "f", '{"x"')),
        calling(piece(None, "b", "g", '{"y"')),
        calling(piece(None, "a", None, ":1}")),
        calling(piece(None, "b", None, ":2}")),
    ),
    "name and id repeated": (
        calling(piece(0, "a", "f", "")),
        calling(piece(0, "a", "f", '{"x"')),
        calling(piece(0, "a", "f", ":1}")),
        calling(piece(0, "a", "f", "")),
        calling(piece(1, "b", "g", '{"y":2}')),
    ),
    "arguments as objects": (calling(piece(0, "a", "f", {"x": 1})), calling(piece(1, "b", "g", {"y": 2}))),
    "empty ids after the first": (
        calling(piece(0, "a", "f", '{"x"')),
        calling(piece(0, "", "", ":1}")),
        calling(piece(1, "b", "g", '{"y":2}')),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_two_calls_in_every_form(form: str) -> None:
    """The same two calls come out, in their order."""
    assert calls(*FORMS[form]) == [A, B]


NAMELESS: dict[str, tuple[Any, ...]] = {
    "numbered": (calling(piece(0, None, "f", '{"x":1}')), calling(piece(1, None, "g", '{"y":2}'))),
    "every number 0": (calling(piece(0, None, "f", '{"x":1}')), calling(piece(0, None, "g", '{"y":2}'))),
    "empty ids": (calling(piece(0, "", "f", '{"x":1}')), calling(piece(1, "", "g", '{"y":2}'))),
    "neither number nor id": (calling(piece(None, None, "f", '{"x":1}'), piece(None, None, "g", '{"y":2}')),),
}


@pytest.mark.parametrize("form", NAMELESS)
def test_calls_without_ids_get_some(form: str) -> None:
    """Each its own."""
    assert calls(*NAMELESS[form]) == [("new1", "f", {"x": 1}), ("new2", "g", {"y": 2})]


def test_ids_that_calls_share_are_told_apart() -> None:
    """A result must answer one call only."""
    assert calls(calling(piece(0, "a", "f", '{"x":1}')), calling(piece(1, "a", "g", '{"y":2}'))) == [
        A,
        ("new1", "g", {"y": 2}),
    ]


def test_an_id_that_comes_late_is_of_the_same_call() -> None:
    """The call keeps the id under which its first piece was told."""
    assert calls(calling(piece(0, None, "f", '{"x"')), calling(piece(0, "late", None, ":1}"))) == [
        ("new1", "f", {"x": 1})
    ]


@pytest.mark.parametrize("names", [("get_", "weather"), ("get_weather", "get_weather"), ("get_", "get_weather")])
def test_names_in_pieces_repeated_or_growing(names: tuple[str, str]) -> None:
    """A name is whole when the arguments begin."""
    parts = [calling(piece(0, "a", names[0])), calling(piece(0, None, names[1])), calling(piece(0, arguments="{}"))]

    assert calls(*parts) == [("a", "get_weather", {})]


def test_a_call_without_arguments_is_a_call() -> None:
    """Whether the next call or the end of the answer ends it."""
    assert calls(calling(piece(0, "a", "f", "")), calling(piece(1, "b", "g", '{"y":2}'))) == [("a", "f", {}), B]
    assert calls(calling(piece(0, "a", "f"))) == [("a", "f", {})]


def test_a_call_ends_when_the_next_begins_if_it_is_whole() -> None:
    """So that it can be delivered early; pieces that still come for it say nothing."""
    first, second = calling(piece(0, "a", "f", '{"x":1}')), calling(piece(1, "b", "g", "{"))
    rest = calling(piece(0, "a", "f", "\n")), calling(piece(1, arguments="}"))

    assert fragments(first, second, *rest, FINISH) == [
        ToolCallFragment("a", "f", '{"x":1}'),
        ToolCallFragment("a", "", "", True),
        ToolCallFragment("b", "g", "{"),
        ToolCallFragment("b", "", "}"),
        ToolCallFragment("b", "", "", True),
    ]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_call_at_which_the_answer_was_cut_is_not_whole(finish: str) -> None:
    """Not even one whose arguments had not begun; what is whole is delivered."""
    opened = calling(piece(0, "a", "f", '{"x":1}')), calling(piece(1, "b", "g"))
    found = run(ToolCallAssembler(), deltas(*opened, chunk(finish=finish)))

    assert [delta.info.name for delta in found if isinstance(delta, ToolCallCut)] == ["g"]
    assert calls(*opened, finish=chunk(finish=finish)) == [A]


def test_the_deprecated_form() -> None:
    """One call, without an id."""
    pieces = [{"name": "f", "arguments": ""}, {"arguments": '{"x"'}, {"arguments": ":1}"}]

    assert calls(*(chunk({"function_call": each}) for each in pieces), finish=chunk(finish="function_call")) == [
        ("new1", "f", {"x": 1})
    ]


def test_what_is_no_call_is_noted_once() -> None:
    """Whatever stands there."""
    found = deltas(chunk({"tool_calls": 7}), calling(7), calling({"function": 7}), chunk({"function_call": 7}), FINISH)  # type: ignore[arg-type]

    assert [delta for delta in found if isinstance(delta, Notice)] == [Notice("tool_call.unreadable")]


@given(st.data())
def test_calls_cut_and_mixed_at_will_come_out_whole(data: st.DataObject) -> None:
    """By number, pieces of several calls may come in any order that keeps each call's own."""
    count = data.draw(st.integers(1, 4))
    wanted = [(f"id{number}", "tool", {"n": number, "t": "é{}"}) for number in range(count)]
    queues = []
    for number, (call_id, name, value) in enumerate(wanted):
        text = json.dumps(value)
        middle = data.draw(st.integers(0, len(text)))
        parts = [piece(number, arguments=text[:middle]), piece(number, arguments=text[middle:])]
        queues.append([piece(number, call_id, name), *parts])
    mixed = []
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        mixed.append(calling(queue.pop(0)))

    assert sorted(calls(*mixed)) == wanted


ROME = '{"city":"Rome"}'


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (['{"city":', '"Rome"}', ROME], [ROME]),
        ([ROME, ROME, ROME], [ROME]),
        (["{}", ROME], [ROME]),
        (["{ }", '{"city":', '"Rome"}'], [ROME]),
        (["{}", "{}"], ["{}"]),
        (["{}"], ["{}"]),
    ],
)
def test_arguments_that_come_twice_count_once(pieces: list[str], expected: list[str]) -> None:
    """A whole object once more is the same one, and an empty one before another is none."""
    events = [calling(piece(0, "a", "f", pieces[0])), *(calling(piece(0, None, None, each)) for each in pieces[1:])]
    repeated = [calling(piece(0, "a", "f", each)) for each in pieces]

    for sent in (events, repeated):
        fragments = [each for each in deltas(*sent, FINISH) if isinstance(each, ToolCallFragment)]
        assert ["".join(each.input for each in fragments)] == expected
        assert [each.stop for each in fragments].count(True) == 1


def test_another_name_is_another_call() -> None:
    """Also under the number and the id of the call before it, whose arguments are complete."""
    for first in (ROME, "{}"):
        found = [
            each
            for each in deltas(calling(piece(0, "c", "f", first)), calling(piece(0, "c", "g", "{}")), FINISH)
            if isinstance(each, ToolCallFragment)
        ]
        calls = {each.call_id: "".join(it.input for it in found if it.call_id == each.call_id) for each in found}

        assert [each.name for each in found if each.name] == ["f", "g"]
        assert [*calls.values()] == [first, "{}"]
