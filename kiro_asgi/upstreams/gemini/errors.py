"""Errors of the service, whether they come as an HTTP status or in the middle of an answer.

A report is an object with an ``error``; without server-sent events, it is the one element of an array.  The most
specific fact decides: the ``reason`` of a detail, then well-known words of the message, then the ``status``, and only
then the HTTP status.

Source: https://ai.google.dev/gemini-api/docs/troubleshooting and https://google.aip.dev/193
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    UnknownModel,
    UpstreamDenied,
    UpstreamFault,
    UpstreamModelQuotaSpent,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
)
from kiro_asgi.upstreams.errors import MAX_RETRY_AFTER, Class, Meaning, by_status, clean, fields_of, retry_after, worded
from kiro_asgi.wire.json import JsonError, loads, object_of, objects_of, text_of

SIGNATURE: Final = "thought_signature"
"""Code of an error about a signature, or a missing one."""

SCHEMA: Final = "response_json_schema"
"""Code of an error about the JSON Schema for the answer."""

SCHEMA_UNKNOWN: Final = "response_json_schema_unknown"
"""The same where the service has no field for one."""

REASONS: Final[Mapping[str, Class]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "ACCESS_TOKEN_EXPIRED",
                "ACCESS_TOKEN_TYPE_UNSUPPORTED",
                "ACCOUNT_STATE_INVALID",
                "API_KEY_ANDROID_APP_BLOCKED",
                "API_KEY_HTTP_REFERRER_BLOCKED",
                "API_KEY_INVALID",
                "API_KEY_IOS_APP_BLOCKED",
                "API_KEY_IP_ADDRESS_BLOCKED",
                "API_KEY_SERVICE_BLOCKED",
                "CREDENTIALS_MISSING",
            ),
            UpstreamTokenInvalid,
        ),
        "CONSUMER_SUSPENDED": UpstreamSuspended,
        "BILLING_DISABLED": UpstreamDenied,
        "CONSUMER_INVALID": UpstreamDenied,
        "SERVICE_DISABLED": UpstreamDenied,
        "RATE_LIMIT_EXCEEDED": UpstreamRateExceeded,
        "MODEL_CAPACITY_EXHAUSTED": UpstreamOverloaded,
    }
)
"""``reason`` of an ``ErrorInfo`` to its meaning; the reason becomes the error's code.  A bad key comes as a 400.

