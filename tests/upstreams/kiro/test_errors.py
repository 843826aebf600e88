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
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamSuspicious,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
    UpstreamUnauthorized,
    UpstreamUnavailable,
)
from kiro_asgi.failures.texts import MAX_MESSAGE, clean
from kiro_asgi.failures.waits import MAX_RETRY_AFTER
from tests.upstreams.faults import KIRO_NAMES as NAMES
from tests.upstreams.faults import KIRO_REASONS as REASONS
from tests.upstreams.faults import kiro as fault
from tests.upstreams.faults import kiro_exception as exception_fault

SUSPENDED = "Your User ID (d-123.abc) temporarily is suspended. We've locked it as a security precaution."
SUSPICIOUS = (
    "Due to suspicious activity, we are imposing temporary limits on how frequently your account (x) can be used."
)


def refusal(
    status: int, message: str | None, reason: str | None = None, error_type: str = "", **headers: str
) -> KiroAsgiError:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    if error_type:
        fields.append((b"X-Amzn-ErrorType", error_type.encode()))
    return fault(status, fields, json.dumps({"message": message, "reason": reason}).encode())


@pytest.mark.parametrize(
    ("status", "message", "reason", "error", "code"),
    [
        (400, "Improperly formed request.", None, UpstreamRejected, "improperly_formed"),
        (
            400,
            "Input is too long.",
            "CONTENT_LENGTH_EXCEEDS_THRESHOLD",
            ContextTooLong,
            "CONTENT_LENGTH_EXCEEDS_THRESHOLD",
        ),
        (400, "Input is too long.", None, ContextTooLong, "context_too_long"),
        (400, "x", "PROMPT_TOO_LONG", ContextTooLong, "PROMPT_TOO_LONG"),
        (413, "x", None, ContextTooLong, "request_too_large"),
        (
            400,
            "Invalid model ID. Please select a different model.",
            "INVALID_MODEL_ID",
            UnknownModel,
            "INVALID_MODEL_ID",
        ),
        (400, "Invalid tool use format.", "REQUEST_BODY_INVALID", UpstreamRejected, "REQUEST_BODY_INVALID"),
        (400, "Invalid signature in thinking block", None, UpstreamRejected, "thinking_signature_invalid"),
        (400, "profileArn is required for this request.", None, UpstreamRejected, "profile_required"),
        (400, "x", "NEW_REASON", UpstreamRejected, "NEW_REASON"),
        (400, "x", None, UpstreamRejected, "rejected"),
        (400, "You have reached the limit.", "MONTHLY_REQUEST_COUNT", UpstreamQuotaSpent, "MONTHLY_REQUEST_COUNT"),
        (402, "You have reached the limit.", "MONTHLY_REQUEST_COUNT", UpstreamQuotaSpent, "MONTHLY_REQUEST_COUNT"),
        (403, "x", "OVERAGE_REQUEST_LIMIT_EXCEEDED", UpstreamQuotaSpent, "OVERAGE_REQUEST_LIMIT_EXCEEDED"),
        (429, "x", "DAILY_REQUEST_COUNT", UpstreamQuotaSpent, "DAILY_REQUEST_COUNT"),
        (402, "x", None, UpstreamQuotaSpent, "quota_spent"),
        (401, "x", None, UpstreamUnauthorized, "token_invalid"),
        (403, "The bearer token included in the request is invalid.", None, UpstreamTokenInvalid, "token_invalid"),
        (403, SUSPENDED, "TEMPORARILY_SUSPENDED", UpstreamSuspended, "TEMPORARILY_SUSPENDED"),
        (423, SUSPENDED, None, UpstreamSuspended, "TEMPORARILY_SUSPENDED"),
        (403, "User is not authorized to make this call.", None, UpstreamForbidden, "access_denied"),
        (403, "x", "FEATURE_NOT_SUPPORTED", UpstreamDenied, "FEATURE_NOT_SUPPORTED"),
        (429, SUSPICIOUS, None, UpstreamSuspicious, "suspicious_activity"),
        (429, "Too many requests.", "USER_REQUEST_RATE_EXCEEDED", UpstreamRateExceeded, "USER_REQUEST_RATE_EXCEEDED"),
        (429, "Too many requests.", None, UpstreamThrottled, "throttled"),
        (429, "x", "INSUFFICIENT_MODEL_CAPACITY", UpstreamOverloaded, "INSUFFICIENT_MODEL_CAPACITY"),
        (500, "x", "INSUFFICIENT_MODEL_CAPACITY", UpstreamOverloaded, "INSUFFICIENT_MODEL_CAPACITY"),
        (500, "Encountered unexpectedly high load when processing.", None, UpstreamOverloaded, "overloaded"),
        (503, "x", "MODEL_TEMPORARILY_UNAVAILABLE", UpstreamOverloaded, "MODEL_TEMPORARILY_UNAVAILABLE"),
        (500, "x", None, UpstreamFault, "internal"),
        (503, "x", None, UpstreamUnavailable, "unavailable"),
        (504, "x", None, UpstreamTimeout, "timeout"),
        (404, "x", None, UpstreamRejected, "not_found"),
        (307, "x", None, NotTheUpstream, "upstream.redirect"),
        (204, None, None, UpstreamProtocolError, "upstream.status"),
    ],
)
def test_refusals(status: int, message: str | None, reason: str | None, error: type[KiroAsgiError], code: str) -> None:
    """The reason decides, then well-known words, then the status (5B, R23, R36)."""
    found = refusal(status, message, reason)
    assert (type(found), found.code) == (error, code)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ThrottlingException", UpstreamThrottled),
        ("ThrottlingError", UpstreamThrottled),
        ("aws.protocol#AccessDeniedException:http://internal/", UpstreamForbidden),
        ("ServiceQuotaExceededError", UpstreamQuotaSpent),
        ("ValidationException", UpstreamRejected),
        ("InternalServerError", UpstreamFault),
        ("ServiceUnavailableException", UpstreamUnavailable),
        ("ContentLengthExceededException", ContextTooLong),
        ("ResourceNotFoundException", UpstreamRejected),
        ("ConflictException", UpstreamRejected),
    ],
)
def test_error_names_beat_the_status(name: str, error: type[KiroAsgiError]) -> None:
    """F070: the error's name decides before the status, wherever it stands: header, ``code`` or ``__type``."""
    assert type(refusal(418, "x", error_type=name)) is error
    for key in ("code", "__type"):
        assert type(fault(418, (), json.dumps({key: name, "Message": "x"}).encode())) is error
    assert type(exception_fault(name, {"message": "x"})) is error


