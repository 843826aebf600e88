"""Whether a client may have another answer, and whether a credential may ask for it: the operator's limits for both.

What it is expected to take is reserved before an upstream is asked, and put right when the answer has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from fnmatch import fnmatchcase
from logging import getLogger
from types import MappingProxyType
from typing import Final, Protocol

from attrs import define, field

from kiro_asgi.asgi.auth import principal_of
from kiro_asgi.asgi.call import Call
from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.protocol import Scope
from kiro_asgi.asgi.reservations import LimitRefusal, Reservations, cost_of
from kiro_asgi.config import Settings
from kiro_asgi.dialects.manifest import QuotaHeaders
from kiro_asgi.errors import ConfigError, KiroAsgiError, LimitReached, UpstreamLimitReached
from kiro_asgi.quota.claims import Claim, Cost, Rate, Standing
from kiro_asgi.quota.settings import Allowance, CredentialSettings, allowance_of


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


_log = getLogger("kiro_asgi")

_OWNER: Final = "credential:"
"""Stands before the name of a credential, lest it be a client's."""


class CredentialLimits(Protocol):
    """Lets attempts ask.

    A credential at its limit is not at fault and does not rest: the next one is asked, and as soon as there is room
    again, this one.
    """

    def reserved(self, call: Call, exchange: Exchange, cost: Callable[[], Cost]) -> AbstractAsyncContextManager[None]:
        """A context in which an upstream is asked once, with the credential of *exchange*.

        Args:
            call: The client's, which waits for the answer.
            exchange: What is asked.
            cost: Called in the end: what the attempt has cost.

        Raises:
            UpstreamLimitReached: The credential is at its limit.
            StoreUnavailable: Nobody can tell, and the operator wants nobody to be asked then.
        """
        ...

    def reached(self) -> Iterator[tuple[str, str, float]]:
        """Credentials that were at a limit when they were last wanted: the name, the limit, and the seconds left."""
        ...


@define
class UnlimitedCredentials:
    """Lets all of them ask."""

    def reserved(self, call: Call, exchange: Exchange, cost: Callable[[], Cost]) -> AbstractAsyncContextManager[None]:
        """Nothing."""
        return nullcontext()

    def reached(self) -> Iterator[tuple[str, str, float]]:
        """None."""
        return iter(())


@define
class LimitedCredentials:
    """Lets each take what the settings say."""

    _allowances: Mapping[str, Allowance]
    """By the names of credentials; those without limits are missing."""

    _reservations: Reservations
    _clock: Callable[[], float]
    _reached: dict[str, tuple[str, float]] = field(init=False, factory=dict)
    """Credential to the limit that it was at, and until when."""

    @asynccontextmanager
    async def reserved(self, call: Call, exchange: Exchange, cost: Callable[[], Cost]) -> AsyncIterator[None]:
        """Reserve what the attempt is expected to take, and put it right in the end."""
        name = exchange.credential.source
        allowance = self._allowances.get(name)
        if allowance is None:
            yield
            return
        owner, expected = f"{_OWNER}{name}", exchange.expected_tokens
        held = await self._reservations.take(owner, allowance, expected, call.request_id)
        if isinstance(held, LimitRefusal):
            self._note(name, held)
            raise UpstreamLimitReached(held.told(name), code=f"quota.{held.name}", retry_after=held.retry_after)
        self._reached.pop(name, None)
        async with self._reservations.holding(call, held, cost):
            yield

    def reached(self) -> Iterator[tuple[str, str, float]]:
        """Credentials that were at a limit when they were last wanted."""
        now = self._clock()
        for name, (limit, until) in tuple(self._reached.items()):
            if until > now:
                yield name, limit, until - now

    def _note(self, name: str, refusal: LimitRefusal) -> None:
        if name not in self._reached:
            _log.info("%s is at its limit of %s; others are asked until there is room", name, refusal.limit)
        self._reached[name] = refusal.limit, self._clock() + refusal.retry_after


def credential_allowances(
    limits: Mapping[str, CredentialSettings], names: Iterable[str]
) -> Mapping[str, CredentialSettings]:
    """What each of the credentials called *names* may take, where it has limits; the first table counts that fits.

    Raises:
        ConfigError: A table fits none of them.
    """
    known, found = tuple(names), dict[str, CredentialSettings]()
    for table, each in limits.items():
        fitting = [name for name in known if _fits(name, each.credential)]
        if not fitting:
            there = ", ".join(known)
            raise ConfigError(
                f"credentials.{table}.credential: fits no credential that is set up; there are: {there}",
                code="credentials.credential",
            )
        for name in fitting:
            found.setdefault(name, each)
    return MappingProxyType({name: each for name, each in found.items() if each.limited})


def _fits(name: str, pattern: str) -> bool:
    """Whether *name* is what *pattern* stands for; brackets stand for themselves, since names have some."""
    return fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))
