"""Refusals to errors."""

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
    UpstreamDenied,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamModelDenied,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamRequestTooCostly,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
    UpstreamUnauthorized,
)
from kiro_asgi.failures.texts import MAX_MESSAGE
from kiro_asgi.failures.waits import MAX_RETRY_AFTER
from tests.upstreams.faults import openai as fault


def refusal(status: int, body: Any, **headers: str) -> KiroAsgiError:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return fault(status, fields, json.dumps(body).encode())


def report(message: str, code: Any = None, kind: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


OPENROUTER = (
    "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford "
    "1234. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account"
)


@pytest.mark.parametrize(
    ("status", "body", "error", "code"),
    [
        (401, report("Incorrect API key", "invalid_api_key"), UpstreamTokenInvalid, "invalid_api_key"),
        (401, {"message": "no"}, UpstreamUnauthorized, "token_invalid"),
        (
            403,
            report("no", "unsupported_country_region_territory"),
            UpstreamDenied,
            "unsupported_country_region_territory",
        ),
        (403, {"detail": "no"}, UpstreamForbidden, "access_denied"),
        (404, report("The model `x` does not exist", "model_not_found"), UnknownModel, "model_not_found"),
        (404, {"error": 'model "x" not found, try pulling it first'}, UnknownModel, "model_not_found"),
        (404, {"detail": "Not Found"}, NotTheUpstream, "upstream.address"),
        (429, report("Rate limit", "rate_limit_exceeded", "tokens"), UpstreamThrottled, "rate_limit_exceeded"),
        (
            429,
            report("You exceeded your current quota", "insufficient_quota"),
            UpstreamQuotaSpent,
            "insufficient_quota",
        ),
        (402, report("Insufficient Balance"), UpstreamQuotaSpent, "quota_spent"),
        (402, report(OPENROUTER, 402), UpstreamRequestTooCostly, "request_too_costly"),
        (
            402,
            report("Prompt tokens limit exceeded: 9 > 8. To ...", 402),
            UpstreamRequestTooCostly,
            "request_too_costly",
        ),
        (
            403,
            report("x/y requires moderation. Your input was flagged", 403),
            UpstreamRejected,
            "content_policy_violation",
        ),
        (403, report("no", "model_permission_blocked_org"), UpstreamModelDenied, "model_permission_blocked_org"),
        (400, report("too long", "context_length_exceeded"), ContextTooLong, "context_length_exceeded"),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400},
            ContextTooLong,
            "context_too_long",
        ),
        (400, report("no", None, "exceed_context_size_error"), ContextTooLong, "exceed_context_size_error"),
        (400, report("a context window exceeded error", "400"), ContextTooLong, "context_too_long"),
        (400, report("Your credit balance is too low", "400"), UpstreamQuotaSpent, "quota_spent"),
        (400, report("Invalid model name passed in model=x", "400"), UnknownModel, "model_not_found"),
        (429, report("x", "429", "throttling_error"), UpstreamThrottled, "throttled"),
        (400, report("filtered", "content_filter"), UpstreamRejected, "content_filter"),
        (400, report("Unsupported parameter", "unsupported_parameter"), UpstreamRejected, "unsupported_parameter"),
        (422, {"detail": [{"loc": ["body", "top_k"], "msg": "Extra inputs"}]}, UpstreamRejected, "rejected"),
        (500, report("boom", None, "server_error"), UpstreamFault, "server_error"),
        (502, {}, UpstreamFault, "internal"),
        (503, report("The server is overloaded"), UpstreamOverloaded, "overloaded"),
        (503, {}, UpstreamOverloaded, "overloaded"),
        (504, {}, UpstreamTimeout, "timeout"),
        (413, {}, ContextTooLong, "request_too_large"),
        (
            413,
            report("Request too large for model `x` on tokens per minute (TPM)", "rate_limit_exceeded", "tokens"),
            ContextTooLong,
            "request_too_large",
        ),
        (301, {}, NotTheUpstream, "upstream.redirect"),
        (204, {}, UpstreamProtocolError, "upstream.status"),
    ],
)
def test_refusals(status: int, body: Any, error: type[KiroAsgiError], code: str) -> None:
    """Code, words, type, status: the most telling decides."""
    found = refusal(status, body)

    assert type(found) is error
    assert found.code == code


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (report("no"), "no (HTTP 400)"),
        ({"error": {"message": "bad value", "param": "seed"}}, "seed: bad value (HTTP 400)"),
        ({"error": {"message": "bad seed", "param": "seed"}}, "bad seed (HTTP 400)"),
        ({"error": "text"}, "text (HTTP 400)"),
        ({"message": "flat"}, "flat (HTTP 400)"),
        ({"detail": "plain"}, "plain (HTTP 400)"),
        ({"detail": [{"loc": ["body", "a"], "msg": "x"}, 7]}, "body.a: x (HTTP 400)"),
        (7, "7 (HTTP 400)"),
    ],
)
def test_the_services_words_are_passed_on(body: Any, message: str) -> None:
    """From whatever place they stand in."""
    assert refusal(400, body).message == message


