"""The counter of work tells linear from quadratic: an oracle that cannot fail proves nothing."""

from __future__ import annotations

import pytest

from tests.growth import assert_linear


def linear(size: int):
    return lambda: [number for number in range(size) if number]


def quadratic(size: int):
    def work() -> None:
        for _ in range(size):
            for _ in range(size):
                pass

    return work


def test_linear_work_passes():
    """A loop over the input is linear, and so is work that does not depend on it."""
    assert_linear(linear, 100)
    assert_linear(lambda _: lambda: None, 100)


def test_quadratic_work_fails():
    """A loop within a loop is found."""
    with pytest.raises(AssertionError, match="steps"):
        assert_linear(quadratic, 50)
