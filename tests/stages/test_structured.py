from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import AnswerTooLarge, UnmetPromise
from kiro_asgi.limits import VALIDATION_STEPS
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import (
    Notice,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages import promises
from kiro_asgi.stages.promises import (
    NOT_JSON,
    SCHEMA_MISMATCH,
    UNCHECKED,
    UNWRAPPED,
    StructuredAnswer,
    StructuredCheck,
    unwrapped,
)
from tests.growth import assert_linear

END = Stop(StopReason.END)


SCHEMA = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}


def notices(texts, stop=END, schema=SCHEMA):
    stage = StructuredCheck(schema)
    given = [*map(TextDelta, texts), stop]
    out = [*stage.feed(given), *stage.flush()]
    assert [item for item in out if not isinstance(item, Notice)] == given
    assert out[-1] == stop
    return [item for item in out if isinstance(item, Notice)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (' {"a": 1}\n', []),
        ('{"b": 1}', [Notice(SCHEMA_MISMATCH, "$")]),
        ('{"a": ""}', [Notice(SCHEMA_MISMATCH, "$.a")]),
        ("[1]", [Notice(NOT_JSON)]),
        ('Here: {"a": 1}', [Notice(NOT_JSON)]),
        ("", [Notice(NOT_JSON)]),
    ],
)
@given(st.data())
def test_the_whole_text_is_checked_however_it_was_cut(text, found, data):
    """One JSON object that the schema takes, and nothing around it."""
    at = data.draw(st.integers(0, len(text)))

    assert notices([text[:at], text[at:]]) == found


@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason is not StopReason.END])
def test_what_did_not_end_by_itself_is_not_checked(reason):
    """Half an answer, a refusal and a call need not match."""
    assert notices(["no"], Stop(reason)) == []


def test_what_is_too_long_is_not_kept(monkeypatch):
    """Memory is bounded; what was not kept is not judged, and that is told."""
    monkeypatch.setattr(promises, "STRUCTURED_CHARACTERS", 4)

    assert notices(["abcd"]) == [Notice(NOT_JSON)]
    assert notices(["abc", "de"]) == [Notice(UNCHECKED, "length")]


def test_what_has_too_many_parts_is_not_read():
    """Arrays and objects are counted before they are made."""
    assert notices(['{"a":[', "[]," * VALIDATION_STEPS, "0]}"]) == [Notice(UNCHECKED, "length")]


def test_what_takes_too_many_steps_is_passed():
    """An answer whose check is not worth its price goes out as it is, and that is told."""
    schema = {"additionalProperties": {"enum": [*range(VALIDATION_STEPS)]}}

    assert notices(['{"a": 0}'], schema=schema) == [Notice(UNCHECKED, "budget")]


@pytest.mark.parametrize("schema", [{}, {"pattern": "a", "type": 7}, {"properties": {"a": {"pattern": "b"}}}])
def test_what_cannot_be_decided_passes(schema):
    """No schema, one that is none, and one that only a regular expression could decide: nothing is told."""
    assert notices(['{"a": "a"}'], schema=schema) == []


