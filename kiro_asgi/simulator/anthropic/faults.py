"""Refusals and failures of Anthropic's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.builders import json_answer
from kiro_asgi.simulator.scripts import Script

__all__ = ["FAILURES", "REFUSALS", "REQUEST_ID", "envelope", "refusal"]

REQUEST_ID: Final = "req_011CSimulated"

REFUSALS: Final[Mapping[str, tuple[int, str, str]]] = {
    "429": (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50 requests a minute.",
    ),
    "suspicious": (429, "rate_limit_error", "Your account has been temporarily limited."),
    "daily": (429, "rate_limit_error", "This request would exceed your organization's daily rate limit."),
    "quota": (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    ),
    "overage": (402, "billing_error", "Your organization has reached its spend limit."),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "403": (403, "permission_error", "Your API key does not have permission to use the specified resource."),
    "token-invalid": (401, "authentication_error", "invalid x-api-key"),
    "suspended": (403, "permission_error", "This organization has been disabled."),
    "404": (404, "not_found_error", "Not found"),
    "500": (500, "api_error", "Internal server error"),
    "503": (503, "api_error", "Service unavailable"),
    "too-long": (400, "invalid_request_error", "prompt is too long: 210001 tokens > 200000 maximum"),
    "bad-request": (400, "invalid_request_error", "messages: Field required"),
    "bad-model": (404, "not_found_error", "model: no-such-model"),
    "bad-signature": (
        400,
        "invalid_request_error",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
}
"""Refusals before the stream: status, type, message."""

FAILURES: Final[Mapping[str, tuple[int, str, str]]] = {
    "InternalServerException": (500, "api_error", "Internal server error"),
    "ThrottlingException": (429, "rate_limit_error", "Rate limited"),
    "ValidationException": (400, "invalid_request_error", "Improper request"),
    "ServiceUnavailableException": (529, "overloaded_error", "Overloaded"),
    "ContentLengthExceededException": (400, "invalid_request_error", "The answer is longer than the model can write"),
}
"""Exceptions of a script: status, type, message."""


def envelope(kind: str, message: str) -> dict[str, Any]:
    """The body of an error."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": REQUEST_ID}


def refusal(status: int, kind: str, message: str, retry_after: str = "") -> Script:
    """A refusal before the stream."""
    headers: tuple[tuple[str, str], ...] = (("request-id", REQUEST_ID),)
    if retry_after:
        headers += (("retry-after", retry_after),)
    return json_answer(status, envelope(kind, message), headers)