CASES = [str, str.lower, str.upper, lambda name: name[0].lower() + name[1:]]
"""Spellings of one name."""

PLACES = [
    "{}",
    "aws.protocol#{}",
    "com.amazon.coral.service#{}",
    "com.amazonaws.codewhisperer.{}",
    "{}:http://internal.amazon.com/coral/com.amazon.coral.service/",
    " com.amazon.aws.codewhisperer#{}:https://x#y ",
]
"""What stands around it."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES, ids=["as-it-is", "lower", "upper", "camel"])
@pytest.mark.parametrize("suffix", ["Exception", "Error"])
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"error"}))
def test_a_name_is_known_however_it_is_written(name: str, suffix: str, case: Any, place: str) -> None:
    """F070: neither case nor namespace nor address makes an exception another one, before an answer and within it."""
    written, (error, code) = place.format(case(name + suffix)), NAMES[name]
    report = {"message": "x"}

    found = [
        refusal(418, "x", error_type=written),
        fault(418, (), json.dumps({"__type": written, **report}).encode()),
        fault(418, (), json.dumps({"code": written, **report}).encode()),
        fault(418, ((b"x-amzn-errortype", b"Unheard"),), json.dumps({"__type": written, **report}).encode()),
        exception_fault(written, report),
        exception_fault("", {"__type": written, **report}),
    ]
    assert {(type(each), each.code) for each in found} == {(error, code)}


@pytest.mark.parametrize("case", CASES[1:])
@pytest.mark.parametrize("reason", sorted(REASONS))
def test_reasons_have_no_case(reason: str, case: Any) -> None:
    """A reason is one whatever its case; its code is spelled as the service's model has it."""
    found = refusal(400, "x", case(reason))

    assert (type(found), found.code) == (REASONS[reason], reason)


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_reasons_beat_everything(reason: str) -> None:
    """A known reason decides whatever the status is, and becomes the code."""
    for status in (400, 403, 429, 500):
        found = refusal(status, "The bearer token is invalid.", reason, "ThrottlingException")
        assert (type(found), found.code) == (REASONS[reason], reason)


