from __future__ import annotations

import hashlib
import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import TruncationInfo
from kiro_asgi.stages.parts.argument_text import TruncationDiagnosis, diagnose_json_truncation, truncation_info
from tests.stages.timing import assert_linear

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param("", "", id="F241-empty"),
        pytest.param(" \n", "", id="F241-blank"),
        pytest.param('{"a":1', "mismatched delimiters", id="F242"),
        pytest.param('{"a":[1]', "mismatched delimiters", id="F242-ends-with-the-other"),
        pytest.param("[1,2", "mismatched brackets", id="F243"),
        pytest.param('{"a":{"b":1}', "unbalanced delimiters", id="F244-braces"),
        pytest.param('{"a":[1}', "unbalanced delimiters", id="F244-brackets"),
        pytest.param('{"a":"}', "unbalanced delimiters", id="F244-inside-a-string-that-never-ends"),
        pytest.param('{"a":1}', "", id="F245-whole"),
        pytest.param('{"a":}', "", id="F245-malformed-but-balanced"),
        pytest.param('{"a":"{"}', "", id="F246-brace-in-a-string"),
        pytest.param('{"a":"\\"]"}', "", id="F246-bracket-behind-an-escaped-quote"),
    ],
)
def test_names_what_gives_a_cut_away(raw: str, reason: str) -> None:
    """Cut text is told by its delimiters, those in strings left aside."""
    assert diagnose_json_truncation(raw) == TruncationDiagnosis(bool(reason), reason, len(raw.encode()))


@given(JSON)
def test_whole_json_is_never_called_cut(value: object) -> None:
    """F245: what parses is not truncated."""
    assert not diagnose_json_truncation(json.dumps(value)).is_truncated


@given(st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=4), st.integers(1, 10_000))
def test_every_cut_through_an_object_is_seen(value: dict[str, object], place: int) -> None:
    """F242, F244: every proper beginning of an object is truncated."""
    raw = json.dumps(value)

    assert diagnose_json_truncation(raw[: 1 + place % (len(raw) - 1)]).is_truncated


@pytest.mark.parametrize(
    ("raw", "reason", "expected"),
    [
        pytest.param('{"a', "", "mismatched delimiters", id="diagnosed"),
        pytest.param('{"a":}', "", "malformed JSON", id="malformed"),
        pytest.param(" ", "", "no arguments arrived", id="nothing"),
        pytest.param('{"a', "too large", "too large", id="told"),
        pytest.param('{"ä\ud800', "", "mismatched delimiters", id="lone-surrogate"),
    ],
)
def test_records_what_is_known_of_a_cut_call(raw: str, reason: str, expected: str) -> None:
    """F247: reason, size in bytes, and a digest by which the same arguments are known again."""
    data = raw.encode("utf-8", "surrogatepass")

    assert truncation_info("c", "f", raw, reason=reason) == TruncationInfo(
        "c", "f", expected, len(data), hashlib.sha256(data).hexdigest()
    )


@pytest.mark.parametrize("unit", ['{"', "\\", '\\"', '"', "{", "a"])
def test_diagnosis_takes_linear_time(unit: str) -> None:
    """R24: more text takes proportionally longer."""
    assert_linear(lambda size: partial(diagnose_json_truncation, '{"' + unit * size), 50_000)
