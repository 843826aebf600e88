"""One credential over time: refreshed ahead of its expiry, once at a time, and never lost on the way.

A refresh runs in a thread with an event loop of its own.  So the request that asked for it may be cancelled, in any way
that servers have: the new token arrives and is saved all the same.  Files may block there.  And however many event
loops share an app, there is one refresh at a time.

A credential that is at fault cools down (`Cooldown`); what that means for the request is `kiro_asgi.net.retry`'s.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from logging import getLogger
from math import inf
from typing import Final

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi.config.gateway import RetrySettings
from kiro_asgi.errors import (
    KiroAsgiError,
    Reach,
    UpstreamDenied,
    UpstreamError,
    UpstreamQuotaSpent,
    UpstreamSuspended,
    UpstreamSuspicious,
    UpstreamTimeout,
)
from kiro_asgi.limits import RESTING_MODELS
from kiro_asgi.loops import PerLoop
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials.refresh import TokenRefresher
from kiro_asgi.net.requests import fetch_whole
from kiro_asgi.net.single_flight import SingleFlight
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.access import Presenter
from kiro_asgi.upstreams.base import Credential, Token

_log = getLogger("kiro_asgi")

_SPREAD: Final = 0.2
"""Share of a time that is drawn at random, so that processes do not refresh, or fail, in step."""

_FIRST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 60.0
"""Seconds between two requests to a sign-in service that fails: doubled from the first to the longest."""

_LOOK_AGAIN: Final = 5.0
"""Seconds between two checks whether a user has signed in again."""

_READ_AGAIN: Final = 1.0
"""Least seconds between two looks at a file whose owner renews its token, and most that a request waits for one."""

_SAVE_AGAIN: Final = 60.0
_ASK_AGAIN: Final = 60.0
"""Seconds until the token is saved, or profiles are asked for, again, where that failed."""

_APART: Final = 10.0
"""Seconds between two refreshes because of a refusal: a service that refuses every token is not helped by more."""

_PROFILE_TIMEOUT: Final = 10.0
"""Seconds for asking everywhere where a profile may be."""

_PROFILE_PATIENCE: Final = 5.0
"""Seconds that requests wait for the first such search; then they go on without a profile, which many accounts need
not, or have not."""

_LONGEST_WAIT: Final = 30.0
"""Seconds that a request waits for a token.  The refresh goes on without it."""


@frozen
class Validity:
    """The validity of a token by both clocks: one of them may be set, the other stops while a machine sleeps."""

    ends: float = inf
    ends_wall: float = inf
    ahead: float = 0.0
    """Seconds before the end at which it is refreshed."""

    def left(self, clocks: Clocks) -> float:
        """Seconds until the end; not positive when it has come."""
        return min(self.ends - clocks.steady(), self.ends_wall - clocks.wall())


@define(eq=False, kw_only=True)
class CredentialState:
    """One credential of an app: its token, its refreshes, its cooldowns.  Starts with its source's token, if any."""

    name: str
    """The source's name, which every `Credential` made here carries."""

    _vendor: Presenter
    _transport: Transport
    _clocks: Clocks
    _margin: float
    _policy: RetrySettings = RetrySettings()  # noqa: RUF009 - frozen
    _refresher: TokenRefresher | None = None
    """``None`` for a credential that stands in the settings."""

    _credential: Credential | None = None
    _owned: bool = False
    """Whether only the program that the source belongs to renews the token, so that the source is read again."""

    _read_at: float = field(init=False, default=-inf)
    """When the source of an owned token is read again."""

    _lease: Validity = field(init=False, factory=Validity)
    _failure: KiroAsgiError | None = field(init=False, default=None)
    _failures: int = field(init=False, default=0)
    _retry_at: float = field(init=False, default=-inf)
    _profile: str = field(init=False, default="")
    _profile_at: float = field(init=False, default=-inf)
    """When profiles may be asked for; infinite where that has been done."""

    _first_search_ends: float = field(init=False, default=inf)
    """Until when requests wait for the first search."""

    _hosts: tuple[str, str] = field(init=False, default=("", ""))
    """As of `kiro_asgi.upstreams.base.Credential`: apart from the credential, which another thread may be renewing."""

    _forced_at: float = field(init=False, default=-inf)
    _save_at: float = field(init=False, default=-inf)
    _own_cooldown: Cooldown = field(init=False)
    _models: dict[str, Cooldown] = field(init=False, factory=dict)
    """Cooldowns of models whose own quota is spent, the oldest first."""

    _refresh_flight: SingleFlight = field(init=False)
    _lock: PerLoop[anyio.Lock] = field(init=False, factory=lambda: PerLoop(anyio.Lock))

    def __attrs_post_init__(self) -> None:
        self._own_cooldown = Cooldown(self._policy)
        self._refresh_flight = SingleFlight(f"looking after {self.name}", self._transport)
        if self._refresher is not None and self._refresher.token is not None and self._refresher.token.access_token:
            self._adopt(self._refresher.token, self._margin)  # a refresh token alone is due for renewal

    async def take(self, model: str = "", *, spare: Collection[Cooldown] = ()) -> Credential:
        """Return the credential.  A refresh that is due is waited for only where there is no valid token.

        Args:
            model: The model that it is used for; empty for anything but answers.
            spare: Cooldowns that do not count.

        Raises:
            KiroAsgiError: It cools down, or there is no valid token; `retry_after` is the time to the next try.
        """
        if self._owned and self._clocks.steady() >= self._read_at:
            self._read_at = self._clocks.steady() + _READ_AGAIN
            with anyio.move_on_after(_READ_AGAIN):
                await self._read_again()
        for cooldown in self._cooldowns(model):
            if cooldown not in spare:
                cooldown.check(self._clocks.steady())
        if not self._is_valid() and self._needs_refresh():
            with _wait_limit(self.name):
                await self._refresh_or_wait()
        elif self._waits_for_profile():
            with anyio.move_on_after(_PROFILE_PATIENCE):
                await self._refresh_or_wait()
        elif self._needs_refresh():
            self._refresh_flight.start(self._refresh_task())
        elif self._refresher is not None and self._refresher.unsaved and self._clocks.steady() >= self._save_at:
            self._save_at = self._clocks.steady() + _SAVE_AGAIN
            self._refresh_flight.start(partial(self._save, self._refresher))
        if self._credential is None or not self._is_valid():
            raise self._unavailable()
        return self._at_hosts(self._credential)

    async def take_all_the_same(self, model: str) -> Credential:
        """Return the credential although it was refused for another model: what was said may be about that alone.

        Raises:
            KiroAsgiError: It was refused for *model*, too, or rests for another reason.
        """
        own = self._own_cooldown
        return await self.take(model, spare=(own,) if own.is_refusal else ())

    async def renew(self, refused: Credential) -> Credential | None:
        """Replace *refused* by a newer credential; ``None`` where a newer one is no remedy.

        Raises:
            KiroAsgiError: It could not be refreshed now.
        """
        if self._refresher is None:
            return None
        with _wait_limit(self.name):
            async with self._lock.here():
                await self._refresh_flight.join()
                if self._secret == refused.secret:  # otherwise it was replaced meanwhile, and needs no request
                    now = self._clocks.steady()
                    if now < self._retry_at and not self._owned:
                        raise self._unavailable()
                    if now < self._forced_at + _APART and not self._owned:  # to read a file costs its service nothing
                        return None
                    self._forced_at = now
                    await self._refresh_flight.run(partial(self._refresh, refused.secret))
        if self._credential is not None and self._secret != refused.secret:
            return self._at_hosts(self._credential)
        if self._failure is None:
            return None
        raise self._unavailable()

    def _at_hosts(self, credential: Credential) -> Credential:
        host, management_host = self._hosts
        return evolve(credential, host=host, management_host=management_host) if any(self._hosts) else credential

    def keep_hosts(self, used: Credential) -> None:
        """Remember the hosts that have answered *used*, until others do: they hold for each later token, too."""
        host, management_host = self._hosts
        self._hosts = used.host or host, used.management_host or management_host

    @contextmanager
    def asking(self, model: str) -> Iterator[Callable[[], None]]:
        """Ask for an answer of *model* within the block; call the yielded function when the service has accepted that.

        Raises:
            KiroAsgiError: It cools down, and another request may be its probe already.
        """
        began, cooldowns = self._clocks.steady(), self._cooldowns(model)
        cooldowns = tuple(each for each in cooldowns if each is not self._own_cooldown or not each.is_refusal)
        for cooldown in cooldowns:
            cooldown.check(began)
        trying = [cooldown for cooldown in cooldowns if cooldown.start(began)]

        def accepted() -> None:
            for cooldown in self._cooldowns(model):
                cooldown.succeed(began)

        try:
            yield accepted
        finally:
            for cooldown in trying:
                cooldown.stop()

    def cool_down(self, error: KiroAsgiError, model: str) -> None:
        """Start a cooldown after *error*: for *model* alone where the error is about that.

        A credential that is refused rests for the model, too: once others may be asked for again, this one may not.
        """
        now, is_refused = self._clocks.steady(), isinstance(error, UpstreamDenied) and not isinstance(error, BARRED)
        if error.reach is Reach.PAIR or is_refused:
            if model not in self._models and len(self._models) >= RESTING_MODELS:
                del self._models[next(iter(self._models))]
            self._models.setdefault(model, Cooldown(self._policy)).fail(error, now)
        if error.reach is not Reach.PAIR:
            self._own_cooldown.fail(error, now)

    def cooldowns(self) -> Iterator[tuple[str, KiroAsgiError, float]]:
        """Name, cause and seconds left of each cooldown that is active now."""
        now = self._clocks.steady()
        models = ((f"{self.name} for {model}", cooldown) for model, cooldown in self._models.items())
        for name, cooldown in ((self.name, self._own_cooldown), *models):
            if cooldown.fault is not None and cooldown.is_active(now):
                yield name, cooldown.fault, cooldown.left(now)

    def _cooldowns(self, model: str) -> tuple[Cooldown, ...]:
        return (self._own_cooldown, self._models[model]) if model in self._models else (self._own_cooldown,)

    @property
    def is_usable(self) -> bool:
        """Whether it is valid, or was not refused yet when it was last renewed."""
        return self._is_valid() or not isinstance(self._failure, UpstreamDenied)

    async def join(self) -> None:
        """Wait until no refresh is under way, however it ends."""
        await self._refresh_flight.join()

    @property
    def secrets(self) -> Iterator[str]:
        """Keys and tokens that no message or log line may show."""
        if self._refresher is not None:
            yield from self._refresher.secrets
        if self._secret:
            yield self._secret

    @property
    def _secret(self) -> str:
        return self._credential.secret if self._credential is not None else ""

    def _is_valid(self) -> bool:
        return self._credential is not None and self._lease.left(self._clocks) > 0

    def _is_due(self) -> bool:
        return self._refresher is not None and (
            self._credential is None or self._lease.left(self._clocks) <= self._lease.ahead
        )

    def _needs_refresh(self) -> bool:
        now = self._clocks.steady()
        return now >= self._retry_at and (self._is_due() or (now >= self._profile_at and self._asks_profile()))

    def _waits_for_profile(self) -> bool:
        """Whether requests wait for the first search for a profile; another one after a renewal holds nobody up."""
        return self._clocks.steady() < self._first_search_ends and self._asks_profile()

    def _asks_profile(self) -> bool:
        return self._credential is not None and bool(self._vendor.profile_requests(self._credential))

    def _unavailable(self) -> KiroAsgiError:
        """The error for requests while there is no valid token."""
        failure = self._failure or UpstreamDenied(f"{self.name}: the token has expired", code="credentials.ended")
        return _with_delay(failure, max(self._retry_at - self._clocks.steady(), 0.0))

    async def _refresh_or_wait(self) -> None:
        """Refresh, or wait for a refresh that is under way."""
        async with self._lock.here():
            await self._refresh_flight.join()
            if self._needs_refresh():
                await self._refresh_flight.run(self._refresh_task())

    async def _read_again(self) -> None:
        """Read the source, unless it is being read already."""
        async with self._lock.here():
            await self._refresh_flight.join()
            await self._refresh_flight.run(self._look)

    async def _look(self) -> None:
        """Use the token that the owner of the source has put there, if it is another one.

        It ends a cooldown of the old token, but none of the account.
        """
        assert self._refresher is not None, "a token without a source"
        found = await self._refresher.look()
        if found is None:
            return
        before = self._credential
        self._accept(found)
        moved = before is None or self._credential is None or before.account != self._credential.account
        if moved or not isinstance(self._own_cooldown.fault, (*BARRED, UpstreamQuotaSpent)):
            self._own_cooldown, self._models = Cooldown(self._policy), {}

    def _refresh_task(self) -> Callable[[], Awaitable[None]]:
        return partial(self._refresh, self._secret if self._is_due() else None)

    async def _refresh(self, refused: str | None) -> None:
        """Replace *refused*, unless that is ``None``, and find the profile if there is none."""
        try:
            if refused is not None and self._refresher is not None:
                self._accept(await self._refresher.renew(refused))
            await self._find_profile()
        except KiroAsgiError as error:
            self._note_failure(error)

    async def _save(self, refresher: TokenRefresher) -> None:
        try:
            await refresher.save()
        except KiroAsgiError as error:
            _log.warning("the refreshed token of %s is still in memory only: %r", self.name, error)

    def _accept(self, token: Token) -> None:
        left = inf if token.expires_at is None else token.expires_at - self._clocks.wall()
        self._adopt(token, min(self._margin, left / 2))
        self._failure, self._failures, self._retry_at = None, 0, -inf
        self._profile_at = -inf  # a service that refused the old token may list profiles for the new one

    def _adopt(self, token: Token, ahead: float) -> None:
        """Use *token* from now on."""
        if token.expires_at is None:
            self._lease = Validity()
        else:
            steady, left = self._clocks.steady(), token.expires_at - self._clocks.wall()
            self._lease = Validity(steady + left, token.expires_at, ahead * (1 + _SPREAD * self._clocks.draw()))
        credential = self._vendor.credential(token, self.name)
        self._credential = credential if credential.profile_arn else evolve(credential, profile_arn=self._profile)

    def _note_failure(self, error: KiroAsgiError) -> None:
        pause = min(_FIRST_PAUSE * 2.0**self._failures, _LONGEST_PAUSE)
        signed_out = isinstance(error, UpstreamDenied) and error.retry_after is None
        pause = _LOOK_AGAIN if signed_out else max(pause, error.retry_after or 0.0)
        pause *= 1 + _SPREAD * self._clocks.draw()
        self._failure, self._failures = error, min(self._failures + 1, 10)
        self._retry_at = self._clocks.steady() + pause
        _log.warning("refreshing the token of %s failed, next try in %.0f s: %r", self.name, pause, error)

    async def _find_profile(self) -> None:
        if self._credential is None or self._clocks.steady() < self._profile_at:
            return
        self._profile_at = inf
        self._first_search_ends = min(self._first_search_ends, self._clocks.steady() + _PROFILE_PATIENCE)
        with anyio.move_on_after(_PROFILE_TIMEOUT) as limit:
            await self._search_profile(self._at_hosts(self._credential))
        self._first_search_ends = -inf
        if limit.cancelled_caught:
            _log.warning("the profiles of %s could not be listed within %g s", self.name, _PROFILE_TIMEOUT)
            self._profile_at = self._clocks.steady() + _ASK_AGAIN

    async def _search_profile(self, credential: Credential) -> None:
        for request in self._vendor.profile_requests(credential):
            try:
                answer = await fetch_whole(self._transport, request, patience=_PROFILE_TIMEOUT)
            except UpstreamError as error:
                _log.warning("the profiles of %s could not be listed: %r", self.name, error)
                self._profile_at = self._clocks.steady() + _ASK_AGAIN
                continue
            if answer.status == 429 or answer.status >= 500:
                self._profile_at = self._clocks.steady() + _ASK_AGAIN
            self._profile = self._vendor.profile([answer.body]) if answer.status == 200 else ""
            if self._profile:
                assert self._credential is not None, "a profile of nobody"
                self._credential = evolve(self._credential, profile_arn=self._profile)
                return


