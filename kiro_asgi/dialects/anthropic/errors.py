"""Errors as the Messages API words them.

Source: https://docs.anthropic.com/en/api/errors
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kiro_asgi.dialects.base import ErrorReply
from kiro_asgi.dialects.errors import error_headers, explanation, message_of, tokens_in
from kiro_asgi.errors import (
    BodyTimeout,
    BodyTooLarge,
    ContextTooLong,
    ForeignOrigin,
    KeyExpired,
    KiroAsgiError,
    LimitReached,
    LimitSpent,
    RequestError,
    RouteNotFound,
    TooBusy,
    Unauthorized,
    UnknownModel,
    UpstreamLimitSpent,
    UpstreamModelDenied,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamUnavailable,
    UpstreamUnreachable,
)
from kiro_asgi.wire.json import dumps, quote_bytes

_TYPES: Final[Mapping[type, bytes]] = MappingProxyType(
    {
        KiroAsgiError: b"api_error",
        TooBusy: b"overloaded_error",
        RequestError: b"invalid_request_error",
        Unauthorized: b"authentication_error",
        ForeignOrigin: b"permission_error",
        RouteNotFound: b"not_found_error",
        UnknownModel: b"not_found_error",
        BodyTimeout: b"timeout_error",
        BodyTooLarge: b"request_too_large",
        UpstreamUnavailable: b"overloaded_error",
        UpstreamUnreachable: b"overloaded_error",
        UpstreamTimeout: b"timeout_error",
        LimitReached: b"rate_limit_error",
        UpstreamThrottled: b"rate_limit_error",
        UpstreamOverloaded: b"overloaded_error",
        LimitSpent: b"billing_error",
        UpstreamLimitSpent: b"billing_error",
        UpstreamQuotaSpent: b"billing_error",
        UpstreamModelDenied: b"not_found_error",
        UpstreamRejected: b"invalid_request_error",
    }
)
"""Class to error type; a class that is not here has that of its nearest base."""


_THREAD: Final = "thread_"
"""Beginning of the codes about threads: ours, and those of the service, which its upstream keeps."""


def error_reply(error: KiroAsgiError, request_id: str) -> ErrorReply:
    """The HTTP answer to an error before the first byte."""
    tail = b',"request_id":' + quote_bytes(request_id) if request_id else b""
    return ErrorReply(error.status, _body(error, tail), tuple(error_headers(error, error.status)))


def stream_error_body(error: KiroAsgiError) -> bytes:
    """The error object that ends a broken stream."""
    return _body(error, b"")


def _body(error: KiroAsgiError, tail: bytes) -> bytes:
    """The error object; clients compare parts of its text, so the order of the keys is fixed."""
    kind = next(_TYPES[cls] for cls in type(error).__mro__ if cls in _TYPES)
    message, details = quote_bytes(_message(error)), _details(error)
    return b'{"type":"error","error":{"type":"%b","message":%b%b}%b}' % (kind, message, details, tail)


def _details(error: KiroAsgiError) -> bytes:
    """The member ``details`` of an error about a thread: the SDKs act on it, and send the whole conversation again.

    Source: ``ThreadUnsupportedRequestErrorDetails``, and those of the service's own errors, in both official SDKs.
    """
    if not error.code.startswith(_THREAD):
        return b""
    unsupported = {"unsupported": [error.param]} if error.param else {}
    return b',"details":%b' % dumps({"error_code": error.code, **unsupported})


def _message(error: KiroAsgiError) -> str:
    """The error's own words, with the phrases that clients look for."""
    match error:
        case KeyExpired():
            return f"invalid x-api-key: {error.message}"
        case Unauthorized():
            return "invalid x-api-key"
        case UnknownModel(model=model) if model:
            return f"model: {model[:100]} {explanation(error)}".rstrip()
        case UnknownModel() if "model: " not in error.message:
            return f"model: {error.message}"
        case ContextTooLong():
            return _overflow(error)
    return message_of(error)


def _overflow(error: ContextTooLong) -> str:
    """Clients read both numbers from ``9 tokens > 8 maximum``, and know the words before them."""
    words, sizes = error.message.removeprefix("prompt is too long: "), tokens_in(error)
    if sizes is not None and " tokens > " not in words:
        words = f"{sizes[0]} tokens > {sizes[1]} maximum; {words}"
    return words if "prompt is too long" in words else f"prompt is too long: {words}"
