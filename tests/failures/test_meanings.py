"""One meaning for one refusal: whichever service says it, and however it comes."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    NotTheUpstream,
    Reach,
    UnknownModel,
    UpstreamDenied,
    UpstreamError,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamModelDenied,
    UpstreamModelQuotaSpent,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamRequestTooCostly,
    UpstreamSuspended,
    UpstreamSuspicious,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
    UpstreamUnauthorized,
    UpstreamUnavailable,
)
from kiro_asgi.failures.members import blames_member
from kiro_asgi.failures.report import report_in
from kiro_asgi.failures.texts import MAX_MESSAGE
from tests.upstreams.faults import OWN, failure_of, fault_of

SAID: Final[Mapping[str, tuple[int, type[KiroAsgiError], Reach]]] = {
    "Your API key has been revoked": (401, UpstreamTokenInvalid, Reach.CREDENTIAL),
    "Incorrect API key provided": (403, UpstreamTokenInvalid, Reach.CREDENTIAL),
    "The bearer token included in the request is expired": (403, UpstreamTokenInvalid, Reach.CREDENTIAL),
    "no": (401, UpstreamUnauthorized, Reach.REQUEST),
    "nope": (403, UpstreamForbidden, Reach.REQUEST),
    "You don't have access to the model with the specified model ID.": (403, UpstreamModelDenied, Reach.PAIR),
    "You are not allowed to sample from this model": (401, UpstreamModelDenied, Reach.PAIR),
    "User is not authorized to access this model.": (403, UpstreamModelDenied, Reach.PAIR),
    "this model requires a subscription, upgrade for access": (403, UpstreamModelDenied, Reach.PAIR),
    "Your key does not have permission to use the specified resource.": (403, UpstreamModelDenied, Reach.PAIR),
    "Your account has been suspended": (403, UpstreamSuspended, Reach.SERVICE),
    "Due to suspicious activity, we are imposing temporary limits": (429, UpstreamSuspicious, Reach.SERVICE),
    "User location is not supported for the API use.": (400, UpstreamDenied, Reach.CREDENTIAL),
    "余额不足或无可用资源包,请充值。": (429, UpstreamQuotaSpent, Reach.CREDENTIAL),
    "Usage limit reached for 5 hour. Your limit will reset at 2026-11-28 15:18:12": (
        429,
        UpstreamQuotaSpent,
        Reach.CREDENTIAL,
    ),
    "Your team has either used all available credits or reached its monthly spending limit.": (
        429,
        UpstreamQuotaSpent,
        Reach.CREDENTIAL,
    ),
    "The request failed because your account has an overdue balance.": (403, UpstreamQuotaSpent, Reach.CREDENTIAL),
    "Your paid balance is insufficient. Please top up and try again.": (403, UpstreamQuotaSpent, Reach.CREDENTIAL),
    "account suspended, possibly due to reaching the monthly spending limit": (
        412,
        UpstreamQuotaSpent,
        Reach.CREDENTIAL,
    ),
    "Budget has been exceeded! Current cost: 0.30011, Max budget: 0.3": (400, UpstreamQuotaSpent, Reach.CREDENTIAL),
    "This request requires more credits, or fewer max_tokens": (402, UpstreamRequestTooCostly, Reach.REQUEST),
    "You exceeded your current quota, limit: 0": (429, UpstreamModelQuotaSpent, Reach.PAIR),
    "You exceeded your current quota. Please retry in 1.4s.": (429, UpstreamThrottled, Reach.CREDENTIAL),
    "Too many tokens, please wait before trying again.": (429, UpstreamThrottled, Reach.CREDENTIAL),
    "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.": (
        400,
        ContextTooLong,
        Reach.REQUEST,
    ),
    "Range of input length should be [1, 129024]": (400, ContextTooLong, Reach.REQUEST),
    "Prompt has 256468 tokens, but the configured context size is 256000 tokens": (
        400,
        ContextTooLong,
        Reach.REQUEST,
    ),
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000": (
        400,
        ContextTooLong,
        Reach.REQUEST,
    ),
    "Prompt exceeds max length": (403, ContextTooLong, Reach.REQUEST),
    "invalid params, context window exceeds limit (2013)": (400, ContextTooLong, Reach.REQUEST),
    "Content blocked by our policy": (403, UpstreamRejected, Reach.REQUEST),
    "Unsupported parameter: top_k": (400, UpstreamRejected, Reach.MEMBER),
    "temperature must be between 0 and 2": (400, UpstreamRejected, Reach.REQUEST),
    "The model is overloaded": (503, UpstreamOverloaded, Reach.MODEL),
    "no such model: x": (404, UnknownModel, Reach.MODEL),
    "404 page not found": (404, NotTheUpstream, Reach.SERVICE),
    "Invalid URL (POST /v1/v1/chat/completions)": (404, NotTheUpstream, Reach.SERVICE),
}
"""What is said, with which status, and what it means."""

Carrier = Callable[[str, int], Any]

CARRIERS: Final[Mapping[str, Carrier]] = {
    "object": lambda said, _: {"error": {"message": said}},
    "text": lambda said, _: {"error": said},
    "flat": lambda said, _: {"message": said},
    "capital": lambda said, _: {"Message": said},
    "array": lambda said, status: [{"error": {"code": status, "message": said}}],
    "errors": lambda said, _: {"errors": [{"message": said}]},
    "detail": lambda said, _: {"detail": said},
    "problem": lambda said, status: {"type": "about:blank", "title": said, "status": status},
    "JSON within a text": lambda said, _: {"error": {"message": json.dumps({"error": {"message": said}})}},
    "behind another service": lambda said, status: {
        "error": {
            "message": "Provider returned error",
            "code": status,
            "metadata": {"raw": json.dumps({"error": {"message": said}}), "provider_name": "Deep"},
        }
    },
    "MiniMax's": lambda said, _: {"base_resp": {"status_code": 2, "status_msg": said}},
    "success: false": lambda said, _: {"success": False, "msg": said},
}


@pytest.mark.parametrize("service", OWN)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_refusal_means_the_same_at_every_service_in_every_carrier(carrier: str, service: str) -> None:
    """Kind, reach and status; as an HTTP body, packed, and in the middle of an answer with the status beside it."""
    for said, (status, kind, reach) in SAID.items():
        if carrier == "problem" and kind is NotTheUpstream:
            continue
        body = CARRIERS[carrier](said, status)
        found = [
            fault_of(service, status, [], json.dumps(body).encode()),
            fault_of(service, status, [(b"content-encoding", b"gzip")], gzip.compress(json.dumps(body).encode())),
        ]
        for error in found:
            assert (type(error), error.reach) in ((kind, reach), (UpstreamRateExceeded, reach)), (said, error)
            assert said in error.message or kind is ContextTooLong
            assert f"(HTTP {status})" in error.message


@pytest.mark.parametrize("service", OWN)
def test_a_text_that_is_no_json_means_the_same(service: str) -> None:
    """A proxy may take the document away, and leave its words."""
    for said, (status, kind, reach) in SAID.items():
        error = fault_of(service, status, [(b"content-type", b"text/plain")], said.encode())
        assert (type(error), error.reach) == (kind, reach), said


@pytest.mark.parametrize("service", OWN)
def test_a_report_in_an_answer_means_what_its_words_say(service: str) -> None:
    """A stream has no status, so it is the words, and a status where the report names one."""
    for said, (status, kind, reach) in SAID.items():
        report = {"error": {"message": said, "code": status}}
        assert report_in(report) is report
        error = failure_of(service, "error", report)
        assert (type(error), error.reach) == (kind, reach), said


BODIES: Final = json.loads(Path(__file__).with_name("bodies.json").read_text("utf-8"))

KINDS: Final[Mapping[type[KiroAsgiError], str]] = {
    UpstreamTokenInvalid: "credential_wrong",
    UpstreamUnauthorized: "credential_wrong",
    UpstreamDenied: "account_not_permitted",
    UpstreamForbidden: "account_not_permitted",
    UpstreamSuspended: "account_not_permitted",
    UpstreamSuspicious: "account_not_permitted",
    UpstreamModelDenied: "model_not_permitted",
    UpstreamQuotaSpent: "balance_spent",
    UpstreamModelQuotaSpent: "balance_spent",
    UpstreamRequestTooCostly: "too_costly",
    UpstreamThrottled: "rate_limit",
    UpstreamRateExceeded: "rate_limit",
    ContextTooLong: "too_long",
    UnknownModel: "unknown_model",
    UpstreamOverloaded: "overloaded",
    UpstreamUnavailable: "overloaded",
    UpstreamFault: "broken",
    UpstreamError: "broken",
    UpstreamProtocolError: "broken",
    UpstreamTimeout: "timeout",
    NotTheUpstream: "not_the_service",
}

_CONTENT: Final = ("content", "policy", "moderation", "safety", "prompt", "inspection", "sensitive")


def kind_of(error: KiroAsgiError) -> str:
    """The kind of *error*, in the words in which the bodies were classed."""
    if type(error) is UpstreamRejected:
        if any(word in error.code.lower() for word in _CONTENT):
            return "content_refused"
        return "member_refused" if blames_member(error) else "value_refused"
    return KINDS[type(error)]


def judged(case: Mapping[str, Any]) -> KiroAsgiError | None:
    """The error of a body that services' documentation, or a user of theirs, has shown."""
    service = "openai" if case["service"] == "custom" else case["service"]
    headers = [(name.lower().encode(), str(value).encode()) for name, value in case["headers"].items()]
    if case["status"] != 200:
        return fault_of(service, case["status"], headers, case["body"].encode())
    name = ""
    for line in case["body"].splitlines():
        if line.startswith("event:"):
            name = line[6:].strip()
        data = line[5:] if line.startswith("data:") else line
        try:
            value = json.loads(data)
        except ValueError:
            continue
        if isinstance(value, dict) and report_in(value, name):
            return failure_of(service, name, value)
    return None


