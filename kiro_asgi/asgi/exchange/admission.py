"""The operator's limits: whether a client may have another answer, and whether a credential may ask for it.

What an answer is expected to take is reserved before an upstream is asked, in one step of the counters, held for as
long as the answer takes, and put right when it has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import partial
from logging import getLogger
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol
from zoneinfo import ZoneInfo

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.exchange.facts import Exchange
from kiro_asgi.asgi.protocol import Scope
from kiro_asgi.config import Settings
from kiro_asgi.dialects.errors import LONGEST_SLEEP
from kiro_asgi.dialects.manifest import QuotaHeaders
from kiro_asgi.errors import (
    ConfigError,
    LimitReached,
    LimitSpent,
    RequestError,
    StoreUnavailable,
    UpstreamLimitReached,
    UpstreamLimitSpent,
)
from kiro_asgi.limits import OWED_COUNTS
from kiro_asgi.model.charge import Charge
from kiro_asgi.model.prices import Prices
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.patterns import Pattern
from kiro_asgi.quota.base import Counters
from kiro_asgi.quota.claims import Budget, Claim, Cost, Granted, Lease, Rate, Refused, Standing, claims, corrections
from kiro_asgi.quota.memory import MemoryCounters
from kiro_asgi.quota.settings import Allowance, CredentialSettings, QuotaSettings
from kiro_asgi.quota.sqlite import SqliteCounters
from kiro_asgi.state.base import owner_of, scoped

_log = getLogger("kiro_asgi")

_RENEW_EVERY: Final = 30.0
"""Seconds between two renewals of a lease, a third of what it lasts."""

_NAMES: Final = {
    "requests": ("request", "a minute"),
    "tokens": ("token", "a minute"),
    "streams": ("answer", "at once"),
    "tokens/day": ("token", "a day"),
    "tokens/month": ("token", "a month"),
    "credits/day": ("credit", "a day"),
    "credits/month": ("credit", "a month"),
    "cost/day": ("", "a day"),
    "cost/month": ("", "a month"),
}
"""Limit to what is counted, empty for money, and in which time."""

_FRACTIONS: Final = frozenset({"credits", "cost"})
"""Counted in fractions, too."""

_MOST_DECIMALS: Final = 6


@frozen
class Reservation:
    """Claims on the limits of one owner, which were granted."""

    expected: Cost
    claims: tuple[Claim, ...]
    standings: tuple[Standing, ...]
    """The standing of each, in order; empty where that could not be counted."""

    counters: Counters
    """The counters that granted it."""

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

    owner: str
    """Whose limit it is."""

    currency: str

    now: datetime
    """When it was refused, in the time zone by which days and months begin and end."""

    @property
    def name(self) -> str:
        """The limit, as a code has it: ``requests``, ``tokens_day``."""
        return self._kind.replace("/", "_")

    @property
    def limit(self) -> str:
        """The limit in words, such as ``3 requests a minute``."""
        return f"{self._counted(self.claim.limit, f'{self.claim.limit:,.15g}')} {_NAMES[self._kind][1]}"

    @property
    def is_spent(self) -> bool:
        """Whether it is a budget that is not renewed so soon that a client could wait for it."""
        return isinstance(self.claim, Budget) and self.retry_after > LONGEST_SLEEP

    def message(self, whose: str) -> str:
        """The message for the refused client; *whose* names the limit's owner."""
        remaining = self._written(self.standing.remaining, ROUND_FLOOR)
        left = f"{remaining} {'is' if remaining == '1' else 'are'} left"
        until = f"; try again in {ceil(self.retry_after):,} s"
        if isinstance(self.claim, Budget):
            until = f" until {self._end(self.claim)}"
        needed = ", of which"
        if isinstance(self.claim, Rate | Budget) and self._kind.startswith(("tokens", "cost")):  # a request takes many
            amount = self._counted(self.claim.amount, self._written(self.claim.amount, ROUND_CEILING))
            needed = f"; this request may need up to {amount},"
        return f"the limit of {whose} is reached: {self.limit}{needed} {left}{until}"

    def _counted(self, amount: float, written: str) -> str:
        """*amount*, as it is *written*, of what is counted."""
        unit = _NAMES[self._kind][0]
        return f"{written} {unit or self.currency}{'s' if unit and amount != 1 else ''}"

    def _written(self, amount: float, rounding: str) -> str:
        """*amount*, with two digits at least of what is less than one; what is left must not read as enough."""
        if self._kind.partition("/")[0] not in _FRACTIONS:
            return f"{Decimal(amount).to_integral_value(rounding):,}"
        exact = Decimal(amount)
        decimals = min(max(2, 1 - exact.adjusted()), _MOST_DECIMALS)
        return f"{exact.quantize(Decimal(1).scaleb(-decimals), rounding):,f}"

    def _end(self, budget: Budget) -> str:
        """When there is a new *budget*, by the clock; with its date, unless that is midnight."""
        ends_at = datetime.fromtimestamp(budget.ends_at, self.now.tzinfo)
        is_next_day = ends_at.date() - self.now.date() <= timedelta(days=1)
        return f"{ends_at:%H:%M %Z}" if is_next_day else f"{ends_at:%Y-%m-%d %H:%M %Z}"

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

    _currency: str = "USD"
    _zone: ZoneInfo = field(init=False)
    _own: MemoryCounters = field(init=False)
    _alone: bool = field(init=False, default=False)
    _owed: dict[str, Rate | Budget] = field(init=False, factory=dict, repr=False)
    """What is still to be taken from the shared counters, by key."""

    def __attrs_post_init__(self) -> None:
        self._zone = ZoneInfo(self._settings.timezone)
        self._own = MemoryCounters(self._wall)

    async def take(
        self,
        owner: str,
        allowance: Allowance,
        expected: Cost,
        holder: str,
        beside: Iterable[tuple[str, Allowance]] = (),
    ) -> Reservation | LimitRefusal:
        """Take what one request needs, or nothing.

        Args:
            owner: Whose limits they are.
            allowance: What the owner may take.
            expected: An estimate of what the request will take.
            holder: Identifies this request among those of the owner.
            beside: Further owners of whose limits it takes, and what each may take.

        Raises:
            StoreUnavailable: The counters cannot be reached, and ``quotas.on_store_failure`` is ``closed``.
        """
        now = datetime.fromtimestamp(self._wall(), UTC).astimezone(self._zone)
        owned = [
            (name, claim)
            for name, limits in ((owner, allowance), *beside)
            for claim in claims(owner_of(scoped(name, "quota", "")), limits, expected, holder, now)
        ]
        taken = tuple(claim for _, claim in owned)
        counters, outcome = await self._take(taken)
        if isinstance(outcome, Refused):
            name, claim = owned[outcome.index]
            return LimitRefusal(claim, outcome.standing, outcome.retry_after, name, self._currency, now)
        return Reservation(expected, taken, outcome.standings, counters)

    @asynccontextmanager
    async def holding(self, call: Call, held: Reservation) -> AsyncIterator[None]:
        """Hold what was taken for *call* within the block; what the call is charged in it takes its place."""
        before, outer = len(call.charges), call.reserved
        money = held.expected.money if outer is None else max(held.expected.money, outer.money)
        call.reserved = evolve(held.expected, money=money)
        for lease in held.leases:
            call.leases[lease] = held.counters
        try:
            yield
        finally:
            call.reserved = outer
            for lease in held.leases:
                del call.leases[lease]
            with anyio.CancelScope(shield=True):
                await self._settle(held, [*corrections(held.claims, cost_of(call.charges[before:]))])

    def renewal(self, call: Call) -> Callable[[], Awaitable[None]] | None:
        """Work that renews the leases of *call* for as long as it runs; ``None`` where no limit has leases."""
        return partial(self._renew, call) if self._leasing else None

    async def aclose(self) -> None:
        """Take what is owed, if that can be done now, and let go of what the counters hold."""
        if self._owed:
            await self._repay()
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
        if self._owed:
            await self._repay()
        return self._counters, outcome

    def _note(self, error: StoreUnavailable | None) -> None:
        """Log when counters are lost, and when they are back."""
        if self._alone is (error is None):
            self._alone = error is not None
            if error is None:
                _log.warning("limits are shared again")
            else:
                _log.warning(
                    "limits are not shared: %s; requests are handled as quotas.on_store_failure says", error.detail
                )

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
        except StoreUnavailable as error:
            self._note(error)
            self._owe(more)
        try:
            if held.leases:
                await held.counters.release(held.leases)
        except StoreUnavailable as error:
            self._note(error)

    def _owe(self, more: Sequence[Rate | Budget]) -> None:
        """Remember what could not be taken: else an answer would be free that ended while the counters were away."""
        for claim in more:
            before = self._owed.get(claim.key)
            if before is not None:
                claim = evolve(claim, amount=claim.amount + before.amount)
            elif len(self._owed) >= OWED_COUNTS:
                continue
            self._owed[claim.key] = claim

    async def _repay(self) -> None:
        """Take from the shared counters what is owed, now that they can be reached."""
        owed, self._owed = self._owed, {}
        try:
            await self._counters.correct([*owed.values()])
        except StoreUnavailable as error:
            self._note(error)
            self._owe([*owed.values()])


