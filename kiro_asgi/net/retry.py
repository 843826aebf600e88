"""What may be tried again, and when: one policy for the whole gateway.  It decides and performs nothing."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from kiro_asgi.errors import KiroAsgiError, UpstreamTimeout

__all__ = ["RetryPolicy"]


@frozen(kw_only=True)
class RetryPolicy:
    """Exponential back-off with jitter, for failures that prove that nothing was answered."""

    attempts: int = 3
    """Tries in all."""

    timeout_attempts: int = 1
    """Tries in all where the upstream was merely silent; a slow model is not made faster by asking again."""

    base: float = 1.0
    factor: float = 2.0
    cap: float = 30.0
    """Seconds that one delay never exceeds.  An upstream that asks for more is not asked again."""

    jitter: float = 0.1

    def delay(self, error: KiroAsgiError, attempt: int, draw: Callable[[], float]) -> float | None:
        """Seconds to wait before the next try, or ``None`` when there must be none.

        Args:
            error: What the last try ended in.
            attempt: The number of tries so far, from 1.
            draw: A random number from 0 to 1.
        """
        tries = self.timeout_attempts if isinstance(error, UpstreamTimeout) else self.attempts
        asked = error.retry_after or 0.0
        if not error.retry_safe or attempt >= tries or asked > self.cap:
            return None
        backoff = min(self.base * self.factor ** (attempt - 1), self.cap)
        return max(backoff * (1 + self.jitter * draw()), asked)
