from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.limits import VALIDATION_STEPS
from kiro_asgi.model.events import Notice, Stop, StopReason, TextDelta
from kiro_asgi.stages import structured
from kiro_asgi.stages.structured import NOT_JSON, SCHEMA_MISMATCH, UNCHECKED, StructuredCheck

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
    monkeypatch.setattr(structured, "STRUCTURED_CHARACTERS", 4)

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
