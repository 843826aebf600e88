"""Whether a client may have another answer.

What it is expected to take is reserved before an upstream is asked, and put right when the answer has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Protocol

from attrs import define

from kiro_asgi.asgi.auth import principal_of
from kiro_asgi.asgi.call import Call
from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.protocol import Scope
from kiro_asgi.asgi.reservations import LimitRefusal, Reservations, cost_of
from kiro_asgi.config import Settings
from kiro_asgi.dialects.manifest import QuotaHeaders
from kiro_asgi.errors import KiroAsgiError, LimitReached
from kiro_asgi.quota.claims import Claim, Cost, Rate, Standing
from kiro_asgi.quota.settings import Allowance, allowance_of

__all__ = ["Admission", "LimitedAdmission", "UnlimitedAdmission", "allowances_in", "new_admission"]


class Admission(Protocol):
    """Lets requests in."""

    def admit(self, call: Call, exchange: Exchange) -> AbstractAsyncContextManager[None]:
        """A context in which *exchange* is answered.

        Raises:
            LimitReached: The client must wait.
            StoreUnavailable: Nobody can tell, and the operator wants nobody to be let in then.
        """
        ...


@define
class UnlimitedAdmission:
    """Lets everybody in."""

    def admit(self, call: Call, exchange: Exchange) -> AbstractAsyncContextManager[None]:
        """Nothing."""
        return nullcontext()


@define
class LimitedAdmission:
    """Lets each client take what the settings say."""

    _usual: Allowance
    """What clients may take that have no limits of their own."""

    _allowances: Mapping[str, Allowance]
    """What those may take that have, by principal."""

    _reservations: Reservations
    _headers: Callable[[Scope], QuotaHeaders]
    """Those of the API that a request is for."""

    _wall: Callable[[], float]

    @asynccontextmanager
    async def admit(self, call: Call, exchange: Exchange) -> AsyncIterator[None]:
        """Reserve what the exchange is expected to take, and put it right in the end."""
        allowance = self._allowances.get(call.principal, self._usual)
        if not allowance.limited:  # others have limits
            yield
            return
        expected = exchange.expected_tokens
        held = await self._reservations.take(call.principal, allowance, expected, call.request_id)
        if isinstance(held, LimitRefusal):
            call.quota_headers = (*self._told(call, [held.claim], [held.standing]),)
            message = held.told("this client")
            raise LimitReached(message, code=f"quota.{held.name}", retry_after=held.retry_after)
        call.quota_headers = (*self._told(call, held.claims, held.standings),)
        answered = True

        def cost() -> Cost:
            return cost_of(call.usage, expected) if answered else Cost()

        async with self._reservations.holding(call, held, cost):
            try:
                yield
            except KiroAsgiError:
                answered = False
                raise

    def _told(self, call: Call, taken: Iterable[Claim], standings: Iterable[Standing]) -> Iterator[tuple[bytes, bytes]]:
        """The APIs have headers for what is limited by the minute."""
        told = self._headers(call.scope)
        for claim, left in zip(taken, standings, strict=False):
            if isinstance(claim, Rate):
                kind = claim.key.partition("|")[2]
                yield from told.lines(kind, left.limit, left.remaining, left.reset_after, self._wall())


def allowances_in(settings: Settings) -> Mapping[str, Allowance]:
    """What each client may take that has a name in *settings*, by its principal."""
    return {principal_of(name): allowance_of(key, settings.quotas) for name, key in settings.keys.items()}


def new_admission(
    settings: Settings,
    reservations: Reservations,
    headers: Callable[[Scope], QuotaHeaders],
    wall: Callable[[], float],
) -> Admission:
    """Make the check of whether a client may have another answer.

    Args:
        settings: What each client may take.
        reservations: Take it.
        headers: Those of the API that a request is for.
        wall: Seconds since the epoch.
    """
    usual, allowances = settings.quotas, allowances_in(settings)
    if not any(each.limited for each in (usual, *allowances.values())):
        return UnlimitedAdmission()
    return LimitedAdmission(usual, allowances, reservations, headers, wall)
