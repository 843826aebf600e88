"""Whether a credential may ask for another answer: the limits that the gateway's operator sets for it.

A credential at its limit is not at fault and does not rest: the next one is asked, and as soon as there is room again,
this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from fnmatch import fnmatchcase
from logging import getLogger
from types import MappingProxyType
from typing import Final, Protocol

from attrs import define, field

from kiro_asgi.asgi.call import Call
from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.reservations import LimitRefusal, Reservations
from kiro_asgi.errors import ConfigError, UpstreamLimitReached
from kiro_asgi.quota.claims import Cost
from kiro_asgi.quota.settings import Allowance, CredentialSettings

__all__ = ["CredentialLimits", "LimitedCredentials", "UnlimitedCredentials", "credential_allowances"]

_log = getLogger("kiro_asgi")

_OWNER: Final = "credential:"
"""Stands before the name of a credential, lest it be a client's."""


class CredentialLimits(Protocol):
    """Lets attempts ask."""

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
