"""Errors of services, whether they come as an HTTP status or in the middle of an answer.

Servers that speak this API agree on the place of an error's message at best.  So the most specific fact decides: first
the error's ``code``, then well-known words of its message, then its ``type``, and only then the status.

Source: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    UnknownModel,
    UpstreamDenied,
    UpstreamError,
    UpstreamFault,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamRequestTooCostly,
    UpstreamSuspended,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
)
from kiro_asgi.upstreams.errors import (
    MAX_RETRY_AFTER,
    Class,
    Meaning,
    blames_member,
    by_status,
    clean,
    date_of,
    fields_of,
    report_of,
    retry_after,
    status_of,
    worded,
)
from kiro_asgi.upstreams.failures import kind_of
from kiro_asgi.wire.json import count_of, text_of

CODES: Final[Mapping[str, Class]] = MappingProxyType(
    {
        "invalid_api_key": UpstreamTokenInvalid,
        "account_deactivated": UpstreamSuspended,
        "unsupported_country_region_territory": UpstreamDenied,
        "insufficient_quota": UpstreamQuotaSpent,
        "billing_hard_limit_reached": UpstreamQuotaSpent,
        "billing_not_active": UpstreamQuotaSpent,
        "credit_balance_exhausted": UpstreamQuotaSpent,
        "organization_spend_limit_exceeded": UpstreamQuotaSpent,
        "organization_usage_limit_exceeded": UpstreamQuotaSpent,
        "project_spend_limit_exceeded": UpstreamQuotaSpent,
        "usage_limit_reached": UpstreamQuotaSpent,
        "usage_not_included": UpstreamQuotaSpent,
        "rate_limit_exceeded": UpstreamThrottled,
        "slow_down": UpstreamThrottled,
        "server_is_overloaded": UpstreamOverloaded,
        "context_length_exceeded": ContextTooLong,
        "model_not_found": UnknownModel,
        "model_permission_blocked_org": UnknownModel,
        "model_permission_blocked_project": UnknownModel,
        "content_filter": UpstreamRejected,
        "content_policy_violation": UpstreamRejected,
        "invalid_prompt": UpstreamRejected,
        "bio_policy": UpstreamRejected,
        "misalignment_policy_violation": UpstreamRejected,
        "data_residency_mismatch": UpstreamRejected,
        "invalid_encrypted_content": UpstreamRejected,
        "unsupported_parameter": UpstreamRejected,
        "unsupported_value": UpstreamRejected,
        "server_error": UpstreamFault,
        "vector_store_timeout": UpstreamFault,
    }
)
"""``code`` to its meaning; the code becomes the error's."""

PHRASES: Final[tuple[tuple[re.Pattern[str], Class, str], ...]] = (
    (
        re.compile(
            r"maximum context length|context (?:length|window) exceeded|exceeds? the (?:available |model's )?context"
            r"|prompt is too long|input is too long|longer than the (?:model's )?context",
            re.I,
        ),
        ContextTooLong,
        "context_length_exceeded",
    ),
    (re.compile(r"\bfewer max_tokens\b|\bcan only afford \d|\bprompt tokens limit exceeded\b", re.I),
     UpstreamRequestTooCostly, "request_too_costly"),
    (re.compile(r"\brequires moderation\b", re.I), UpstreamRejected, "content_policy_violation"),
    (re.compile(
        r"exceeded your current quota|insufficient (?:balance|credits|quota|funds)|credit balance is too low", re.I
     ), UpstreamQuotaSpent, "insufficient_quota"),
    (re.compile(r"(?:incorrect|invalid) api key", re.I), UpstreamTokenInvalid, "invalid_api_key"),
    (re.compile(r"\bmodel\b.{0,200}\b(?:not found|does not exist)|invalid model name", re.I), UnknownModel,
     "model_not_found"),
    (re.compile(r"\boverloaded\b", re.I), UpstreamOverloaded, "overloaded"),
    (re.compile(r"unexpected keyword argument", re.I), UpstreamRejected, "unsupported_parameter"),
)  # fmt: skip
"""Phrases of a message that are more specific than its type; class, and code where none is given."""

