"""Classify the service's refusals, whether they come as an HTTP status or as a frame in the middle of an answer.

One failure comes with different statuses: a spent quota as 400, 402, 403 or 429.  So the most specific fact
decides: first the ``reason``, then well-known words of the message, then the exception's name, and only then the
status.  There is a table for each.

Two refusals look temporary and must not be treated so.  A suspended account, and an account limited for "suspicious
activity" (a 429), become kinds of `UpstreamDenied`: its status, 403, is the one that client libraries do not try
again, and trying again is what turns the second into the first.

Source: https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html (operation error serialization)
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
    UpstreamFault,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamSuspicious,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
    UpstreamUnavailable,
)
from kiro_asgi.upstreams.errors import Class, Meaning, by_status, clean, fields_of, report_of, retry_after, worded
from kiro_asgi.upstreams.failures import names_failure
from kiro_asgi.wire.json import text_of

REASONS: Final[Mapping[str, Class]] = MappingProxyType(
    {
        "CONTENT_LENGTH_EXCEEDS_THRESHOLD": ContextTooLong,
        "PROMPT_TOO_LONG": ContextTooLong,
        "INVALID_MODEL_ID": UnknownModel,
        "MONTHLY_REQUEST_COUNT": UpstreamQuotaSpent,
        "DAILY_REQUEST_COUNT": UpstreamQuotaSpent,
        "OVERAGE_REQUEST_LIMIT_EXCEEDED": UpstreamQuotaSpent,
        "CONVERSATION_LIMIT_EXCEEDED": UpstreamQuotaSpent,
        "INSUFFICIENT_MODEL_CAPACITY": UpstreamOverloaded,
        "INSUFFICIENT_THROUGHPUT": UpstreamOverloaded,
        "MODEL_TEMPORARILY_UNAVAILABLE": UpstreamOverloaded,
        "USER_REQUEST_RATE_EXCEEDED": UpstreamRateExceeded,
        "SERVICE_REQUEST_RATE_EXCEEDED": UpstreamThrottled,
        "CREDIT_CONSUMPTION_RATE_EXCEEDED": UpstreamRateExceeded,
        "TEMPORARILY_SUSPENDED": UpstreamSuspended,
        "FEATURE_NOT_SUPPORTED": UpstreamDenied,
        "UNAUTHORIZED_CUSTOMIZATION_RESOURCE_ACCESS": UpstreamDenied,
        "UNAUTHORIZED_WORKSPACE_CONTEXT_FEATURE_ACCESS": UpstreamDenied,
        "DOCUMENT_COUNT_EXCEEDED": UpstreamRejected,
        "DOCUMENT_DUPLICATE_NAME": UpstreamRejected,
        "DOCUMENT_MAXIMUM_PAGES_EXCEEDED": UpstreamRejected,
        "DOCUMENT_MODEL_NOT_SUPPORTED": UpstreamRejected,
        "DOCUMENT_PASSWORD_PROTECTED": UpstreamRejected,
        "DOCUMENT_SIZE_EXCEEDED": UpstreamRejected,
        "IMAGE_COUNT_EXCEEDED": UpstreamRejected,
        "IMAGE_DIMENSION_EXCEEDED": UpstreamRejected,
        "IMAGE_FORMAT_UNSUPPORTED": UpstreamRejected,
        "IMAGE_MIME_MISMATCH": UpstreamRejected,
        "IMAGE_SIZE_EXCEEDED": UpstreamRejected,
        "INVALID_CONVERSATION_ID": UpstreamRejected,
        "INVALID_KMS_GRANT": UpstreamRejected,
        "REQUEST_BODY_INVALID": UpstreamRejected,
        "REQUEST_BODY_INVALID_JSON": UpstreamRejected,
        "THINKING_SIGNATURE_INVALID": UpstreamRejected,
        "TOOL_CONFIG_MISSING": UpstreamRejected,
        "TOOL_DUPLICATE": UpstreamRejected,
        "TOOL_SCHEMA_INVALID": UpstreamRejected,
        "TOOL_USE_RESULT_MISMATCH": UpstreamRejected,
        "CUSTOMER_KMS_KEY_DISABLED": UpstreamRejected,
        "CUSTOMER_KMS_KEY_INVALID_KEY_POLICY": UpstreamRejected,
        "MISMATCHED_KMS_KEY": UpstreamRejected,
        "INVALID_TASK_ASSIST_PLAN": UpstreamFault,
    }
)
"""``reason`` to its meaning; the reason becomes the error's code."""

PHRASES: Final[tuple[tuple[re.Pattern[str], Class, str], ...]] = (
    (re.compile(r"suspicious activity", re.I), UpstreamSuspicious, "suspicious_activity"),
    (re.compile(r"\bsuspended\b", re.I), UpstreamSuspended, "TEMPORARILY_SUSPENDED"),
    (re.compile(r"bearer token\b.{0,200}\b(?:invalid|expired)", re.I | re.S), UpstreamTokenInvalid, "token_invalid"),
    (re.compile(r"input is too long|prompt is too long", re.I), ContextTooLong, "context_too_long"),
    (re.compile(r"invalid model id", re.I), UnknownModel, "INVALID_MODEL_ID"),
    (re.compile(r"unexpectedly high load|high traffic|model.{0,20} load", re.I), UpstreamOverloaded, "high_load"),
    (re.compile(r"invalid signature in thinking", re.I), UpstreamRejected, "THINKING_SIGNATURE_INVALID"),
    (re.compile(r"profileArn is required", re.I), UpstreamRejected, "profile_required"),
    (re.compile(r"improperly formed request", re.I), UpstreamRejected, "improperly_formed"),
)
"""Phrases of a message that are more specific than its exception's name; class and code of the error that they mean."""

