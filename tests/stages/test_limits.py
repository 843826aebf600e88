from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import RequestError
from kiro_asgi.model.events import (
    ContextUsage,
    Delta,
    Metering,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.stages.estimate import TokenEstimator
from kiro_asgi.stages.limits import Limits, WordMatcher
from tests.growth import assert_linear
from tests.helpers import run, run_apart
from tests.stages.deltas import answers

A, T = TextDelta, ThinkingDelta
MIB = 1024 * 1024
FRAGMENT = ToolCallFragment("c", "f", "{}")


def stopped(word: str) -> Stop:
    return Stop(StopReason.STOP_SEQUENCE, word)


@pytest.mark.parametrize(
    ("stop", "deltas", "expected"),
    [
        pytest.param(("END",), [A("a END b"), A("c")], [A("a "), stopped("END")], id="inside-one-delta"),
        pytest.param(("END",), [A("aE"), A("N"), A("Db")], [A("a"), stopped("END")], id="cut-over-deltas"),
        pytest.param(("END",), [A("END")], [stopped("END")], id="nothing-before"),
        pytest.param(("END",), [A("aEN"), A("x")], [A("a"), A("ENx")], id="false-alarm"),
        pytest.param(("END",), [A("aEN")], [A("a"), A("EN")], id="held-at-the-end"),
        pytest.param(("END",), [A("EN"), FRAGMENT, A("D")], [A("EN"), FRAGMENT, A("D")], id="held-before-a-call"),
        pytest.param(
            ("END",), [A("EN"), ContextUsage(1.0), A("D")], [ContextUsage(1.0), stopped("END")], id="over-a-report"
        ),
        pytest.param(("END",), [T("END"), A("a")], [T("END"), A("a")], id="not-in-thinking"),
        pytest.param(("b", "abc"), [A("abc")], [A("a"), stopped("b")], id="complete-first"),
        pytest.param(("b", "ab"), [A("ab")], [stopped("ab")], id="longest-of-those-complete"),
        pytest.param(("aab",), [A("aa"), A("ab")], [A("a"), stopped("aab")], id="overlapping-itself"),
        pytest.param(("", "x"), [A("ax")], [A("a"), stopped("x")], id="empty-word-is-none"),
        pytest.param(("日本",), [A("a日"), A("本b")], [A("a"), stopped("日本")], id="beyond-ascii"),
    ],
)
def test_ends_at_a_stop_sequence(stop: tuple[str, ...], deltas: list[Delta], expected: list[Delta]) -> None:
    """The sequence and what follows do not go out, wherever the text is cut."""
    assert run(Limits(stop=stop), deltas) == expected
    assert run_apart(Limits(stop=stop), deltas) == expected


def test_behind_the_limit_only_reports_pass() -> None:
    """Content, fragments and the upstream's own stop reason are gone; usage still counts."""
    stage = Limits(stop=("END",))
    reports: list[Delta] = [TokenUsage(1, 2), ContextUsage(1.0), Metering(0.1)]
    swallowed: list[Delta] = [A("b"), T("t"), SignatureDelta("s"), FRAGMENT, Stop(StopReason.END)]

    assert not stage.reached
    assert run_apart(stage, [A("aEND"), *swallowed, *reports]) == [A("a"), stopped("END"), *reports]
    assert stage.reached


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([A("x" * 40)], [A("x" * 40)], id="just-fits"),
        pytest.param([A("x" * 41)], [A("x" * 40), Stop(StopReason.LENGTH)], id="cut"),
        pytest.param([A("x" * 40), A("y")], [A("x" * 40), Stop(StopReason.LENGTH)], id="nothing-of-the-last"),
        pytest.param(
            [T("x" * 20), A("y" * 24)], [T("x" * 20), A("y" * 20), Stop(StopReason.LENGTH)], id="thinking-counts"
        ),
        pytest.param([T("x" * 50), A("y")], [T("x" * 40), Stop(StopReason.LENGTH)], id="thinking-is-cut"),
        pytest.param(
            [ToolCallFragment("c", "f"), ToolCallFragment("c", "f", "x" * 41), ToolCallFragment("c", "f", stop=True)],
            [ToolCallFragment("c", "f"), Stop(StopReason.LENGTH)],
            id="a-call-is-left-unfinished",
        ),
    ],
)
def test_ends_at_a_number_of_tokens(deltas: list[Delta], expected: list[Delta]) -> None:
    """Ten tokens are forty letters."""
    assert run(Limits(max_tokens=10), deltas) == expected
    assert run_apart(Limits(max_tokens=10), deltas) == expected


