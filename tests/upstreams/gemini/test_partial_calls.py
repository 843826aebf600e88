"""Calls whose arguments come in pieces: whole where every piece has a place, and never called with less."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.errors import AnswerTooLarge
from kiro_asgi.limits import ANSWER_BYTES, JSON_DEPTH
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import Delta, Stop, StopReason, ToolCallFragment
from kiro_asgi.upstreams.gemini.answer import ResponseDecoder
from kiro_asgi.upstreams.gemini.partial_calls import PartialCall
from kiro_asgi.upstreams.json_events import JsonEvent


def read(*calls: dict[str, Any], finish: str = "STOP") -> list[Delta]:
    decoder = ResponseDecoder(lambda: "new", frozenset())
    events = [{"candidates": [{"content": {"parts": [{"functionCall": call}]}}]} for call in calls]
    lines = (*events, {"candidates": [{"finishReason": finish}]})
    return [*decoder.feed(JsonEvent("", line) for line in lines), *decoder.flush()]


def piece(path: str, *, more: bool = True, **value: Any) -> dict[str, Any]:
    return {"partialArgs": [{"jsonPath": path, **value}], **({"willContinue": True} if more else {})}


BEGUN = {"name": "look", "willContinue": True}


def test_pieces_make_one_call() -> None:
    """Texts go on where they end, and each value stands where its path leads."""
    deltas = read(
        {**BEGUN, "id": "c"},
        piece("$.place.city", stringValue="Par", willContinue=True),
        piece("$.place.city", stringValue="is"),
        piece("$.days[0]", numberValue=1),
        piece("$.days[1].name", stringValue="two"),
        piece("$['a b'][\"c\"]", boolValue=False),
        piece("$.nothing", nullValue="NULL_VALUE"),
        {},
    )

    (call,) = [delta for delta in deltas if isinstance(delta, ToolCallFragment)]
    assert (call.call_id, call.name, call.stop) == ("c", "look", True)
    assert json.loads(call.input) == {
        "place": {"city": "Paris"},
        "days": [1, {"name": "two"}],
        "a b": {"c": False},
        "nothing": None,
    }


def test_calls_in_pieces_follow_one_another() -> None:
    deltas = read(BEGUN, piece("$.a", more=False, numberValue=1), {"name": "see", "args": {}}, BEGUN, {})
    assert [(call.name, call.input) for call in deltas if isinstance(call, ToolCallFragment)] == [
        ("look", '{"a":1}'),
        ("see", "{}"),
        ("look", "{}"),
    ]


@pytest.mark.parametrize("path", ["a", "$", "$.a..b", "$[*]", "$.days[3]", "$[0]", "$" + ".a" * JSON_DEPTH])
def test_a_piece_without_a_place_spoils_the_call(path: str) -> None:
    """What cannot be read is no JSON, so that the call is withheld as malformed."""
    deltas = read(BEGUN, piece("$.days[0]", numberValue=1), piece(path, more=False, numberValue=1))
    (call,) = [delta for delta in deltas if isinstance(delta, ToolCallFragment)]
    assert (call.input, call.stop) == ("{", True)


@pytest.mark.parametrize("path", ["$.days.first", "$.days[0].first", "$.city.name", "$.city[0]"])
def test_a_piece_within_what_holds_none_spoils_the_call(path: str) -> None:
    """A list has no members, a text and a number nothing in them."""
    begun = piece("$.days[0]", numberValue=1), piece("$.city", stringValue="Paris")
    deltas = read(BEGUN, *begun, piece(path, more=False, numberValue=1))
    (call,) = [delta for delta in deltas if isinstance(delta, ToolCallFragment)]

    assert (call.input, call.stop) == ("{", True)


def test_pieces_of_several_kinds_are_no_text() -> None:
    """Of what cannot be joined the last one counts."""
    deltas = read(BEGUN, piece("$.a", stringValue="x"), piece("$.a", more=False, numberValue=3))
    (call,) = [delta for delta in deltas if isinstance(delta, ToolCallFragment)]

    assert json.loads(call.input) == {"a": 3}


@pytest.mark.parametrize("finish", ["STOP", "MAX_TOKENS"])
def test_a_call_without_its_last_piece_is_cut(finish: str) -> None:
    *_, call, _ = read(BEGUN, piece("$.a", numberValue=1), finish=finish)
    assert isinstance(call, ToolCallFragment) and (call.name, call.input, call.stop) == ("look", "", False)


def test_another_call_cuts_the_one_before() -> None:
    deltas = read(BEGUN, piece("$.a", numberValue=1), {"name": "see", "args": {"b": 2}})
    calls = [(call.name, call.input, call.stop) for call in deltas if isinstance(call, ToolCallFragment)]
    assert calls == [("look", "", False), ("see", '{"b":2}', True)]
    assert deltas[-1] == Stop(StopReason.END)


def test_pieces_have_the_room_of_the_answer() -> None:
    call = PartialCall("c", "look", AnswerBudget())
    with pytest.raises(AnswerTooLarge):
        for _ in range(ANSWER_BYTES // 10_000 + 1):
            call.take(piece("$.a", stringValue="x" * 10_000))