Source: https://cloud.google.com/service-infrastructure/docs/service-management/reference/rpc/google.api#errorreason
"""

PHRASES: Final[tuple[tuple[re.Pattern[str], Class, str], ...]] = (
    (re.compile(r"api key (?:not valid|expired)|reported as leaked", re.I), UpstreamTokenInvalid, "API_KEY_INVALID"),
    (re.compile(r"has been suspended", re.I), UpstreamSuspended, "CONSUMER_SUSPENDED"),
    (re.compile(r"thought[ _]?signature", re.I), UpstreamRejected, SIGNATURE),
    (re.compile(r"unknown name \W?response_?json_?schema", re.I), UpstreamRejected, SCHEMA_UNKNOWN),
    (re.compile(r"response_?json_?schema", re.I), UpstreamRejected, SCHEMA),
    (
        re.compile(
            r"token count.{0,40}exceeds|payload size exceeds|exceeds the maximum number of tokens"
            r"|context window ?exceeded",
            re.I,
        ),
        ContextTooLong,
        "context_too_long",
    ),
    (re.compile(r"user location is not supported", re.I), UpstreamDenied, "location"),
    (re.compile(r"models?/\S{0,200} is not found|invalid model name", re.I), UnknownModel, "not_found"),
    (re.compile(r"credits are depleted|credit balance", re.I), UpstreamQuotaSpent, "quota_spent"),
    (re.compile(r"model is overloaded|high demand", re.I), UpstreamOverloaded, "overloaded"),
)
"""Phrases of a message that are more specific than its status; class and code of the error that they mean."""

WORDS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "INVALID_ARGUMENT": (UpstreamRejected, "INVALID_ARGUMENT"),
        "FAILED_PRECONDITION": (UpstreamRejected, "FAILED_PRECONDITION"),
        "OUT_OF_RANGE": (UpstreamRejected, "OUT_OF_RANGE"),
        "UNAUTHENTICATED": (UpstreamTokenInvalid, "UNAUTHENTICATED"),
        "PERMISSION_DENIED": (UpstreamDenied, "PERMISSION_DENIED"),
        "NOT_FOUND": (UpstreamRejected, "not_found"),
        "RESOURCE_EXHAUSTED": (UpstreamThrottled, "RESOURCE_EXHAUSTED"),
        "CANCELLED": (UpstreamTimeout, "CANCELLED"),
        "DEADLINE_EXCEEDED": (UpstreamTimeout, "DEADLINE_EXCEEDED"),
        "UNAVAILABLE": (UpstreamOverloaded, "UNAVAILABLE"),
        "UNIMPLEMENTED": (UpstreamRejected, "UNIMPLEMENTED"),
        "ABORTED": (UpstreamFault, "ABORTED"),
        "DATA_LOSS": (UpstreamFault, "DATA_LOSS"),
        "INTERNAL": (UpstreamFault, "INTERNAL"),
        "UNKNOWN": (UpstreamFault, "UNKNOWN"),
    }
)
"""``status`` to its meaning."""

STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        401: (UpstreamTokenInvalid, "UNAUTHENTICATED"),
        403: (UpstreamDenied, "PERMISSION_DENIED"),
        404: (UpstreamRejected, "not_found"),
        408: (UpstreamTimeout, "timeout"),
        413: (ContextTooLong, "context_too_long"),
        429: (UpstreamThrottled, "RESOURCE_EXHAUSTED"),
        499: (UpstreamTimeout, "CANCELLED"),
        503: (UpstreamOverloaded, "UNAVAILABLE"),
        504: (UpstreamTimeout, "DEADLINE_EXCEEDED"),
        529: (UpstreamOverloaded, "UNAVAILABLE"),
    }
)
"""HTTP status to its error, where nothing else is known."""


def fault(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
    """The error that an answer with a *status* other than 200 means.

    Its message is the service's own, redacted and cut, with the status behind it.
    """
    report = _report(body)
    text = "" if report else clean(body.decode("utf-8", "replace"))
    return _classify(report, status, f" (HTTP {status})", text, retry_after(fields_of(headers)))


def report_fault(status: int, report: Mapping[str, Any]) -> KiroAsgiError:
    """The error that a *report* in the middle of an answer means; *status* is the HTTP status that it stands for."""
    return _classify(report, status, "", "", None)


def _report(body: bytes) -> Mapping[str, Any]:
    try:
        value = loads(body)
    except JsonError:
        return {}
    if type(value) is list and value:
        value = value[0]
    return value if type(value) is dict and type(value.get("error")) is dict else {}


def _classify(report: Mapping[str, Any], status: int, ending: str, otherwise: str, wait: float | None) -> KiroAsgiError:
    fields = object_of(report.get("error"))
    details = objects_of(fields.get("details"))
    message = clean(text_of(fields, "message")) or otherwise or "no explanation"
    error, code = _kind(status, text_of(fields, "status"), message, [text_of(detail, "reason") for detail in details])
    if issubclass(error, UpstreamThrottled):
        error, code = _quota(details, error, code, message)
    wait = None if issubclass(error, UpstreamQuotaSpent) else wait if wait is not None else _delay(details)
    return error(f"{worded(error, message)}{ending}", code=code, retry_after=wait)


def _kind(status: int, word: str, message: str, reasons: list[str]) -> Meaning:
    for reason in reasons:
        if reason in REASONS:
            return REASONS[reason], reason
    for words, error, code in PHRASES:
        if words.search(message):
            return error, code
    return WORDS.get(word) or by_status(status, STATUSES)


def _quota(details: list[Mapping[str, Any]], error: Class, code: str, message: str) -> Meaning:
    """Classify a quota: one of a day, or of 0, is not waited for; some are one model's alone."""
    violations = [violation for detail in details for violation in objects_of(detail.get("violations"))]
    quotas = [text_of(violation, "quotaId") for violation in violations]
    spent = [quota for quota in quotas if "PerDay" in quota]
    if any("PerModel" not in quota for quota in spent):
        return UpstreamQuotaSpent, "quota_spent"
    if spent or any(each.get("quotaValue") == "0" for each in violations) or _ZERO.search(message):
        return UpstreamModelQuotaSpent, "model_quota_spent"
    if quotas or _PER_MINUTE.search(message):
        return UpstreamRateExceeded, "rate_exceeded"
    return error, code


def _delay(details: list[Mapping[str, Any]]) -> float | None:
    """Seconds to wait, from the details: ``RetryInfo`` takes precedence over the metadata of ``ErrorInfo``."""
    found = [seconds(value) for value in _durations(details)]
    return next((min(delay, MAX_RETRY_AFTER) for delay in found if delay is not None), None)


def _durations(details: list[Mapping[str, Any]]) -> Iterator[Any]:
    yield from (detail.get("retryDelay") for detail in details)
    yield from (object_of(detail.get("metadata")).get("quotaResetDelay") for detail in details)


def seconds(duration: Any) -> float | None:
    """A duration as the service writes it: ``1.2s``, ``200ms``, ``1h16m0.667s``, ``{"seconds": 1, "nanos": 5}``."""
    if type(duration) is dict:
        whole, nanos = duration.get("seconds", 0), duration.get("nanos", 0)
        whole = int(whole) if type(whole) is str and _WHOLE.fullmatch(whole) else whole
        fits = all(type(part) is int and 0 <= part < 10**12 for part in (whole, nanos))
        return whole + nanos / 1e9 if fits else None
    if type(duration) is not str or not _DURATION.fullmatch(duration):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PIECE.findall(duration))


_WHOLE: Final = re.compile(r"[0-9]{1,12}")
_DURATION: Final = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,12})?(?:ms|us|ns|[hms]))+")
_PIECE: Final = re.compile(r"(?<![0-9.])([0-9.]++)(ms|us|ns|[hms])")
_UNITS: Final[Mapping[str, float]] = MappingProxyType(
    {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
)
_ZERO: Final = re.compile(r"\blimit: 0\b(?!\.)")
_PER_MINUTE: Final = re.compile(r"per[ _]?minute|rate limit|quota exceeded for", re.I)
