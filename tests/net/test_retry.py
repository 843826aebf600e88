"""The retry policy: what is tried again, when, and with what changed."""

from __future__ import annotations

import pytest

from kiro_asgi.errors import (
    KiroAsgiError,
    RequestError,
    UpstreamDenied,
    UpstreamFault,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamSuspicious,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
    UpstreamUnreachable,
)
from kiro_asgi.net.retry import Remedy, RetryPolicy, Step

POLICY = RetryPolicy(attempts=4, base=1.0, factor=2.0, cap=30.0, jitter=0.0)


def decided(error: KiroAsgiError, attempt: int = 1, *, policy: RetryPolicy = POLICY, renewed: bool = False):
    return policy.decide(error, attempt, lambda: 0.0, renewed=renewed)


def delays(error: KiroAsgiError, *, policy: RetryPolicy = POLICY) -> list[float | None]:
    steps = [decided(error, attempt, policy=policy) for attempt in range(1, policy.attempts + 1)]
    assert all(step is None or step.remedy is Remedy.AGAIN for step in steps)
    return [step and step.seconds for step in steps]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(UpstreamThrottled("slow down"), [1.0, 2.0, 4.0, None], id="F068-throttled"),
        pytest.param(UpstreamUnreachable("reset"), [1.0, 2.0, 4.0, None], id="F061-F064-connection"),
        pytest.param(UpstreamRateExceeded("too often"), [8.0, 16.0, 32.0, None], id="rate-of-the-account"),
        pytest.param(UpstreamOverloaded("no capacity"), [5.0, 10.0, 20.0, None], id="no-capacity"),
    ],
)
def test_delays_double_up_to_the_bound(error, expected):
    """Each kind of trouble has its own first delay, doubled each time; then there is no further try (F062, F068)."""
    assert delays(error) == expected


@pytest.mark.parametrize(
    ("error", "cap"),
    [
        pytest.param(UpstreamFault("down"), 30.0, id="fault"),
        pytest.param(UpstreamRateExceeded("too often"), 60.0, id="rate"),
        pytest.param(UpstreamOverloaded("no capacity"), 20.0, id="capacity"),
    ],
)
def test_no_delay_exceeds_its_cap(error, cap):
    """However many tries there are, one delay has a longest length of its own kind."""
    policy = RetryPolicy(attempts=100, jitter=0.0)

    assert decided(error, 50, policy=policy) == Step(Remedy.AGAIN, cap)


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
    step = decided(UpstreamThrottled("slow", retry_after=asked))

    assert (step and step.seconds) == expected


@pytest.mark.parametrize(
    "error",
    [RequestError("bad"), UpstreamRejected("bad"), UpstreamDenied("no"), KiroAsgiError("bug")],
    ids=lambda error: type(error).__name__,
)
def test_what_proves_nothing_is_never_tried_again(error):
    """A refusal that another try cannot change is final (F072)."""
    assert decided(error) is None


def test_silence_has_its_own_bound():
    """A silent upstream is asked again only as often as configured for timeouts (R05)."""
    policy = RetryPolicy(attempts=5, timeout_attempts=2, jitter=0.0)

    steps = [decided(UpstreamTimeout("silent"), attempt, policy=policy) for attempt in (1, 2)]
    assert steps == [Step(Remedy.AGAIN, 1.0), None]


def test_jitter_spreads_the_delay():
    """Jitter adds a drawn share of the delay."""
    policy = RetryPolicy(jitter=0.5)
    error = UpstreamFault("down")
    steps = [policy.decide(error, 1, lambda draw=draw: draw, renewed=False) for draw in (0.0, 0.5, 1.0)]

    assert [step and step.seconds for step in steps] == [1.0, 1.25, 1.5]


def test_a_token_that_is_not_taken_is_renewed_once():
    """F066, F067: one new token a request, however often it was tried for other reasons; then another credential."""
    error = UpstreamTokenInvalid("bearer token invalid")

    assert [decided(error, attempt) for attempt in (1, 3)] == [Step(Remedy.RENEW, 60.0)] * 2
    assert decided(error, renewed=True) == Step(Remedy.ELSEWHERE, 60.0)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        pytest.param(UpstreamQuotaSpent("spent"), 3600.0, id="quota"),
        pytest.param(UpstreamQuotaSpent("spent", retry_after=86_400.0), 3600.0, id="quota-until-far-away"),
        pytest.param(UpstreamSuspended("locked"), 3600.0, id="suspended"),
        pytest.param(UpstreamSuspicious("limited"), 1800.0, id="suspicious"),
    ],
)
@pytest.mark.parametrize("attempt", [1, 50])
def test_a_fault_of_the_account_lets_its_credential_rest(error, seconds, attempt):
    """The same credential is never tried again; another may be (F081), whatever the number of tries."""
    assert decided(error, attempt) == Step(Remedy.ELSEWHERE, seconds)
