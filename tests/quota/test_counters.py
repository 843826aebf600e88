"""What every engine that counts promises."""

from __future__ import annotations

from time import time

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi.quota.base import UsageKey, UsageRow
from kiro_asgi.quota.claims import Budget, Granted, Lease, Rate, Refused
from tests.quota.engines import ENGINES

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ENGINES)]

LATER = time() + 86_400


async def test_a_rate_lets_in_what_it_says_and_no_more(engine):
    async with engine() as made:
        claim = Rate("alice|requests", 3)
        outcomes = [await made.counters.take([claim]) for _ in range(4)]

        assert [type(outcome) for outcome in outcomes] == [Granted, Granted, Granted, Refused]
        assert outcomes[0].standings[0].remaining == pytest.approx(2, abs=0.05)
        assert outcomes[3].retry_after == pytest.approx(20, abs=1)


async def test_a_rate_fills_again(engine):
    async with engine() as made:
        claim = Rate("alice|requests", 2, seconds=1.0)
        taken = 0
        while isinstance(refusal := await made.counters.take([claim]), Granted) and taken < 20:
            taken += 1  # two at once; more where the machine takes as long as they take to come
        assert taken >= 2 and isinstance(refusal, Refused)
        with anyio.fail_after(10):
            while isinstance(await made.counters.take([claim]), Refused):  # noqa: ASYNC110 - time is what fills it
                await anyio.sleep(0.1)


async def test_all_or_nothing(engine):
    """A refusal by the day does not burn the minute."""
    async with engine() as made:
        minute, day = Rate("alice|requests", 10), Budget("alice|day", 100, LATER, amount=60)
        assert isinstance(await made.counters.take([minute, day]), Granted)
        refused = await made.counters.take([minute, day])
        assert isinstance(refused, Refused)
        assert (refused.index, refused.standing.remaining) == (1, 40)

        outcome = await made.counters.take([minute])
        assert isinstance(outcome, Granted)
        assert outcome.standings[0].remaining == pytest.approx(8, abs=0.1)


async def test_what_was_reserved_is_corrected(engine):
    async with engine() as made:
        day, minute = Budget("alice|day", 100, LATER, amount=60), Rate("alice|tokens", 100, amount=60)
        await made.counters.take([day, minute])
        await made.counters.correct(
            [Budget("alice|day", 100, LATER, amount=-50), Rate("alice|tokens", 100, amount=-50)]
        )

        outcome = await made.counters.take([day, minute])
        assert isinstance(outcome, Granted)
        assert [standing.remaining for standing in outcome.standings] == pytest.approx([30, 30], abs=0.5)


async def test_more_than_the_limit_may_turn_out_to_be_used(engine):
    """Nobody knew before, and what was used counts."""
    async with engine() as made:
        await made.counters.correct([Rate("alice|tokens", 100, amount=250)])
        refused = await made.counters.take([Rate("alice|tokens", 100, amount=50)])
        assert isinstance(refused, Refused)
        assert refused.retry_after == pytest.approx(120, abs=5)


async def test_leases_are_held_until_they_are_released(engine):
    async with engine() as made:
        leases = [Lease("alice|streams", 2, str(number)) for number in range(3)]
        assert [type(await made.counters.take([lease])) for lease in leases] == [Granted, Granted, Refused]
        await made.counters.release(leases[:1])
        assert isinstance(await made.counters.take(leases[2:]), Granted)


async def test_leases_of_the_dead_end(engine):
    async with engine() as made:
        dead = [Lease("alice|streams", 2, name, seconds=2.0) for name in ("a", "b")]
        for lease in dead:
            await made.counters.take([lease])
        await made.counters.renew([Lease("alice|streams", 2, "b", seconds=60)])
        await anyio.sleep(2.1)

        new = [Lease("alice|streams", 2, name) for name in ("c", "d")]
        assert [type(await made.counters.take([lease])) for lease in new] == [Granted, Refused]


async def test_many_at_once_get_exactly_what_there_is(engine):
    granted = 0
    async with engine() as made:

        async def ask() -> None:
            nonlocal granted
            outcome = await made.counters.take([Rate("alice|requests", 50), Budget("all|day", 1000, LATER, amount=30)])
            granted += isinstance(outcome, Granted)

        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(ask)
    assert granted == 33


async def test_usage_adds_up(engine):
    key, other = UsageKey("2026-11-23", "alice", "kiro", "m"), UsageKey("2026-11-24", "bob", "kiro", "m")
    async with engine() as made:
        made.ledger.add([UsageRow(key, {"requests": 1, "input": 10})])
        made.ledger.add([UsageRow(key, {"requests": 1, "credits": 0.25}), UsageRow(other, {"requests": 1})])

        assert [*made.ledger.rows("2026-11-23", "2026-11-23")] == [
            UsageRow(key, {"requests": 2, "input": 10, "credits": 0.25})
        ]
        assert [row.key for row in made.ledger.rows("2026-11-01", "2026-11-30")] == [key, other]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "correct"]),
        st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True),
        st.integers(-20, 40),
    ),
    max_size=12,
)


@settings(max_examples=25)
@given(steps=STEPS)
async def test_a_budget_is_a_sum(engine, steps):
    """Whatever is taken and corrected, a budget says what an addition says."""
    sums = dict.fromkeys("abc", 0.0)
    async with engine() as made:
        for kind, names, amount in steps:
            claims = [Budget(f"{name}|day", 100, LATER, amount=amount) for name in names]
            if kind == "correct":
                await made.counters.correct(claims)
                fits = True
            else:
                fits = isinstance(await made.counters.take(claims), Granted)
                assert fits == all(sums[name] + amount <= 100 for name in names)
            for name in names if fits else ():
                sums[name] += amount
