"""What the service says when it refuses, to what that means: a table for each place where it says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kiro_asgi.errors import (
    ContextTooLong,
    UnknownModel,
    UpstreamDenied,
    UpstreamFault,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
)
from kiro_asgi.upstreams.errors import Class, Meaning

__all__ = ["PHRASES", "REASONS", "SCHEMA", "SCHEMA_UNKNOWN", "SIGNATURE", "STATUSES", "WORDS"]


SIGNATURE: Final = "thought_signature"
"""Code of an error that a signature, or a missing one, is to blame for."""

SCHEMA: Final = "response_json_schema"
"""Code of an error that the JSON Schema for the answer is to blame for."""

SCHEMA_UNKNOWN: Final = "response_json_schema_unknown"
"""The same where the service has no field for one."""

REASONS: Final[Mapping[str, Class]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "ACCESS_TOKEN_EXPIRED",
                "ACCESS_TOKEN_TYPE_UNSUPPORTED",
                "ACCOUNT_STATE_INVALID",
                "API_KEY_ANDROID_APP_BLOCKED",
                "API_KEY_HTTP_REFERRER_BLOCKED",
                "API_KEY_INVALID",
                "API_KEY_IOS_APP_BLOCKED",
                "API_KEY_IP_ADDRESS_BLOCKED",
                "API_KEY_SERVICE_BLOCKED",
                "CREDENTIALS_MISSING",
            ),
            UpstreamTokenInvalid,
        ),
        "CONSUMER_SUSPENDED": UpstreamSuspended,
        "BILLING_DISABLED": UpstreamDenied,
        "CONSUMER_INVALID": UpstreamDenied,
        "SERVICE_DISABLED": UpstreamDenied,
        "RATE_LIMIT_EXCEEDED": UpstreamRateExceeded,
        "MODEL_CAPACITY_EXHAUSTED": UpstreamOverloaded,
    }
)
"""``reason`` of an ``ErrorInfo`` to what it means; the reason becomes the error's code.  A bad key comes as a 400.

Source: https://cloud.google.com/service-infrastructure/docs/service-management/reference/rpc/google.api#errorreason
"""

PHRASES: Final[tuple[tuple[re.Pattern[str], Class, str], ...]] = (
    (re.compile(r"api key (?:not valid|expired)|reported as leaked", re.I), UpstreamTokenInvalid, "API_KEY_INVALID"),
    (re.compile(r"has been suspended", re.I), UpstreamSuspended, "CONSUMER_SUSPENDED"),
    (re.compile(r"thought[ _]?signature", re.I), UpstreamRejected, SIGNATURE),
    (re.compile(r"unknown name \W?response_?json_?schema", re.I), UpstreamRejected, SCHEMA_UNKNOWN),
    (re.compile(r"response_?json_?schema", re.I), UpstreamRejected, SCHEMA),
    (
        re.compile(
            r"token count.{0,40}exceeds|payload size exceeds|exceeds the maximum number of tokens"
            r"|context window ?exceeded",
            re.I,
        ),
        ContextTooLong,
        "context_too_long",
    ),
    (re.compile(r"user location is not supported", re.I), UpstreamDenied, "location"),
    (re.compile(r"models?/\S{0,200} is not found|invalid model name", re.I), UnknownModel, "not_found"),
    (re.compile(r"credits are depleted|credit balance", re.I), UpstreamQuotaSpent, "quota_spent"),
    (re.compile(r"model is overloaded|high demand", re.I), UpstreamOverloaded, "overloaded"),
)
"""Words of a message that say more than its status, what they mean, and the error's code."""

WORDS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "INVALID_ARGUMENT": (UpstreamRejected, "INVALID_ARGUMENT"),
        "FAILED_PRECONDITION": (UpstreamRejected, "FAILED_PRECONDITION"),
        "OUT_OF_RANGE": (UpstreamRejected, "OUT_OF_RANGE"),
        "UNAUTHENTICATED": (UpstreamTokenInvalid, "UNAUTHENTICATED"),
        "PERMISSION_DENIED": (UpstreamDenied, "PERMISSION_DENIED"),
        "NOT_FOUND": (UpstreamRejected, "not_found"),
        "RESOURCE_EXHAUSTED": (UpstreamThrottled, "RESOURCE_EXHAUSTED"),
        "CANCELLED": (UpstreamTimeout, "CANCELLED"),
        "DEADLINE_EXCEEDED": (UpstreamTimeout, "DEADLINE_EXCEEDED"),
        "UNAVAILABLE": (UpstreamOverloaded, "UNAVAILABLE"),
        "UNIMPLEMENTED": (UpstreamRejected, "UNIMPLEMENTED"),
        "ABORTED": (UpstreamFault, "ABORTED"),
        "DATA_LOSS": (UpstreamFault, "DATA_LOSS"),
        "INTERNAL": (UpstreamFault, "INTERNAL"),
        "UNKNOWN": (UpstreamFault, "UNKNOWN"),
    }
)
"""``status`` to what it means."""

STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        401: (UpstreamTokenInvalid, "UNAUTHENTICATED"),
        403: (UpstreamDenied, "PERMISSION_DENIED"),
        404: (UpstreamRejected, "not_found"),
        408: (UpstreamTimeout, "timeout"),
        413: (ContextTooLong, "context_too_long"),
        429: (UpstreamThrottled, "RESOURCE_EXHAUSTED"),
        499: (UpstreamTimeout, "CANCELLED"),
        503: (UpstreamOverloaded, "UNAVAILABLE"),
        504: (UpstreamTimeout, "DEADLINE_EXCEEDED"),
        529: (UpstreamOverloaded, "UNAVAILABLE"),
    }
)
"""What an HTTP status means when nothing else is known."""
