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
    UpstreamError,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamModelQuotaSpent,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
)
from kiro_asgi.failures.waits import MAX_RETRY_AFTER, seconds
from kiro_asgi.model.prompt import ToolCallPart
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from tests.upstreams.faults import failure_of
from tests.upstreams.faults import gemini as fault
from tests.upstreams.gemini.asked import KEY, rendered
from tests.upstreams.kiro.prompts import ask, assistant, result, user


def report(message: str, status: str = "", *details: dict[str, Any], code: int = 0) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": [*details]}}


def refusal(http: int, *args: Any, **headers: str) -> KiroAsgiError:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return fault(http, fields, json.dumps(report(*args)).encode())


def info(reason: str, **metadata: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "metadata": metadata}


def quota(quota_id: str, value: str = "10") -> dict[str, Any]:
    violation = {"quotaId": quota_id, "quotaValue": value}
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


def retry(delay: Any) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


MISSING = "Function call is missing a thought_signature in functionCall parts. ... function call `default_api:f`"


@pytest.mark.parametrize(
    ("http", "told", "error", "code"),
    [
        (400, ("x", "INVALID_ARGUMENT"), UpstreamRejected, "INVALID_ARGUMENT"),
        (400, ("x", "FAILED_PRECONDITION"), UpstreamRejected, "FAILED_PRECONDITION"),
        (400, ("x", "OUT_OF_RANGE"), UpstreamRejected, "OUT_OF_RANGE"),
        (400, ("x", "INVALID_ARGUMENT", info("API_KEY_INVALID")), UpstreamTokenInvalid, "API_KEY_INVALID"),
        (400, ("API key not valid. Please pass a valid API key.",), UpstreamTokenInvalid, "token_invalid"),
        (400, (MISSING, "INVALID_ARGUMENT"), UpstreamRejected, "thinking_signature_invalid"),
        (400, ("Corrupted thought signature.", "INVALID_ARGUMENT"), UpstreamRejected, "thinking_signature_invalid"),
        (400, ("User location is not supported for the API use.",), UpstreamDenied, "location"),
        (
            400,
            ("The input token count (9) exceeds the maximum number of tokens allowed (8).", "INVALID_ARGUMENT"),
            ContextTooLong,
            "context_too_long",
        ),
        (500, ("a context window exceeded error",), ContextTooLong, "context_too_long"),
        (400, ("Invalid model name passed in model=x",), UnknownModel, "model_not_found"),
        (401, ("x", "UNAUTHENTICATED"), UpstreamTokenInvalid, "token_invalid"),
        (403, ("x", "PERMISSION_DENIED"), UpstreamForbidden, "access_denied"),
        (403, ("x", "PERMISSION_DENIED", info("CONSUMER_SUSPENDED")), UpstreamSuspended, "CONSUMER_SUSPENDED"),
        (404, ("models/x is not found for API version v1beta", "NOT_FOUND"), UnknownModel, "model_not_found"),
        (404, ("x", "NOT_FOUND"), UpstreamRejected, "not_found"),
        (429, ("x", "RESOURCE_EXHAUSTED"), UpstreamThrottled, "throttled"),
        (429, ("x", "RESOURCE_EXHAUSTED", info("RATE_LIMIT_EXCEEDED")), UpstreamRateExceeded, "RATE_LIMIT_EXCEEDED"),
        (429, ("x", "RESOURCE_EXHAUSTED", quota("RequestsPerMinutePerProject")), UpstreamRateExceeded, "rate_exceeded"),
        (429, ("x", "RESOURCE_EXHAUSTED", quota("RequestsPerDayPerProject")), UpstreamQuotaSpent, "quota_spent"),
        (429, ("x", "RESOURCE_EXHAUSTED", quota("PerMinute", "0")), UpstreamModelQuotaSpent, "model_quota_spent"),
        (
            429,
            ("x", "RESOURCE_EXHAUSTED", quota("PerDayPerProjectPerModel")),
            UpstreamModelQuotaSpent,
            "model_quota_spent",
        ),
        (
            429,
            ("x", "RESOURCE_EXHAUSTED", quota("PerDayPerProjectPerModel"), quota("PerDayPerProject")),
            UpstreamQuotaSpent,
            "quota_spent",
        ),
        (
            429,
            ("Quota exceeded, limit: 0, model: m", "RESOURCE_EXHAUSTED"),
            UpstreamModelQuotaSpent,
            "model_quota_spent",
        ),
        (429, ("Quota exceeded for it, limit: 0.5", "RESOURCE_EXHAUSTED"), UpstreamRateExceeded, "rate_exceeded"),
        (499, ("x", "CANCELLED"), UpstreamTimeout, "timeout"),
        (500, ("x", "INTERNAL"), UpstreamFault, "internal"),
        (503, ("The model is overloaded.", "UNAVAILABLE"), UpstreamOverloaded, "overloaded"),
        (503, ("x", "UNAVAILABLE"), UpstreamOverloaded, "UNAVAILABLE"),
        (504, ("x", "DEADLINE_EXCEEDED"), UpstreamTimeout, "timeout"),
        (418, ("x", "NEW"), UpstreamRejected, "NEW"),
        (529, ("x",), UpstreamOverloaded, "overloaded"),
        (302, ("x",), NotTheUpstream, "upstream.redirect"),
        (999, ("x",), UpstreamProtocolError, "upstream.status"),
    ],
)
def test_refusals(http: int, told: tuple[Any, ...], error: type[KiroAsgiError], code: str) -> None:
    """The most telling fact decides, and a list around the report changes nothing."""
    found = refusal(http, *told)
    listed = fault(http, (), json.dumps([report(*told)]).encode())

    assert (type(found), found.code) == (type(listed), listed.code) == (error, code)
    assert found.message == listed.message
    assert found.message.endswith(f"{told[0]} (HTTP {http})")


