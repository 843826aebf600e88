"""When a credential is left alone, and who may try: one sequence of events after another, by a clock of its own."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.config.gateway import RetrySettings
from kiro_asgi.errors import (
    KiroAsgiError,
    UpstreamDenied,
    UpstreamQuotaSpent,
    UpstreamSuspended,
    UpstreamSuspicious,
    UpstreamTokenInvalid,
)
from kiro_asgi.net.credentials.state import BARRED, Cooldown

REFUSED = UpstreamTokenInvalid("The key is not taken.", code="invalid")
SPENT = UpstreamQuotaSpent("The quota is spent.")
SUSPICIOUS = UpstreamSuspicious("Suspicious activity.")


def may_ask(resting: Cooldown, now: float) -> bool:
    try:
        resting.check(now)
    except KiroAsgiError:
        return False
    return True


def test_a_refused_credential_rests_for_longer_each_time() -> None:
    """2 s, doubled up to a minute; an answer begins anew."""
    resting, now, pauses = Cooldown(RetrySettings()), 0.0, []
    for _ in range(8):
        resting.fail(REFUSED, now)
        pauses.append(resting.left(now))
        now += resting.left(now)
        assert may_ask(resting, now)
    resting.start(now)
    resting.succeed(now)
    resting.fail(REFUSED, now)

    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    assert resting.left(now) == 2


def test_a_crowd_that_is_refused_at_once_is_one_refusal() -> None:
    """What was under way already says nothing new, neither for worse nor for better."""
    resting = Cooldown(RetrySettings())
    for _ in range(100):
        resting.fail(REFUSED, 10.0)
    resting.succeed(9.0)

    assert resting.left(10.0) == 2


def test_a_spent_quota_is_tried_by_one_at_a_time() -> None:
    """Every five minutes one request may try, and nobody else while it does; an answer lets all in."""
    resting = Cooldown(RetrySettings())
    resting.fail(SPENT, 0.0)
    assert not may_ask(resting, 299.9)
    assert resting.start(300.0)
    assert not may_ask(resting, 300.0) and not may_ask(resting, 10_000.0)
    resting.fail(SPENT, 301.0)
    resting.stop()
    assert not may_ask(resting, 599.9)
    assert resting.start(600.0)
    resting.succeed(600.0)

    assert may_ask(resting, 600.1)
    assert not resting.start(600.1)


def test_a_quota_that_is_renewed_is_nobodys_business_any_more() -> None:
    """Where the day is known, the rest ends then, though nobody has tried."""
    resting = Cooldown(RetrySettings())
    resting.fail(UpstreamQuotaSpent("spent", retry_after=40.0), 0.0)

    assert resting.left(0.0) == 40
    assert not may_ask(resting, 39.9)
    assert may_ask(resting, 40.0) and not resting.start(40.0)


@pytest.mark.parametrize("barred", [SUSPICIOUS, UpstreamSuspended("locked")], ids=repr)
def test_suspicion_is_waited_for_to_its_end(barred: KiroAsgiError) -> None:
    """Thirty minutes, whatever else comes in meanwhile: no try, no other fault, no late answer shortens them."""
    resting = Cooldown(RetrySettings())
    resting.fail(SPENT, 0.0)
    resting.start(300.0)
    resting.fail(barred, 300.0)
    resting.fail(SPENT, 310.0)
    resting.fail(REFUSED, 310.0)
    resting.succeed(310.0)
    resting.stop()

    assert not may_ask(resting, 2099.9)
    assert may_ask(resting, 2100.0)


def test_the_refusal_says_that_nobody_asked_and_when_somebody_will() -> None:
    """The service's words, verbatim, then ours; a new error each time."""
    resting = Cooldown(RetrySettings())
    resting.fail(SUSPICIOUS, 0.0)
    told = []
    for now in (0.0, 600.0):
        with pytest.raises(UpstreamSuspicious) as caught:
            resting.check(now)
        told.append(caught.value)

    assert [each.message for each in told] == [
        "Suspicious activity.; not asked again now, the next try is in 1800 s",
        "Suspicious activity.; not asked again now, the next try is in 1200 s",
    ]
    assert [(each.retry_after, each.asked) for each in told] == [(1800, False), (1200, False)]
    assert SUSPICIOUS.asked


@pytest.mark.parametrize("fault", [REFUSED, SPENT, SUSPICIOUS], ids=repr)
def test_a_rest_of_nothing_is_none(fault: KiroAsgiError) -> None:
    """Where somebody wants no rest, there is none, and nobody is alone with a try."""
    resting = Cooldown(RetrySettings(refused_base=0, quota_probe=0, suspicion=0))
    resting.fail(fault, 5.0)

    assert may_ask(resting, 5.0) and not resting.start(5.0)


FAULTS = {
    "refused": REFUSED,
    "denied": UpstreamDenied("No."),
    "spent": SPENT,
    "spent-until": UpstreamQuotaSpent("spent", retry_after=5_000.0),
    "suspicious": SUSPICIOUS,
    "suspended": UpstreamSuspended("locked"),
}
LONGEST = {UpstreamQuotaSpent: 300.0, UpstreamSuspicious: 1800.0, UpstreamSuspended: 1800.0, UpstreamDenied: 60.0}
EVENTS = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 2.0, 59.0, 299.5, 300.0, 1799.0, 4_000.0])),
    st.tuples(st.just("ask"), st.none()),
    st.tuples(st.sampled_from(["accepted", "leaves"]), st.integers(0, 3)),
    st.tuples(st.sampled_from([*FAULTS]), st.integers(0, 3)),
)


@define
class Story:
    """One credential's life, and what must be true of it at every moment."""

    resting: Cooldown = field(init=False, factory=lambda: Cooldown(RetrySettings()))
    now: float = 0.0
    barred_until: float = -1.0
    last_try: float = -1e9
    under_way: list[tuple[float, bool]] = field(init=False, factory=list)
    """When each request began, and whether it is the one that tries during a rest."""

    @property
    def tried(self) -> bool:
        return any(alone for _, alone in self.under_way)

    def ask(self) -> None:
        resting = self.resting.is_active(self.now)
        try:
            trying = self.resting.start(self.now)
        except KiroAsgiError as refusal:
            assert refusal.retry_after == self.resting.left(self.now) and not refusal.asked
            return
        assert self.now >= self.barred_until
        assert trying == resting
        if trying:
            assert not self.tried
            assert self.now - self.last_try >= 300
            self.last_try = self.now
        self.under_way.append((self.now, trying))

    def end(self, what: str, which: int) -> None:
        began, trying = self.under_way.pop(which % len(self.under_way))
        if what == "accepted":
            self.resting.succeed(began)
            self.last_try = -1e9
        elif what in FAULTS:
            self.resting.fail(FAULTS[what], self.now)
            if isinstance(FAULTS[what], BARRED):
                self.barred_until = self.now + 1800
        if trying:
            self.resting.stop()

    def check(self) -> None:
        if self.resting.fault is None or self.tried:
            return
        longest = next(LONGEST[kind] for kind in type(self.resting.fault).__mro__ if kind in LONGEST)
        assert self.resting.left(self.now) <= longest
        assert may_ask(self.resting, self.now + self.resting.left(self.now))


@given(st.lists(EVENTS, max_size=60))
def test_whatever_happens(events: list[tuple[str, Any]]) -> None:
    """Suspicion is never broken, a spent quota never tried by two, and no rest outlasts its bound."""
    story = Story()
    for what, which in events:
        if what == "wait":
            story.now += which
        elif what == "ask":
            story.ask()
        elif story.under_way:
            story.end(what, which)
        story.check()