def test_bodies_of_services_are_classed_as_a_person_classed_them() -> None:
    """Nine of ten, of each kind but two.

    The person knew no table.  Of requests that are too large for a minute's limit, the person said that they are too
    costly; here they are too long, which is what agents act upon.
    """
    found = Counter(case["kind"] for case in BODIES)
    agreed = Counter(case["kind"] for case in BODIES if (error := judged(case)) and kind_of(error) == case["kind"])

    assert sum(agreed.values()) >= 0.89 * len(BODIES)
    poor = {kind for kind, count in found.items() if agreed[kind] < 0.7 * count}
    assert poor <= {"too_costly", "model_not_permitted"}


@given(
    st.sampled_from([*OWN]),
    st.integers(100, 599),
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["error", "errors", "message", "code", "type", "detail", "metadata", "raw", "status", "reason"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
    st.text(max_size=12),
)
def test_whatever_comes_is_one_short_error(service: str, status: int, body: bytes, header: str) -> None:
    """Of the tree, in one line that can be printed, whatever a service sends."""
    headers = [(b"retry-after", header.encode()), (b"content-encoding", header.encode())]
    error = fault_of(service, status, headers, body)

    assert error.message.isprintable()
    assert len(error.message) <= MAX_MESSAGE + 200
    assert error.code


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"<!DOCTYPE html><title>Just a moment...</title><script>window._cf_chl_opt={}</script>", []),
        (b"Please wait", [(b"cf-mitigated", b"challenge")]),
        (b"<html><head><title>Sign in to Airport Wi-Fi</title></head></html>", [(b"content-type", b"text/html")]),
    ],
)
@pytest.mark.parametrize("service", OWN)
def test_a_page_of_somebody_else_is_not_the_service(service: str, body: bytes, headers: Any) -> None:
    """It says nothing of the credential, and only its title is shown."""
    error = fault_of(service, 403, headers, body)

    assert (type(error), error.reach) == (NotTheUpstream, Reach.SERVICE)
    assert "<" not in error.message and "_cf_chl" not in error.message


