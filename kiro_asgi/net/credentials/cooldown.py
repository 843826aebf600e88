"""Cooldowns: how long a credential is not used after it was at fault, and who may try meanwhile.

=========================================  =============================================  =============================
fault                                      cools down for                                 meanwhile
=========================================  =============================================  =============================
the credential is refused (401, 403)       `refused_base`, doubled up to `refused_cap`    no request
its quota is spent                         the time to the reset, where that is known     one request each `quota_probe`
suspicious activity, a suspension          `suspicion`                                    no request
=========================================  =============================================  =============================

So none of them closes a gateway that has no other credential, and only the last one runs to its end in any case:
further requests are what turns suspicion into a suspension.  An answer ends every other cooldown.  Nothing here
performs anything or reads a clock.  The lengths are those of `kiro_asgi.config.gateway.RetrySettings`.
"""

from __future__ import annotations

import copy
from math import inf
from typing import Final

from attrs import define, field

from kiro_asgi.config.gateway import RetrySettings
from kiro_asgi.errors import KiroAsgiError, UpstreamQuotaSpent, UpstreamSuspended, UpstreamSuspicious

BARRED: Final = (UpstreamSuspicious, UpstreamSuspended)
"""Faults after which neither this account is used, nor another of the same service for the same request."""


@define
class Cooldown:
    """The cooldown of one credential, or of one model of it.  All times are seconds of one steady clock."""

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
    """In a row."""

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
        if self.is_active(now) and (self._probing or now < self._probe_at):
            raise self._error(self.left(now))

    def start(self, now: float) -> bool:
        """Let a request out; true where it is the probe of a cooldown, whose end must be reported to `stop`.

        Raises:
            KiroAsgiError: As for `check`.
        """
        self.check(now)
        trying = self.is_active(now)
        if trying:
            self._probing, self._probe_at = True, now + self._settings.quota_probe
        return trying

    def stop(self) -> None:
        """Note that the probe has ended, however that was."""
        self._probing = False

    def succeed(self, began: float) -> None:
        """Note that a request was accepted that began at that time; one from before the fault says nothing."""
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