def test_whichever_comes_first() -> None:
    """A stop sequence behind the limit on tokens is never met, and the other way round."""
    assert run(Limits(stop=("END",), max_tokens=1), [A("xxxxxEND")]) == [A("xxxx"), Stop(StopReason.LENGTH)]
    assert run(Limits(stop=("END",), max_tokens=2), [A("xxxxENDxxxxxxx")]) == [A("xxxx"), stopped("END")]


def test_what_is_held_behind_a_limit_is_lost() -> None:
    """The beginning of a stop sequence does not come out after the answer was cut before it."""
    assert run(Limits(stop=("END",), max_tokens=1), [A("xxxxxE")]) == [A("xxxx"), Stop(StopReason.LENGTH)]


def test_what_is_held_counts_before_what_follows_it() -> None:
    """A text that was held and passes the limit keeps the call behind it from starting."""
    assert run(Limits(stop=("END",), max_tokens=1), [A("xxxxEN"), FRAGMENT]) == [A("xxxx"), Stop(StopReason.LENGTH)]


def test_without_limits_nothing_is_looked_at() -> None:
    """An empty stop sequence is no limit either."""
    items = iter([A("a")])

    assert Limits(stop=("",)).feed(items) is items


WORDS = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3).map(tuple)


@given(st.lists(st.text("x 1é中😀\n", max_size=9), max_size=30), st.integers(0, 60), st.sampled_from([(), ("END",)]))
def test_what_goes_out_is_what_fits(texts: list[str], tokens: int, stop: tuple[str, ...]) -> None:
    """To the character, whatever characters weigh, and however many are counted at once."""
    whole, weigh = "".join(texts), TokenEstimator().estimate_tokens
    fitting = max(size for size in range(len(whole) + 1) if weigh(whole[:size]) <= tokens)

    out = run_apart(Limits(stop=stop, max_tokens=tokens), map(A, texts))

    assert "".join(each.text for each in out if isinstance(each, TextDelta)) == whole[:fitting]
    assert (Stop(StopReason.LENGTH) in out) == (fitting < len(whole))


@given(WORDS, st.lists(st.text("abc", max_size=5)), st.none() | st.integers(0, 5))
def test_output_does_not_depend_on_cuts(stop: tuple[str, ...], texts: list[str], tokens: int | None) -> None:
    """However a text is cut, it ends at the same place for the same reason."""

    def outcome(pieces: list[str]) -> tuple[str, list[Delta]]:
        out = run_apart(Limits(stop=stop, max_tokens=tokens), map(TextDelta, pieces))
        return "".join(d.text for d in out if isinstance(d, TextDelta)), [d for d in out if isinstance(d, Stop)]

    assert outcome(texts) == outcome(["".join(texts)])


@given(WORDS, st.text("abc", max_size=20))
def test_finds_what_is_complete_first(words: tuple[str, ...], text: str) -> None:
    """The matcher agrees with a search that tries every end in turn, the longest word first."""
    ends = (
        (end, word)
        for end in range(len(text) + 1)
        for word in sorted(words, key=len, reverse=True)
        if text[:end].endswith(word)
    )
    matcher = WordMatcher(words)

    found = matcher.find(text)

    assert found == next(ends, None)
    if found is None:
        begun = [size for size in range(len(text) + 1) for word in words if word.startswith(text[len(text) - size :])]
        assert matcher.pending == max(begun)


