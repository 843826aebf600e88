"""Fuzzing that takes two minutes: what is in the corpus again, and what hypothesis makes up."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.corpus import FOLDER, inputs
from tests.fuzz.source import Source, dumped
from tests.fuzz.steps import calls
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

each_target = pytest.mark.parametrize("name", TARGETS)

PROGRAMS = st.binary(max_size=200)
LITERALS = st.binary(max_size=200).map(b"=".__add__)


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """Odd answers are logged, a line each."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@each_target
def test_what_was_found_before_is_handled(name: str) -> None:
    """R25: each input of the corpus meets typed errors, legal output and its budget of steps."""
    for data in inputs(name):
        TARGETS[name].check(data)


@each_target
def test_made_up_inputs_are_handled(name: str) -> None:
    """R25: the same for inputs that hypothesis makes up."""

    @given(PROGRAMS | LITERALS)
    def holds(data: bytes) -> None:
        TARGETS[name].check(data)

    holds()


def test_the_corpus_is_small_and_known() -> None:
    """Every file of the corpus is some target's, and all of them together are smaller than 300 kB."""
    files = [*FOLDER.iterdir()]

    assert {path.stem for path in files} <= {*TARGETS}
    assert sum(path.stat().st_size for path in files) < 300_000


@given(PROGRAMS)
def test_a_program_means_the_same_each_time(data: bytes) -> None:
    """What an input stands for depends on its bytes alone: nothing that is drawn is shared with an earlier draw."""
    assert dumped(Source(data).mutated([Source(data).value()])) == dumped(Source(data).mutated([Source(data).value()]))


def test_the_budget_is_one() -> None:
    """Work beyond constant and multiple is a failure: an oracle that cannot fail proves nothing."""

    def quadratic(data: bytes) -> int:
        for _ in data:
            for _ in data:
                len(data)
        return len(data)

    target = Target(quadratic, 100, 10)
    target.check(b"x" * 5)
    with pytest.raises(AssertionError, match="steps for 100 bytes"):
        target.check(b"x" * 100)
    assert calls(lambda: [len("") for _ in range(50)])[0] >= 50