def held(texts, stop=END, schema=SCHEMA):
    stage = StructuredAnswer(schema, AnswerBudget())
    assert list(stage.feed(map(TextDelta, texts))) == []
    return [*stage.feed([stop]), *stage.flush()]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (' {"a": 1}\n', '{"a": 1}'),
        ('\ufeff{"a": 1}', '{"a": 1}'),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('Of {this}:\n~~~\n```\n{"a": 1, "b": "```"}\n```', '{"a": 1, "b": "```"}'),
        ('{"a": 1, "b": "```\\n{```"}', '{"a": 1, "b": "```\\n{```"}'),
        ('So: {"a": 1}. Done.', '{"a": 1}'),
    ],
)
@given(st.data())
def test_only_what_is_around_the_object_is_left_out(text, left, data):
    """Nothing within it changes, however the text was cut; that something was left out is noted."""
    at = data.draw(st.integers(0, len(text)))
    *notes, said, end = held([text[:at], text[at:]])

    assert (said, end) == (TextDelta(left), END)
    assert notes == [] if left == text.strip() else [Notice(UNWRAPPED)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("No.", "not one JSON document"),
        ("", "not one JSON document"),
        ('[{"a": 1}]', "not one JSON document"),
        ('See: [{"a": 1}]', "not one JSON document"),
        ('"{}"', "not one JSON document"),
        ('{"a": 1} {"a": 2}', "not one JSON document"),
        ('{"a": 1', "not one JSON document"),
        ('{"a": "x"}', "at $.a"),
    ],
)
def test_anything_else_breaks_the_promise(text, told):
    """The model is told what is wrong, and where."""
    with pytest.raises(UnmetPromise) as raised:
        held([text])
    assert raised.value.code == "structured_output_failed"
    assert told in raised.value.complaint


@pytest.mark.parametrize(
    ("schema", "text", "fits"),
    [
        ({"type": "array", "items": {"type": "integer"}}, "[1]", True),
        ({"type": "array", "items": {"type": "integer"}}, "```\n[1]\n```", True),
        ({"type": "array", "items": {"type": "integer"}}, '["a"]', False),
        ({"type": "array"}, "{}", False),
        ({"type": ["string", "null"]}, "null", True),
        ({"type": ["object", "null"]}, "null", False),
        ({"enum": [1]}, "1", False),
        ({}, '"a"', False),
        ({}, '{"a": "\\ud83d\\ude42"}', True),
        ({}, '{"a": "\\ud83d"}', False),
        ({}, '{"a": "\\\\ud83d"}', True),
    ],
)
def test_what_a_document_may_be(schema, text, fits):
    """An object, unless the schema names other types only; and nothing that strict parsers refuse."""
    if fits:
        assert TextDelta(text.strip("`\n")) in held([text], schema=schema)
    else:
        with pytest.raises(UnmetPromise):
            held([text], schema=schema)


@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason is not StopReason.END])
def test_an_answer_that_was_broken_off_goes_on_as_it_is(reason):
    """Its end says why it is no JSON."""
    assert held(["n", "o"], Stop(reason)) == [TextDelta("n"), TextDelta("o"), Stop(reason)]


def test_a_call_lets_everything_go():
    """From there on it streams."""
    stage = StructuredAnswer(SCHEMA, AnswerBudget())
    start, more = [ThinkingDelta("t"), TextDelta("I look.")], [ToolInputDelta("{}"), ToolCallEnd("c"), TextDelta("x")]
    assert list(stage.feed(start)) == []
    assert list(stage.feed([ToolCallStart("c", "f")])) == [*start, ToolCallStart("c", "f")]
    assert list(stage.feed([*more, END])) == [*more, END]


def test_what_is_not_text_keeps_its_place():
    """Thinking before the object, a signature behind it."""
    items = [ThinkingDelta("t"), TextDelta('{"a"'), TextDelta(": 1}"), SignatureDelta("s"), END]
    stage = StructuredAnswer(SCHEMA, AnswerBudget())

    assert list(stage.feed(items)) == [ThinkingDelta("t"), TextDelta('{"a": 1}'), SignatureDelta("s"), END]


def test_what_is_held_has_a_limit():
    """The answer's own."""
    with pytest.raises(AnswerTooLarge):
        list(StructuredAnswer(SCHEMA, AnswerBudget(500)).feed([TextDelta("x" * 1000)]))


@pytest.mark.parametrize("piece", ["{", "}", "```", "```\n", '"', "[", "{}", " "])
def test_readings_are_few_and_cost_steps_that_grow_with_the_text(piece):
    """However many fences and braces there are."""
    assert len([*unwrapped(piece * 1000)]) <= 3
    assert_linear(lambda size: lambda: [*unwrapped(piece * size)], 1000)