PRICE_UNKNOWN: Final = "price_unknown"
"""Code of the refusal to pay for a model without a price."""


def cost_of(charges: Iterable[Charge]) -> Cost:
    """What *charges* take from limits."""
    tokens, credits, money = 0, 0.0, 0.0
    for charge in charges:
        if (usage := charge.usage) is not None:
            tokens += usage.prompt_tokens + usage.output_tokens
            credits += 0.0 if usage.metering is None else usage.metering.amount
        money += 0.0 if charge.cost is None else charge.cost.total
    return Cost(tokens, credits, money)


def _expected_cost(exchange: Exchange, prices: Prices, *, in_money: bool) -> Cost | None:
    """Cost of *exchange* by estimates; ``None`` where that has to be known *in_money*, and its model has no price."""
    price = prices.of(exchange.upstream.name, exchange.route.model.id) if in_money else None
    if price is None and in_money:
        return None
    return cost_of([Charge(exchange.expected, None if price is None else price.cost(exchange.expected))])


def _unpriced(exchange: Exchange) -> str:
    """Message for a limit in money that cannot pay for *exchange*: what that costs is not known."""
    model = f"{exchange.upstream.name}/{exchange.route.model.id[:100]}"
    return (
        f"model: {model} has no price, and this is paid from a limit in money; name another model, or have the "
        "operator set its price (prices.models)"
    )