def test_web_pages_and_nothing() -> None:
    """Of a proxy's page the title is shown; silence is said to be one."""
    assert fault(502, (), b"<html>\n<h1>Bad gateway</h1>").message == "a web page: Bad gateway (HTTP 502)"
    assert fault(502, (), b"").message == "no explanation (HTTP 502)"


@pytest.mark.parametrize(
    "key", ["sk-proj-abcdefgh12345678", "sk-ant-api03-abcdefgh", "sk-or-v1-0123456789", "gsk_abcdefgh1"]
)
def test_keys_are_not_passed_on(key: str) -> None:
    """Some servers repeat the key that they refuse."""
    assert refusal(401, report(f"Incorrect API key provided: {key}.")).message == (
        "Incorrect API key provided: [redacted]. (HTTP 401)"
    )


def test_clients_know_a_long_prompt_by_four_words() -> None:
    """So the message has them."""
    assert refusal(400, report("x", "context_length_exceeded")).message.startswith("prompt is too long: ")


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"retry_after": "7"}, "", 7),
        ({"retry_after_ms": "1500"}, "", 1.5),
        ({"x_ratelimit_reset_requests": "1s", "x_ratelimit_reset_tokens": "6m0s"}, "", 360),
        (
            {
                "x_ratelimit_reset_requests": "20ms",
                "x_ratelimit_reset_tokens": "6m0s",
                "x_ratelimit_remaining_tokens": "9",
                "x_ratelimit_remaining_requests": "0",
            },
            "",
            0.02,
        ),
        ({}, "Please try again in 1.5s.", 1.5),
        ({}, "Please try again in 1h2m.", 3600),
        ({"x_ratelimit_reset_tokens": "soon"}, "later", None),
        ({"x_ratelimit_reset_tokens": "9999999d"}, "", MAX_RETRY_AFTER),
    ],
)
def test_when_to_ask_again(headers: dict[str, str], message: str, seconds: float | None) -> None:
    """By the header made for it, else by the limit that is used up, else by the words."""
    assert refusal(429, report(message or "x"), **headers).retry_after == seconds


@given(st.integers(100, 599), st.binary(max_size=60) | st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["error", "message", "code", "type", "detail", "param", "loc", "msg"]), inner),
    max_leaves=6,
).map(lambda value: json.dumps(value).encode()), st.text("0123456789.smhd", max_size=8))  # fmt: skip
def test_anything_is_an_error(status: int, body: bytes, duration: str) -> None:
    """Of the tree, with one short line."""
    found = fault(status, [(b"x-ratelimit-reset-tokens", duration.encode())], body)

    assert found.message.isprintable()
    assert len(found.message) <= MAX_MESSAGE + 60
    assert found.retry_after is None or 0 < found.retry_after <= MAX_RETRY_AFTER
