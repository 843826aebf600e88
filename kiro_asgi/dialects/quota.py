"""Response headers in which clients of an API look for what they may still take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import ceil, floor
from typing import Final

from attrs import frozen

__all__ = ["DURATIONS", "QuotaHeaders", "duration", "instant"]

_KINDS: Final = ("requests", "tokens")


def duration(seconds: float, now: float) -> str:
    """*seconds* as OpenAI writes them: ``1s``, ``6m0s``, ``1h0m0s``, and ``20ms`` below a second."""
    if seconds < 1:
        return f"{ceil(seconds * 1000)}ms"
    minutes, rest = divmod(ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def instant(seconds: float, now: float) -> str:
    """The moment *seconds* after *now* as RFC 3339 has it."""
    return datetime.fromtimestamp(ceil(now + seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@frozen
class QuotaHeaders:
    """Names of the headers, and how they tell times."""

    name: str
    """With ``{kind}`` for ``requests`` or ``tokens``, and ``{part}`` for ``limit``, ``remaining`` or ``reset``."""

    time: Callable[[float, float], str]
    """From seconds until all is there again, and the time now since the epoch."""

    @property
    def names(self) -> tuple[bytes, ...]:
        """All of them, in lower case."""
        parts = ("limit", "remaining", "reset")
        return tuple(self.name.format(kind=kind, part=part).encode() for kind in _KINDS for part in parts)

    def lines(
        self, kind: str, limit: float, remaining: float, reset_after: float, now: float
    ) -> Iterator[tuple[bytes, bytes]]:
        """The headers about the limit of one *kind*."""
        values = {
            "limit": str(floor(limit)),
            "remaining": str(floor(remaining)),
            "reset": self.time(reset_after, now),
        }
        for part, value in values.items():
            yield self.name.format(kind=kind, part=part).encode(), value.encode()


DURATIONS: Final = QuotaHeaders("x-ratelimit-{part}-{kind}", duration)
"""OpenAI's, which most other services have as well."""
