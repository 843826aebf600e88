"""The base of stages that rewrite text: what a subclass gets, however the text is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.limits import HELD_CHARACTERS
from kiro_asgi.model.events import Appendix, Citation, Notice, RefusalDelta, TextDelta, ThinkingDelta
from kiro_asgi.stages import TextStage, unfinished
from kiro_asgi.testing import check_cuts
from tests.growth import assert_linear
from tests.helpers import run, run_apart


class Doubled(TextStage):
    """Writes each word twice; words end at a blank."""

    def settled(self, text: str) -> int:
        return text.rfind(" ") + 1

    def rewrite(self, text: str) -> str:
        return re.sub(r"\w+", r"\g<0>\g<0>", text)


class Swapped(TextStage):
    """Puts one word in the place of another, without a constructor of the base."""

    def __init__(self, word: str, other: str) -> None:
        self.word, self.other = word, other

    def settled(self, text: str) -> int:
        return len(text) - unfinished(text, self.word)

    def rewrite(self, text: str) -> str:
        return text.replace(self.word, self.other)


@given(st.lists(st.text("ab ", max_size=5)))
def test_it_is_the_same_however_the_text_is_cut(pieces):
    """As if the whole text were rewritten at once."""
    told = "".join(item.text for item in run(Doubled(), map(TextDelta, pieces)))

    assert told == re.sub(r"\w+", r"\g<0>\g<0>", "".join(pieces))


@given(st.text("ab", min_size=1, max_size=4), st.text("abc", max_size=3), st.lists(st.text("abc", max_size=6)))
def test_a_word_is_found_however_it_is_cut(word, other, pieces):
    """From left to right, as `str.replace` does it, whatever stands in its place."""
    told = "".join(item.text for item in run_apart(Swapped(word, other), map(TextDelta, pieces)))

    assert told == "".join(pieces).replace(word, other)


def test_what_is_not_settled_is_held_and_no_more():
    """As soon as it is settled it goes out."""
    stage = Doubled()

    assert [*stage.feed([TextDelta("one tw")])] == [TextDelta("oneone ")]
    assert [*stage.feed([TextDelta("o")])] == []
    assert [*stage.feed([Notice("n")])] == [Notice("n")]
    assert [*stage.feed([ThinkingDelta("t")])] == [TextDelta("twotwo"), ThinkingDelta("t")]
    assert [*stage.flush()] == []


def test_kinds_of_text_are_apart():
    """A refusal, and text beside the answer, by themselves; one that is rewritten to nothing is left out."""
    items = [TextDelta("a"), RefusalDelta("b"), Appendix("c d")]

    assert run(Doubled(), items) == [TextDelta("aa"), RefusalDelta("bb"), Appendix("cc dd")]
    assert run(Swapped("x", ""), [TextDelta("x"), Appendix("x")]) == []


def cited(found):
    """The text that each citation is for, counted back from where it stands."""
    text, quoted = "", []
    for item in found:
        if isinstance(item, TextDelta):
            text += item.text
        elif isinstance(item, Citation):
            quoted.append(text[len(text) - item.begins : len(text) - item.ends])
    return quoted


@pytest.mark.parametrize(
    ("pieces", "begins", "ends", "expected"),
    [
        pytest.param(["The cat sat", " on it."], 7, 0, " on it.", id="behind-a-change"),
        pytest.param(["The cat sat", " on it."], 10, 7, "sat", id="right-behind"),
        pytest.param(["The cat sat", " on it."], 14, 11, "animal", id="the-change-itself"),
        pytest.param(["The cat sat", " on it."], 18, 0, "The animal sat on it.", id="around-it"),
        pytest.param(["The c", "at sat on it."], 13, 0, "animal sat on it.", id="from-within-it"),
        pytest.param(["The cat sat", " on it."], 18, 15, "The", id="before-it"),
        pytest.param(["cat ", "cat ", "cat!"], 8, 5, "animal", id="between-changes"),
        pytest.param(["cat cat ", "cat!"], 8, 5, "animal animal", id="of-two-changes-at-once"),
    ],
)
def test_a_citation_stays_behind_its_text(pieces, begins, ends, expected):
    """Though the text is longer, or shorter, than it was; within what was changed, the whole change is cited."""
    source = Citation(begins=begins, ends=ends, url="https://x.test")

    assert cited(run(Swapped("cat", "animal"), [*map(TextDelta, pieces), source])) == [expected]


def test_a_citation_of_text_as_it_was_is_left_alone():
    """Nothing has changed in front of it."""
    source = Citation(begins=3, ends=1)

    assert run(Swapped("cat", "dog"), [TextDelta("a cat"), source]) == [TextDelta("a dog"), source]


def test_no_more_is_held_than_the_limit():
    """Beyond it all of it counts as settled; a subclass may have a limit of its own."""

    class Waiting(Doubled):
        most_held = 10

    assert run_apart(Doubled(), [TextDelta("x")] * (HELD_CHARACTERS + 1))[0].text == "x" * (HELD_CHARACTERS + 1) * 2
    assert [*Waiting().feed([TextDelta("x" * 11)])] == [TextDelta("x" * 22)]
    assert [*Waiting().feed([TextDelta("x" * 10)])] == []


@pytest.mark.parametrize("size", [-1, 3])
def test_an_impossible_size_is_an_error_that_says_so(size):
    """With the class, and what it may give."""

    class Odd(Doubled):
        def settled(self, text: str) -> int:
            return size

    with pytest.raises(ValueError, match=f"Odd.settled gave {size} for 2 characters; give 0 to 2"):
        run(Odd(), [TextDelta("ab")])


def test_a_stage_without_a_rewriting_says_so():
    """With its name."""
    with pytest.raises(NotImplementedError, match=r"TextStage\.rewrite"):
        run(TextStage(), [TextDelta("a")])


def test_a_stage_that_passes_all_on_passes_the_law():
    """The plainest one."""

    class Loud(TextStage):
        def rewrite(self, text: str) -> str:
            return text.upper()

    assert check_cuts(Loud, [TextDelta("ab"), Citation(begins=1), TextDelta("c")])[0] == TextDelta("AB")


def test_the_work_grows_with_the_answer():
    """Pieces of a letter each, of which many are held; and many changes of length, each with a citation."""
    assert_linear(lambda size: lambda: run_apart(Swapped("x" * 200, "y"), [TextDelta("x" * 5)] * size), 400)
    pair = [TextDelta("cat "), Citation(begins=3, ends=1)]
    assert_linear(lambda size: lambda: run_apart(Swapped("cat", "animal"), pair * size), 400)
