"""Calls that are open, and whose a fragment is that names none."""

from __future__ import annotations

import pytest

from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.stages.parts.open_calls import OpenCall, OpenCalls


@pytest.mark.parametrize(
    ("ended", "found"),
    [
        ((), "c"),
        (("c",), "b"),
        (("b",), "c"),
        (("c", "b"), "a"),
        (("b", "c"), "a"),
        (("a", "c"), "b"),
        (("a", "b", "c"), None),
    ],
)
def test_a_fragment_without_an_id_is_of_the_call_opened_last_that_is_still_open(
    ended: tuple[str, ...], found: str | None
) -> None:
    """When a call has ended nothing more belongs to it: the one that was opened before it goes on, or none does."""
    calls: OpenCalls[OpenCall] = OpenCalls(OpenCall, AnswerBudget())
    opened = {call_id: calls.open(call_id) for call_id in "abc"}
    for call_id in ended:
        calls.take(opened[call_id])

    latest = calls.find("")
    assert (latest and latest.call_id) == found


def test_when_the_answer_has_ended_no_call_is_open() -> None:
    """Nothing that comes after the end belongs to a call from before it."""
    calls: OpenCalls[OpenCall] = OpenCalls(OpenCall, AnswerBudget())
    opened = [calls.open("a"), calls.open("b")]

    assert calls.take_all() == opened
    assert calls.find("") is None


def test_a_call_that_comes_once_more_is_the_latest() -> None:
    """What names no call is then of that one."""
    calls: OpenCalls[OpenCall] = OpenCalls(OpenCall, AnswerBudget())
    first, second, third = map(calls.open, "abc")
    calls.reopen(first)
    assert calls.find("") is first

    calls.take(second)
    assert calls.find("") is first

    calls.take(third)
    calls.reopen(third)
    assert calls.find("") is third