def test_a_report_in_an_answer_means_the_same() -> None:
    """Without the HTTP status in its words, as there was none."""
    told = report("x", "RESOURCE_EXHAUSTED", quota("PerMinute"), retry("3s"), code=429)
    found = failure_of("gemini", "", told)

    assert (type(found), found.message, found.retry_after) == (UpstreamRateExceeded, "x", 3.0)
    assert type(failure_of("gemini", "", {"error": "boom"})) is UpstreamFault


def test_how_long_to_wait() -> None:
    """The header counts for most, then RetryInfo, then the metadata; a day's quota names no time that helps."""
    details = info("RATE_LIMIT_EXCEEDED", quotaResetDelay="200ms"), retry("1.5s")

    assert refusal(429, "x", "", *details, retry_after="7").retry_after == 7
    assert refusal(429, "x", "", *details).retry_after == 1.5
    assert refusal(429, "x", "", details[0]).retry_after == 0.2
    assert refusal(429, "x", "", retry("99h")).retry_after == MAX_RETRY_AFTER
    assert refusal(429, "x", "", quota("PerDay"), retry("40s")).retry_after is None


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("1.203608125s", 1.203608125),
        ("200ms", 0.2),
        ("1h16m0.667s", 4560.667),
        ({"seconds": 1, "nanos": 500_000_000}, 1.5),
        ({"seconds": "2"}, 2.0),
        ("", None),
        ("soon", None),
        ("-1s", None),
        ({"seconds": "x"}, None),
        (3, None),
    ],
)
def test_durations(duration: Any, expected: float | None) -> None:
    """All spellings that the service has."""
    found = seconds(duration)

    assert found == (None if expected is None else pytest.approx(expected))


@given(
    st.integers(100, 999),
    st.binary(max_size=40)
    | st.recursive(
        st.none() | st.integers() | st.sampled_from(["x", "INTERNAL", "1s"]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["error", "message", "status", "details", "violations", "retryDelay"]), inner
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
def test_whatever_is_refused_becomes_an_error(status: int, body: bytes) -> None:
    """No body breaks the reading of it."""
    found = fault(status, [(b"Retry-After", b"x")], body)

    assert isinstance(found, UpstreamError | ContextTooLong)
    assert f"(HTTP {status})" in found.message


def test_a_key_is_not_repeated() -> None:
    """The service names the key that it does not like any more; our errors do not."""
    found = refusal(403, "Consumer 'api_key:AIzaSyA-0123456789_abcdefghijklmnopqrstu' has been suspended.")

    assert type(found) is UpstreamSuspended
    assert "AIza" not in found.message


def test_a_refused_signature_is_left_out_once() -> None:
    """``adapted.signatures``: the same conversation is asked once more without; other errors are no reason."""
    upstream = GeminiUpstream()
    prompt = ask(user("a"), assistant(ToolCallPart("c", "f", {})), user(result("c")))
    found = rendered(prompt)
    adapted = upstream.adapt_after_error(refusal(400, MISSING, "INVALID_ARGUMENT"), found)

    assert adapted is not None
    assert adapted.render(prompt, upstream.builtin[0], KEY).notes[0].rule == "adapted.signatures"
    assert adapted.adapt_after_error(refusal(400, MISSING, "INVALID_ARGUMENT"), found) is None
    assert upstream.adapt_after_error(refusal(400, "x", "INVALID_ARGUMENT"), found) is None
    assert upstream.adapt_after_error(refusal(400, MISSING, "INVALID_ARGUMENT"), rendered(ask(user("a")))) is None
