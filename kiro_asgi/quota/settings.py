"""Settings of what each client may take."""

from __future__ import annotations

from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import frozen

from kiro_asgi.setting import Bounds, Choices, Shape, setting

__all__ = ["QuotaSettings"]

_MOST: Final = Bounds(0, 2**53)


def _is_zone(text: str) -> bool:
    try:
        ZoneInfo(text)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return False
    return True


@frozen(kw_only=True)
class QuotaSettings:
    """Limits of each client; 0 where there is none.

    A client is a key, or a user of the host.  Where ``state.engine`` is shared by several processes, so is what a
    client has taken.
    """

    requests_per_minute: int = setting(0, _MOST)
    """Requests for answers in any minute."""

    tokens_per_minute: int = setting(0, _MOST)
    """Tokens in any minute, of prompts and answers.  An estimate is taken when a request comes, and put right when its
    answer has ended."""

    streams: int = setting(0, _MOST)
    """Answers at once, whether they are streamed or not."""

    tokens_per_day: int = setting(0, _MOST)
    """Tokens in a day."""

    tokens_per_month: int = setting(0, _MOST)
    """Tokens in a month."""

    credits_per_day: float = setting(0.0, _MOST)
    """Credits in a day, as the service meters them; a client that has any left may begin another answer."""

    credits_per_month: float = setting(0.0, _MOST)
    """Credits in a month."""

    timezone: str = setting("UTC", Shape(_is_zone, "the name of a time zone, such as UTC or Europe/Berlin"))
    """Where days and months begin and end."""

    on_store_failure: str = setting("local", Choices(("local", "closed", "open")))
    """Handling of requests while the shared counters are unavailable: each process counts for itself (``local``), all
    are refused with 503 (``closed``), or all go on (``open``)."""

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return any(
            (
                self.requests_per_minute,
                self.tokens_per_minute,
                self.streams,
                self.tokens_per_day,
                self.tokens_per_month,
                self.credits_per_day,
                self.credits_per_month,
            )
        )
