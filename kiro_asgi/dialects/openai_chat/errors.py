"""Errors as the Chat Completions API words them.

An error before the first byte is an HTTP status with ``{"error": {message, type, param, code}}``, all four keys there.
One after it is the same object inside a chunk, where ``type`` says what kind of trouble it is and ``code`` is
``stream_error``.

The official SDKs retry 408, 409, 429 and from 500 on unless ``x-should-retry`` says otherwise, and the Python one does
not retry at all when ``retry-after`` is above 120 seconds.

Source: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

from math import ceil, inf
from types import MappingProxyType
from typing import Any, Final

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

__all__ = ["error_reply", "stream_error_object"]

_LONGEST_WAIT: Final = 120
"""Seconds; a client that is told to wait longer does not come back at all."""


@frozen
class _Wording:
    """How one class of errors is told."""

    type: str
    """In a body."""

    code: str = ""
    """In a body; empty leaves it to the error."""

    streamed: str = "api_error"
    """The type in a chunk."""

    final: bool = False
    """Whether a client that retries by status must be told not to."""

    status: int = 0
    """Instead of the error's own, where clients do not know that one."""


_INVALID: Final = "invalid_request_error"

_WORDINGS: Final = MappingProxyType[type[KiroAsgiError], _Wording](
    {
        KiroAsgiError: _Wording("server_error"),
        ConfigError: _Wording("server_error", final=True),
        TooBusy: _Wording("server_error", "server_is_overloaded", "overloaded_error"),
        JsonError: _Wording(_INVALID, streamed=_INVALID, final=True),
        RequestError: _Wording(_INVALID, streamed=_INVALID, final=True),
        Unauthorized: _Wording(_INVALID, "invalid_api_key", "authentication_error", final=True),
        UnknownModel: _Wording(_INVALID, "model_not_found", "not_found_error", final=True),
        BodyTimeout: _Wording(_INVALID, "", "timeout_error"),
        ContextTooLong: _Wording(_INVALID, "context_length_exceeded", _INVALID, final=True),
        UpstreamError: _Wording("server_error"),
        UpstreamUnreachable: _Wording("server_error", streamed="overloaded_error"),
        UpstreamTimeout: _Wording("server_error", streamed="timeout_error"),
        UpstreamThrottled: _Wording("rate_limit_error", "rate_limit_exceeded", "rate_limit_error"),
        UpstreamOverloaded: _Wording("server_error", "server_is_overloaded", "overloaded_error", status=503),
        UpstreamQuotaSpent: _Wording("rate_limit_error", "insufficient_quota", "rate_limit_error", final=True),
        UpstreamDenied: _Wording(_INVALID, "", "permission_error", final=True),
        UpstreamRejected: _Wording(_INVALID, "", _INVALID, final=True),
    }
)
"""The nearest class along an error's method resolution order decides."""


def error_reply(error: KiroAsgiError) -> ErrorReply:
    """The HTTP answer to *error* before the first byte."""
    wording = _wording(error)
    status = wording.status or error.status
    body = {
        "message": error.message,
        "type": wording.type,
        "param": error.param or None,
        "code": wording.code or error.code or None,
    }
    return ErrorReply(status, dumps({"error": body}), tuple(_headers(error, status, wording.final)))


def stream_error_object(error: KiroAsgiError) -> dict[str, Any]:
    """The ``error`` member of the chunk that ends a broken stream."""
    return {
        "message": error.message,
        "type": _wording(error).streamed,
        "param": error.param or None,
        "code": "stream_error",
    }


def _wording(error: KiroAsgiError) -> _Wording:
    return next(_WORDINGS[cls] for cls in type(error).__mro__ if cls in _WORDINGS)


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
