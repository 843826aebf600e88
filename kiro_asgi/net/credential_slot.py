"""One credential over time: renewed ahead of its end, by one at a time, and never lost on the way.

A renewal runs in a thread with an event loop of its own.  So whoever asked for it may leave, in whatever way its server
cancels it: the new token arrives and is written down all the same.  Files may block there.  And however many event
loops share an app, there is one renewal at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from logging import getLogger
from math import inf
from typing import Final

import anyio
from attrs import define, evolve, field

from kiro_asgi.errors import (
    KiroAsgiError,
    UpstreamDenied,
    UpstreamError,
    UpstreamModelQuotaSpent,
    UpstreamTimeout,
)
from kiro_asgi.limits import RESTING_MODELS
from kiro_asgi.loops import PerLoop
from kiro_asgi.net.clocks import Clocks, Lease
from kiro_asgi.net.credential_keeper import TokenKeeper
from kiro_asgi.net.flights import Flights
from kiro_asgi.net.resting import Resting, RestPolicy
from kiro_asgi.net.transport import Transport
from kiro_asgi.net.whole import fetch_whole
from kiro_asgi.upstreams.access import Presenter
from kiro_asgi.upstreams.base import Credential, Token

__all__ = ["Slot"]

_log = getLogger("kiro_asgi")

_SPREAD: Final = 0.2
"""Share of a time that is drawn at random, so that processes do not renew, or fail, in step."""

_FIRST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 60.0
"""Seconds between two questions to a sign-in service that fails: doubled from the first to the longest."""

_LOOK_AGAIN: Final = 5.0
"""Seconds between two looks whether somebody has signed in again."""

_SAVE_AGAIN: Final = 60.0
_ASK_AGAIN: Final = 60.0
"""Seconds until profiles are asked for again, where not everybody answered."""

_APART: Final = 10.0
"""Seconds between two renewals because of a refusal: a service that refuses every token is not helped by more."""

_PROFILE_TIMEOUT: Final = 10.0

_LONGEST_WAIT: Final = 30.0
"""Seconds that a request waits for a token.  What it waits for goes on without it."""


@define(eq=False, kw_only=True)
class Slot:
    """One credential of an app.  Made with the token that its source holds, if it holds one."""

    name: str
    """The source, as every `Credential` of this slot names it."""

    _vendor: Presenter
    _transport: Transport
    _clocks: Clocks
    _margin: float
    _rests: RestPolicy = RestPolicy()  # noqa: RUF009 - frozen
    _keeper: TokenKeeper | None = None
    """``None`` for a credential that stands in the settings."""

    _credential: Credential | None = None
    _lease: Lease = field(init=False, factory=Lease)
    _failure: KiroAsgiError | None = field(init=False, default=None)
    _failures: int = field(init=False, default=0)
    _retry_at: float = field(init=False, default=-inf)
    _profile: str = field(init=False, default="")
    _profile_at: float = field(init=False, default=-inf)
    _forced_at: float = field(init=False, default=-inf)
    _save_at: float = field(init=False, default=-inf)
    _resting: Resting = field(init=False)
    _models: dict[str, Resting] = field(init=False, factory=dict)
    """Those whose own quota is spent, the oldest first."""

    _flights: Flights = field(init=False)
    _turn: PerLoop[anyio.Lock] = field(init=False, factory=lambda: PerLoop(anyio.Lock))

    def __attrs_post_init__(self) -> None:
        self._resting = Resting(self._rests)
        self._flights = Flights(f"looking after {self.name}", self._transport)
        if self._keeper is not None and self._keeper.token is not None and self._keeper.token.access_token:
            self._adopt(self._keeper.token, self._margin)  # a refresh token alone is due for renewal

    async def take(self, model: str = "") -> Credential:
        """The credential.  A renewal that is due is waited for only where there is no good token.

        Args:
            model: What it is to be used for; empty for anything but answers.

        Raises:
            KiroAsgiError: It rests, or there is no good token; `retry_after` says when to ask again.
        """
        for resting in self._restings(model):
            resting.check(self._clocks.steady())
        if self._pressing():
            with _patience(self.name):
                await self._attend()
        elif self._wanting():
            self._flights.take_off(self._chore())
        elif self._keeper is not None and self._keeper.unsaved and self._clocks.steady() >= self._save_at:
            self._save_at = self._clocks.steady() + _SAVE_AGAIN
            self._flights.take_off(partial(self._save, self._keeper))
        if self._credential is None or not self._good():
            raise self._told()
        return self._credential

    async def renew(self, refused: Credential) -> Credential | None:
        """A newer credential than *refused*; ``None`` where a newer one is no remedy.

        Raises:
            KiroAsgiError: There should be one, but it is not to be had now.
        """
        if self._keeper is None:
            return None
        with _patience(self.name):
            async with self._turn.here():
                await self._flights.landed()
                if self._secret == refused.secret:
                    now = self._clocks.steady()
                    if now < self._retry_at:
                        raise self._told()
                    if now < self._forced_at + _APART:
                        return None
                    self._forced_at = now
                    await self._flights.fly(partial(self._work, refused.secret))
        if self._secret != refused.secret:
            return self._credential
        if self._failure is None:
            return None
        raise self._told()

    @contextmanager
    def asking(self, model: str) -> Iterator[Callable[[], None]]:
        """Ask for an answer of *model* within the block; call what is given when the service has accepted that.

        Raises:
            KiroAsgiError: It rests, and somebody else may be trying already.
        """
        began, restings = self._clocks.steady(), self._restings(model)
        for resting in restings:
            resting.check(began)
        trying = [resting for resting in restings if resting.start(began)]

        def accepted() -> None:
            for resting in restings:
                resting.succeed(began)

        try:
            yield accepted
        finally:
            for resting in trying:
                resting.stop()

    def rest(self, error: KiroAsgiError, model: str) -> None:
        """Be passed over for a while, because of *error*; for *model* only where it is about that alone."""
        resting = self._resting
        if isinstance(error, UpstreamModelQuotaSpent):
            if model not in self._models and len(self._models) >= RESTING_MODELS:
                del self._models[next(iter(self._models))]
            resting = self._models.setdefault(model, Resting(self._rests))
        resting.fail(error, self._clocks.steady())

    def rests(self) -> Iterator[tuple[str, KiroAsgiError, float]]:
        """What rests now: its name, why, and the seconds until somebody may ask."""
        now, models = self._clocks.steady(), self._models.items()
        for name, resting in ((self.name, self._resting), *((f"{self.name} for {key}", it) for key, it in models)):
            if resting.fault is not None and resting.rests(now):
                yield name, resting.fault, resting.left(now)

    def _restings(self, model: str) -> tuple[Resting, ...]:
        return (self._resting, self._models[model]) if model in self._models else (self._resting,)

    async def landed(self) -> None:
        """Wait until nothing is under way, however it ends."""
        await self._flights.landed()

    @property
    def secrets(self) -> Iterator[str]:
        """What must not be told."""
        if self._keeper is not None:
            yield from self._keeper.secrets
        if self._secret:
            yield self._secret

    @property
    def _secret(self) -> str:
        return self._credential.secret if self._credential is not None else ""

    def _good(self) -> bool:
        return self._credential is not None and self._lease.left(self._clocks) > 0

    def _due(self) -> bool:
        return self._keeper is not None and (
            self._credential is None or self._lease.left(self._clocks) <= self._lease.ahead
        )

    def _wanting(self) -> bool:
        now = self._clocks.steady()
        return now >= self._retry_at and (self._due() or (now >= self._profile_at and self._asks_profile()))

    def _pressing(self) -> bool:
        """Whether nobody can go on before there is what is wanted."""
        return self._wanting() and (not self._good() or (self._profile_at == -inf and self._asks_profile()))

    def _asks_profile(self) -> bool:
        return self._credential is not None and bool(self._vendor.profile_requests(self._credential))

    def _told(self) -> KiroAsgiError:
        """Why there is no token, as a new error: one that is raised twice remembers both places."""
        failure = self._failure or UpstreamDenied(f"{self.name}: the token has ended", code="credentials.ended")
        return _again(failure, max(self._retry_at - self._clocks.steady(), 0.0))

    async def _attend(self) -> None:
        """Be the one who does what is wanted, or wait for who does it."""
        async with self._turn.here():
            await self._flights.landed()
            if self._wanting():
                await self._flights.fly(self._chore())

    def _chore(self) -> Callable[[], Awaitable[None]]:
        return partial(self._work, self._secret if self._due() else None)

    async def _work(self, refused: str | None) -> None:
        """Replace *refused*, if there is such a token, and find the profile if there is none."""
        try:
            if refused is not None and self._keeper is not None:
                self._renewed(await self._keeper.renew(refused))
            await self._discover()
        except KiroAsgiError as error:
            self._failed(error)

    async def _save(self, keeper: TokenKeeper) -> None:
        try:
            await keeper.save()
        except KiroAsgiError as error:
            _log.warning("renewed token still in memory only: %r", error)

    def _renewed(self, token: Token) -> None:
        left = inf if token.expires_at is None else token.expires_at - self._clocks.wall()
        self._adopt(token, min(self._margin, left / 2))
        self._failure, self._failures, self._retry_at = None, 0, -inf
        self._profile_at = -inf  # whoever did not take the old token may tell the new one

    def _adopt(self, token: Token, ahead: float) -> None:
        """Use *token* from now on."""
        if token.expires_at is None:
            self._lease = Lease()
        else:
            steady, left = self._clocks.steady(), token.expires_at - self._clocks.wall()
            self._lease = Lease(steady + left, token.expires_at, ahead * (1 + _SPREAD * self._clocks.draw()))
        credential = self._vendor.credential(token, self.name)
        self._credential = credential if credential.profile_arn else evolve(credential, profile_arn=self._profile)

    def _failed(self, error: KiroAsgiError) -> None:
        pause = min(_FIRST_PAUSE * 2.0**self._failures, _LONGEST_PAUSE)
        looking = isinstance(error, UpstreamDenied) and error.retry_after is None
        pause = _LOOK_AGAIN if looking else max(pause, error.retry_after or 0.0)
        pause *= 1 + _SPREAD * self._clocks.draw()
        self._failure, self._failures = error, min(self._failures + 1, 10)
        self._retry_at = self._clocks.steady() + pause
        _log.warning("no new token for %s, next look in %.0f s: %r", self.name, pause, error)

    async def _discover(self) -> None:
        if self._credential is None or self._clocks.steady() < self._profile_at:
            return
        self._profile_at = inf
        for request in self._vendor.profile_requests(self._credential):
            try:
                answer = await fetch_whole(self._transport, request, patience=_PROFILE_TIMEOUT)
            except UpstreamError as error:
                _log.warning("profiles of %s could not be asked for: %r", self.name, error)
                self._profile_at = self._clocks.steady() + _ASK_AGAIN
                continue
            if answer.status == 429 or answer.status >= 500:
                self._profile_at = self._clocks.steady() + _ASK_AGAIN
            self._profile = self._vendor.profile([answer.body]) if answer.status == 200 else ""
            if self._profile:
                self._credential = evolve(self._credential, profile_arn=self._profile)
                return


def _again(error: KiroAsgiError, seconds: float) -> KiroAsgiError:
    told = copy.copy(error)
    told.retry_after = seconds
    return told.with_traceback(None)


@contextmanager
def _patience(name: str) -> Iterator[None]:
    try:
        with anyio.fail_after(_LONGEST_WAIT):
            yield
    except TimeoutError:
        raise UpstreamTimeout(
            f"{name}: there is no new token yet", code="credentials.slow", retry_after=_LOOK_AGAIN
        ) from None