def test_a_foreign_document_is_shown_by_its_names_alone() -> None:
    """A token in it is nobody's business."""
    error = fault_of("any", 502, [], b'{"accessToken": "tok-new", "refreshToken": "ref-2"}')

    assert "accessToken" in error.message
    assert "tok-new" not in error.message and "ref-2" not in error.message


def test_a_packed_refusal_is_unpacked_within_a_cap() -> None:
    """What a service packs is read; what unpacks to more than a refusal may have is cut."""
    bomb = gzip.compress(b'{"message":"' + b"x" * 50_000_000 + b'"}')
    error = fault_of("any", 400, [(b"content-encoding", b"gzip")], bomb)

    assert len(error.message) <= MAX_MESSAGE + 60


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please retry in 38.4s", 38.4),
        ("Please try again in 11.054s.", 11.054),
        ("try again in 6m0s", 360),
        ("Please wait 90 seconds before retrying", None),
        ("Please wait for 90 seconds", 90),
        ("retry after 2 minutes", 120),
        ("available in 30 minutes and 30 seconds", 1830),
        ("try again later", None),
        ("it was asked in 2026 for 12 s", None),
    ],
)
def test_a_wait_in_words_is_read_in_streams_too(words: str, seconds: float | None) -> None:
    """A stream has no headers."""
    error = failure_of("any", "error", {"error": {"message": f"Rate limit reached. {words}", "code": 429}})

    assert isinstance(error, UpstreamThrottled)
    assert error.retry_after == (None if seconds is None else pytest.approx(seconds))


def test_a_limit_that_is_reset_at_a_time() -> None:
    """Compared with the answer's own date."""
    said = b'{"error":{"message":"Usage limit reached. Your limit will reset at 2026-10-21 09:28:00"}}'
    error = fault_of("any", 429, [(b"date", b"Wed, 21 Oct 2026 07:28:00 GMT")], said)

    assert isinstance(error, UpstreamQuotaSpent)
    assert error.retry_after == 7200
