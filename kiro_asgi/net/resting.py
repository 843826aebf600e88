"""How long a credential is left alone after it was at fault, and who may try meanwhile.

=========================================  =============================================  =============================
fault                                      rests                                          meanwhile
=========================================  =============================================  =============================
the credential is refused (401, 403)       `refused_base`, doubled up to `refused_cap`    nobody
its quota is spent                         until the renewal, where that is known         one request each `quota_probe`
suspicious activity, a suspension          `suspicion`                                    nobody
=========================================  =============================================  =============================

So none of them closes a gateway that has no other credential, and only the last one is waited for to its end: to go on
asking is what turns suspicion into a suspension.  An answer ends every other rest.  Nothing here performs anything or
reads a clock.
"""

from __future__ import annotations

import copy
from math import inf
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.errors import KiroAsgiError, UpstreamQuotaSpent, UpstreamSuspended, UpstreamSuspicious

__all__ = ["BARRED", "RestPolicy", "Resting"]

BARRED: Final = (UpstreamSuspicious, UpstreamSuspended)
"""Faults after which neither this account is asked, nor another of the same service for the same request."""


@frozen(kw_only=True)
class RestPolicy:
    """How long, in seconds; 0 for no rest at all."""

    refused_base: float = 2.0
    refused_cap: float = 60.0
    quota_probe: float = 300.0
    suspicion: float = 1800.0


@define
class Resting:
    """One credential, or one model of it.  All times are seconds of one steady clock."""

    _policy: RestPolicy
    fault: KiroAsgiError | None = field(init=False, default=None)
    """What it rests for, or rested for last."""

    _since: float = field(init=False, default=-inf)
    _until: float = field(init=False, default=-inf)
    """Infinite where only an answer can end it."""

    _probe_at: float = field(init=False, default=inf)
    """When one request may try all the same."""

    _probing: bool = field(init=False, default=False)
    _refusals: int = field(init=False, default=0)
    """In a row."""

    def left(self, now: float) -> float:
        """Seconds until somebody may ask; 0 where it does not rest."""
        return max(0.0, min(self._until, self._probe_at) - now) if self.rests(now) else 0.0

    def rests(self, now: float) -> bool:
        """Whether it may not be asked just like that."""
        return now < self._until

    def check(self, now: float) -> None:
        """See whether somebody may ask.

        Raises:
            KiroAsgiError: Nobody may: the fault itself, not asked for again, with the time until the next try.
        """
        if self.rests(now) and (self._probing or now < self._probe_at):
            raise self._refusal(self.left(now))

    def start(self, now: float) -> bool:
        """Let somebody ask; true where that is the one who tries during a rest, who must say `stop`.

        Raises:
            KiroAsgiError: As for `check`.
        """
        self.check(now)
        trying = self.rests(now)
        if trying:
            self._probing, self._probe_at = True, now + self._policy.quota_probe
        return trying

    def stop(self) -> None:
        """Note that the one who tried has ended, however that was."""
        self._probing = False

    def succeed(self, began: float) -> None:
        """Note that a request was accepted that began at that time; one from before the fault says nothing."""
        if began >= self._since and not isinstance(self.fault, BARRED):
            self._refusals, self._until, self._probe_at = 0, -inf, inf

    def fail(self, error: KiroAsgiError, now: float) -> None:
        """Rest because of *error*; several requests that meet the same fault at once make one rest."""
        if not self.rests(now):
            self._since = now
        if isinstance(error, BARRED):
            self._rest(error, now + self._policy.suspicion, inf)
        elif self.rests(now) and isinstance(self.fault, BARRED):
            return
        elif isinstance(error, UpstreamQuotaSpent):
            self._spend(error, now)
        elif not self.rests(now):
            pause = min(self._policy.refused_base * 2.0**self._refusals, self._policy.refused_cap)
            self._refusals = min(self._refusals + 1, 30)
            self._rest(error, now + pause, inf)

    def _spend(self, error: UpstreamQuotaSpent, now: float) -> None:
        again = self.rests(now) and isinstance(self.fault, UpstreamQuotaSpent)
        probe_at = self._probe_at if again else now + self._policy.quota_probe
        renewal = inf if error.retry_after is None else now + error.retry_after
        self._rest(error, renewal if self._policy.quota_probe else -inf, probe_at)

    def _rest(self, fault: KiroAsgiError, until: float, probe_at: float) -> None:
        self.fault, self._until, self._probe_at = fault, until, probe_at

    def _refusal(self, seconds: float) -> KiroAsgiError:
        """A new error each time: one that is raised twice remembers both places."""
        assert self.fault is not None, "a rest without a reason"
        told = copy.copy(self.fault).with_traceback(None)
        told.message = f"{told.message}; not asked again now, the next try is in {max(1, round(seconds))} s"
        told.args, told.retry_after, told.asked = (told.message,), seconds, False
        return told
