from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.stages.estimate import STEPS, Calibration, Experience

UP, CONTEXT, GUESS = UsageSource.UPSTREAM, UsageSource.CONTEXT, UsageSource.ESTIMATE
M = "claude-sonnet-4.5"


def counted(prompt: int = 0, answer: int = 0, estimate: int = 0, source: UsageSource = UP) -> Usage:
    return Usage(prompt, answer, input_source=source, output_source=source, output_estimate=estimate)


def taught(ratio: float, samples: int, source: UsageSource = UP) -> Calibration:
    calibration = Calibration()
    for _ in range(samples):
        calibration.observe(M, 10_000, counted(round(10_000 * ratio), source=source))
    return calibration


def test_begins_without_an_opinion() -> None:
    """A model that nobody has counted for is estimated as it comes."""
    calibration = Calibration()

    assert (calibration.input_factor(M), calibration.output_factor(M)) == (1, 1)
    assert calibration.tokens(M, 10.25) == 11
    assert not calibration.describe()


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param(1, 1.2247, id="half-way-at-first"),
        pytest.param(3, 1.3554, id="three-quarters"),
        pytest.param(40, 1.5, id="there-in-the-end"),
    ],
)
def test_approaches_what_it_is_told(samples: int, expected: float) -> None:
    """Every sample counts alike at first, the belief that estimates are right being one; then the newest weigh more."""
    assert taught(1.5, samples).input_factor(M) == pytest.approx(expected, abs=1 / STEPS)


def test_a_share_of_the_window_is_worth_less() -> None:
    """A percentage is rounded and counts the service's own words, so it moves the correction half as fast."""
    calibration = taught(1.5, 40)
    for _ in range(4):
        calibration.observe(M, 10_000, counted(10_000, source=CONTEXT))
    sharp = taught(1.5, 40)
    for _ in range(4):
        sharp.observe(M, 10_000, counted(10_000))

    assert 1 < sharp.input_factor(M) < calibration.input_factor(M) < 1.5


@pytest.mark.parametrize(
    ("estimated", "usage"),
    [
        pytest.param(10_000, counted(20_000, source=GUESS), id="own-estimate"),
        pytest.param(1_000, counted(1_500), id="small-prompt"),
        pytest.param(4_000, counted(6_000, source=CONTEXT), id="share-of-a-small-prompt"),
        pytest.param(10_000, counted(40_000), id="far-above"),
        pytest.param(10_000, counted(2_500), id="far-below"),
        pytest.param(10_000, counted(0), id="nothing-counted"),
        pytest.param(0, counted(5_000, answer=90, estimate=80), id="small-answer"),
        pytest.param(0, counted(0, answer=0, estimate=900), id="empty-answer"),
        pytest.param(0, counted(0, answer=900, estimate=0), id="answer-without-estimate"),
    ],
)
def test_learns_nothing_from(estimated: float, usage: Usage) -> None:
    """What was not counted, what rounding dominates, and what cannot be about the same texts."""
    calibration = Calibration()
    calibration.observe(M, estimated, usage)

    assert not calibration.describe()


def test_prompts_and_answers_are_learnt_apart() -> None:
    """The corrections of the two have nothing to do with each other, nor with those of another model."""
    calibration = Calibration()
    for _ in range(40):
        calibration.observe(M, 10_000, counted(12_500, answer=750, estimate=1_000))

    assert calibration.input_factor(M) == pytest.approx(1.25, abs=1 / STEPS)
    assert calibration.output_factor(M) == pytest.approx(0.75, abs=1 / STEPS)
    assert calibration.tokens(M, 1_000) == ceil(1_000 * calibration.input_factor(M))
    assert calibration.input_factor("other") == 1


def test_cached_tokens_are_part_of_the_prompt() -> None:
    """The estimate is of the whole prompt, wherever the service read it from."""
    calibration = Calibration()
    usage = Usage(1_000, cache_read_tokens=8_000, cache_write_tokens=1_000, input_source=UP, output_source=GUESS)
    calibration.observe(M, 10_000, usage)

    assert calibration.describe()[M][0] == Experience(1, 0.0, 0.0)


def test_the_longest_unheard_of_model_is_forgotten() -> None:
    """However many names are asked for, memory is bounded."""
    calibration = Calibration(models=2)
    for model in ("a", "b", "a", "c"):
        calibration.observe(model, 10_000, counted(12_000))

    assert list(calibration.describe()) == ["a", "c"]


def test_says_how_far_off_it_was() -> None:
    """The error is that of the corrected estimate: large at first, none once the correction fits."""
    assert taught(1.5, 1).describe()[M][0].error == pytest.approx(0.5)
    assert taught(1.5, 100).describe()[M][0].error < 0.001


RATIO = st.floats(0.26, 3.9)


@given(st.lists(st.tuples(st.integers(1_024, 10**6), RATIO), max_size=40))
def test_corrections_are_bounded_and_exact(samples: list[tuple[int, float]]) -> None:
    """From half to double, in steps that floating point adds without error, whatever the service says."""
    calibration = Calibration()
    for estimated, ratio in samples:
        calibration.observe(M, estimated, counted(round(estimated * ratio), round(estimated * ratio), estimated))

    for factor in (calibration.input_factor(M), calibration.output_factor(M)):
        assert 0.5 <= factor <= 2
        assert factor * STEPS == int(factor * STEPS)


@given(st.floats(0.5, 2), st.floats(0.5, 2))
def test_forgets_what_no_longer_holds(before: float, after: float) -> None:
    """However sure it was, new counts win, as when the model behind a name is replaced."""
    calibration = taught(before, 30)
    for _ in range(60):
        calibration.observe(M, 10_000, counted(round(10_000 * after)))

    assert calibration.input_factor(M) == pytest.approx(after, abs=2 / STEPS)
