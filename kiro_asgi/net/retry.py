"""The retry policy of the whole gateway: what is tried again, when, and with what changed.

It decides and performs nothing.

===========================================  ====================================================================
what the last try ended in                   what the next one does
===========================================  ====================================================================
an answer that breaks a promise              reminds the model, once; it counts as one of the tries
a token that is not taken                    gets a new token, once; then another credential, if there is one
a host that the credential is not for        asks the service's other host, once for each credential, at once
a fault of the account: quota, refusal       uses another credential, while the old one cools down
a limit that the operator set for it         uses another credential
suspicion, suspension                        there is none, and no other account of the service is asked either
the account's rate                           waits for `rate_base`, doubled each time
no capacity for the model                    waits for `capacity_base`, doubled each time
any failure that proves nothing answered     waits for `base`, times `factor` each time
everything else                              there is none
===========================================  ====================================================================

All waiting for one request together takes at most `max_wait`; a service that asks for more is not asked again.

Where there is no next try, another upstream may still answer: the next one that the operator configured for the model
is tried, unless the last one called the request itself invalid.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from attrs import frozen

from kiro_asgi.config.gateway import RetrySettings
from kiro_asgi.errors import (
    KiroAsgiError,
    UnknownModel,
    UnmetPromise,
    UpstreamDenied,
    UpstreamError,
    UpstreamLimitReached,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamTokenInvalid,
)
from kiro_asgi.net.credentials.state import BARRED


class Remedy(Enum):
    """Change that is made for the next attempt."""

    AGAIN = "again"
    """Nothing but the time."""

    RENEW = "renew"
    """The token."""

    OTHER_HOST = "other_host"
    """The service's host: this one, and the credential, do not belong together."""

    NEXT_CREDENTIAL = "next_credential"
    """The credential; the one that was used cools down."""

    REMIND = "remind"
    """The prompt, which gets a notice of what was wrong with the answer at its end."""

    LEAVE_SERVICE = "leave_service"
    """Nothing: the credential cools down, and no other account of that service is used."""


@frozen
class Step:
    """How to go on."""

    remedy: Remedy
    seconds: float = 0.0
    """To wait before the next try."""


_AT_FAULT: Final = (UpstreamQuotaSpent, UpstreamDenied, UpstreamLimitReached)
"""Failures that are the credential's own."""


@frozen
class RetryPolicy:
    """Exponential back-off with jitter, for failures that prove that nothing was answered."""

    settings: RetrySettings = RetrySettings()  # noqa: RUF009 - frozen

    def decide(
        self,
        error: KiroAsgiError,
        attempt: int,
        draw: Callable[[], float],
        *,
        renewed: bool,
        misplaced: bool = False,
        reminded: bool = False,
        waited: float = 0.0,
    ) -> Step | None:
        """How to go on after *error*, or ``None`` where there is no way.

        Args:
            error: What the last try ended in.
            attempt: The number of tries so far, from 1.
            draw: A random number from 0 to 1.
            renewed: Whether this request had its one new token already.
            misplaced: Whether the service has another host, to which *error* leads.
            reminded: Whether the model was reminded already that an answer broke a promise.
            waited: Seconds that this request has waited between its tries so far.
        """
        if isinstance(error, UnmetPromise):
            return None if reminded or attempt >= self.settings.attempts else Step(Remedy.REMIND)
        if isinstance(error, BARRED) and error.asked:
            return Step(Remedy.LEAVE_SERVICE)
        if isinstance(error, UpstreamTokenInvalid) and error.asked and not renewed:
            return Step(Remedy.RENEW)
        if misplaced:
            return Step(Remedy.OTHER_HOST)
        if isinstance(error, _AT_FAULT):
            return Step(Remedy.NEXT_CREDENTIAL)
        delay = self._delay(error, attempt, draw, self.settings.max_wait - waited)
        return None if delay is None else Step(Remedy.AGAIN, delay)

    def other_upstream_helps(self, error: KiroAsgiError) -> bool:
        """Whether another upstream may do better where there is no other way after *error*."""
        if isinstance(error, UnknownModel):
            return True
        return isinstance(error, UpstreamError) and not isinstance(error, UpstreamRejected)

    def backoff(self, error: KiroAsgiError, attempt: int) -> float:
        """Seconds to wait after so many tries, without jitter and without a delay that the service asked for."""
        if isinstance(error, UpstreamRateExceeded):
            return self.settings.rate_base * 2.0 ** (attempt - 1)
        if isinstance(error, UpstreamOverloaded):
            return self.settings.capacity_base * 2.0 ** (attempt - 1)
        return self.settings.base * self.settings.factor ** (attempt - 1)

    def _delay(self, error: KiroAsgiError, attempt: int, draw: Callable[[], float], left: float) -> float | None:
        """Seconds to wait before the next try, of *left* at most; ``None`` where there is none."""
        silent = isinstance(error, UpstreamTimeout)
        tries = min(self.settings.timeout_attempts, self.settings.attempts) if silent else self.settings.attempts
        asked = error.retry_after or 0.0
        if not error.retry_safe or attempt >= tries or asked > left:
            return None
        delay = max(self.backoff(error, attempt) * (1 + self.settings.jitter * draw()), asked)
        return min(delay, left) if left > 0 or delay == 0 else None
