"""The in-band end of a broken stream, as the Responses API words it: an ``error`` event, then ``response.failed``.

Clients differ in which of the two they read.  The official SDKs raise at an ``error`` event that has an object under
``error``; Codex knows ``response.failed`` alone, and of that the code, and how long to wait from the message.

Source: https://platform.openai.com/docs/api-reference/responses-streaming/error
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.openai_errors import openai_message
from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    LimitReached,
    RequestError,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamThrottled,
)

__all__ = ["error_fields", "failure"]

_CODES: Final = MappingProxyType[type[KiroAsgiError], str](
    {
        KiroAsgiError: "server_error",
        RequestError: "invalid_prompt",
        ContextTooLong: "context_length_exceeded",
        UpstreamRejected: "invalid_prompt",
        LimitReached: "rate_limit_exceeded",
        UpstreamThrottled: "rate_limit_exceeded",
        UpstreamQuotaSpent: "insufficient_quota",
    }
)
"""The nearest class along an error's method resolution order decides.  Clients try a ``server_error`` again."""


def failure(error: KiroAsgiError) -> dict[str, Any]:
    """The ``error`` of a response that has failed."""
    code = next(_CODES[cls] for cls in type(error).__mro__ if cls in _CODES)
    untold = error.retry_after is None or isinstance(error, UpstreamQuotaSpent)
    wait = "" if untold else f" Please try again in {error.retry_after:g}s."
    return {"code": code, "message": openai_message(error) + wait}


def error_fields(error: KiroAsgiError) -> dict[str, Any]:
    """The fields of the ``error`` event: flat, as documented, and the object that makes SDKs raise."""
    told = {"message": openai_message(error), "param": error.param or None}
    return {
        "code": failure(error)["code"],
        **told,
        "error": {**told, "type": "server_error", "code": "stream_error"},
    }
