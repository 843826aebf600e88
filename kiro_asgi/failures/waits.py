"""How long a service asks to be left alone: in headers, in members of its report, and in words.

Sources: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3, https://platform.openai.com/docs/guides/rate-limits,
https://google.aip.dev/193, and Codex's ``codex-rs/codex-api/src/rate_limits.rs``
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.wire.json import count_of, object_of, objects_of

MAX_RETRY_AFTER: Final = 3600.0
"""Seconds; a service that asks for more gets this."""

MAX_RENEWAL: Final = 31 * 86_400.0
"""Seconds; a quota whose end is further away is asked about again sooner."""

_LOOKED_AT: Final = 2_000
"""Characters of a message that are searched."""

_UNITS: Final[Mapping[str, float]] = MappingProxyType(
    {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
)
_SPELLED: Final[Mapping[str, str]] = MappingProxyType(
    {"day": "d", "hour": "h", "hr": "h", "minute": "m", "min": "m", "second": "s", "sec": "s", "millisecond": "ms"}
)
_NUMBER: Final = r"[0-9]{1,9}(?:\.[0-9]{1,12})?"
_PART: Final = re.compile(
    rf"({_NUMBER})[ ]?(milliseconds?|ms|us|ns|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])", re.I
)
_COMPACT: Final = re.compile(rf"(?:{_NUMBER}(?:ms|us|ns|[dhms]))+")
_COMPACT_PART: Final = re.compile(rf"({_NUMBER})(ms|us|ns|[dhms])")
_WHOLE: Final = re.compile(r"[0-9]{1,12}")
_SECONDS: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_PERCENT: Final = re.compile(r"[0-9]{3,6}(?:\.[0-9]{1,6})?")
"""100 or more."""

_LATER: Final = re.compile(
    r"\b(?:retry|try|again|wait(?:ing)?|reset(?:s|ting)?|renew(?:s|al)?|available|expires?)\b[^.;]{0,40}?"
    r"\b(?:in|after|for|within|until)[ ](?:about[ ])?(?=[0-9])",
    re.I,
)
"""Words behind which a duration stands."""

_AT: Final = re.compile(
    r"\b(?:reset|renew|regain access|available|again|until|after)\w*\b[^0-9]{0,30}"
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T|[ ](?:at[ ])?)?([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?",
    re.I,
)
"""Words behind which a moment stands."""


def fields_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name in lower case; of several of one name, the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


def retry_after(fields: Mapping[str, str]) -> float | None:
    """Seconds by ``retry-after``; ``None`` where it says nothing.

    A date is compared with the answer's own, so no clock is asked, ours or a wrong one.
    """
    value = fields.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_RETRY_AFTER)
    then, now = date_of(value), date_of(fields.get("date", ""))
    if then is None or now is None:
        return None
    return min(max((then - now).total_seconds(), 0.0), MAX_RETRY_AFTER)


def date_of(value: str) -> datetime | None:
    """The moment that a header names; ``None`` where it names none."""
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def seconds(duration: Any) -> float | None:
    """Seconds of ``1.2s``, ``200ms``, ``1h16m0.667s`` or ``{"seconds": 1, "nanos": 5}``; ``None`` for anything else."""
    if type(duration) is dict:
        whole, nanos = duration.get("seconds", 0), duration.get("nanos", 0)
        whole = int(whole) if type(whole) is str and _WHOLE.fullmatch(whole) else whole
        fits = all(type(part) is int and 0 <= part < 10**12 for part in (whole, nanos))
        return whole + nanos / 1e9 if fits else None
    if type(duration) is not str or len(duration) > 100 or not _COMPACT.fullmatch(duration):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _COMPACT_PART.findall(duration))


def wait_in(fields: Mapping[str, str], report: Mapping[str, Any], message: str) -> float | None:
    """Seconds until the service may be asked again; ``None`` where it does not say.

    What is made for it comes first: ``retry-after``, then details of the report, then headers about limits that are
    used up, and then words.

    Args:
        fields: Headers by name in lower case.
        report: The object that reports the error.
        message: In words.
    """
    found = retry_after(fields)
    if found is None:
        details = next((wait for wait in _in_details(report) if wait is not None), None)
        found = details if details is not None else _in_headers(fields) or _in_words(message, fields)
    return None if found is None else min(found, MAX_RETRY_AFTER)


def renewal_in(fields: Mapping[str, str], report: Mapping[str, Any], message: str) -> float | None:
    """Seconds until there is a new quota; ``None`` where the service does not say.

    A date in the report is compared with the answer's own.
    """
    now, resets_at = date_of(fields.get("date", "")), count_of(report, "resets_at")
    waits: list[float | None] = [count_of(report, "resets_in_seconds")]
    waits.append(None if now is None or resets_at is None else resets_at - now.timestamp())
    for limit in ("primary", "secondary"):
        if _PERCENT.fullmatch(fields.get(f"x-codex-{limit}-used-percent", "")):
            value = fields.get(f"x-codex-{limit}-reset-after-seconds", "")
            waits.append(int(value) if _WHOLE.fullmatch(value) else None)
    waits += (_in_words(message, fields), retry_after(fields))
    return next((min(float(round(wait)), MAX_RENEWAL) for wait in waits if wait is not None and wait > 0), None)


def _in_details(report: Mapping[str, Any]) -> Iterator[float | None]:
    details = objects_of(report.get("details"))
    yield from (seconds(detail.get("retryDelay")) for detail in details)
    yield from (seconds(object_of(detail.get("metadata")).get("quotaResetDelay")) for detail in details)
    for name in ("retry_after", "retry_after_seconds", "retryAfterSeconds", "retry_after_s"):
        value = report.get(name)
        if isinstance(value, int | float) and 0 <= value < 10**9:
            yield float(value)


def _in_headers(fields: Mapping[str, str]) -> float | None:
    """By headers about limits, of those that are used up."""
    milliseconds = fields.get("retry-after-ms", "")
    if _SECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1_000
    waits = [
        seconds(fields.get(f"x-ratelimit-reset-{kind}", "")) or 0.0
        for kind in ("requests", "tokens")
        if fields.get(f"x-ratelimit-remaining-{kind}", "0").strip() == "0"
    ]
    return max(waits, default=0.0) or None


def _in_words(message: str, fields: Mapping[str, str]) -> float | None:
    text = message[:_LOOKED_AT]
    if (found := _LATER.search(text)) is not None:
        total, at = 0.0, found.end()
        while (part := _PART.match(text, at)) is not None:
            unit = part[2].lower()
            total += float(part[1]) * _UNITS[unit if unit in _UNITS else _SPELLED[unit.removesuffix("s")]]
            at = part.end()
            while text[at : at + 1] in (" ", ","):
                at += 1
            at += 4 if text.startswith("and ", at) else 0
        if total:
            return total
    now, when = date_of(fields.get("date", "")), _AT.search(text)
    if when is None or now is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{when[1]}T{when[2] or '00:00'}").replace(tzinfo=UTC)
    except ValueError:
        return None
    wait = (moment - now).total_seconds()
    return wait if wait > 0 else None
