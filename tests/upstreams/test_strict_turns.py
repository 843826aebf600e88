"""Conversations in strict turns."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.strict_turns import CANCELLED, PAIRING, strict_turns
from tests.growth import assert_linear
from tests.upstreams.kiro.prompts import PROMPTS, ask, assistant, call, result, user

LEGAL = re.compile(r"[a-z0-9_]{1,20}")

U, A = Role.USER, Role.ASSISTANT


def arranged(*turns: Any) -> tuple[list[tuple[Role, list[Any]]], list[str]]:
    """Role and parts of each turn, and the rules that did something."""
    notes = Notes()
    ids = WireNames(re.compile(r"[a-z0-9_]{1,40}"), 40, "calls.id_changed", notes)
    drafts = strict_turns(ask(*turns).turns, ids, notes)
    return [(draft.role, draft.parts) for draft in drafts], [note.rule for note in notes.found()]


def test_an_ordinary_conversation_stays_as_it_is() -> None:
    """What is in order costs no note."""
    turns = (user("hi"), assistant("so", call("a"), call("b")), user(result("a", "1"), result("b", "2"), "go on"))
    assert arranged(*turns) == ([(turn.role, [*turn.parts]) for turn in turns], [])


@pytest.mark.parametrize(
    ("turns", "expected", "rule"),
    [
        ([user("a"), user("b")], [(U, [Text("a"), Text("b")])], "turns.merged"),
        ([assistant(call("a"), result("a", "1"), "so")],
         [(A, [call("a")]), (U, [result("a", "1")]), (A, [Text("so")])], "turns.part_moved"),
        ([user(ThinkingPart("hm"), "a")], [(A, [ThinkingPart("hm")]), (U, [Text("a")])], "turns.part_moved"),
        ([user(result("a", "1"))], [(U, [Text("Result of an earlier tool call:"), Text("1")])],
         "results.orphan_to_text"),
        ([assistant(call("a"), call("a"))], [(A, [call("a")]), (U, [result("a", CANCELLED, is_error=True)])],
         "calls.duplicate_dropped"),
        ([assistant(call("a")), user(result("a", "1"), result("a", "1"))],
         [(A, [call("a")]), (U, [result("a", "1")])], "results.duplicate_dropped"),
        ([assistant(call("a")), user("wait"), assistant("ok"), user(result("a", "1"))],
         [(A, [call("a")]), (U, [result("a", "1"), Text("wait")]), (A, [Text("ok")])], "results.relocated"),
        ([assistant(call("a")), user("no")],
         [(A, [call("a")]), (U, [result("a", CANCELLED, is_error=True), Text("no")])], "calls.unanswered"),
    ],
)  # fmt: skip
def test_what_is_put_in_order(turns: Any, expected: Any, rule: str) -> None:
    """Each disorder has its remedy, and is noted."""
    found, rules = arranged(*turns)
    assert found == expected
    assert rule in rules


def test_ids_that_cannot_stay() -> None:
    """A foreign id is replaced in call and result, the same in every request; so is one that is used again."""
    turns = (assistant(call("A.1")), user(result("A.1", "1")), assistant(call("A.1")), user(result("A.1", "2")))
    found, rules = arranged(*turns)
    first, second = (parts[0].call_id for role, parts in found if role is A)
    assert [parts[0] for role, parts in found if role is U] == [result(first, "1"), result(second, "2")]
    assert first != second and re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", first)
    assert rules == ["calls.id_changed", "calls.id_repeated"]
    assert arranged(*turns)[0] == found


def test_turns_that_only_answered_elsewhere_vanish() -> None:
    """A turn of which nothing is left is none, and its neighbours become one."""
    found, _ = arranged(
        assistant(call("a")), user("x"), assistant("y"), user(result("a", "1")), assistant("z"), user("end")
    )
    assert [role for role, _ in found] == [A, U, A, U]
    assert found[2] == (A, [Text("y"), Text("z")])


@given(PROMPTS)
def test_every_conversation_is_put_in_order(prompt: Prompt) -> None:
    """The sides take turns, each call has an id of its own, and its result stands first in the turn behind it."""
    notes = Notes()
    drafts = strict_turns(prompt.turns, WireNames(re.compile(r"[a-z0-9]+"), 40, "calls.id_changed", notes), notes)

    assert all(draft.parts for draft in drafts)
    assert all(before.role is not after.role for before, after in pairwise(drafts))
    ids = [part.call_id for draft in drafts for part in draft.parts if isinstance(part, ToolCallPart)]
    assert len(ids) == len(set(ids))
    called: list[str] = []
    for draft in drafts:
        answered = [part.call_id for part in draft.parts if isinstance(part, ToolResult)]
        assert answered == called
        assert all(isinstance(part, ToolResult) for part in draft.parts[: len(answered)])
        called = [part.call_id for part in draft.parts if isinstance(part, ToolCallPart)]
    assert called == []
    assert {note.rule for note in notes.found()} <= {*PAIRING}


@given(PROMPTS)
def test_nothing_is_lost(prompt: Prompt) -> None:
    """Every text of the conversation is still there, but for what repeats another."""
    notes = Notes()
    drafts = strict_turns(prompt.turns, WireNames(re.compile(r"[a-z0-9]+"), 40, "calls.id_changed", notes), notes)
    said = {part.text for draft in drafts for part in _flat(draft.parts) if isinstance(part, Text)}
    meant = {part.text for turn in prompt.turns for part in _flat(turn.parts) if isinstance(part, Text)}
    assert meant <= said


def _flat(parts: Any) -> list[Any]:
    return [inner for part in parts for inner in (part.parts if isinstance(part, ToolResult) else (part,))]


def one_turn(size: int) -> list[Turn]:
    calls = tuple(ToolCallPart("c", "f", {"x": number}) for number in range(size))
    results = tuple(ToolResult("c", (Text(str(number)),)) for number in range(size))
    return [Turn(Role.ASSISTANT, calls), Turn(Role.USER, results)]


def turns_without_results(size: int) -> list[Turn]:
    asked = [Turn(Role.ASSISTANT, (ToolCallPart("c", "f", {"x": number}),)) for number in range(size)]
    between = [turn for each in asked for turn in (each, Turn(Role.USER, (Text("go on"),)))]
    return [*between, Turn(Role.USER, tuple(ToolResult("c", (Text(str(number)),)) for number in range(size)))]


def more_results_than_calls(size: int) -> list[Turn]:
    results = tuple(ToolResult("c", (Text(str(number % 7)),)) for number in range(size))
    return [Turn(Role.ASSISTANT, (ToolCallPart("c", "f", {}),)), Turn(Role.USER, results)]


def neighbours(size: int) -> list[Turn]:
    return [Turn(Role.ASSISTANT, (ToolCallPart(str(number), "f", {}),)) for number in range(size)]


@pytest.mark.parametrize("make", [one_turn, turns_without_results, more_results_than_calls, neighbours])
@pytest.mark.parametrize("off", [(), ("turns.merged",), ("results.relocated",), ("calls.duplicate_dropped",)])
def test_one_id_for_everything_costs_no_more(make: Callable[[int], list[Turn]], off: tuple[str, ...]) -> None:
    """Whatever a client calls its calls, and however many there are, each is looked at a few times."""

    def work(size: int) -> Callable[[], object]:
        turns = make(size)
        notes = Notes(frozenset(off))
        return lambda: strict_turns(turns, WireNames(LEGAL, 20, "calls.id_changed", notes), notes)

    assert_linear(work, 64)
