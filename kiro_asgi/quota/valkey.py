"""Counters and sums on a Valkey or Redis server: for gateways on several machines.

The rules are those of `kiro_asgi.quota.claims`, once more as a script that the server runs in one step, by its own
clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from functools import partial
from itertools import groupby
from logging import getLogger
from math import inf
from time import monotonic
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.quota.base import UsageKey, UsageRow
from kiro_asgi.quota.claims import Budget, Claim, Granted, Lease, Rate, Refused, Standing, granted, refusal
from kiro_asgi.state.valkey import PREFIX, UNKNOWN_POLICY, ValkeyServer, eviction

_log = getLogger("kiro_asgi")

_KEPT_SECONDS: Final = 401 * 86_400
"""For 400 days of usage."""

_LOOK_EVERY: Final = 60.0
"""Seconds between two looks at the server's policy."""

_SCRIPT: Final = """
-- KEYS: a key for each claim.  ARGV: "take" or "keep", then four for each claim:
--   "rate", amount, limit, seconds | "budget", amount, limit, ends at | "lease", holder, limit, seconds
-- Gives "1", the time, and each number once it is taken; or "0", the time, and the numbers as they are.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local function text(number) return string.format('%.17g', number) end
local kept, after, fits = {}, {}, true
for i, key in ipairs(KEYS) do
  local kind, first, limit, last = ARGV[4*i-2], ARGV[4*i-1], tonumber(ARGV[4*i]), tonumber(ARGV[4*i+1])
  if kind == 'lease' then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', text(now))
    kept[i] = redis.call('ZCARD', key)
    after[i] = kept[i] + 1
    fits = fits and after[i] <= limit
  elseif kind == 'rate' then
    kept[i] = tonumber(redis.call('GET', key) or '0')
    after[i] = math.max(kept[i], now) + tonumber(first) * last / limit
    fits = fits and after[i] - now - last <= last * 1e-9
  else
    kept[i] = tonumber(redis.call('GET', key) or '0')
    after[i] = kept[i] + tonumber(first)
    fits = fits and after[i] <= limit * (1 + 1e-9)
  end
end
local answer = {'0', text(now)}
if ARGV[1] == 'take' and not fits then
  for i = 1, #KEYS do answer[i + 2] = text(kept[i]) end
  return answer
end
answer[1] = '1'
for i, key in ipairs(KEYS) do
  local kind, first, limit, last = ARGV[4*i-2], ARGV[4*i-1], tonumber(ARGV[4*i]), tonumber(ARGV[4*i+1])
  if kind == 'lease' then
    redis.call('ZADD', key, text(now + last), first)
    redis.call('PEXPIRE', key, math.ceil(last * 1000))
  else
    local ends = kind == 'rate' and after[i] or last
    local left = math.ceil((ends - now) * 1000)
    if left > 0 then redis.call('SET', key, text(after[i]), 'PX', left) else redis.call('DEL', key) end
  end
  answer[i + 2] = text(after[i])
end
return answer
"""


_ADD: Final = """
-- KEYS: the hash of a day.  ARGV: seconds that it is kept; then a field and what is added to it, any number of times.
for i = 2, #ARGV, 2 do redis.call('HINCRBYFLOAT', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[1])
"""


