"""The retry policy: what is tried again, when, and with what changed."""

from __future__ import annotations

import pytest

from kiro_asgi.config.gateway import RetrySettings
from kiro_asgi.errors import (
    KiroAsgiError,
    RequestError,
    UnmetPromise,
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

POLICY = RetryPolicy(RetrySettings(attempts=4, base=1.0, factor=2.0, max_wait=60.0, jitter=0.0))


def decided(
    error: KiroAsgiError, attempt: int = 1, *, policy: RetryPolicy = POLICY, renewed: bool = False, waited: float = 0.0
):
    return policy.decide(error, attempt, lambda: 0.0, renewed=renewed, waited=waited)


def delays(error: KiroAsgiError, *, policy: RetryPolicy = POLICY) -> list[float | None]:
    steps = [decided(error, attempt, policy=policy) for attempt in range(1, policy.settings.attempts + 1)]
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
    "error", [UpstreamFault("down"), UpstreamRateExceeded("too often"), UpstreamOverloaded("full")], ids=repr
)
@pytest.mark.parametrize("draw", [0.0, 1.0])
def test_all_waiting_for_one_request_has_one_bound(error, draw):
    """R41: however many tries there are, and whatever chance adds, they wait no longer than `max_wait` in all."""
    policy, waited = RetryPolicy(RetrySettings(attempts=100, jitter=0.5)), 0.0
    for attempt in range(1, 100):
        step = policy.decide(error, attempt, lambda: draw, renewed=False, waited=waited)
        if step is None:
            break
        waited += step.seconds

    assert waited == policy.settings.max_wait
    assert attempt < 10


def test_without_waiting_there_may_still_be_tries():
    """Delays of nothing fit into nothing."""
    policy = RetryPolicy(RetrySettings(attempts=3, base=0.0, max_wait=0.0))

    assert [decided(UpstreamFault("down"), attempt, policy=policy) for attempt in (1, 2, 3)] == [
        Step(Remedy.AGAIN, 0.0),
        Step(Remedy.AGAIN, 0.0),
        None,
    ]
    assert decided(UpstreamOverloaded("full"), policy=policy) is None


@pytest.mark.parametrize(
    ("asked", "waited", "expected"),
    [
        pytest.param(None, 0, 1.0, id="not-asked"),
        pytest.param(0.2, 0, 1.0, id="asked-for-less"),
        pytest.param(7.0, 0, 7.0, id="asked-for-more"),
        pytest.param(60.0, 0, 60.0, id="asked-for-all-there-is"),
        pytest.param(60.1, 0, None, id="asked-for-more-than-there-is"),
        pytest.param(7.0, 53, 7.0, id="asked-for-what-is-left"),
        pytest.param(7.0, 53.1, None, id="asked-for-more-than-is-left"),
        pytest.param(1e9, 0, None, id="absurd"),
    ],
)
def test_what_the_upstream_asks_for_is_honoured_as_far_as_there_is_time(asked, waited, expected):
    """``Retry-After`` wins where it is longer; beyond what may be waited the client is told instead (F068, R41)."""
    step = decided(UpstreamThrottled("slow", retry_after=asked), waited=waited)

    assert (step and step.seconds) == expected


@pytest.mark.parametrize(
    "error",
    [RequestError("bad"), UpstreamRejected("bad"), KiroAsgiError("bug")],
    ids=lambda error: type(error).__name__,
)
def test_what_proves_nothing_is_never_tried_again(error):
    """A refusal that another try cannot change is final (F072)."""
    assert decided(error) is None


def test_a_broken_promise_is_told_to_the_model_once():
    """It is one of the tries (R41), and no other upstream is asked: the model has spoken."""
    error = UnmetPromise("no call")

    assert decided(error) == decided(error, 3) == Step(Remedy.REMIND)
    assert decided(error, POLICY.settings.attempts) is None
    assert POLICY.decide(error, 1, lambda: 0.0, renewed=False, reminded=True) is None
    assert not POLICY.other_upstream_helps(error)


def test_silence_has_its_own_bound():
    """A silent upstream is asked again only as often as configured for timeouts (R05)."""
    policy = RetryPolicy(RetrySettings(attempts=5, timeout_attempts=2, jitter=0.0))

    steps = [decided(UpstreamTimeout("silent"), attempt, policy=policy) for attempt in (1, 2)]
    assert steps == [Step(Remedy.AGAIN, 1.0), None]
    assert decided(UpstreamTimeout("silent"), policy=RetryPolicy(RetrySettings(attempts=1, timeout_attempts=2))) is None


def test_jitter_spreads_the_delay():
    """Jitter adds a drawn share of the delay."""
    policy = RetryPolicy(RetrySettings(jitter=0.5))
    error = UpstreamFault("down")
    steps = [policy.decide(error, 1, lambda draw=draw: draw, renewed=False) for draw in (0.0, 0.5, 1.0)]

    assert [step and step.seconds for step in steps] == [1.0, 1.25, 1.5]


def test_a_token_that_is_not_taken_is_renewed_once():
    """F066, F067: one new token a request, however often it was tried for other reasons; then another credential."""
    error = UpstreamTokenInvalid("bearer token invalid")

    assert [decided(error, attempt) for attempt in (1, 3)] == [Step(Remedy.RENEW)] * 2
    assert decided(error, renewed=True) == Step(Remedy.NEXT_CREDENTIAL)


@pytest.mark.parametrize("error", [UpstreamQuotaSpent("spent"), UpstreamDenied("not for you")], ids=repr)
@pytest.mark.parametrize("attempt", [1, 50])
def test_a_fault_of_the_account_lets_its_credential_rest(error, attempt):
    """The same credential is never tried again; another may be (F081), whatever the number of tries."""
    assert decided(error, attempt) == Step(Remedy.NEXT_CREDENTIAL)


@pytest.mark.parametrize("error", [UpstreamSuspended("locked"), UpstreamSuspicious("limited")], ids=repr)
def test_suspicion_is_not_walked_around(error):
    """No other account of the service is asked; where this one was not asked itself, another may be."""
    assert decided(error) == Step(Remedy.LEAVE_SERVICE)
    error.asked = False
    assert decided(error) == Step(Remedy.NEXT_CREDENTIAL)


def test_a_token_is_not_renewed_for_a_refusal_that_nobody_gave():
    """A credential that rests was not asked, so its token was not refused now."""
    error = UpstreamTokenInvalid("bearer token invalid")
    error.asked = False

    assert decided(error) == Step(Remedy.NEXT_CREDENTIAL)
