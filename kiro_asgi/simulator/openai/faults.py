"""Refusals and failures of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.builders import json_answer
from kiro_asgi.simulator.scripts import Script

__all__ = ["FAILURES", "REFUSALS", "envelope", "refusal"]

INVALID: Final = "invalid_request_error"
BAD_KEY: Final = "Incorrect API key provided: simulat**ed. You can find your API key at the dashboard."
QUOTA: Final = "You exceeded your current quota, please check your plan and billing details."
TOO_LONG: Final = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens. Please "
    "reduce the length of the messages."
)

REFUSALS: Final[Mapping[str, tuple[int, str, str | None, str]]] = {
    "429": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again in 2s."),
    "suspicious": (429, "requests", "rate_limit_exceeded", "Your account is limited for a while."),
    "daily": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests per day (RPD)."),
    "quota": (429, "insufficient_quota", "insufficient_quota", QUOTA),
    "overage": (429, "insufficient_quota", "billing_hard_limit_reached", "Billing hard limit has been reached."),
    "overloaded": (503, "server_error", "server_is_overloaded", "The engine is currently overloaded."),
    "403": (403, INVALID, "unsupported_country_region_territory", "Country, region, or territory not supported."),
    "token-invalid": (401, INVALID, "invalid_api_key", BAD_KEY),
    "suspended": (403, INVALID, "account_deactivated", "The account behind this key has been deactivated."),
    "404": (404, INVALID, None, "Invalid URL (POST /v1/none)"),
    "500": (500, "server_error", None, "The server had an error while processing your request. Sorry about that!"),
    "503": (503, "server_error", None, "The service is unavailable."),
    "too-long": (400, INVALID, "context_length_exceeded", TOO_LONG),
    "bad-request": (400, INVALID, None, "We could not parse the JSON body of your request."),
    "bad-model": (404, INVALID, "model_not_found", "The model `none` does not exist or you do not have access to it."),
    "bad-signature": (400, INVALID, "invalid_encrypted_content", "The encrypted content could not be verified."),
}
"""Refusals before the stream: status, type, code, message."""

FAILURES: Final[Mapping[str, tuple[int, str, str | None, str]]] = {
    "InternalServerException": (500, "server_error", None, "The server had an error processing your request."),
    "ThrottlingException": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    "ValidationException": (400, INVALID, None, "Improper request."),
    "ServiceUnavailableException": (503, "server_error", "server_is_overloaded", "The engine is overloaded."),
    "ContentLengthExceededException": (400, INVALID, "context_length_exceeded", "The answer is too long."),
}
"""Exceptions of a script: status, type, code, message."""


def envelope(kind: str, code: str | None, message: str, param: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refusal(status: int, kind: str, code: str | None, message: str, retry_after: str = "") -> Script:
    """A refusal before the stream."""
    headers: tuple[tuple[str, str], ...] = (("x-request-id", "req_simulated"),)
    if retry_after:
        headers += (("retry-after", retry_after),)
    return json_answer(status, envelope(kind, code, message), headers)