def new_reservations(settings: Settings, allowances: Iterable[Allowance] | None, clocks: Clocks) -> Reservations:
    """Make the reservations for the limits of *allowances*, ``None`` where nobody knows them yet; all is counted where
    state is kept."""
    leasing = allowances is None or any(allowance.streams for allowance in allowances)
    currency = settings.prices.currency
    return Reservations(settings.quotas, _new_counters(settings, clocks), clocks.wall, leasing, currency)


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


class Admission(Protocol):
    """Lets requests in."""

    async def count(self, call: Call) -> None:
        """Count one that asks no upstream, and stores something here.

        Raises:
            LimitReached: As of `admit`.
            StoreUnavailable: As of `admit`.
        """
        ...

    def admit(self, call: Call, exchange: Exchange) -> AbstractAsyncContextManager[None]:
        """A context in which *exchange* is answered.

        Raises:
            LimitReached: The client must wait, or, as `LimitSpent`, has nothing left.
            RequestError: Code `PRICE_UNKNOWN`: a limit is in money, and the model has no price.
            StoreUnavailable: The counters cannot be reached, and ``quotas.on_store_failure`` is ``closed``.
        """
        ...


@define
class UnlimitedAdmission:
    """Admits every request."""

    async def count(self, call: Call) -> None:
        """Nothing."""

    def admit(self, call: Call, exchange: Exchange) -> AbstractAsyncContextManager[None]:
        """Nothing."""
        return nullcontext()


