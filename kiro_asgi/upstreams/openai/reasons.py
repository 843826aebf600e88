"""What services say when they refuse, to what that means: a table for each place where they say it.

Source: https://platform.openai.com/docs/guides/error-codes
"""

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
    UpstreamRejected,
    UpstreamRequestTooCostly,
    UpstreamSuspended,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
)
from kiro_asgi.upstreams.errors import Class, Meaning

__all__ = ["CODES", "PHRASES", "SIZES", "STATUSES", "TYPES"]


CODES: Final[Mapping[str, Class]] = MappingProxyType(
    {
        "invalid_api_key": UpstreamTokenInvalid,
        "account_deactivated": UpstreamSuspended,
        "unsupported_country_region_territory": UpstreamDenied,
        "insufficient_quota": UpstreamQuotaSpent,
        "billing_hard_limit_reached": UpstreamQuotaSpent,
        "billing_not_active": UpstreamQuotaSpent,
        "rate_limit_exceeded": UpstreamThrottled,
        "slow_down": UpstreamThrottled,
        "server_is_overloaded": UpstreamOverloaded,
        "context_length_exceeded": ContextTooLong,
        "model_not_found": UnknownModel,
        "model_permission_blocked_org": UnknownModel,
        "model_permission_blocked_project": UnknownModel,
        "content_filter": UpstreamRejected,
        "content_policy_violation": UpstreamRejected,
        "invalid_prompt": UpstreamRejected,
        "unsupported_parameter": UpstreamRejected,
        "unsupported_value": UpstreamRejected,
        "server_error": UpstreamFault,
    }
)
"""``code`` to what it means; the code becomes the error's."""

PHRASES: Final[tuple[tuple[re.Pattern[str], Class, str], ...]] = (
    (
        re.compile(
            r"maximum context length|context (?:length|window) exceeded|exceeds? the (?:available |model's )?context"
            r"|prompt is too long|input is too long|longer than the (?:model's )?context",
            re.I,
        ),
        ContextTooLong,
        "context_length_exceeded",
    ),
    (re.compile(r"\bfewer max_tokens\b|\bcan only afford \d|\bprompt tokens limit exceeded\b", re.I),
     UpstreamRequestTooCostly, "request_too_costly"),
    (re.compile(r"\brequires moderation\b", re.I), UpstreamRejected, "content_policy_violation"),
    (re.compile(
        r"exceeded your current quota|insufficient (?:balance|credits|quota|funds)|credit balance is too low", re.I
     ), UpstreamQuotaSpent, "insufficient_quota"),
    (re.compile(r"(?:incorrect|invalid) api key", re.I), UpstreamTokenInvalid, "invalid_api_key"),
    (re.compile(r"\bmodel\b.{0,200}\b(?:not found|does not exist)|invalid model name", re.I), UnknownModel,
     "model_not_found"),
    (re.compile(r"\boverloaded\b", re.I), UpstreamOverloaded, "overloaded"),
)  # fmt: skip
"""Words of a message that say more than its type, what they mean, and the error's code where none is given."""

TYPES: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "authentication_error": (UpstreamTokenInvalid, "invalid_api_key"),
        "permission_error": (UpstreamDenied, "access_denied"),
        "insufficient_quota": (UpstreamQuotaSpent, "insufficient_quota"),
        "requests": (UpstreamThrottled, "rate_limit_exceeded"),
        "tokens": (UpstreamThrottled, "rate_limit_exceeded"),
        "rate_limit_error": (UpstreamThrottled, "rate_limit_exceeded"),
        "overloaded_error": (UpstreamOverloaded, "overloaded"),
        "exceed_context_size_error": (ContextTooLong, "context_length_exceeded"),
        "server_error": (UpstreamFault, "internal"),
    }
)
"""``type`` to what it means, and the code where none is given."""

SIZES: Final[Mapping[int, Meaning]] = MappingProxyType({413: (ContextTooLong, "context_length_exceeded")})
"""Statuses that mean more than any code: Groq says 413 with the code of a rate limit for a request that has more tokens
than it may have in a minute, and that is never answered, however often it is repeated."""

STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        401: (UpstreamTokenInvalid, "invalid_api_key"),
        402: (UpstreamQuotaSpent, "insufficient_quota"),
        403: (UpstreamDenied, "access_denied"),
        404: (UpstreamRejected, "not_found"),
        408: (UpstreamTimeout, "timeout"),
        429: (UpstreamThrottled, "rate_limit_exceeded"),
        503: (UpstreamOverloaded, "overloaded"),
        504: (UpstreamTimeout, "timeout"),
        529: (UpstreamOverloaded, "overloaded"),
    }
)
"""What a status means when nothing else is known."""
