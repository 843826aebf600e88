from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

import anthropic
import httpx2
import pytest

from kiro_asgi import errors
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import ErrorReply
from kiro_asgi.dialects.errors import REFUSED
from kiro_asgi.errors import (
    AnswerTooLarge,
    BodyTimeout,
    BodyTooLarge,
    ConfigError,
    ContextTooLong,
    ConversationNotFound,
    ForeignOrigin,
    InternalError,
    KeyExpired,
    KeysUnavailable,
    KiroAsgiError,
    LimitReached,
    LimitSpent,
    MethodNotAllowed,
    NotTheUpstream,
    NoWebSocket,
    RequestError,
    ResponseNotFound,
    RouteNotFound,
    StoreUnavailable,
    TooBusy,
    Unauthorized,
    UnknownModel,
    UnmetPromise,
    UnsupportedEncoding,
    UnsupportedMediaType,
    UpstreamDenied,
    UpstreamError,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamLimitReached,
    UpstreamLimitSpent,
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
    UpstreamUnreachable,
)

DIALECT = AnthropicMessages()

TYPES: dict[type[KiroAsgiError], tuple[int, str]] = {
    KiroAsgiError: (500, "api_error"),
    ConfigError: (500, "api_error"),
    InternalError: (500, "api_error"),
    LimitReached: (429, "rate_limit_error"),
    LimitSpent: (402, "billing_error"),
    TooBusy: (503, "overloaded_error"),
    KeysUnavailable: (503, "api_error"),
    StoreUnavailable: (503, "api_error"),
    RequestError: (400, "invalid_request_error"),
    Unauthorized: (401, "authentication_error"),
    KeyExpired: (401, "authentication_error"),
    ForeignOrigin: (403, "permission_error"),
    RouteNotFound: (404, "not_found_error"),
    ConversationNotFound: (404, "invalid_request_error"),
    ResponseNotFound: (404, "invalid_request_error"),
    UnknownModel: (404, "not_found_error"),
    MethodNotAllowed: (405, "invalid_request_error"),
    NoWebSocket: (426, "invalid_request_error"),
    BodyTimeout: (408, "timeout_error"),
    BodyTooLarge: (413, "request_too_large"),
    UnsupportedEncoding: (415, "invalid_request_error"),
    UnsupportedMediaType: (415, "invalid_request_error"),
    ContextTooLong: (400, "invalid_request_error"),
    UnmetPromise: (502, "api_error"),
    UpstreamError: (502, "api_error"),
    UpstreamFault: (502, "api_error"),
    UpstreamUnavailable: (503, "overloaded_error"),
    UpstreamProtocolError: (502, "api_error"),
    NotTheUpstream: (502, "api_error"),
    AnswerTooLarge: (502, "api_error"),
    UpstreamUnreachable: (503, "overloaded_error"),
    UpstreamTimeout: (504, "timeout_error"),
    UpstreamThrottled: (429, "rate_limit_error"),
    UpstreamRateExceeded: (429, "rate_limit_error"),
    UpstreamLimitReached: (429, "rate_limit_error"),
    UpstreamLimitSpent: (402, "billing_error"),
    UpstreamOverloaded: (529, "overloaded_error"),
    UpstreamQuotaSpent: (402, "billing_error"),
    UpstreamModelQuotaSpent: (402, "billing_error"),
    UpstreamRequestTooCostly: (402, "billing_error"),
    UpstreamDenied: (502, "api_error"),
    UpstreamForbidden: (502, "api_error"),
    UpstreamUnauthorized: (502, "api_error"),
    UpstreamModelDenied: (404, "not_found_error"),
    UpstreamTokenInvalid: (502, "api_error"),
    UpstreamSuspicious: (502, "api_error"),
    UpstreamSuspended: (502, "api_error"),
    UpstreamRejected: (400, "invalid_request_error"),
}


def reply(error: KiroAsgiError) -> ErrorReply:
    return DIALECT.error(error, "req_1")


def headers(error: KiroAsgiError) -> dict[bytes, bytes]:
    return dict(reply(error).headers)


def test_the_table_is_complete() -> None:
    """Every class of the tree is in the table of this test."""
    tree = {each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, KiroAsgiError)}

    assert set(TYPES) == tree


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_each_class_has_its_status_and_type(cls: type[KiroAsgiError]) -> None:
    """The status is the error's own; the type is the word of the API; the keys keep their order."""
    status, kind = TYPES[cls]
    answer = reply(cls("some text"))

    assert answer.status == status
    assert answer.body.startswith(b'{"type":"error","error":{"type":"%b","message":"' % kind.encode())
    assert answer.body.endswith(b'"},"request_id":"req_1"}')
    assert json.loads(answer.body)["error"]["type"] == kind


@pytest.fixture(scope="module")
def client() -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="x") as client:
        yield client


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_the_official_sdk_understands_each(cls: type[KiroAsgiError], client: anthropic.Anthropic) -> None:
    """The SDK raises the class that belongs to the status and finds the type and the request's id."""
    answer = reply(cls("some text"))
    response = httpx2.Response(
        answer.status, content=answer.body, headers={"request-id": "req_1"}, request=httpx2.Request("POST", "http://x/")
    )
    error = client._make_status_error_from_response(response)

    assert error.status_code == TYPES[cls][0]
    assert getattr(error, "type", None) == TYPES[cls][1]
    assert error.request_id == "req_1"