@define
class LimitedAdmission:
    """Lets each client take what the settings allow."""

    _reservations: Reservations
    _headers: Callable[[Scope], QuotaHeaders]
    """Those of the API that a request is for."""

    _wall: Callable[[], float]
    _prices: Prices = field(factory=Prices)

    async def count(self, call: Call) -> None:
        """Take one request from the limits of client and group."""
        limits = [(owner, Allowance(requests_per_minute=it.requests_per_minute)) for owner, it in _limits_of(call)]
        if any(each.limited for _, each in limits):
            await self._taken(call, Cost(), limits)

    @asynccontextmanager
    async def admit(self, call: Call, exchange: Exchange) -> AsyncIterator[None]:
        """Reserve what the exchange is expected to take, and put it right in the end."""
        limits = _limits_of(call)
        if not any(each.limited for _, each in limits):  # others have limits
            yield
            return
        expected = _expected_cost(exchange, self._prices, in_money=any(each.in_money for _, each in limits))
        if expected is None:
            raise RequestError(_unpriced(exchange), code=PRICE_UNKNOWN, param="model")
        async with self._reservations.holding(call, await self._taken(call, expected, limits)):
            yield

    async def _taken(self, call: Call, expected: Cost, limits: Sequence[tuple[str, Allowance]]) -> Reservation:
        """Take what is *expected* from *limits*, of the client first.

        Raises:
            LimitReached: There is not enough; as `LimitSpent`, nothing is left.
        """
        (owner, allowance), *beside = limits
        held = await self._reservations.take(owner, allowance, expected, call.request_id, beside)
        if isinstance(held, LimitRefusal):
            call.quota_headers = (*self._quota_headers(call, [held.claim], [held.standing]),)
            is_own = held.owner == owner
            message = held.message("this client" if is_own else f"the group {call.client.group_name}")
            kind = LimitSpent if held.is_spent else LimitReached
            raise kind(message, code=f"quota.{held.name}", retry_after=held.retry_after)
        call.quota_headers = (*self._quota_headers(call, held.claims, held.standings),)
        return held

    def _quota_headers(
        self, call: Call, taken: Iterable[Claim], standings: Iterable[Standing]
    ) -> Iterator[tuple[bytes, bytes]]:
        """The APIs have headers for what is limited by the minute: of several limits of a kind, for that of which least
        is left."""
        names, least = self._headers(call.scope), dict[str, Standing]()
        for claim, left in zip(taken, standings, strict=False):
            if isinstance(claim, Rate):
                kind = claim.key.partition("|")[2]
                least[kind] = min(least.get(kind, left), left, key=lambda each: each.remaining)
        for kind, left in least.items():
            yield from names.lines(kind, left.limit, left.remaining, left.reset_after, self._wall())


def _limits_of(call: Call) -> list[tuple[str, Allowance]]:
    """Owners of limits that *call* takes from, the client first, and what each may take."""
    client = call.client
    own = [(call.principal, client.limits)]
    return own if client.group is None else [*own, (f"{_GROUP}{client.group.name}", client.group.limits)]


def new_admission(
    allowances: Iterable[Allowance] | None,
    reservations: Reservations,
    headers: Callable[[Scope], QuotaHeaders],
    wall: Callable[[], float],
    prices: Prices = Prices(),  # noqa: B008 - a frozen value
) -> Admission:
    """Make the check of whether a client may have another answer.

    Args:
        allowances: All that clients and groups have; ``None`` where nobody knows them yet.
        reservations: Take it.
        headers: Those of the API that a request is for.
        wall: Seconds since the epoch.
        prices: Of models, for limits in money.
    """
    if allowances is not None and not any(each.limited for each in allowances):
        return UnlimitedAdmission()
    return LimitedAdmission(reservations, headers, wall, prices)


