"""An answer is known again, whatever its client made of it."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import BlockEnd, BlockKind, BlockStart, MessageEnd, StopReason, TextDelta, ThinkingDelta
from kiro_asgi.stages.blocks import BlockFramer
from kiro_asgi.stages.cut_answers import Fingerprint, Fingerprinter
from kiro_asgi.stages.ending import EndOfStream
from kiro_asgi.stages.tool_calls import ToolCallAssembler
from tests.helpers import run, run_apart
from tests.stages.deltas import answers
from tests.stages.timing import assert_linear

BLANKS = st.sampled_from(["", " ", "\n\n", "\t "])


def print_of(*texts: str, calls: tuple[tuple[str, str], ...] = ()) -> Fingerprint:
    made = Fingerprint()
    for text in texts:
        made.write(text)
    made.calls.extend(calls)
    return made


@given(st.lists(st.text(), max_size=6), st.lists(BLANKS, min_size=6, max_size=6), st.lists(BLANKS, min_size=6))
def test_neither_cuts_nor_white_space_count(pieces, before, after):
    """F248: text that was joined, cut apart or stripped is the same text."""
    padded = [left + piece + right for left, piece, right in zip(before, pieces, after, strict=False)]

    assert print_of(*padded).digest() == print_of("".join(pieces)).digest()
    assert print_of(*pieces).size_bytes == len("".join(pieces).encode())


@given(st.text("ab "), st.text("ab "), *[st.lists(st.tuples(st.text("ab"), st.text("ab")), max_size=2)] * 2)
def test_other_words_and_other_calls_count(one, other, calls, other_calls):
    """F253: answers that differ in more than white space have different fingerprints; those of nothing have none."""
    same = "".join(one.split()) == "".join(other.split()) and calls == other_calls
    first, second = print_of(one, calls=tuple(calls)).digest(), print_of(other, calls=tuple(other_calls)).digest()

    assert (first == second) is same
    assert (first == "") is (not one.strip() and not calls)


def test_calls_can_be_left_out():
    """A call that was cut may or may not come back, so it does not count."""
    shown = print_of("a", calls=(("1", "f"), ("2", "f")))

    assert shown.digest(without={"2"}) == print_of("a", calls=(("1", "f"),)).digest()
    assert print_of(calls=(("1", "f"),)).digest(without={"1"}) == ""


@given(answers(), st.sampled_from(["complete", "incremental"]))
def test_the_stage_changes_nothing_and_sees_what_is_shown(deltas, emission):
    """F248: events pass as they are; the fingerprint is that of the texts and calls among them, thinking left out."""
    framed = run(ToolCallAssembler(emission=emission), deltas)
    events = run(BlockFramer(), run(EndOfStream(), framed))
    at_once, apart = Fingerprinter(), Fingerprinter()
    shown = print_of(
        *(event.text for event in events if isinstance(event, TextDelta)),
        calls=tuple(
            (event.call_id, event.name)
            for event in events
            if isinstance(event, BlockStart) and event.kind is BlockKind.TOOL_CALL
        ),
    )

    assert run(at_once, events) == run_apart(apart, events) == events
    for stage in (at_once, apart):
        assert stage.fingerprint.digest() == shown.digest()
        assert stage.fingerprint.size_bytes == shown.size_bytes
        assert stage.fingerprint.calls == shown.calls


def test_long_answers_are_not_kept():
    """R18: of a text of any length, a bounded piece waits to be hashed."""
    stage = Fingerprinter()
    run(stage, [BlockStart(0, BlockKind.TEXT), *[TextDelta("x" * 1000)] * 500, BlockEnd(0), MessageEnd(StopReason.END)])

    assert sum(map(len, stage._pieces)) <= 17_000
    assert stage.fingerprint.digest() == print_of("x" * 500_000).digest()


def test_thinking_leaves_no_print():
    """Most clients do not send thinking back."""
    stage = Fingerprinter()
    run(stage, [BlockStart(0, BlockKind.THINKING), ThinkingDelta("hm"), BlockEnd(0)])

    assert stage.fingerprint.digest() == ""


def test_fingerprints_take_linear_time():
    """R24: more text takes proportionally longer."""
    assert_linear(lambda size: partial(run, Fingerprinter(), [TextDelta("ab c")] * size), 20_000)