NAMED = UnknownModel("Invalid model ID.")
NAMED.model = "gpt-9"


def test_a_new_subclass_needs_no_entry() -> None:
    """The type is that of the nearest base."""

    class Fuller(UpstreamOverloaded):
        pass

    assert json.loads(reply(Fuller("x")).body)["error"]["type"] == "overloaded_error"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(Unauthorized("no such key"), "invalid x-api-key", id="key"),
        pytest.param(UnknownModel("nope"), "model: nope", id="model"),
        pytest.param(UnknownModel("model: nope; did you mean yes?"), "model: nope; did you mean yes?", id="model-said"),
        pytest.param(ContextTooLong("9 tokens > 8 maximum"), "prompt is too long: 9 tokens > 8 maximum", id="context"),
        pytest.param(ContextTooLong("prompt is too long: 9"), "prompt is too long: 9", id="context-said"),
        pytest.param(
            ContextTooLong("The input token count (9) exceeds the maximum number of tokens allowed (8)."),
            "prompt is too long: 9 tokens > 8 maximum; "
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            id="context-of-gemini",
        ),
        pytest.param(NAMED, "model: gpt-9 Invalid model ID.", id="model-named"),
        pytest.param(RequestError("a\r\n\u2028\x00b"), "a\r\n\u2028\x00b", id="R26-line-ends"),
    ],
)
def test_messages_hold_the_phrases_that_clients_look_for(error: KiroAsgiError, message: str) -> None:
    """Clients decide by the text what to do next."""
    answer = reply(error)

    assert json.loads(answer.body)["error"]["message"] == message
    assert b"\n" not in answer.body and b"\r" not in answer.body


def test_the_rejected_key_byte_for_byte() -> None:
    """Clients search the body for this very text."""
    assert reply(Unauthorized("")).body == (
        b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"req_1"}'
    )


def after(seconds: int, milliseconds: int) -> dict[bytes, bytes]:
    return {b"retry-after": b"%d" % seconds, b"retry-after-ms": b"%d" % milliseconds}


FINAL = {b"x-should-retry": b"false"}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(UpstreamThrottled("", retry_after=1.2), after(2, 1200), id="rounded-up"),
        pytest.param(UpstreamThrottled("", retry_after=0), after(1, 1000), id="at-once-is-no-time"),
        pytest.param(TooBusy("", retry_after=3), after(3, 3000), id="busy"),
        pytest.param(UpstreamOverloaded("", retry_after=120), after(120, 120_000), id="as-long-as-clients-sleep"),
        pytest.param(UpstreamOverloaded("", retry_after=900), FINAL, id="longer"),
        pytest.param(UpstreamThrottled("", retry_after=float("inf")), FINAL, id="endless"),
        pytest.param(UpstreamThrottled("", retry_after=float("nan")), after(1, 1000), id="no-number"),
        pytest.param(UpstreamThrottled(""), after(1, 1000), id="nobody-said"),
        pytest.param(UpstreamOverloaded(""), after(1, 1000), id="nobody-said-529"),
        pytest.param(TooBusy(""), after(1, 1000), id="nobody-said-503"),
        pytest.param(UpstreamFault("", retry_after=3), {}, id="not-for-502"),
        pytest.param(UpstreamQuotaSpent(""), FINAL, id="quota"),
        pytest.param(UpstreamQuotaSpent("", retry_after=60), FINAL, id="quota-of-a-minute"),
        pytest.param(RequestError(""), FINAL, id="bad-request"),
        pytest.param(UpstreamDenied(""), FINAL, id="denied"),
        pytest.param(UpstreamDenied("", retry_after=2), FINAL, id="denied-for-now"),
        pytest.param(BodyTimeout(""), {}, id="timeout-may-be-retried"),
        pytest.param(MethodNotAllowed("", allow=("GET", "HEAD")), FINAL | {b"allow": b"GET, HEAD"}, id="allow"),
    ],
)
def test_headers(error: KiroAsgiError, expected: dict[bytes, bytes]) -> None:
    """R41: a client is told when to come back, always where the status invites it to, or that it need not."""
    assert headers(error) == expected


@pytest.mark.parametrize("error", [UpstreamFault, UpstreamThrottled, UpstreamOverloaded, UpstreamTimeout])
def test_what_was_tried_again_is_not_tried_again_by_the_client(error: type[KiroAsgiError]) -> None:
    """R41: there is one retry loop; the client learns that it has run, and when the gateway would try next."""
    told = error("", retry_after=4)
    told.retried = True

    assert headers(told) == FINAL | after(4, 4000)


def test_the_gateways_credential_is_not_the_clients() -> None:
    """A service's refusal of our key does not read like one of the client's: not in status, type or words."""
    error = UpstreamTokenInvalid("Incorrect API key provided.", code="invalid_api_key")
    body = json.loads(reply(error).body)["error"]

    assert body == {"type": "api_error", "message": REFUSED + "Incorrect API key provided."}