_GROUP: Final = "group:"
_OWNER: Final = "credential:"
"""Prefixes of the names of groups and credentials, so that they equal no client's."""


class CredentialLimits(Protocol):
    """Lets attempts ask.

    A credential at its limit is not at fault and does not cool down: the next one is used, and this one again as soon
    as there is room.
    """

    def reserved(self, call: Call, exchange: Exchange) -> AbstractAsyncContextManager[None]:
        """A context in which an upstream is asked once, with the credential of *exchange*.

        Raises:
            UpstreamLimitReached: The credential is at its limit, or, as `UpstreamLimitSpent`, has nothing left, or
                nothing for a model without a price.
            StoreUnavailable: The counters cannot be reached, and ``quotas.on_store_failure`` is ``closed``.
        """
        ...

    def reached(self) -> Iterator[tuple[str, str, float]]:
        """Credentials that were at a limit when they were last wanted: the name, the limit, and the seconds left."""
        ...


@define
class UnlimitedCredentials:
    """Lets all of them ask."""

    def reserved(self, call: Call, exchange: Exchange) -> AbstractAsyncContextManager[None]:
        """Nothing."""
        return nullcontext()

    def reached(self) -> Iterator[tuple[str, str, float]]:
        """None."""
        return iter(())


@define
class LimitedCredentials:
    """Lets each take what the settings allow."""

    _allowances: Mapping[str, Allowance]
    """By the names of credentials; those without limits are missing."""

    _reservations: Reservations
    _clock: Callable[[], float]
    _prices: Prices = field(factory=Prices)
    _reached: dict[str, tuple[str, float]] = field(init=False, factory=dict)
    """Credential to the limit that it was at, and until when."""

    @asynccontextmanager
    async def reserved(self, call: Call, exchange: Exchange) -> AsyncIterator[None]:
        """Reserve what the attempt is expected to take, and put it right in the end."""
        name = exchange.credential.source
        allowance = self._allowances.get(name)
        if allowance is None:
            yield
            return
        expected = _expected_cost(exchange, self._prices, in_money=allowance.in_money)
        if expected is None:
            raise UpstreamLimitSpent(_unpriced(exchange), code=PRICE_UNKNOWN)
        held = await self._reservations.take(f"{_OWNER}{name}", allowance, expected, call.request_id)
        if isinstance(held, LimitRefusal):
            self._note(name, held)
            kind = UpstreamLimitSpent if held.is_spent else UpstreamLimitReached
            raise kind(held.message(name), code=f"quota.{held.name}", retry_after=held.retry_after)
        self._reached.pop(name, None)
        async with self._reservations.holding(call, held):
            yield

    def reached(self) -> Iterator[tuple[str, str, float]]:
        """Credentials that were at a limit when they were last wanted."""
        now = self._clock()
        for name, (limit, until) in tuple(self._reached.items()):
            if until > now:
                yield name, limit, until - now

    def _note(self, name: str, refusal: LimitRefusal) -> None:
        if name not in self._reached:
            _log.info("%s is at its limit of %s; other credentials are used until there is room", name, refusal.limit)
        self._reached[name] = refusal.limit, self._clock() + refusal.retry_after


def credential_allowances(
    limits: Mapping[str, CredentialSettings], names: Iterable[str]
) -> Mapping[str, CredentialSettings]:
    """Limits of the credentials called *names* that have some, by name; of the tables that fit, the first counts.

    Raises:
        ConfigError: A table fits none of them.
    """
    known, found = tuple(names), dict[str, CredentialSettings]()
    for table, each in limits.items():
        fitting = list(filter(Pattern(each.credential).fits, known))
        if not fitting:
            there = ", ".join(known)
            raise ConfigError(
                f"credentials.{table}.credential: fits no credential that is set up; there are: {there}",
                code="credentials.credential",
            )
        for name in fitting:
            found.setdefault(name, each)
    return MappingProxyType({name: each for name, each in found.items() if each.limited})
