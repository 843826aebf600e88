"""A server that forgets keys when its memory is full counts nothing: spent budgets would be whole again."""

from __future__ import annotations

import anyio
import pytest
from attrs import define

from kiro_asgi.asgi.exchange.admission import Reservation, Reservations
from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.quota.claims import Budget, Cost, Granted
from kiro_asgi.quota.settings import QuotaSettings
from kiro_asgi.state.base import scoped
from tests.valkey_server import needs_server, running

pytest.importorskip("valkey")

import anyio.lowlevel

from kiro_asgi.quota.valkey import ValkeyCounters
from kiro_asgi.state.valkey import ValkeyServer, ValkeyStore

pytestmark = [pytest.mark.anyio, needs_server]

FULL = ("--maxmemory", "12mb", "--maxmemory-policy")
POLICIES = ("volatile-lru", "volatile-ttl", "volatile-random", "volatile-lfu", "allkeys-lru", "allkeys-random")


@define
class Time:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def budget(amount: float) -> Budget:
    return Budget("alice|tokens/2126-01-01", 100, 4_923_000_000, amount)


@pytest.mark.parametrize("policy", POLICIES)
async def test_none_is_used_that_forgets(policy):
    with running(0, *FULL, policy) as server:
        counters = ValkeyCounters(ValkeyServer(server.url))
        with pytest.raises(StoreUnavailable) as caught:
            await counters.take([budget(1)])
        await counters.aclose()
    assert caught.value.code == "state.evicts"
    assert f"maxmemory-policy {policy}" in caught.value.detail
    assert "set maxmemory-policy to noeviction" in caught.value.detail


@pytest.mark.parametrize("options", [(), (*FULL, "noeviction"), ("--maxmemory-policy", "volatile-lru")])
async def test_one_is_used_that_forgets_nothing(options):
    """By its policy, or as it has no limit."""
    with running(0, *options) as server:
        counters = ValkeyCounters(ValkeyServer(server.url))
        assert isinstance(await counters.take([budget(1)]), Granted)
        await counters.aclose()


async def test_a_policy_that_changes_is_noticed():
    """Within a minute, in both directions."""
    clock = Time()
    with running(0, *FULL, "noeviction") as server:
        there = ValkeyServer(server.url)
        counters = ValkeyCounters(there, clock)
        await counters.take([budget(1)])
        await there.ask(lambda client: client.config_set("maxmemory-policy", "volatile-ttl"))
        await counters.take([budget(1)])
        clock.now += 60
        with pytest.raises(StoreUnavailable):
            await counters.take([budget(1)])
        await there.ask(lambda client: client.config_set("maxmemory-policy", "noeviction"))
        clock.now += 60
        assert isinstance(await counters.take([budget(1)]), Granted)
        await counters.aclose()


async def test_one_that_does_not_tell_is_named(caplog):
    """Once; it is used all the same."""
    with running() as server:
        there = ValkeyServer(server.url)
        await there.ask(lambda client: client.execute_command("ACL", "SETUSER", "default", "-info"))
        counters = ValkeyCounters(there)
        for _ in range(3):
            assert isinstance(await counters.take([budget(1)]), Granted)
        await counters.aclose()
    assert caplog.text.count("does not say whether it forgets keys") == 1


async def test_limits_hold_by_themselves_meanwhile(caplog):
    """As for a server that is away: each process counts for itself, and the log says why."""
    with running(0, *FULL, "volatile-ttl") as server:
        counters = ValkeyCounters(ValkeyServer(server.url))
        quotas = QuotaSettings(tokens_per_day=100)
        reservations = Reservations(quotas, counters, lambda: 1_800_000_000.0, False)
        outcomes = [await reservations.take("alice", quotas, Cost(60), f"r{number}") for number in range(3)]
        await reservations.aclose()
    assert [isinstance(outcome, Reservation) for outcome in outcomes] == [True, False, False]
    assert caplog.text.count("limits are not shared: the state server forgets keys") == 1


async def test_no_client_stores_the_budgets_of_others_away():
    """What each keeps is bounded, however much it sends."""
    with running(0, *FULL, "noeviction") as server:
        there = ValkeyServer(server.url)
        counters, store = ValkeyCounters(there), ValkeyStore(there, 1_000, 2 * 1024 * 1024)
        await counters.take([budget(60)])
        for number in range(60):
            await store.set(scoped("alice", "response", str(number)), b"x" * 400_000, 600)
        used = await there.ask(lambda client: client.info("memory")["used_memory"])
        granted = await counters.take([budget(0)])
        await anyio.lowlevel.checkpoint()
        await store.aclose()
    assert isinstance(granted, Granted)
    assert granted.standings[0].remaining == 40
    assert used < 8 * 1024 * 1024