TYPES: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "authentication_error": (UpstreamTokenInvalid, "invalid_api_key"),
        "permission_error": (UpstreamDenied, "access_denied"),
        "insufficient_quota": (UpstreamQuotaSpent, "insufficient_quota"),
        "usage_limit_reached": (UpstreamQuotaSpent, "usage_limit_reached"),
        "usage_not_included": (UpstreamQuotaSpent, "usage_not_included"),
        "requests": (UpstreamThrottled, "rate_limit_exceeded"),
        "tokens": (UpstreamThrottled, "rate_limit_exceeded"),
        "rate_limit_error": (UpstreamThrottled, "rate_limit_exceeded"),
        "overloaded_error": (UpstreamOverloaded, "overloaded"),
        "exceed_context_size_error": (ContextTooLong, "context_length_exceeded"),
        "server_error": (UpstreamFault, "internal"),
    }
)
"""``type`` to its meaning, and the code where none is given."""

SIZES: Final[Mapping[int, Meaning]] = MappingProxyType({413: (ContextTooLong, "context_length_exceeded")})
"""Statuses that mean more than any code: Groq sends 413 with the code of a rate limit for a request of more tokens than
it may have in a minute, and that is never answered, however often it is repeated."""

STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        401: (UpstreamTokenInvalid, "invalid_api_key"),
        402: (UpstreamQuotaSpent, "insufficient_quota"),
        403: (UpstreamDenied, "access_denied"),
        404: (UpstreamRejected, "not_found"),
        408: (UpstreamTimeout, "timeout"),
        429: (UpstreamThrottled, "rate_limit_exceeded"),
        503: (UpstreamOverloaded, "overloaded"),
        504: (UpstreamTimeout, "timeout"),
        529: (UpstreamOverloaded, "overloaded"),
    }
)
"""Status to its error, where nothing else is known."""


