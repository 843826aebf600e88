"""The retry policy: what is tried again, and when."""

from __future__ import annotations

import pytest

from kiro_asgi.errors import (
    KiroAsgiError,
    RequestError,
    UpstreamDenied,
    UpstreamFault,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from kiro_asgi.net.retry import RetryPolicy

POLICY = RetryPolicy(attempts=4, base=1.0, factor=2.0, cap=30.0, jitter=0.0)


def test_delays_double_up_to_the_bound():
    """Throttling waits base, 2 x base, 4 x base; then there is no further try (F062, F068)."""
    error = UpstreamThrottled("slow down")

    assert [POLICY.delay(error, attempt, lambda: 0.5) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, None]


def test_a_broken_connection_waits_one_second_first():
    """The first retry after a socket failure comes after the base delay of one second (F061, F064)."""
    assert POLICY.delay(UpstreamUnreachable("reset"), 1, lambda: 0.0) == 1.0


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(None, 1.0, id="not-asked"),
        pytest.param(0.2, 1.0, id="asked-for-less"),
        pytest.param(7.0, 7.0, id="asked-for-more"),
        pytest.param(30.0, 30.0, id="asked-for-the-cap"),
        pytest.param(31.0, None, id="asked-for-more-than-the-cap"),
        pytest.param(1e9, None, id="absurd"),
    ],
)
def test_what_the_upstream_asks_for_is_honoured_up_to_the_cap(asked, expected):
    """``Retry-After`` wins where it is longer; beyond the cap the client is told instead (F068, R41)."""
    assert POLICY.delay(UpstreamThrottled("slow", retry_after=asked), 1, lambda: 0.0) == expected


@pytest.mark.parametrize(
    "error",
    [
        RequestError("bad"),
        UpstreamRejected("bad"),
        UpstreamDenied("no"),
        UpstreamQuotaSpent("spent"),
        KiroAsgiError("bug"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_proves_nothing_is_never_tried_again(error):
    """A refusal that another try cannot change is final (F072)."""
    assert POLICY.delay(error, 1, lambda: 0.0) is None


def test_silence_has_its_own_bound():
    """A silent upstream is asked again only as often as configured for timeouts (R05)."""
    policy = RetryPolicy(attempts=5, timeout_attempts=2, jitter=0.0)

    assert [policy.delay(UpstreamTimeout("silent"), attempt, lambda: 0.0) for attempt in (1, 2)] == [1.0, None]


def test_jitter_spreads_the_delay():
    """Jitter adds a drawn share of the delay."""
    policy = RetryPolicy(jitter=0.5)
    error = UpstreamFault("down")

    assert [policy.delay(error, 1, lambda draw=draw: draw) for draw in (0.0, 0.5, 1.0)] == [1.0, 1.25, 1.5]