@define
class ValkeyCounters:
    """Keeps numbers as strings and leases as sorted sets; see `kiro_asgi.quota.base.Counters`.

    In a cluster, claims of one owner (what their keys have before ``|``) are one step, and those of several owners one
    after the other: what was taken is given back where a later one is refused.

    A server that forgets keys when its memory is full would make spent budgets whole again: none is used for that.
    """

    _server: ValkeyServer
    _clock: Callable[[], float] = monotonic
    _look_at: float = field(init=False, default=-inf)
    """When to look again whether the server forgets keys."""

    _policy: str = field(init=False, default="")
    _has_warned: bool = field(init=False, default=False)
    """Whether the log says that the server does not tell."""

    async def take(self, claims: Sequence[Claim]) -> Granted | Refused:
        """Take all claims, or none."""
        await self._require_lasting()
        if not self._server.is_cluster:
            return await self._take(claims)
        standings: dict[str, Standing] = {}
        taken: list[Claim] = []
        for owner in dict.fromkeys(map(_owner, claims)):
            part = [claim for claim in claims if _owner(claim) == owner]
            outcome = await self._take(part)
            if isinstance(outcome, Refused):
                await self._give_back(taken)
                return Refused(claims.index(part[outcome.index]), outcome.standing, outcome.retry_after)
            taken += part
            standings |= dict(zip((claim.key for claim in part), outcome.standings, strict=True))
        return Granted(tuple(standings[claim.key] for claim in claims))

    async def correct(self, claims: Sequence[Rate | Budget]) -> None:
        """Take *amount* of each, whatever is left."""
        await self._keep(claims)

    async def renew(self, leases: Sequence[Lease]) -> None:
        """Extend *leases*."""
        await self._keep(leases)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Let go of *leases*."""

        def work(client: Any) -> None:
            for lease in leases:
                client.zrem(_key(lease), lease.holder)

        await self._server.ask(work)

    async def aclose(self) -> None:
        """Close the connections; they are opened again if need be."""
        await self._server.aclose()

    async def _require_lasting(self) -> None:
        """Refuse to count on a server that forgets keys before they end.

        Raises:
            StoreUnavailable: Code ``state.evicts``.
        """
        now = self._clock()
        if now >= self._look_at:
            self._policy = await self._server.ask(eviction)
            self._look_at = now + _LOOK_EVERY
        if self._policy == UNKNOWN_POLICY and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "the state server does not say whether it forgets keys when its memory is full (INFO memory): "
                "with another maxmemory-policy than noeviction, spent budgets would be whole again"
            )
        elif self._policy and self._policy != UNKNOWN_POLICY:
            raise StoreUnavailable(
                detail=f"the state server forgets keys when its memory is full (maxmemory-policy {self._policy}), and "
                "with them what was taken from budgets; set maxmemory-policy to noeviction",
                code="state.evicts",
            )

    async def _take(self, claims: Sequence[Claim]) -> Granted | Refused:
        fits, now, numbers = await self._run("take", claims)
        if fits:
            return granted(claims, numbers, now)
        refused = refusal(claims, numbers, now)
        assert refused is not None, "the script and `refusal` have the same rules"
        return refused

    async def _keep(self, claims: Sequence[Claim]) -> None:
        groups = [[claim] for claim in claims] if self._server.is_cluster else [claims]
        for group in groups:
            await self._run("keep", group)

    async def _give_back(self, claims: Sequence[Claim]) -> None:
        await self._keep([_returned(claim) for claim in claims if not isinstance(claim, Lease)])
        await self.release([claim for claim in claims if isinstance(claim, Lease)])

    async def _run(self, mode: str, claims: Sequence[Claim]) -> tuple[bool, float, list[float]]:
        keys, values = [*map(_key, claims)], [mode, *(value for claim in claims for value in _values(claim))]
        answer = await self._server.ask(lambda client: client.register_script(_SCRIPT)(keys, values))
        fits, now, *numbers = answer
        return fits == b"1", float(now), [*map(float, numbers)]


@define
class ValkeyLedger:
    """Keeps the sums of a day in a hash, for 400 days; see `kiro_asgi.quota.base.Ledger`."""

    _server: ValkeyServer

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Add to the sums."""
        for day, group in groupby(sorted(rows, key=lambda row: row.key), key=lambda row: row.key.day):
            values: list[str] = [str(_KEPT_SECONDS)]
            for row in group:
                for name, amount in row.amounts.items():
                    key = row.key.principal, row.key.upstream, row.key.model, row.key.group, name
                    values += [json.dumps(key), repr(amount)]
            self._server.ask_blocking(partial(_add, [_day(day)], values))

    def rows(self, first: str, last: str) -> Iterable[UsageRow]:
        """The sums of the days from *first* to *last*."""
        days = [*_days(first, last)]
        found = self._server.ask_blocking(lambda client: [client.hgetall(_day(day)) for day in days])
        sums = sorted(
            (UsageKey(day, *key), name, float(amount))
            for day, amounts in zip(days, found, strict=True)
            for field, amount in amounts.items()
            for *key, name in [json.loads(field)]
        )
        return [
            UsageRow(key, {name: amount for _, name, amount in group})
            for key, group in groupby(sums, key=lambda each: each[0])
        ]

    def close(self) -> None:
        """Close the connections; they are opened again if need be."""
        self._server.close()


def _add(keys: Sequence[str], values: Sequence[str], client: Any) -> None:
    client.register_script(_ADD)(keys, values)


def _owner(claim: Claim) -> str:
    return claim.key.partition("|")[0]


def _key(claim: Claim) -> str:
    owner, _, rest = claim.key.partition("|")
    return f"{PREFIX}limit:{{{owner}}}:{rest}"


def _day(day: str) -> str:
    return f"{PREFIX}usage:{day}"


def _days(first: str, last: str) -> Iterable[str]:
    day, end = date.fromisoformat(first), date.fromisoformat(last)
    while day <= end:
        yield day.isoformat()
        day += timedelta(days=1)


def _values(claim: Claim) -> tuple[str, str, str, str]:
    match claim:
        case Rate():
            return "rate", repr(claim.amount), repr(claim.limit), repr(claim.seconds)
        case Budget():
            return "budget", repr(claim.amount), repr(claim.limit), repr(claim.ends_at)
        case Lease():
            return "lease", claim.holder, repr(claim.limit), repr(claim.seconds)


def _returned(claim: Rate | Budget) -> Rate | Budget:
    """Make the claim that gives back what *claim* took."""
    if isinstance(claim, Rate):
        return Rate(claim.key, claim.limit, -claim.amount, claim.seconds)
    return Budget(claim.key, claim.limit, claim.ends_at, -claim.amount)
