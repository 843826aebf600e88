"""Whether a client may have another answer.

What it is expected to take is reserved before an upstream is asked, and put right when the answer has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from logging import getLogger
from math import ceil
from pathlib import Path
from typing import Final, Protocol
from zoneinfo import ZoneInfo

import anyio
from attrs import define, field

from kiro_asgi.asgi.auth import principal_of
from kiro_asgi.asgi.call import Call
from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.protocol import Scope
from kiro_asgi.config import Settings
from kiro_asgi.dialects.manifest import QuotaHeaders
from kiro_asgi.errors import KiroAsgiError, LimitReached, StoreUnavailable
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.quota.base import Counters
from kiro_asgi.quota.claims import Budget, Claim, Granted, Lease, Rate, Refused, Standing
from kiro_asgi.quota.memory import MemoryCounters
from kiro_asgi.quota.policy import Cost, claims, corrections
from kiro_asgi.quota.settings import Allowance, QuotaSettings, allowance_of
from kiro_asgi.quota.sqlite import SqliteCounters
from kiro_asgi.state.base import owner_of, scoped

__all__ = ["Admission", "LimitedAdmission", "UnlimitedAdmission", "new_admission"]

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


class Admission(Protocol):
    """Lets requests in."""

    def admit(self, call: Call, exchange: Exchange) -> AbstractAsyncContextManager[None]:
        """A context in which *exchange* is answered.

        Raises:
            LimitReached: The client must wait.
            StoreUnavailable: Nobody can tell, and the operator wants nobody to be let in then.
        """
        ...

    async def aclose(self) -> None:
        """Let go of files and connections."""
        ...


@define
class UnlimitedAdmission:
    """Lets everybody in."""

    def admit(self, call: Call, exchange: Exchange) -> AbstractAsyncContextManager[None]:
        """Nothing."""
        return nullcontext()

    async def aclose(self) -> None:
        """Nothing: there is nothing to let go of."""


@define
class LimitedAdmission:
    """Lets each client take what the settings say."""

    _settings: QuotaSettings
    """How to count, and what clients may take that have no limits of their own."""

    _allowances: Mapping[str, Allowance]
    """What those may take that have, by principal."""

    _counters: Counters
    _headers: Callable[[Scope], QuotaHeaders]
    """Those of the API that a request is for."""

    _wall: Callable[[], float]
    _zone: ZoneInfo = field(init=False)
    _own: MemoryCounters = field(init=False)
    """Of this process, for as long as those that all share cannot be reached."""

    _alone: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._zone = ZoneInfo(self._settings.timezone)
        self._own = MemoryCounters(self._wall)

    @asynccontextmanager
    async def admit(self, call: Call, exchange: Exchange) -> AsyncIterator[None]:
        """Reserve what the exchange is expected to take, and put it right in the end."""
        now = datetime.fromtimestamp(self._wall(), UTC).astimezone(self._zone)
        owner = owner_of(scoped(call.principal, "quota", ""))
        allowance = self._allowances.get(call.principal, self._settings)
        taken = [*claims(owner, allowance, exchange.expected_tokens, call.request_id, now)]
        if not taken:  # others have limits
            yield
            return
        counters, outcome = await self._take(taken)
        if isinstance(outcome, Refused):
            call.quota_headers = (*self._told(call, [taken[outcome.index]], [outcome.standing]),)
            raise _refusal(taken[outcome.index], outcome)
        call.quota_headers = (*self._told(call, taken, outcome.standings),)
        leases = [claim for claim in taken if isinstance(claim, Lease)]
        if leases:
            call.meanwhile = partial(self._renew, counters, leases)
        cost = _cost
        try:
            yield
        except KiroAsgiError:  # there is no answer
            cost = _nothing
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._settle(counters, leases, [*corrections(taken, cost(call, exchange))])

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

    async def _renew(self, counters: Counters, leases: Sequence[Lease]) -> None:
        while True:
            await anyio.sleep(_RENEW_EVERY)
            try:
                await counters.renew(leases)
            except StoreUnavailable as error:
                self._note(error)

    async def _settle(self, counters: Counters, leases: Sequence[Lease], more: Sequence[Rate | Budget]) -> None:
        try:
            if more:
                await counters.correct(more)
            if leases:
                await counters.release(leases)
        except StoreUnavailable as error:
            self._note(error)

    def _told(self, call: Call, taken: Iterable[Claim], standings: Iterable[Standing]) -> Iterator[tuple[bytes, bytes]]:
        """The APIs have headers for what is limited by the minute."""
        told = self._headers(call.scope)
        for claim, left in zip(taken, standings, strict=False):
            if isinstance(claim, Rate):
                kind = claim.key.partition("|")[2]
                yield from told.lines(kind, left.limit, left.remaining, left.reset_after, self._wall())


def _nothing(call: Call, exchange: Exchange) -> Cost:
    return Cost()


def _cost(call: Call, exchange: Exchange) -> Cost:
    """Cost of the answer; of one whose client left, which is never counted, the cost that was expected."""
    usage = call.usage
    if usage is None:
        return Cost(exchange.expected_tokens)
    return Cost(usage.prompt_tokens + usage.output_tokens, 0.0 if usage.metering is None else usage.metering.amount)


def _refusal(claim: Claim, refused: Refused) -> LimitReached:
    kind, _, period = claim.key.partition("|")[2].partition("/")
    name = {10: f"{kind}/day", 7: f"{kind}/month"}.get(len(period), kind)
    wait = ceil(refused.retry_after)
    left = f"of which {refused.standing.remaining:g} are left"
    message = f"the limit of this client is reached: {claim.limit:g} {_NAMES[name]}, {left}; try again in {wait} s"
    return LimitReached(message, code=f"quota.{name.replace('/', '_')}", retry_after=refused.retry_after)


def new_admission(settings: Settings, clocks: Clocks, headers: Callable[[Scope], QuotaHeaders]) -> Admission:
    """Make the check of whether a client may have another answer; usage is counted where state is kept.

    Args:
        settings: What each client may take.
        clocks: Tell days and minutes.
        headers: Those of the API that a request is for.
    """
    usual = settings.quotas
    allowances = {principal_of(name): allowance_of(key, usual) for name, key in settings.keys.items()}
    if not any(each.limited for each in (usual, *allowances.values())):
        return UnlimitedAdmission()
    return LimitedAdmission(usual, allowances, _new_counters(settings, clocks), headers, clocks.wall)


def _new_counters(settings: Settings, clocks: Clocks) -> Counters:
    state = settings.state
    match state.engine:
        case "valkey":
            from kiro_asgi.quota.valkey import ValkeyCounters
            from kiro_asgi.state.valkey_server import ValkeyServer

            return ValkeyCounters(ValkeyServer(state.url))
        case "sqlite":
            return SqliteCounters(Path(state.path).expanduser(), clocks.wall)
        case _:
            return MemoryCounters(clocks.wall)
