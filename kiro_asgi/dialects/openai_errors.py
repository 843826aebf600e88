"""Errors as both APIs of OpenAI word them.

One before the first byte is an HTTP status with ``{"error": {message, type, param, code}}``, all four keys there.

The official SDKs retry 408, 409, 429 and from 500 on unless ``x-should-retry`` says otherwise, and the Python one does
not retry at all when ``retry-after`` is above 120 seconds.

Source: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

from math import ceil, inf
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kiro_asgi.dialects.base import ErrorReply
from kiro_asgi.errors import (
    BodyTimeout,
    ConfigError,
    ContextTooLong,
    KiroAsgiError,
    MethodNotAllowed,
    RequestError,
    TooBusy,
    Unauthorized,
    UnknownModel,
    UpstreamDenied,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from kiro_asgi.wire.json import JsonError, dumps

__all__ = ["Wording", "error_reply", "wording_of"]

_LONGEST_WAIT: Final = 120
"""Seconds; a client that is told to wait longer does not come back at all."""


@frozen
class Wording:
    """How one class of errors is told."""

    type: str
    """In a body."""

    code: str = ""
    """In a body; empty leaves it to the error."""

    streamed: str = "api_error"
    """The type in a chunk of Chat Completions."""

    final: bool = False
    """Whether a client that retries by status must be told not to."""

    status: int = 0
    """Instead of the error's own, where clients do not know that one."""


_INVALID: Final = "invalid_request_error"

_WORDINGS: Final = MappingProxyType[type[KiroAsgiError], Wording](
    {
        KiroAsgiError: Wording("server_error"),
        ConfigError: Wording("server_error", final=True),
        TooBusy: Wording("server_error", "server_is_overloaded", "overloaded_error"),
        JsonError: Wording(_INVALID, streamed=_INVALID, final=True),
        RequestError: Wording(_INVALID, streamed=_INVALID, final=True),
        Unauthorized: Wording(_INVALID, "invalid_api_key", "authentication_error", final=True),
        UnknownModel: Wording(_INVALID, "model_not_found", "not_found_error", final=True),
        BodyTimeout: Wording(_INVALID, "", "timeout_error"),
        ContextTooLong: Wording(_INVALID, "context_length_exceeded", _INVALID, final=True),
        UpstreamError: Wording("server_error"),
        UpstreamUnreachable: Wording("server_error", streamed="overloaded_error"),
        UpstreamTimeout: Wording("server_error", streamed="timeout_error"),
        UpstreamThrottled: Wording("rate_limit_error", "rate_limit_exceeded", "rate_limit_error"),
        UpstreamOverloaded: Wording("server_error", "server_is_overloaded", "overloaded_error", status=503),
        UpstreamQuotaSpent: Wording("rate_limit_error", "insufficient_quota", "rate_limit_error", final=True),
        UpstreamDenied: Wording(_INVALID, "", "permission_error", final=True),
        UpstreamRejected: Wording(_INVALID, "", _INVALID, final=True),
    }
)
"""The nearest class along an error's method resolution order decides."""


def wording_of(error: KiroAsgiError) -> Wording:
    """The words for *error*."""
    return next(_WORDINGS[cls] for cls in type(error).__mro__ if cls in _WORDINGS)


def error_reply(error: KiroAsgiError) -> ErrorReply:
    """The HTTP answer to *error* before the first byte."""
    wording = wording_of(error)
    status = wording.status or error.status
    body = {
        "message": error.message,
        "type": wording.type,
        "param": error.param or None,
        "code": wording.code or error.code or None,
    }
    return ErrorReply(status, dumps({"error": body}), tuple(_headers(error, status, wording.final)))


def _headers(error: KiroAsgiError, status: int, final: bool) -> list[tuple[bytes, bytes]]:
    headers = []
    if error.retry_after is not None and status in (429, 503):
        longest = inf if isinstance(error, UpstreamQuotaSpent) else _LONGEST_WAIT
        headers.append((b"retry-after", b"%d" % ceil(max(1, min(longest, error.retry_after)))))
    if final:
        headers.append((b"x-should-retry", b"false"))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.allow).encode("ascii")))
    return headers
