"""Errors of the service, whether they come as an HTTP status or as a frame in the middle of an answer.

The most specific fact decides: first well-known words of the message, then the exception's name, and only then the
status.  A model's own error counts by the status that the model had.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html and API_runtime_ConverseStream.html
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
)
from kiro_asgi.upstreams.errors import Class, Meaning, by_status, clean, fields_of, report_of, retry_after, worded
from kiro_asgi.wire.json import text_of

SIGNATURE: Final = "thinking_signature_invalid"
"""Code of the refusal of earlier thinking."""

FORM: Final = "output_schema_refused"
"""Code of the refusal of a schema for the answer."""

FORM_UNKNOWN: Final = "output_format_unknown"
"""Code of the refusal of every schema: the model has none."""

UNSTREAMED: Final = "tools_not_streamed"
"""Code of the refusal to stream where tools are offered."""

PROFILE: Final = "inference_profile_required"

_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {PROFILE: " (ask for the id of an inference profile, or set bedrock.geography)"}
)
"""Code to advice, which follows the service's message."""

PHRASES: Final[tuple[tuple[re.Pattern[str], Class, str], ...]] = (
    (re.compile(r"provided model identifier is invalid", re.I), UnknownModel, "model_not_found"),
    (re.compile(r"on-demand throughput isn", re.I), UnknownModel, PROFILE),
    (re.compile(r"too many tokens per day", re.I), UpstreamQuotaSpent, "quota_spent"),
    (re.compile(r"too many tokens, please wait", re.I), UpstreamThrottled, "throttled"),
    (
        re.compile(r"(?:input|prompt) is too long|exceeds? context limit|context window ?exceeded", re.I),
        ContextTooLong,
        "context_too_long",
    ),
    (re.compile(r"support tool use in streaming mode", re.I), UpstreamRejected, UNSTREAMED),
    (
        re.compile(
            r"extraneous key \[outputConfig\]|output_config(?:\.format)?: extra inputs|support the outputConfig"
            r"|not support (?:output.format|structured.output)"
            r"|structured outputs? (?:is|are) not (?:supported|available)",
            re.I,
        ),
        UpstreamRejected,
        FORM_UNKNOWN,
    ),
    (
        re.compile(
            r"outputConfig\.textFormat|output_config\.format\b|schema is too complex|compiled grammar is too large",
            re.I,
        ),
        UpstreamRejected,
        FORM,
    ),
    (
        re.compile(
            r"(signature|data).{0,20} in .{0,3}(redacted_)?thinking|thinking. blocks.{0,80}cannot be modified",
            re.I | re.S,
        ),
        UpstreamRejected,
        SIGNATURE,
    ),
    (re.compile(r"bearer token\b.{0,200}\b(?:invalid|expired)", re.I | re.S), UpstreamTokenInvalid, "token_invalid"),
    (re.compile(r"data retention mode|use case details have not been", re.I), UpstreamDenied, "access_denied"),
)
"""Phrases of a message that are more specific than its exception's name; class and code of the error that they mean."""

EXCEPTIONS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "validation": (UpstreamRejected, "validation"),
        "serialization": (UpstreamRejected, "validation"),
        "servicequotaexceeded": (UpstreamQuotaSpent, "quota_spent"),
        "accessdenied": (UpstreamDenied, "access_denied"),
        "optinrequired": (UpstreamDenied, "access_denied"),
        "unrecognizedclient": (UpstreamTokenInvalid, "token_invalid"),
        "invalidsignature": (UpstreamTokenInvalid, "token_invalid"),
        "signaturedoesnotmatch": (UpstreamTokenInvalid, "token_invalid"),
        "expiredtoken": (UpstreamTokenInvalid, "token_invalid"),
        "invalidclienttokenid": (UpstreamTokenInvalid, "token_invalid"),
        "missingauthenticationtoken": (UpstreamTokenInvalid, "token_invalid"),
        "incompletesignature": (UpstreamTokenInvalid, "token_invalid"),
        "requestexpired": (UpstreamTokenInvalid, "token_invalid"),
        "resourcenotfound": (UnknownModel, "model_not_found"),
        "unknownoperation": (UpstreamRejected, "not_found"),
        "conflict": (UpstreamRejected, "conflict"),
        "modeltimeout": (UpstreamTimeout, "timeout"),
        "modelerror": (UpstreamFault, "model_error"),
        "modelstreamerror": (UpstreamFault, "model_error"),
        "throttling": (UpstreamThrottled, "throttled"),
        "toomanyrequests": (UpstreamThrottled, "throttled"),
        "modelnotready": (UpstreamOverloaded, "model_not_ready"),
        "internalserver": (UpstreamFault, "internal"),
        "internalfailure": (UpstreamFault, "internal"),
        "serviceunavailable": (UpstreamOverloaded, "overloaded"),
    }
)
"""Exception in small letters, without its ``Exception`` ending, to its meaning."""

STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        401: (UpstreamTokenInvalid, "token_invalid"),
        403: (UpstreamDenied, "access_denied"),
        404: (UpstreamRejected, "not_found"),
        408: (UpstreamTimeout, "timeout"),
        413: (ContextTooLong, "request_too_large"),
        424: (UpstreamFault, "model_error"),
        429: (UpstreamThrottled, "throttled"),
        503: (UpstreamOverloaded, "overloaded"),
        504: (UpstreamTimeout, "timeout"),
    }
)
"""Status to its meaning, where nothing else is known."""

_MODELS_OWN: Final = frozenset({"modelerror", "modelstreamerror"})
"""Exceptions that hold the status of the model's own answer."""


def fault(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
    """The error that an answer with a *status* other than 200 means.

    Its message is the service's own, redacted and cut, with the status behind it.
    """
    fields, report = fields_of(headers), report_of(body)
    name = fields.get("x-amzn-errortype") or text_of(report, "code") or text_of(report, "__type")
    message = _message(report) or clean(body.decode("utf-8", "replace")) or "no explanation"
    meaning = by_status(status, STATUSES)
    return _classify(name, report, meaning, message, f" (HTTP {status})", retry_after(fields))


def exception_fault(name: str, report: Mapping[str, Any]) -> KiroAsgiError:
    """The error that an exception in the middle of an answer means; *report* is its payload."""
    message = _message(report) or f"the answer ended with {clean(name) or 'an unnamed exception'}"
    return _classify(name, report, (UpstreamFault, "internal"), message, "", None)


def _classify(
    name: str, report: Mapping[str, Any], otherwise: Meaning, message: str, behind: str, wait: float | None
) -> KiroAsgiError:
    plain, original = _plain_name(name), report.get("originalStatusCode")
    kind, code = EXCEPTIONS.get(plain, otherwise)
    if plain in _MODELS_OWN and type(original) is int:
        kind, code = by_status(original, STATUSES)
    kind, code = next(((found, word) for words, found, word in PHRASES if words.search(message)), (kind, code))
    return kind(worded(kind, message) + _HINTS.get(code, "") + behind, code=code, retry_after=wait)


def _plain_name(name: str) -> str:
    """``aws.api#ThrottlingException:http://…`` is ``throttling``."""
    bare = name.partition(":")[0].rpartition("#")[2].strip()
    return bare.lower().removesuffix("exception")


def _message(report: Mapping[str, Any]) -> str:
    texts = (text_of(report, key) for key in ("originalMessage", "message", "Message"))
    return clean(next(filter(None, texts), ""))