def _with_delay(error: KiroAsgiError, seconds: float) -> KiroAsgiError:
    # A copy, since an error that is raised twice collects the tracebacks of both.
    renewed = copy.copy(error)
    renewed.retry_after = seconds
    return renewed.with_traceback(None)


@contextmanager
def _wait_limit(name: str) -> Iterator[None]:
    try:
        with anyio.fail_after(_LONGEST_WAIT):
            yield
    except TimeoutError:
        raise UpstreamTimeout(
            f"{name}: the token has not been refreshed within {_LONGEST_WAIT:g} s",
            code="credentials.slow",
            retry_after=_LOOK_AGAIN,
        ) from None


BARRED: Final = (UpstreamSuspicious, UpstreamSuspended)
"""Faults after which neither this account is used, nor another of the same service for the same request."""


@define
class Cooldown:
    """How long a credential, or one model of it, is not used after it was at fault, and the probes meanwhile.

    =====================================  =============================================  =============================
    fault                                  cools down for                                 meanwhile
    =====================================  =============================================  =============================
    the credential is refused              `refused_base`, doubled up to `refused_cap`    no request for the same model
    it may not ask for the model           the same, for the model alone                  no request for it
    its quota is spent                     the time to the reset, where that is known     one request each `quota_probe`
    suspicious activity, a suspension      `suspicion`                                    no request
    =====================================  =============================================  =============================

    So none of them closes a gateway that has no other credential, and only the last one runs to its end in any case:
    further requests turn suspicion into a suspension.  An answer ends every other cooldown.  Nothing here
    performs anything or reads a clock: all times are seconds of one steady clock.
    """

    _settings: RetrySettings
    fault: KiroAsgiError | None = field(init=False, default=None)
    """Cause of this cooldown, or of the last one."""

    _since: float = field(init=False, default=-inf)
    _until: float = field(init=False, default=-inf)
    """Infinite where only an answer can end it."""

    _probe_at: float = field(init=False, default=inf)
    """When one request may try all the same."""

    _probing: bool = field(init=False, default=False)
    _refusals: int = field(init=False, default=0)
    """Refusals in a row."""

    @property
    def is_refusal(self) -> bool:
        """Whether its cause is a refusal of the credential, and neither its quota nor a suspension."""
        return isinstance(self.fault, UpstreamDenied) and not isinstance(self.fault, BARRED)

    def left(self, now: float) -> float:
        """Seconds until the next request may go out; 0 where there is no cooldown."""
        return max(0.0, min(self._until, self._probe_at) - now) if self.is_active(now) else 0.0

    def is_active(self, now: float) -> bool:
        """Whether only probes may go out."""
        return now < self._until

    def check(self, now: float) -> None:
        """Check that a request may go out.

        Raises:
            KiroAsgiError: It may not: a copy of the fault, with the time until the next try.
        """
        if now < self._until and (self._probing or now < self._probe_at):
            raise self._error(self.left(now))

    def start(self, now: float) -> bool:
        """Let a request out; true where it is the probe of a cooldown, whose end must be reported to `stop`.

        Raises:
            KiroAsgiError: As for `check`.
        """
        self.check(now)
        trying = now < self._until
        if trying:
            self._probing, self._probe_at = True, now + self._settings.quota_probe
        return trying

    def stop(self) -> None:
        """Note that the probe has ended, however that was."""
        self._probing = False

    def succeed(self, began: float) -> None:
        """Note that a request was accepted that began at that time; one from before the fault proves nothing."""
        if began >= self._since and not isinstance(self.fault, BARRED):
            self._refusals, self._until, self._probe_at = 0, -inf, inf

    def fail(self, error: KiroAsgiError, now: float) -> None:
        """Cool down because of *error*; several requests that meet the same fault at once start one cooldown."""
        if not self.is_active(now):
            self._since = now
        if isinstance(error, BARRED):
            self._begin(error, now + self._settings.suspicion, inf)
        elif self.is_active(now) and isinstance(self.fault, BARRED):
            return
        elif isinstance(error, UpstreamQuotaSpent):
            self._spend(error, now)
        elif not self.is_active(now):
            pause = min(self._settings.refused_base * 2.0**self._refusals, self._settings.refused_cap)
            self._refusals = min(self._refusals + 1, 30)
            self._begin(error, now + pause, inf)

    def _spend(self, error: UpstreamQuotaSpent, now: float) -> None:
        again = self.is_active(now) and isinstance(self.fault, UpstreamQuotaSpent)
        probe_at = self._probe_at if again else now + self._settings.quota_probe
        renewal = inf if error.retry_after is None else now + error.retry_after
        self._begin(error, renewal if self._settings.quota_probe else -inf, probe_at)

    def _begin(self, fault: KiroAsgiError, until: float, probe_at: float) -> None:
        self.fault, self._until, self._probe_at = fault, until, probe_at

    def _error(self, seconds: float) -> KiroAsgiError:
        # A new error each time: one that is raised twice would collect the tracebacks of both.
        assert self.fault is not None, "a cooldown without a fault"
        error = copy.copy(self.fault).with_traceback(None)
        error.message = f"{error.message}; not asked again now, the next try is in {max(1, round(seconds))} s"
        error.args, error.retry_after, error.asked = (error.message,), seconds, False
        return error
