"""Refusals of each service, as the errors that they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    UnknownModel,
    UpstreamDenied,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
    UpstreamUnavailable,
)
from kiro_asgi.failures.meanings import COMMON, Own, error_of
from kiro_asgi.failures.report import failure, refusal
from kiro_asgi.upstreams.anthropic.errors import MEANINGS as ANTHROPIC
from kiro_asgi.upstreams.bedrock.errors import MEANINGS as BEDROCK
from kiro_asgi.upstreams.gemini.errors import MEANINGS as GEMINI
from kiro_asgi.upstreams.kiro.errors import MEANINGS as KIRO
from kiro_asgi.upstreams.openai.errors import MEANINGS as OPENAI

OWN: Final[Mapping[str, Own]] = {
    "anthropic": ANTHROPIC,
    "bedrock": BEDROCK,
    "gemini": GEMINI,
    "kiro": KIRO,
    "openai": OPENAI,
    "any": COMMON,
}


def fault_of(service: str, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
    """The error of an answer with this *status*."""
    return error_of(refusal(status, headers, body), OWN[service])


def failure_of(service: str, name: str, report: Mapping[str, Any]) -> KiroAsgiError:
    """The error of a *report* in the middle of an answer, in an event of that *name*."""
    return error_of(failure(report, name), OWN[service])


anthropic = partial(fault_of, "anthropic")
bedrock = partial(fault_of, "bedrock")
gemini = partial(fault_of, "gemini")
kiro = partial(fault_of, "kiro")
openai = partial(fault_of, "openai")
kiro_exception = partial(failure_of, "kiro")

KIRO_REASONS: Final[Mapping[str, type[KiroAsgiError]]] = MappingProxyType(
    {
        "CONTENT_LENGTH_EXCEEDS_THRESHOLD": ContextTooLong,
        "PROMPT_TOO_LONG": ContextTooLong,
        "INVALID_MODEL_ID": UnknownModel,
        "MONTHLY_REQUEST_COUNT": UpstreamQuotaSpent,
        "DAILY_REQUEST_COUNT": UpstreamQuotaSpent,
        "OVERAGE_REQUEST_LIMIT_EXCEEDED": UpstreamQuotaSpent,
        "CONVERSATION_LIMIT_EXCEEDED": UpstreamQuotaSpent,
        "INSUFFICIENT_MODEL_CAPACITY": UpstreamOverloaded,
        "INSUFFICIENT_THROUGHPUT": UpstreamOverloaded,
        "MODEL_TEMPORARILY_UNAVAILABLE": UpstreamOverloaded,
        "USER_REQUEST_RATE_EXCEEDED": UpstreamRateExceeded,
        "SERVICE_REQUEST_RATE_EXCEEDED": UpstreamThrottled,
        "CREDIT_CONSUMPTION_RATE_EXCEEDED": UpstreamRateExceeded,
        "TEMPORARILY_SUSPENDED": UpstreamSuspended,
        "FEATURE_NOT_SUPPORTED": UpstreamDenied,
        "UNAUTHORIZED_CUSTOMIZATION_RESOURCE_ACCESS": UpstreamDenied,
        "UNAUTHORIZED_WORKSPACE_CONTEXT_FEATURE_ACCESS": UpstreamDenied,
        "DOCUMENT_COUNT_EXCEEDED": UpstreamRejected,
        "DOCUMENT_DUPLICATE_NAME": UpstreamRejected,
        "DOCUMENT_MAXIMUM_PAGES_EXCEEDED": UpstreamRejected,
        "DOCUMENT_MODEL_NOT_SUPPORTED": UpstreamRejected,
        "DOCUMENT_PASSWORD_PROTECTED": UpstreamRejected,
        "DOCUMENT_SIZE_EXCEEDED": UpstreamRejected,
        "IMAGE_COUNT_EXCEEDED": UpstreamRejected,
        "IMAGE_DIMENSION_EXCEEDED": UpstreamRejected,
        "IMAGE_FORMAT_UNSUPPORTED": UpstreamRejected,
        "IMAGE_MIME_MISMATCH": UpstreamRejected,
        "IMAGE_SIZE_EXCEEDED": UpstreamRejected,
        "INVALID_CONVERSATION_ID": UpstreamRejected,
        "INVALID_KMS_GRANT": UpstreamRejected,
        "REQUEST_BODY_INVALID": UpstreamRejected,
        "REQUEST_BODY_INVALID_JSON": UpstreamRejected,
        "THINKING_SIGNATURE_INVALID": UpstreamRejected,
        "TOOL_CONFIG_MISSING": UpstreamRejected,
        "TOOL_DUPLICATE": UpstreamRejected,
        "TOOL_SCHEMA_INVALID": UpstreamRejected,
        "TOOL_USE_RESULT_MISMATCH": UpstreamRejected,
        "CUSTOMER_KMS_KEY_DISABLED": UpstreamRejected,
        "CUSTOMER_KMS_KEY_INVALID_KEY_POLICY": UpstreamRejected,
        "MISMATCHED_KMS_KEY": UpstreamRejected,
        "INVALID_TASK_ASSIST_PLAN": UpstreamFault,
    }
)
"""``reason`` of the service to the error that it means."""

KIRO_NAMES: Final[Mapping[str, tuple[type[KiroAsgiError], str]]] = MappingProxyType(
    {
        "Throttling": (UpstreamThrottled, "throttled"),
        "TooManyRequests": (UpstreamThrottled, "throttled"),
        "ServiceQuotaExceeded": (UpstreamQuotaSpent, "quota_spent"),
        "AccessDenied": (UpstreamForbidden, "access_denied"),
        "ExpiredToken": (UpstreamTokenInvalid, "token_invalid"),
        "InvalidToken": (UpstreamTokenInvalid, "token_invalid"),
        "UnrecognizedClient": (UpstreamTokenInvalid, "token_invalid"),
        "Validation": (UpstreamRejected, "validation"),
        "Serialization": (UpstreamRejected, "validation"),
        "ResourceNotFound": (UpstreamRejected, "not_found"),
        "UnknownOperation": (UpstreamRejected, "not_found"),
        "Conflict": (UpstreamRejected, "conflict"),
        "ContentLengthExceeded": (ContextTooLong, "ContentLengthExceededException"),
        "InternalServer": (UpstreamFault, "internal"),
        "InternalFailure": (UpstreamFault, "internal"),
        "error": (UpstreamFault, "internal"),
        "ServiceUnavailable": (UpstreamUnavailable, "unavailable"),
        "InvalidState": (UpstreamFault, "invalid_state"),
        "DryRunOperation": (UpstreamProtocolError, "dry_run"),
        "MissingAuthenticationToken": (UpstreamTokenInvalid, "token_invalid"),
        "RequestTimeout": (UpstreamTimeout, "timeout"),
        "ModelTimeout": (UpstreamTimeout, "timeout"),
    }
)
"""Exception without its ending to the error that it means, and its code."""
