"""What calls reserve of limits: taken in one step, held for as long as an answer takes, put right when it has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from logging import getLogger
from math import ceil, floor
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import anyio
from attrs import define, field, frozen

from kiro_asgi.asgi.call import Call
from kiro_asgi.config import Settings
from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.model.events import Usage
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.quota.base import Counters
from kiro_asgi.quota.claims import Budget, Claim, Cost, Granted, Lease, Rate, Refused, Standing, claims, corrections
from kiro_asgi.quota.memory import MemoryCounters
from kiro_asgi.quota.settings import Allowance, QuotaSettings
from kiro_asgi.quota.sqlite import SqliteCounters
from kiro_asgi.state.base import owner_of, scoped

_log = getLogger("kiro_asgi")

_RENEW_EVERY: Final = 30.0
"""Seconds between two renewals of a lease, a third of what it lasts."""

_NAMES: Final = {
    "requests": "requests a minute",
    "tokens": "tokens a minute",
    "streams": "answers at once",
    "tokens/day": "tokens a day",
    "tokens/month": "tokens a month",
    "credits/day": "credits a day",
    "credits/month": "credits a month",
}


@frozen
class Reservation:
    """What was taken of the limits of one owner."""

    claims: tuple[Claim, ...]
    standings: tuple[Standing, ...]
    """How it stands with them, in order; nothing where that could not be counted."""

    counters: Counters
    """Where it was taken."""

    @property
    def leases(self) -> tuple[Lease, ...]:
        """Claims to be held until they are let go."""
        return tuple(claim for claim in self.claims if isinstance(claim, Lease))


@frozen
class LimitRefusal:
    """Why nothing was taken."""

    claim: Claim
    """Of those that do not fit, the one to wait for longest."""

    standing: Standing
    retry_after: float
    """Seconds."""

    @property
    def name(self) -> str:
        """The limit, as a code has it: ``requests``, ``tokens_day``."""
        return self._kind.replace("/", "_")

    @property
    def limit(self) -> str:
        """The limit in words, such as ``3 requests a minute``."""
        return f"{self.claim.limit:.15g} {_NAMES[self._kind]}"

    def told(self, whose: str) -> str:
        """A message about it; *whose* limit it is, in words."""
        left, wait = f"of which {floor(self.standing.remaining)} are left", ceil(self.retry_after)
        return f"the limit of {whose} is reached: {self.limit}, {left}; try again in {wait} s"

    @property
    def _kind(self) -> str:
        kind, _, period = self.claim.key.partition("|")[2].partition("/")
        return {10: f"{kind}/day", 7: f"{kind}/month"}.get(len(period), kind)


@define
class Reservations:
    """Takes from counters that all processes share, or from this process's own while those cannot be reached."""

    _settings: QuotaSettings
    """How to count."""

    _counters: Counters
    _wall: Callable[[], float]
    _leasing: bool
    """Whether any limit is one of answers at once."""

    _zone: ZoneInfo = field(init=False)
    _own: MemoryCounters = field(init=False)
    _alone: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._zone = ZoneInfo(self._settings.timezone)
        self._own = MemoryCounters(self._wall)

    async def take(self, owner: str, allowance: Allowance, tokens: int, holder: str) -> Reservation | LimitRefusal:
        """Take what one request needs, or nothing.

        Args:
            owner: Whose limits they are.
            allowance: What the owner may take.
            tokens: An estimate of what the request will take.
            holder: Tells this request from others of the owner.

        Raises:
            StoreUnavailable: Nobody can tell, and the operator wants nobody to be let in then.
        """
        now = datetime.fromtimestamp(self._wall(), UTC).astimezone(self._zone)
        taken = (*claims(owner_of(scoped(owner, "quota", "")), allowance, tokens, holder, now),)
        counters, outcome = await self._take(taken)
        if isinstance(outcome, Refused):
            return LimitRefusal(taken[outcome.index], outcome.standing, outcome.retry_after)
        return Reservation(taken, outcome.standings, counters)

    @asynccontextmanager
    async def holding(self, call: Call, held: Reservation, cost: Callable[[], Cost]) -> AsyncIterator[None]:
        """Hold what was taken for *call* within the block; what it has cost in the end takes its place."""
        for lease in held.leases:
            call.leases[lease] = held.counters
        try:
            yield
        finally:
            for lease in held.leases:
                del call.leases[lease]
            with anyio.CancelScope(shield=True):
                await self._settle(held, [*corrections(held.claims, cost())])

    def renewal(self, call: Call) -> Callable[[], Awaitable[None]] | None:
        """Work that renews the leases of *call* for as long as it runs; ``None`` where nobody has any."""
        return partial(self._renew, call) if self._leasing else None

    async def aclose(self) -> None:
        """Let go of what the counters hold."""
        await self._counters.aclose()

    async def _take(self, taken: Sequence[Claim]) -> tuple[Counters, Granted | Refused]:
        """Take from the shared counters, or from the fallback that the settings name while these are unavailable."""
        try:
            outcome = await self._counters.take(taken)
        except StoreUnavailable as error:
            if self._settings.on_store_failure == "closed":
                raise
            self._note(error)
            if self._settings.on_store_failure == "open":
                return self._own, Granted(())
            return self._own, await self._own.take(taken)
        self._note(None)
        return self._counters, outcome

    def _note(self, error: StoreUnavailable | None) -> None:
        """Log when counters are lost, and when they are back."""
        if self._alone is (error is None):
            self._alone = error is not None
            if error is None:
                _log.warning("limits are shared again")
            else:
                _log.warning("limits are not shared: %s; quotas.on_store_failure says what becomes of requests", error)

    async def _renew(self, call: Call) -> None:
        while True:
            await anyio.sleep(_RENEW_EVERY)
            for lease, counters in tuple(call.leases.items()):
                try:
                    await counters.renew([lease])
                except StoreUnavailable as error:
                    self._note(error)

    async def _settle(self, held: Reservation, more: Sequence[Rate | Budget]) -> None:
        try:
            if more:
                await held.counters.correct(more)
            if held.leases:
                await held.counters.release(held.leases)
        except StoreUnavailable as error:
            self._note(error)


def cost_of(usage: Usage | None, expected: int) -> Cost:
    """The cost of an answer; of one whose *usage* nobody has told, the tokens that were *expected*."""
    if usage is None:
        return Cost(expected)
    return Cost(usage.prompt_tokens + usage.output_tokens, 0.0 if usage.metering is None else usage.metering.amount)


def new_reservations(settings: Settings, allowances: Iterable[Allowance], clocks: Clocks) -> Reservations:
    """Make what takes from the limits of *allowances*; all is counted where state is kept."""
    leasing = any(allowance.streams for allowance in allowances)
    return Reservations(settings.quotas, _new_counters(settings, clocks), clocks.wall, leasing)


def _new_counters(settings: Settings, clocks: Clocks) -> Counters:
    state = settings.state
    match state.engine:
        case "valkey":
            from kiro_asgi.quota.valkey import ValkeyCounters
            from kiro_asgi.state.valkey import ValkeyServer

            return ValkeyCounters(ValkeyServer(state.url))
        case "sqlite":
            return SqliteCounters(Path(state.path).expanduser(), clocks.wall)
        case _:
            return MemoryCounters(clocks.wall)
