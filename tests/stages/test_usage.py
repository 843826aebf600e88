from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import (
    ContextUsage,
    Delta,
    Metering,
    Notice,
    RefusalDelta,
    ServerCall,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolInputDelta,
    Usage,
    UsageSource,
)
from kiro_asgi.stages.estimate import COUNTED_AT_ONCE
from kiro_asgi.stages.usage import UsageMeter, metered_tokens, provenance
from tests.helpers import run

UP, CONTEXT, GUESS, CREDITS = UsageSource.UPSTREAM, UsageSource.CONTEXT, UsageSource.ESTIMATE, UsageSource.METERING
WORDS = TextDelta("abcd" * 10)  # ten tokens


def usage(*deltas: Delta, window: int | None = 1000) -> Usage:
    last = run(UsageMeter(input_tokens=7, context_window=window), deltas)[-1]
    assert isinstance(last, Usage)
    return last


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([WORDS], (7, GUESS, 10, GUESS), id="F413-estimates"),
        pytest.param([], (7, GUESS, 0, GUESS), id="nothing"),
        pytest.param([WORDS, TokenUsage(5, 6)], (5, UP, 6, UP), id="F417-upstream-first"),
        pytest.param([WORDS, TokenUsage(5)], (5, UP, 10, GUESS), id="F417-each-count-for-itself"),
        pytest.param([WORDS, TokenUsage(0, 0)], (0, UP, 0, UP), id="zero-is-a-count"),
        pytest.param([WORDS, ContextUsage(5.0)], (40, CONTEXT, 10, GUESS), id="share-of-the-window-minus-output"),
        pytest.param(
            [WORDS, ContextUsage(5.0), TokenUsage(None, 20)], (30, CONTEXT, 20, UP), id="share-minus-upstream"
        ),
        pytest.param([WORDS, ContextUsage(5.0), TokenUsage(3, 20)], (3, UP, 20, UP), id="upstream-before-share"),
        pytest.param([WORDS, ContextUsage(0.1)], (7, GUESS, 10, GUESS), id="share-rounded-away"),
        pytest.param([ContextUsage(1.0), ContextUsage(2.0)], (20, CONTEXT, 0, GUESS), id="last-share-counts"),
        pytest.param([WORDS, Metering(0.5)], (7, GUESS, 10, GUESS), id="F413-estimate-before-metering"),
        pytest.param([Metering(0.0011)], (7, GUESS, 2, CREDITS), id="F412"),
        pytest.param([Metering(0.001), Metering(0.001)], (7, GUESS, 2, CREDITS), id="F416-credits-add-up"),
        pytest.param([Metering(0.1), Metering(0.2)], (7, GUESS, 300, CREDITS), id="F412-sums-do-not-round-up"),
        pytest.param([TokenUsage(1, 2), TokenUsage(3, 4), TokenUsage(5)], (9, UP, 6, UP), id="F416-increments-add-up"),
    ],
)
def test_the_best_source_that_spoke_counts(
    deltas: list[Delta], expected: tuple[int, UsageSource, int, UsageSource]
) -> None:
    """F417: upstream, then context window, then estimate, then credits; 0 is not missing."""
    total = usage(*deltas)

    assert (total.input_tokens, total.input_source, total.output_tokens, total.output_source) == expected


def test_a_share_of_an_unknown_window_says_nothing() -> None:
    """Without a window, a percentage is no number of tokens."""
    assert usage(ContextUsage(5.0), window=None).input_source is GUESS


def test_cached_tokens_are_kept_apart() -> None:
    """Tokens from a cache are not in the input count, also where that comes from the window's share."""
    total = usage(TokenUsage(None, 10, 3, 2), ContextUsage(10.0))

    assert (total.input_tokens, total.cache_read_tokens, total.cache_write_tokens) == (85, 3, 2)
    assert total.prompt_tokens == 90


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([ThinkingDelta("abcd" * 3), WORDS], (3, 13), id="estimated"),
        pytest.param([ThinkingDelta("abcd" * 3), TokenUsage(1, 5, thinking_tokens=4)], (4, 5), id="upstream"),
        pytest.param([ThinkingDelta("abcd" * 9), TokenUsage(1, 5)], (5, 5), id="never-more-than-all"),
    ],
)
def test_thinking_is_part_of_the_output(deltas: list[Delta], expected: tuple[int, int]) -> None:
    """F413: thinking counts as output, and is known apart."""
    total = usage(*deltas)

    assert (total.thinking_tokens, total.output_tokens) == expected


