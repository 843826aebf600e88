"""Errors of the service, whether they come as an HTTP status or as an event in the middle of an answer.

The most specific fact decides: first well-known words of the message, then ``error.type``, and only then the status.

Source: https://docs.anthropic.com/en/api/errors
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
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
    UpstreamUnavailable,
)
from kiro_asgi.upstreams.errors import (
    Class,
    Meaning,
    by_status,
    clean,
    fields_of,
    report_of,
    retry_after,
    status_of,
    worded,
)
from kiro_asgi.upstreams.failures import kind_of
from kiro_asgi.wire.json import object_of, text_of

SIGNATURE: Final = "thinking_signature_invalid"
"""Code of the refusal of earlier thinking."""

FORM: Final = "output_schema_refused"
"""Code of the refusal of a schema for the answer."""

FORM_UNKNOWN: Final = "output_format_unknown"
"""Code of the refusal of every schema: the model, or the server, knows none."""

PHRASES: Final[tuple[tuple[re.Pattern[str], Class, str], ...]] = (
    (
        re.compile(r"prompt is too long|exceed context limit|context window ?exceeded", re.I),
        ContextTooLong,
        "context_too_long",
    ),
    (re.compile(r"credit balance is too low|exceeded your current quota", re.I), UpstreamQuotaSpent, "quota_spent"),
    (re.compile(r"usage limits?\b.{0,80}\bregain access", re.I | re.S), UpstreamQuotaSpent, "quota_spent"),
    (re.compile(r"\boverloaded", re.I), UpstreamOverloaded, "overloaded"),
    (
        re.compile(
            r"output_(?:config(?:\.format)?|format): extra inputs|not support (?:output.format|structured.output)"
            r"|structured outputs? (?:is|are) not (?:supported|available)",
            re.I,
        ),
        UpstreamRejected,
        FORM_UNKNOWN,
    ),
    (
        re.compile(r"output_(?:config\.)?format\b|schema is too complex|compiled grammar is too large", re.I),
        UpstreamRejected,
        FORM,
    ),
    (re.compile(r"invalid model name", re.I), UnknownModel, "model_not_found"),
    (
        re.compile(
            r"(signature|data).{0,20} in .{0,3}(redacted_)?thinking|thinking. blocks.{0,80}cannot be modified",
            re.I | re.S,
        ),
        UpstreamRejected,
        SIGNATURE,
    ),
)
"""Phrases of a message that are more specific than its type; class and code of the error that they mean."""

TYPES: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "invalid_request_error": (UpstreamRejected, "validation"),
        "authentication_error": (UpstreamTokenInvalid, "token_invalid"),
        "billing_error": (UpstreamQuotaSpent, "quota_spent"),
        "permission_error": (UpstreamDenied, "access_denied"),
        "not_found_error": (UpstreamRejected, "not_found"),
        "request_too_large": (ContextTooLong, "request_too_large"),
        "rate_limit_error": (UpstreamThrottled, "throttled"),
        "timeout_error": (UpstreamTimeout, "timeout"),
        "api_error": (UpstreamFault, "internal"),
        "overloaded_error": (UpstreamOverloaded, "overloaded"),
    }
)
"""``error.type`` to its meaning."""

STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        401: TYPES["authentication_error"],
        402: TYPES["billing_error"],
        403: TYPES["permission_error"],
        404: TYPES["not_found_error"],
        408: TYPES["timeout_error"],
        413: TYPES["request_too_large"],
        429: TYPES["rate_limit_error"],
        503: (UpstreamUnavailable, "unavailable"),
        504: TYPES["timeout_error"],
        529: TYPES["overloaded_error"],
    }
)
"""Status to its error, where the body names no type that is known."""


MODEL: Final = re.compile(r"^model: ", re.I)
"""Beginning of a message that names an unknown model."""

UNKNOWN_MODEL: Final[Meaning] = (UnknownModel, "model_not_found")


_THREAD: Final = re.compile(r"thread_[a-z_]{1,40}")
"""An ``error.details.error_code`` about a thread.  It stays the code: clients act on it."""


def fault(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
    """The error that an answer with a *status* other than 200 means.

    Its message is the service's own, redacted and cut, with the status behind it.
    """
    fields, error = fields_of(headers), _error(report_of(body))
    message = clean(text_of(error, "message")) or clean(body.decode("utf-8", "replace")) or "no explanation"
    return _classify(error, by_status(status, STATUSES), message, f" (HTTP {status})", retry_after(fields))


def event_fault(report: Mapping[str, Any]) -> KiroAsgiError:
    """The error that an ``error`` event means; *report* is its data."""
    error = _error(report)
    message = clean(text_of(error, "message")) or "the answer ended with an error that was not explained"
    kind, code = by_status(status_of(error), STATUSES)
    otherwise = (kind_of(text_of(error, "type"), text_of(error, "code")) or kind, code)
    return _classify(error, otherwise, message, "", None)


def _error(report: Mapping[str, Any]) -> Mapping[str, Any]:
    error = report.get("error")
    return error if type(error) is dict else {"message": error} if type(error) is str else {}


def _classify(
    error: Mapping[str, Any], otherwise: Meaning, message: str, behind: str, wait: float | None
) -> KiroAsgiError:
    kind, code = TYPES.get(text_of(error, "type"), otherwise)
    if code == TYPES["not_found_error"][1] and MODEL.match(message):
        kind, code = UNKNOWN_MODEL
    kind, code = next(((found, word) for words, found, word in PHRASES if words.search(message)), (kind, code))
    named = text_of(object_of(error.get("details")), "error_code")
    code = named if _THREAD.fullmatch(named) else code
    return kind(worded(kind, message) + behind, code=code, retry_after=wait)