@given(answers())
def test_no_limit_that_is_not_met_changes_anything(deltas: list[Delta]) -> None:
    """With limits far away, text is at most cut differently, and everything keeps its place."""

    def joined(items: list[Delta]) -> list[Delta]:
        reports = (*filter(lambda d: type(d) in (TokenUsage, ContextUsage, Metering), items),)
        content: list[Delta] = []
        for item in items:
            if isinstance(item, TextDelta):
                last = content[-1] if content else None
                if isinstance(last, TextDelta):
                    content[-1] = TextDelta(last.text + item.text)
                elif item.text:
                    content.append(item)
            elif item not in reports and not (isinstance(item, ThinkingDelta) and not item.text):
                content.append(item)
        return content

    plain = (TextDelta, ThinkingDelta, ToolCallFragment, Stop)
    deltas = [delta for delta in deltas if isinstance(delta, plain)]

    assert joined(run_apart(Limits(stop=("stopped",), max_tokens=10**6), deltas)) == joined(deltas)


HOSTILE = ["a" * 8_191 + "b", "ab" * 4_000 + "c", "b", "a" * 8_192]


@pytest.mark.parametrize("stop", HOSTILE, ids=len)
@pytest.mark.parametrize("piece", [1, 100], ids=["by-character", "by-hundred"])
def test_searching_takes_linear_work(stop: str, piece: int) -> None:
    """R24: more text costs proportionally more, however long the beginnings of a stop sequence in it are."""

    def make(size: int) -> Callable[[], object]:
        stage = Limits(stop=(stop,))
        return lambda: [delta for _ in range(size) for delta in stage.feed([TextDelta("a" * piece)])]

    assert_linear(make, 1_000 // piece)


class Counted(str):
    """A text that counts the characters that are copied from it."""

    copied = 0

    def __getitem__(self, place: object) -> str:
        part = super().__getitem__(place)  # type: ignore[index]
        Counted.copied += len(part) if isinstance(place, slice) else 0
        return Counted(part)


def test_what_is_held_is_not_copied_again_and_again() -> None:
    """A long stop sequence holds as long a text back, and each further character lets one go: not all of it moves."""

    def copied(work: Callable[[], object]) -> int:
        Counted.copied = 0
        work()
        return Counted.copied

    def make(size: int) -> Callable[[], object]:
        stage = Limits(stop=("a" * 8_000 + "b",))
        return lambda: [delta for _ in range(size) for delta in stage.feed([TextDelta(Counted("a" * 10))])]

    assert_linear(make, 1_000, count=copied)
    assert copied(make(4_000)) <= 4 * 40_000


def test_a_matcher_costs_what_its_words_are_long() -> None:
    """Building it is linear, and one character of a stop sequence costs half a KiB at most, whatever the sequences."""

    def make(size: int) -> Callable[[], object]:
        return lambda: WordMatcher(("a" * size + "b", "ab" * size))

    assert_linear(make, 300)
    for stop in (["a" * 8_192], [f"{number:04}"[-2:] * 4 for number in range(1_000)]):
        tracemalloc.start()
        stage = Limits(stop=tuple(stop))
        run(stage, [TextDelta("a" * 100_000)])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 512 * 8_192 + 2 * MIB


@pytest.mark.parametrize(
    ("stop", "place"), [(("x" * 8_193,), "stop[0]"), (("", "x" * 8_192, "y"), "stop[2]")], ids=["one", "together"]
)
def test_too_long_a_stop_is_refused_by_the_stage_too(stop: tuple[str, ...], place: str) -> None:
    """Whoever uses the stages without an API gets the same limit, and the place."""
    with pytest.raises(RequestError) as refused:
        Limits(stop=stop)

    assert refused.value.param == place


def test_the_pieces_of_a_call_weigh_what_they_weigh_together() -> None:
    """However small they are, and with text before them: the first that passes the limit is the one that ends it."""
    before, pieces, limit = "some text ", ['{"a": "', *["word "] * 5000], 3000
    first = ToolCallFragment(call_id="1", name="n", input="")
    deltas = [TextDelta(before), first, *(evolve(first, input=piece) for piece in pieces)]
    *passed, end = run_apart(Limits(max_tokens=limit), deltas)

    taken = len(passed) - 2
    weigh = TokenEstimator().estimate_tokens
    assert end == Stop(StopReason.LENGTH)
    assert weigh(before + "".join(pieces[:taken])) <= limit < weigh(before + "".join(pieces[: taken + 1]))
