"""Settings of clients' keys, and limits of clients and credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from math import ceil, inf
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import fields, frozen

from kiro_asgi.setting import UPSTREAM, Bounds, Choices, Shape, setting

MOST_COUNTED: Final = 2**53
"""The highest limit; beyond it floats do not have every whole number."""

_MOST: Final = Bounds(0, MOST_COUNTED)


def hash_of(key: bytes) -> str:
    """The hash of a key, as settings have it.

    Not a slow one, as for passwords: keys are random, and too many to try.
    """
    return f"sha256:{sha256(key).hexdigest()}"


_HASH: Final = Shape(
    re.compile(r"sha256:[0-9a-f]{64}").fullmatch, "sha256: and 64 hexadecimal digits, as kiro-asgi keys new prints it"
)


def _is_zone(text: str) -> bool:
    try:
        ZoneInfo(text)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return False
    return True


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


_MOMENT: Final = Shape(_is_moment, "a date and a time with its offset, such as 2026-12-31T00:00:00Z")


@frozen(kw_only=True)
class Allowance:
    """Limits; 0 is no limit."""

    requests_per_minute: int = setting(0, _MOST)
    """Requests for answers, and operations on conversations, in any minute."""

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

    cost_per_day: float = setting(0.0, _MOST)
    """Money in a day, in the currency of ``prices``.  As for tokens, an estimate is taken when a request comes.  A
    model that has no price is refused."""

    cost_per_month: float = setting(0.0, _MOST)
    """Money in a month."""

    @property
    def in_money(self) -> bool:
        """Whether any limit is one of money."""
        return bool(self.cost_per_day or self.cost_per_month)

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return any(getattr(self, it.name) for it in fields(Allowance))


@frozen(kw_only=True)
class QuotaSettings(Allowance):
    """Limits of each client, and how they are counted.

    A client is a key, or a user of the host.  Where ``state.engine`` is shared by several processes, so is what a
    client has taken.
    """

    timezone: str = setting("UTC", Shape(_is_zone, "the name of a time zone, such as UTC or Europe/Berlin"))
    """Where days and months begin and end."""

    on_store_failure: str = setting("local", Choices(("local", "closed", "open")))
    """Handling of requests while the shared counters are unavailable: each process counts for itself (``local``), all
    are refused with 503 (``closed``), or all go on (``open``)."""


@frozen(kw_only=True)
class KeySettings(Allowance):
    """A client's key, and limits of its own; where one is 0, that of ``quotas`` holds."""

    hash: str = setting("", _HASH, secret=True)
    """Hash of the key, which is kept nowhere: ``sha256:`` and its SHA-256 in hexadecimal digits."""

    models: tuple[str, ...] = ()
    """Models that it may ask for, each as ``upstream/model``; ``*`` stands for any text.  Empty: all.  They bind all
    that a request names: fallbacks and advisors, too."""

    upstreams: tuple[str, ...] = setting((), UPSTREAM)
    """Upstreams that it may ask, by the names of their tables.  Empty: all."""

    group: str = setting("", UPSTREAM)
    """The group that it belongs to, by the name of a table in ``groups``: each request takes from the limits of both.
    Empty: none."""

    expires: str = setting("", _MOMENT)
    """When it expires: a date and a time with its offset.  Empty: never.  From two weeks before on,
    the log says so, at the start and once a day when it is used."""

    disabled: bool = False
    """Refuse it; all else about it stays."""

    @property
    def expires_at(self) -> float:
        """When it expires, in seconds since the epoch."""
        return datetime.fromisoformat(self.expires).timestamp() if self.expires else inf

    @staticmethod
    def conflicts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Name and complaint for values that do not go together."""
        if not values.get("hash"):
            yield "hash", "must be set; kiro-asgi keys new NAME makes a key and its hash"


@frozen(kw_only=True)
class GroupSettings(Allowance):
    """Limits that several keys share: what one has taken, the others have not."""


@frozen(kw_only=True)
class CredentialSettings(Allowance):
    """Limits of the gateway's own credentials at a service."""

    credential: str = ""
    """The credential, as ``/ready``, the log and ``kiro-asgi doctor`` name it: the path of the setting that holds it
    (``custom.local.fallback_api_keys[0]``), or of its file.  ``*`` stands for any text: each that fits has these limits
    for itself.  Of several tables that fit, the first counts."""

    @staticmethod
    def conflicts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Name and complaint for values that do not go together."""
        if not values.get("credential"):
            yield "credential", "must name a credential by the path of its setting or file; * stands for any text"


SOON: Final = 14 * 86_400.0
"""Seconds before the end of a key in which its owner is reminded."""


def standing_of(key: KeySettings, now: float) -> str:
    """Whether *key* is good at the time *now*: ``active``, ``disabled``, ``expired``, or ``expires in … days``."""
    left = key.expires_at - now
    if key.disabled:
        return "disabled"
    if left <= 0:
        return "expired"
    return f"expires in {ceil(left / 86_400)} days" if left <= SOON else "active"
