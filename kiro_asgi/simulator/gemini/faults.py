"""Refusals and failures of the Generative Language API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.builders import json_answer
from kiro_asgi.simulator.scripts import Script

__all__ = ["FAILURES", "REFUSALS", "bad_request", "envelope", "refusal"]

Json = dict[str, Any]
TYPES: Final = "type.googleapis.com/google.rpc."
QUOTA: Final = "You exceeded your current quota, please check your plan and billing details."


def _info(reason: str) -> Json:
    return {
        "@type": f"{TYPES}ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }


def _retry(delay: str) -> Json:
    return {"@type": f"{TYPES}RetryInfo", "retryDelay": delay}


def _violated(quota: str) -> Json:
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    return {"@type": f"{TYPES}QuotaFailure", "violations": [{"quotaMetric": metric, "quotaId": quota}]}


REFUSALS: Final[Mapping[str, tuple[int, str, str, tuple[Json, ...]]]] = {
    "429": (
        429,
        "RESOURCE_EXHAUSTED",
        "Resource has been exhausted (e.g. check quota).",
        (_info("RATE_LIMIT_EXCEEDED"), _retry("2s")),
    ),
    "suspicious": (429, "RESOURCE_EXHAUSTED", "Your project is limited for a while.", ()),
    "daily": (
        429,
        "RESOURCE_EXHAUSTED",
        QUOTA,
        (_violated("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), _retry("36000s")),
    ),
    "quota": (429, "RESOURCE_EXHAUSTED", QUOTA, (_violated("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),)),
    "overage": (403, "PERMISSION_DENIED", "The billing account is closed.", (_info("BILLING_DISABLED"),)),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ()),
    "403": (403, "PERMISSION_DENIED", "The caller does not have permission.", ()),
    "token-invalid": (
        400,
        "INVALID_ARGUMENT",
        "API key not valid. Please pass a valid API key.",
        (_info("API_KEY_INVALID"),),
    ),
    "suspended": (403, "PERMISSION_DENIED", "Consumer has been suspended.", (_info("CONSUMER_SUSPENDED"),)),
    "404": (404, "NOT_FOUND", "Requested entity was not found.", ()),
    "500": (500, "INTERNAL", "An internal error has occurred. Please retry.", ()),
    "503": (503, "UNAVAILABLE", "The service is currently unavailable.", ()),
    "too-long": (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
        (),
    ),
    "bad-request": (400, "INVALID_ARGUMENT", "Request contains an invalid argument.", ()),
    "bad-model": (
        404,
        "NOT_FOUND",
        "models/none is not found for API version v1beta, or is not supported for generateContent. Call ListModels to "
        "see the list of available models and their supported methods.",
        (),
    ),
    "bad-signature": (400, "INVALID_ARGUMENT", "Corrupted thought signature.", ()),
}
"""Refusals before the stream: status, its word, message, details."""

FAILURES: Final[Mapping[str, tuple[int, str, str, tuple[Json, ...]]]] = {
    "InternalServerException": (500, "INTERNAL", "An internal error has occurred.", ()),
    "ThrottlingException": (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", (_retry("1.2s"),)),
    "ValidationException": (400, "INVALID_ARGUMENT", "Request contains an invalid argument.", ()),
    "ServiceUnavailableException": (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ()),
    "ContentLengthExceededException": (400, "INVALID_ARGUMENT", "The answer is too long.", ()),
}
"""Exceptions of a script: status, its word, message, details."""


def envelope(status: int, word: str, message: str, details: tuple[Json, ...] = ()) -> Json:
    """The body of an error."""
    extra = {"details": list(details)} if details else {}
    return {"error": {"code": status, "message": message, "status": word, **extra}}


def bad_request(message: str) -> tuple[int, str, str, tuple[Json, ...]]:
    """The refusal of a request in which something is wrong."""
    violation = {"@type": f"{TYPES}BadRequest", "fieldViolations": [{"description": message}]}
    return 400, "INVALID_ARGUMENT", message, (violation,)


def refusal(status: int, word: str, message: str, details: tuple[Json, ...] = (), retry_after: str = "") -> Script:
    """A refusal before the stream."""
    if retry_after:
        others = (detail for detail in details if "retryDelay" not in detail)
        details = (*others, _retry(f"{retry_after}s"))
    return json_answer(status, envelope(status, word, message, details))
