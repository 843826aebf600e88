"""What an operator's pattern means, and what it costs to match one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.patterns import Pattern, first_of


@given(st.text("ab.*+[?]!\\n", min_size=1, max_size=6).filter(lambda text: "*" not in text))
def test_a_pattern_without_a_star_is_a_name(pattern: str) -> None:
    """Only the star has a meaning: names hold dots, brackets and other signs."""
    assert Pattern(pattern).fits(pattern)
    assert not Pattern(pattern).fits(pattern + "x")


@given(st.text("ab*.?[!]", min_size=1, max_size=8), st.text("ab.?[!]\n", max_size=8))
def test_a_star_stands_for_any_text(pattern: str, name: str) -> None:
    """As a regular expression would have it, whose ways of failing could take for ever."""
    expression = ".*".join(map(re.escape, pattern.split("*")))

    assert Pattern(pattern).fits(name) is bool(re.fullmatch(expression, name, re.DOTALL))


@pytest.mark.parametrize("name", ["claude" * 100_000, "c" * 600_000, "claudesonnet" * 50_000])
def test_a_long_name_takes_no_time(name: str) -> None:
    """Two stars must not make a name a burden: each part is looked for once."""
    assert not Pattern("*claude*sonnet*x").fits(name)


def test_the_first_row_that_fits_counts() -> None:
    rows = ((Pattern("up/*"), 1), (Pattern("m*"), 2))

    assert (first_of(rows, ("up/m", "m")), first_of(rows, ("x/m", "m")), first_of(rows, ("x/y", "y"))) == (1, 2, None)
