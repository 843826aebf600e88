"""From what an operator allows to the claims of a request, and what is left of them in the end."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from kiro_asgi.quota.base import UsageKey, UsageRow
from kiro_asgi.quota.claims import Budget, Cost, Granted, Lease, Rate, Refused, claims, corrections, granted, refusal
from kiro_asgi.quota.ledger import UsageBuffer
from kiro_asgi.quota.settings import QuotaSettings

BERLIN = ZoneInfo("Europe/Berlin")
EVERYTHING = QuotaSettings(
    requests_per_minute=10,
    tokens_per_minute=1_000,
    streams=2,
    tokens_per_day=5_000,
    tokens_per_month=50_000,
    credits_per_day=1.0,
    credits_per_month=0.005,
)


def test_nothing_is_claimed_where_nothing_is_limited():
    assert [*claims("alice", QuotaSettings(), Cost(1_000), "r1", datetime.now(BERLIN))] == []


def test_each_limit_has_its_claim():
    made = [*claims("alice", EVERYTHING, Cost(3_000), "r1", datetime(2026, 12, 31, 23, 30, tzinfo=BERLIN))]
    midnight = datetime(2027, 1, 1, tzinfo=BERLIN).timestamp()

    assert made == [
        Rate("alice|requests", 10),
        Rate("alice|tokens", 1_000, 1_000),
        Lease("alice|streams", 2, "r1"),
        Budget("alice|tokens/2026-12-31", 5_000, midnight, 3_000),
        Budget("alice|tokens/2026-12", 50_000, midnight, 3_000),
        Budget("alice|credits/2026-12-31", 1.0, midnight, 0.01),
        Budget("alice|credits/2026-12", 0.005, midnight, 0.005),
    ]


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25), ((2026, 2, 28), 24)])
def test_a_day_ends_at_midnight_by_the_clock_on_the_wall(day, hours):
    (claim,) = claims("alice", QuotaSettings(tokens_per_day=1), Cost(1), "r1", datetime(*day, tzinfo=BERLIN))
    assert claim.ends_at - datetime(*day, tzinfo=BERLIN).timestamp() == hours * 3600


def test_corrections_leave_what_was_used():
    taken = [*claims("alice", EVERYTHING, Cost(3_000), "r1", datetime(2026, 11, 23, tzinfo=BERLIN))]
    used = {claim.key: claim.amount for claim in taken if not isinstance(claim, Lease)}
    for claim in corrections(taken, Cost(tokens=700, credits=0.25)):
        used[claim.key] += claim.amount

    assert used.pop("alice|requests") == 1
    assert {amount for key, amount in used.items() if "tokens" in key} == {700}
    assert {amount for key, amount in used.items() if "credits" in key} == {0.25}


def test_of_several_refusals_the_one_that_lasts_longest_is_told():
    """To wait for a minute would not help where the day is spent."""
    now = 1_000.0
    asked = [Rate("a|requests", 1), Budget("a|tokens/day", 100, now + 500, 50), Lease("a|streams", 1, "r")]
    refused = refusal(asked, [now + 60, 80, 1], now)

    assert isinstance(refused, Refused)
    assert (refused.index, refused.retry_after) == (1, 500)


def test_what_is_left_is_told_after_the_fact():
    now = 1_000.0
    assert granted([Rate("a|requests", 10)], [now + 12], now) == Granted((Rate("", 10).standing(now + 12, now),))
    assert Rate("", 10).standing(now + 12, now).remaining == 8


def test_usage_waits_by_day_and_not_without_end(monkeypatch):
    monkeypatch.setattr("kiro_asgi.quota.ledger._MOST_ROWS", 2)
    buffer = UsageBuffer()
    one, two, three = (UsageKey(day, "alice", "kiro", "m") for day in ("2026-11-23", "2026-11-24", "2026-11-25"))
    for key in (one, two, one, three):
        buffer.add(UsageRow(key, {"requests": 1}))

    assert buffer.take() == {
        "2026-11-23": [UsageRow(one, {"requests": 2})],
        "2026-11-24": [UsageRow(two, {"requests": 1})],
    }
    assert (buffer.take(), buffer.lost) == ({}, 1)
