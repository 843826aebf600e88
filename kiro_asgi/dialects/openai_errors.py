"""Errors as both APIs of OpenAI word them.

One before the first byte is an HTTP status with ``{"error": {message, type, param, code}}``, all four keys there.

Source: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from attrs import frozen

from kiro_asgi.dialects.base import ErrorReply
from kiro_asgi.dialects.errors import error_headers, explanation, message_of, tokens_in
from kiro_asgi.errors import (
    BodyTimeout,
    ContextTooLong,
    KiroAsgiError,
    LimitReached,
    RequestError,
    TooBusy,
    Unauthorized,
    UnknownModel,
    UpstreamDenied,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamSuspicious,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from kiro_asgi.wire.json import JsonError, dumps


@frozen
class Wording:
    """How one class of errors is told."""

    type: str
    """In a body."""

    code: str = ""
    """In a body; empty leaves it to the error."""

    streamed: str = "api_error"
    """The type in a chunk of Chat Completions."""

    status: int = 0
    """Instead of the error's own, where clients do not know that one."""


_INVALID: Final = "invalid_request_error"
_SPENT: Final = "insufficient_quota"

_WORDINGS: Final = MappingProxyType[type[KiroAsgiError], Wording](
    {
        KiroAsgiError: Wording("server_error"),
        TooBusy: Wording("server_error", "server_is_overloaded", "overloaded_error"),
        JsonError: Wording(_INVALID, streamed=_INVALID),
        RequestError: Wording(_INVALID, streamed=_INVALID),
        Unauthorized: Wording(_INVALID, "invalid_api_key", "authentication_error"),
        UnknownModel: Wording(_INVALID, "model_not_found", "not_found_error"),
        BodyTimeout: Wording(_INVALID, "", "timeout_error"),
        ContextTooLong: Wording(_INVALID, "context_length_exceeded", _INVALID),
        UpstreamError: Wording("server_error"),
        UpstreamUnreachable: Wording("server_error", streamed="overloaded_error"),
        UpstreamTimeout: Wording("server_error", streamed="timeout_error"),
        LimitReached: Wording("rate_limit_error", "rate_limit_exceeded", "rate_limit_error"),
        UpstreamThrottled: Wording("rate_limit_error", "rate_limit_exceeded", "rate_limit_error"),
        UpstreamOverloaded: Wording("server_error", "server_is_overloaded", "overloaded_error", status=503),
        UpstreamQuotaSpent: Wording(_SPENT, _SPENT, _SPENT),
        UpstreamDenied: Wording("server_error", "upstream_credential_refused"),
        UpstreamSuspicious: Wording("server_error", "upstream_account_limited"),
        UpstreamSuspended: Wording("server_error", "upstream_account_suspended"),
        UpstreamRejected: Wording(_INVALID, "", _INVALID),
    }
)
"""The nearest class along an error's method resolution order decides."""


def wording_of(error: KiroAsgiError) -> Wording:
    """The words for *error*."""
    return next(_WORDINGS[cls] for cls in type(error).__mro__ if cls in _WORDINGS)


def openai_message(error: KiroAsgiError) -> str:
    """The words for *error*, with the phrases of OpenAI's that clients look for."""
    match error:
        case UnknownModel(model=model) if model:
            said = explanation(error)
            return f"The model '{model[:100]}' does not exist or you do not have access to it.{said and f' {said}'}"
        case ContextTooLong() if "maximum context length" not in error.message:
            return _overflow(error)
    return message_of(error)


def _overflow(error: ContextTooLong) -> str:
    sizes = tokens_in(error)
    if sizes is None:
        said = f"This model's maximum context length is exceeded: {error.message.removeprefix(_TOO_LONG)}"
    else:
        tokens, most = sizes
        said = (
            f"This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens."
        )
    return f"{said} Please reduce the length of the messages."


_TOO_LONG: Final = "prompt is too long: "
"""The beginning of the message by which clients of the Messages API recognise the error; this API has none."""


def error_reply(error: KiroAsgiError) -> ErrorReply:
    """The HTTP answer to *error* before the first byte."""
    wording = wording_of(error)
    status = wording.status or error.status
    body = {
        "message": openai_message(error),
        "type": wording.type,
        "param": error.param or None,
        "code": wording.code or error.code or None,
    }
    return ErrorReply(status, dumps({"error": body}), tuple(error_headers(error, status)))
