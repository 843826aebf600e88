"""What refusals of the Messages API mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    NotTheUpstream,
    UnknownModel,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
    UpstreamUnavailable,
)
from tests.upstreams.faults import anthropic as fault


def refusal(status: int, kind: str = "", message: str = "no", headers: Any = ()) -> KiroAsgiError:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return fault(status, headers, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected", "code"),
    [
        (400, "invalid_request_error", "messages: no", UpstreamRejected, "validation"),
        (401, "authentication_error", "invalid x-api-key", UpstreamTokenInvalid, "token_invalid"),
        (402, "billing_error", "pay", UpstreamQuotaSpent, "quota_spent"),
        (403, "permission_error", "no", UpstreamForbidden, "access_denied"),
        (404, "not_found_error", "Not found", NotTheUpstream, "upstream.address"),
        (404, "not_found_error", "model: claude-x", UnknownModel, "model_not_found"),
        (413, "request_too_large", "too large", ContextTooLong, "request_too_large"),
        (429, "rate_limit_error", "slow", UpstreamThrottled, "throttled"),
        (500, "api_error", "oops", UpstreamFault, "internal"),
        (504, "timeout_error", "late", UpstreamTimeout, "timeout"),
        (529, "overloaded_error", "Overloaded", UpstreamOverloaded, "overloaded"),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ContextTooLong, "context_too_long"),
        (400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 9", ContextTooLong,
         "context_too_long"),
        (400, "invalid_request_error", "Your credit balance is too low to access", UpstreamQuotaSpent, "quota_spent"),
        (400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block",
         UpstreamRejected, "thinking_signature_invalid"),
        (400, "invalid_request_error", "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
         UpstreamRejected, "thinking_signature_invalid"),
        (400, "invalid_request_error", "a context window exceeded error", ContextTooLong, "context_too_long"),
        (400, "invalid_request_error", "Invalid model name passed in model=x", UnknownModel, "model_not_found"),
        (429, "rate_limit_error", "You exceeded your current quota", UpstreamQuotaSpent, "quota_spent"),
        (500, "api_error", 'the service says {"type": "overloaded_error"}', UpstreamOverloaded, "overloaded"),
        (503, "", "", UpstreamUnavailable, "unavailable"),
        (529, "hologram", "", UpstreamOverloaded, "overloaded"),
        (418, "hologram", "", UpstreamRejected, "hologram"),
        (302, "", "", NotTheUpstream, "upstream.redirect"),
        (101, "", "", UpstreamProtocolError, "upstream.status"),
    ],
)  # fmt: skip
def test_what_a_refusal_means(status: int, kind: str, message: str, expected: type, code: str) -> None:
    """Words of the message count most, then the type, then the status; the service's words are passed on."""
    error = refusal(status, kind, message)
    assert (type(error), error.code) == (expected, code)
    assert message in error.message and f"(HTTP {status})" in error.message


def test_clients_know_a_context_that_is_full() -> None:
    """Clients shorten a conversation when they read these words, and only then."""
    assert refusal(413, "request_too_large", "too large").message == "prompt is too long: too large (HTTP 413)"


def test_a_wait_is_passed_on() -> None:
    """The service says in a header when to come back."""
    assert refusal(429, "rate_limit_error", headers=[(b"Retry-After", b"7")]).retry_after == 7


def test_secrets_are_not_passed_on() -> None:
    """What a service repeats of our credential stays here."""
    assert "abcdefghijklmnop1234" not in refusal(401, message="Bearer abcdefghijklmnop1234 is bad").message


@given(
    st.integers(100, 599), st.binary(max_size=40) | st.sampled_from([b"[]", b'{"error":"x"}', b'{"error":{"type":1}}'])
)
def test_anything_is_an_error(status: int, body: bytes) -> None:
    """Whatever comes with a status, it means something that callers know."""
    error = fault(status, (), body)
    assert isinstance(error, KiroAsgiError) and error.message and error.code