def fault(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
    """The error that an answer with a *status* other than 200 means.

    Its message is the service's own, redacted and cut, with the status behind it.
    """
    fields = fields_of(headers)
    report = _error_of(report_of(body))
    text = _message(report) or clean(body.decode("utf-8", "replace")) or "no explanation"
    error = _classify(report, status, f"{text} (HTTP {status})")
    error.retry_after = retry_after(fields)
    if isinstance(error, UpstreamThrottled) and error.retry_after is None:
        error.retry_after = _reset(fields, error.message)
    if isinstance(error, UpstreamQuotaSpent):
        error.retry_after = _renewal(fields, report) or error.retry_after
    return error


def stream_fault(value: Mapping[str, Any]) -> KiroAsgiError:
    """The error that an object in the place of a chunk, or of a whole answer, reports."""
    report = _error_of(value)
    text = _message(report) or "the answer ended with an error"
    status = status_of(report)
    kind = kind_of(text_of(report, "code"), text_of(report, "type")) if status == 500 else None
    found = _classify(report, status, text, kind)
    # A server that reports everything with the status of a success says by its words what it refuses.
    is_refused = type(found) in (UpstreamFault, UpstreamError) and found.code not in CODES and blames_member(found)
    return UpstreamRejected(found.message, code=found.code) if is_refused else found


def _error_of(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The report of an error: ``error``, an object or a text, or the report itself."""
    error = report.get("error")
    if type(error) is dict:
        return error
    return {**report, "message": error} if type(error) is str else report


def _message(report: Mapping[str, Any]) -> str:
    """The message of a report; for a list of errors (FastAPI's 422) the message of each, with its place."""
    detail = report.get("detail")
    if type(detail) is list:
        text = "; ".join(filter(None, map(_complaint, detail)))
    else:
        text = text_of(report, "message") or text_of(report, "detail") or text_of(report, "msg")
    param = text_of(report, "param")
    return clean(f"{param}: {text}" if text and param not in text else text)


def _complaint(entry: Any) -> str:
    if type(entry) is not dict:
        return ""
    place = entry.get("loc")
    named = ".".join(map(str, place)) if type(place) is list else ""
    return f"{named}: {text_of(entry, 'msg')}"


def _classify(
    report: Mapping[str, Any], status: int, message: str, otherwise: type[KiroAsgiError] | None = None
) -> KiroAsgiError:
    code, kind = _NOT_WORD.sub("", text_of(report, "code"))[:64], text_of(report, "type")
    if code.isdecimal():  # a status
        code = ""
    phrase = next(((error, word) for words, error, word in PHRASES if words.search(message)), None)
    error, word = CODES.get(code), code
    if status in SIZES:
        error, word = SIZES[status]
    elif error is None:
        error, word = phrase or TYPES.get(kind) or by_status(status, STATUSES)
        error = otherwise if otherwise is not None and phrase is None and kind not in TYPES else error
        word = code or word
    return error(worded(error, message), code=word)


_NOT_WORD: Final = re.compile(r"[^\w.-]", re.ASCII)


# When to ask again.


def _reset(fields: Mapping[str, str], message: str) -> float | None:
    """Seconds until a spent limit is reset, by the headers, else by the message."""
    milliseconds = fields.get("retry-after-ms", "")
    if _MILLISECONDS.fullmatch(milliseconds):
        return min(float(milliseconds) / 1_000, MAX_RETRY_AFTER)
    waits = [
        _duration(fields.get(f"x-ratelimit-reset-{kind}", ""))
        for kind in ("requests", "tokens")
        if fields.get(f"x-ratelimit-remaining-{kind}", "0").strip() == "0"
    ]
    advice = _TRY_AGAIN.search(message)
    longest = max(waits, default=0.0) or _duration(advice[1] if advice else "")
    return min(longest, MAX_RETRY_AFTER) or None


def _renewal(fields: Mapping[str, str], report: Mapping[str, Any]) -> float | None:
    """Seconds until there is a new quota, as Codex's service names them; ``None`` where it does not.

    A date in the report is compared with the answer's own.

    Source: https://github.com/openai/codex, ``codex-rs/codex-api/src/api_bridge.rs`` and ``rate_limits.rs``
    """
    now = date_of(fields.get("date", ""))
    resets_at = count_of(report, "resets_at")
    waits = [count_of(report, "resets_in_seconds")]
    waits.append(None if now is None or resets_at is None else round(resets_at - now.timestamp()))
    for limit in ("primary", "secondary"):
        if _PERCENT.fullmatch(fields.get(f"x-codex-{limit}-used-percent", "")):
            seconds = fields.get(f"x-codex-{limit}-reset-after-seconds", "")
            waits.append(int(seconds) if _SECONDS.fullmatch(seconds) else None)
    return next((float(min(wait, MAX_RENEWAL)) for wait in waits if wait is not None and wait > 0), None)


MAX_RENEWAL: Final = 31 * 86_400
"""Seconds; a quota whose end is further away is asked about again sooner."""

_PERCENT: Final = re.compile(r"[0-9]{3,6}(?:\.[0-9]{1,6})?")
"""100 or more."""

_SECONDS: Final = re.compile(r"[0-9]{1,12}")


def _duration(text: str) -> float:
    """Seconds of e.g. ``6m0s`` or ``20ms``; 0 where it is not a duration."""
    if not _DURATION.fullmatch(text):
        return 0.0
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


_UNITS: Final[Mapping[str, float]] = MappingProxyType({"d": 86_400, "h": 3_600, "m": 60, "s": 1, "ms": 0.001})
_MILLISECONDS: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")
_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|[dhms])")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+")
_TRY_AGAIN: Final = re.compile(r"try again in ((?:[0-9.]+(?:ms|[dhms]))+)", re.I)
