"""Errors as ``google.rpc.Status``.

Source: https://cloud.google.com/apis/design/errors and https://ai.google.dev/gemini-api/docs/troubleshooting
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.base import ErrorReply
from kiro_asgi.dialects.errors import SPENT, error_headers, explanation, is_final, message_of, tokens_in
from kiro_asgi.errors import (
    ConfigError,
    ContextTooLong,
    KeyExpired,
    KiroAsgiError,
    RequestError,
    Unauthorized,
    UnknownModel,
    UpstreamDenied,
)
from kiro_asgi.wire.json import dumps

UNIMPLEMENTED: Final = "unimplemented"
"""Code of a `RequestError` about a part of the API that the gateway does not have."""

_STATUSES: Final[Mapping[int, tuple[int, str]]] = MappingProxyType(
    {
        401: (401, "UNAUTHENTICATED"),
        402: (429, "RESOURCE_EXHAUSTED"),
        403: (403, "PERMISSION_DENIED"),
        404: (404, "NOT_FOUND"),
        405: (404, "NOT_FOUND"),
        408: (504, "DEADLINE_EXCEEDED"),
        429: (429, "RESOURCE_EXHAUSTED"),
        503: (503, "UNAVAILABLE"),
        504: (504, "DEADLINE_EXCEEDED"),
        529: (503, "UNAVAILABLE"),
    }
)
"""An error's own status to that of this API, which has fewer, and its word.  Others are ``INVALID_ARGUMENT`` below 500,
and ``INTERNAL`` from there on."""

_CLASSES: Final[Mapping[type, tuple[int, str]]] = MappingProxyType(
    {
        ConfigError: (400, "FAILED_PRECONDITION"),
        UpstreamDenied: (400, "FAILED_PRECONDITION"),
    }
)
"""Errors whose status does not say whether to try again.  Clients do that after every 500."""

_TYPE: Final = "type.googleapis.com/google.rpc."


def error_reply(error: KiroAsgiError) -> ErrorReply:
    """The HTTP answer to an error before the first byte."""
    status, _ = _status(error)
    headers = (header for header in error_headers(error, status) if header[0] != b"allow")
    return ErrorReply(status, error_body(error), tuple(headers))


def error_body(error: KiroAsgiError) -> bytes:
    """The error object; some clients know it in a stream only by its first member, and that is all it has."""
    code, status = _status(error)
    fields: dict[str, Any] = {"code": code, "message": _message(error), "status": status}
    if details := [{"@type": _TYPE + kind, **members} for kind, members in _details(error)]:
        fields["details"] = details
    return dumps({"error": fields})


def _status(error: KiroAsgiError) -> tuple[int, str]:
    if error.code == UNIMPLEMENTED:
        return 501, "UNIMPLEMENTED"
    if error.status in _STATUSES:
        return _STATUSES[error.status]
    usual = (400, "INVALID_ARGUMENT") if error.status < 500 else (500, "INTERNAL")
    return next((_CLASSES[cls] for cls in type(error).__mro__ if cls in _CLASSES), usual)


def _message(error: KiroAsgiError) -> str:
    """The error's own words, with the phrases that clients look for."""
    match error:
        case KeyExpired():
            return "API key expired. Please renew the API key."
        case Unauthorized():
            return "API key not valid. Please pass a valid API key."
        case UnknownModel(model=model) if model:
            return f"models/{model[:100]} is not found. {explanation(error)}".rstrip()
        case ContextTooLong():
            sizes = tokens_in(error)
            if sizes is None:
                return f"The input token count exceeds the maximum number of tokens allowed: {error.message}"
            return "The input token count ({}) exceeds the maximum number of tokens allowed ({}).".format(*sizes)
    return message_of(error)


def _details(error: KiroAsgiError) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and members of each detail."""
    match error:
        case Unauthorized():
            yield "ErrorInfo", {"reason": "API_KEY_INVALID", "domain": "googleapis.com"}
        case RequestError(param=str(param)) if param:
            yield "BadRequest", {"fieldViolations": [{"field": param, "description": error.message}]}
    if isinstance(error, SPENT):
        yield "QuotaFailure", {"violations": [{"quotaId": "RequestsPerDay", "description": error.message}]}
    if error.retry_after and error.retry_after > 0 and not is_final(error):
        yield "RetryInfo", {"retryDelay": f"{ceil(error.retry_after)}s"}