NAMES: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "Throttling": (UpstreamThrottled, "throttled"),
        "TooManyRequests": (UpstreamThrottled, "throttled"),
        "ServiceQuotaExceeded": (UpstreamQuotaSpent, "quota_spent"),
        "AccessDenied": (UpstreamDenied, "access_denied"),
        "ExpiredToken": (UpstreamTokenInvalid, "token_invalid"),
        "InvalidToken": (UpstreamTokenInvalid, "token_invalid"),
        "UnrecognizedClient": (UpstreamTokenInvalid, "token_invalid"),
        "Validation": (UpstreamRejected, "validation"),
        "Serialization": (UpstreamRejected, "validation"),
        "ResourceNotFound": (UpstreamRejected, "not_found"),
        "UnknownOperation": (UpstreamRejected, "unknown_operation"),
        "Conflict": (UpstreamRejected, "conflict"),
        "ContentLengthExceeded": (ContextTooLong, "context_too_long"),
        "InternalServer": (UpstreamFault, "internal"),
        "InternalFailure": (UpstreamFault, "internal"),
        "error": (UpstreamFault, "internal"),
        "ServiceUnavailable": (UpstreamUnavailable, "unavailable"),
        "InvalidState": (UpstreamFault, "invalid_state"),
        "DryRunOperation": (UpstreamProtocolError, "dry_run"),
        "MissingAuthenticationToken": (UpstreamTokenInvalid, "token_invalid"),
        "RequestTimeout": (UpstreamTimeout, "timeout"),
        "ModelTimeout": (UpstreamTimeout, "timeout"),
    }
)
"""Exception without its ``Exception`` or ``Error`` ending to its meaning, and the code where no reason is given."""

_BY_NAME: Final[Mapping[str, Meaning]] = MappingProxyType({name.lower(): meaning for name, meaning in NAMES.items()})
"""The same by `plain_name`."""

STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        401: (UpstreamTokenInvalid, "token_invalid"),
        402: (UpstreamQuotaSpent, "quota_spent"),
        403: (UpstreamDenied, "access_denied"),
        404: (UpstreamRejected, "not_found"),
        408: (UpstreamTimeout, "timeout"),
        413: (ContextTooLong, "context_too_long"),
        423: (UpstreamSuspended, "TEMPORARILY_SUSPENDED"),
        429: (UpstreamThrottled, "throttled"),
        503: (UpstreamUnavailable, "unavailable"),
        504: (UpstreamTimeout, "timeout"),
    }
)
"""Status to the error, where nothing else is known."""


def fault(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
    """The error that an answer with a *status* other than 200 means.

    Its message is the service's own, redacted and cut, with the status behind it.
    """
    fields = fields_of(headers)
    report = report_of(body)
    names = (fields.get("x-amzn-errortype", ""), *_names_in(report))
    message = _message(report) or clean(body.decode("utf-8", "replace")) or "no explanation"
    return _classify(report, names, by_status(status, STATUSES), f"{message} (HTTP {status})", retry_after(fields))


def exception_fault(name: str, report: Mapping[str, Any]) -> KiroAsgiError:
    """The error that an exception in the middle of an answer means; *report* is its payload."""
    message = _message(report) or f"the answer ended with {clean(name) or 'an unnamed exception'}"
    return _classify(report, (name, *_names_in(report)), (UpstreamFault, "internal"), message, None)


def _names_in(report: Mapping[str, Any]) -> tuple[str, str]:
    """The name of the exception that *report* is, wherever it stands; empty where it does not."""
    return text_of(report, "code"), text_of(report, "__type")


def is_exception(name: str) -> bool:
    """Whether *name* is that of an exception: they are members of the same union as the events of an answer."""
    return names_failure(name)


def is_report(body: bytes) -> bool:
    """Whether a JSON body reports an error."""
    report = report_of(body)
    if any(plain_name(name) in _BY_NAME for name in _names_in(report)):
        return True
    return bool(_message(report) and ("reason" in report or "code" in report or "__type" in report))


def _classify(
    report: Mapping[str, Any], names: Iterable[str], otherwise: Meaning, message: str, retry_after: float | None
) -> KiroAsgiError:
    reason = _NOT_WORD.sub("", text_of(report, "reason"))[:64]
    phrase = next(((error, code) for words, error, code in PHRASES if words.search(message)), None)
    if reason.upper() in REASONS:
        error, code = REASONS[reason.upper()], reason.upper()
    elif phrase:
        error, code = phrase
    else:
        error, code = next((_BY_NAME[bare] for bare in map(plain_name, names) if bare in _BY_NAME), otherwise)
        code = reason or code
    return error(worded(error, message), code=code, retry_after=retry_after)


def plain_name(name: str) -> str:
    """An exception's bare name in small letters: ``com.amazon.api#ThrottlingException:http://…`` is ``throttling``.

    A name is spelled in capitals in a header, and with a small first letter as the member of a stream's union.
    """
    bare = _NOT_LETTER.sub("", name.partition(":")[0].rpartition("#")[2].rpartition(".")[2].lower())
    return bare.removesuffix("exception").removesuffix("error") or bare


def _message(report: Mapping[str, Any]) -> str:
    return clean(text_of(report, "message") or text_of(report, "Message") or text_of(report, "errorMessage"))


_NOT_WORD: Final = re.compile(r"[^\w.-]", re.ASCII)
_NOT_LETTER: Final = re.compile(r"[^a-z]")