def test_what_must_never_be_retried() -> None:
    """A suspended account and one limited for suspicious activity are told in the service's words, never retried."""
    for message in (SUSPENDED, SUSPICIOUS):
        found = refusal(429, message, retry_after="1")
        assert message in found.message
        assert (found.retry_safe, found.status) == (False, 502)


def test_context_too_long_says_so() -> None:
    """Client libraries recognise an overflow by these words."""
    assert refusal(400, "Input is too long.").message == "prompt is too long: Input is too long. (HTTP 400)"


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        pytest.param({"retry_after": "7"}, 7.0, id="seconds"),
        pytest.param({"retry_after": " 1.5 "}, 1.5, id="fraction"),
        pytest.param({"retry_after": "1000000000"}, MAX_RETRY_AFTER, id="absurd"),
        pytest.param({"retry_after": "9" * 5000}, None, id="endless"),
        pytest.param(
            {"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0, id="date"
        ),
        pytest.param({"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None, id="date-without-now"),
        pytest.param(
            {"retry_after": "Wed, 21 Oct 2026 07:27:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 -0000"}, 0.0, id="past"
        ),
        pytest.param({"retry_after": "-5"}, None, id="negative"),
        pytest.param({"retry_after": "soon"}, None, id="garbage"),
        pytest.param({"retry_after": "nan"}, None, id="nan"),
        pytest.param({"retry_after": "Wed, 99 Oct 99999999999 07:27:30 GMT"}, None, id="no-date"),
        pytest.param({}, None, id="absent"),
    ],
)
def test_retry_after(fields: dict[str, str], seconds: float | None) -> None:
    """R41: seconds or a date, capped; garbage is as good as nothing."""
    assert refusal(429, "slow down", **fields).retry_after == seconds


@pytest.mark.parametrize(
    "secret",
    [
        "ksk_abcDEF123",
        "Bearer abcdefghijklmnop1234",
        "bearer aoaAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "aorAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "arn:aws:codewhisperer:us-east-1:123456789012:profile/X",
    ],
)
def test_secrets_are_redacted(secret: str) -> None:
    """F076, R28: what a refusal quotes of our credentials goes no further."""
    for body in (json.dumps({"message": f"see {secret} there"}).encode(), f"<p>{secret}</p>".encode()):
        message = fault(403, (), body).message
        assert "[redacted]" in message
        assert secret.split()[-1] not in message
        assert "123456789012" not in message


def test_ordinary_words_are_not_redacted() -> None:
    """The sentence about the bearer token is no bearer token."""
    assert clean("The bearer token included in the request is invalid.") == (
        "The bearer token included in the request is invalid."
    )


def test_message_holds_status_and_body() -> None:
    """F076, F077: the status and an excerpt of the body, JSON or not; a cut document is an excerpt too."""
    assert fault(502, (), b"<html>Bad\r\nGateway</html>").message == "a web page: Bad Gateway (HTTP 502)"
    assert fault(500, (), b'{"message": "cut').message == '{"message": "cut (HTTP 500)'
    assert fault(500, (), b"").message == "no explanation (HTTP 500)"
    assert len(fault(500, (), b"x" * 100_000).message) <= MAX_MESSAGE + 20


@given(
    st.integers(100, 599), st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=30))), st.binary(max_size=80)
)
def test_any_answer_makes_an_error(status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """R25, R27, R29: whatever arrives, the error is ours, its message one printable line, its code a word."""
    headers = [*headers, (b"Retry-After", body), (b"date", body)]
    found = fault(status, headers, body)
    assert isinstance(found, UpstreamError | ContextTooLong | UnknownModel)
    assert all(character >= " " and character != "\x7f" for character in found.message)
    assert found.code and all(character.isalnum() or character in "._-" for character in found.code)


@given(st.dictionaries(st.sampled_from(["message", "reason", "code", "__type"]), st.none() | st.integers() | st.text()))
def test_any_report_makes_an_error(report: dict[str, Any]) -> None:
    """R25, R27: the same for a report of arbitrary fields."""
    for found in (fault(400, (), json.dumps(report).encode()), exception_fault(str(report.get("code")), report)):
        assert all(character >= " " and character != "\x7f" for character in found.message)
        assert found.code and all(character.isalnum() or character in "._-" for character in found.code)
