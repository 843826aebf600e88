"""A stage from outside, the one of the documentation: what it makes of an answer does not depend on the cuts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import (
    Appendix,
    Citation,
    ModelName,
    RefusalDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
)
from tests.examples import example
from tests.growth import assert_linear

Redactor = example("redacting_stage").Redactor


def run(word: str, items):
    stage = Redactor(word)
    return [*stage.feed(items), *stage.flush()]


def told(items, kind=TextDelta):
    return "".join(item.text for item in items if type(item) is kind)


@given(st.text("ab*", min_size=1, max_size=4), st.lists(st.text("abc*", max_size=6)))
def test_it_is_the_same_however_the_text_is_cut(word, pieces):
    """The answer is what replacing in the whole text gives."""
    whole = "".join(pieces)

    assert told(run(word, map(TextDelta, pieces))) == whole.replace(word, "*" * len(word))


@given(st.lists(st.sampled_from(["a", "b", "ab", "x"])), st.data())
def test_what_shows_nothing_does_not_part_a_word(pieces, data):
    """A model's name in the middle of a word is handed on, and the word is found."""
    items = [TextDelta(piece) for piece in pieces]
    items.insert(data.draw(st.integers(0, len(items))), ModelName("m"))

    found = run("ab", items)

    assert told(found) == "".join(pieces).replace("ab", "**")
    assert found.count(ModelName("m")) == 1


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param(
            [TextDelta("blue"), ThinkingDelta("bird")], [TextDelta("blue"), ThinkingDelta("bird")], id="kinds"
        ),
        pytest.param([TextDelta("b"), RefusalDelta("blue"), RefusalDelta("birds")], None, id="refusal"),
        pytest.param([Appendix("a bluebird")], [Appendix("a ********")], id="appendix"),
        pytest.param([ThinkingDelta("bluebird")], [ThinkingDelta("bluebird")], id="thinking"),
        pytest.param([TextDelta("blue"), Stop(StopReason.END)], [Stop(StopReason.END), TextDelta("blue")], id="end"),
    ],
)
def test_kinds_of_text(items, expected):
    """A word is in one text; thinking stays as it was signed."""
    expected = expected or [TextDelta("b"), RefusalDelta("********"), RefusalDelta("s")]
    found = run("bluebird", items)

    assert [type(item) for item in found if type(item) is not RefusalDelta] == [
        type(item) for item in expected if type(item) is not RefusalDelta
    ]
    assert told(found) == told(expected)
    assert told(found, RefusalDelta) == told(expected, RefusalDelta)
    assert told(found, ThinkingDelta) == told(expected, ThinkingDelta)


def test_a_citation_stands_behind_its_text():
    """What is held goes out before it, and a text is as long as it was."""
    source = Citation(url="https://x.test", title="t", begins=8, ends=0)

    assert run("bluebird", [TextDelta("blue"), TextDelta("bird"), source]) == [TextDelta("********"), source]


def test_the_work_grows_with_the_answer():
    """Pieces of a letter each."""
    assert_linear(lambda size: lambda: run("bluebird", [TextDelta("blueb")] * size), 400)