def test_many_pieces_count_for_what_they_are() -> None:
    """Also when there are more than are counted at once."""
    text, thought = "four words, and 中 " * 10, "thinking 1 "
    pieces = [delta for _ in range(200) for delta in (TextDelta(text), ThinkingDelta(thought))]
    weigh = UsageMeter(input_tokens=7).estimator.estimate_tokens

    told = usage(*pieces)

    assert told.thinking_tokens == ceil(weigh(thought * 200))
    assert told.output_tokens == ceil(weigh(text * 200) + weigh(thought * 200))


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(TextDelta("words " * 10), id="text"),
        pytest.param(RefusalDelta("words " * 10), id="refusal"),
        pytest.param(ThinkingDelta("words " * 10), id="thinking"),
        pytest.param(ToolInputDelta('"words "' * 10), id="arguments"),
        pytest.param(ServerCall("c", "search", "web_search", {"query": "words " * 10}), id="server-call"),
    ],
)
def test_a_long_answer_is_not_kept_to_be_counted(piece: Delta) -> None:
    """However long an answer is, and whatever it is made of, no more text of it is held than is counted at once."""
    meter, most = UsageMeter(input_tokens=1), 0
    for _ in meter.feed([piece] * 1_000):
        most = max(most, sum(map(len, (*meter._texts, *meter._thoughts))))

    assert 0 < most <= COUNTED_AT_ONCE + 100


def test_passes_content_and_absorbs_reports() -> None:
    """Content goes through untouched; reports end here; the usage is the last delta."""
    content: list[Delta] = [WORDS, ThinkingDelta("x"), ToolInputDelta("{}"), Notice("n")]
    out = run(UsageMeter(input_tokens=1), [*content, TokenUsage(1, 1), ContextUsage(1.0), Metering(0.1, "credit")])

    assert out[:-1] == content
    assert out[-1] == Usage(1, 1, 0, 0, 1, UP, UP, Metering(0.1, "credit"))


def test_experience_corrects_the_weights() -> None:
    """What was learnt about a model's answers is applied where nobody counted, and the plain weight is kept."""
    said = [ThinkingDelta("abcd" * 3), WORDS]
    guessed = run(UsageMeter(input_tokens=7, output_factor=1.5), said)[-1]
    counted = run(UsageMeter(input_tokens=7, output_factor=1.5), [*said, TokenUsage(1, 2)])[-1]

    assert isinstance(guessed, Usage)
    assert isinstance(counted, Usage)
    assert (guessed.output_tokens, guessed.thinking_tokens, guessed.output_estimate) == (20, 5, 13)
    assert (counted.output_tokens, counted.output_estimate) == (2, 13)


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([WORDS], "input=estimate output=estimate", id="nothing-said"),
        pytest.param([WORDS, ContextUsage(5.0)], "input=context output=estimate", id="share"),
        pytest.param([Metering(0.25, "credit")], "input=estimate output=metering credits=0.25", id="price-only"),
        pytest.param(
            [ThinkingDelta("hm"), WORDS, ContextUsage(5.0), TokenUsage(None, 9), Metering(0.0123)],
            "input=context output=upstream thinking=estimate credits=0.0123",
            id="mixed",
        ),
        pytest.param([TokenUsage(1, 2, 0, None)], "input=upstream output=upstream cache=upstream", id="zero-is-said"),
        pytest.param(
            [TokenUsage(1, 2, thinking_tokens=0)], "input=upstream output=upstream thinking=upstream", id="no-thinking"
        ),
    ],
)
def test_every_number_says_where_it_comes_from(deltas: list[Delta], expected: str) -> None:
    """F417: a reader of the log sees which counts are counts."""
    assert provenance(usage(*deltas)) == expected


@given(st.integers(0, 10**7))
def test_credits_round_up_exactly(micros: int) -> None:
    """F412: floating point does not add a token."""
    assert metered_tokens(micros / 10**6) == ceil(Fraction(micros, 1000))
