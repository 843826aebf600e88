from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

import anthropic
import httpx2
import pytest

from kiro_asgi import errors
from kiro_asgi.dialects.anthropic import AnthropicMessages
from kiro_asgi.dialects.base import ErrorReply
from kiro_asgi.errors import (
    BodyTimeout,
    BodyTooLarge,
    ConfigError,
    ContextTooLong,
    KiroAsgiError,
    MethodNotAllowed,
    NotTheUpstream,
    RequestError,
    ResponseNotFound,
    RouteNotFound,
    StoreUnavailable,
    TooBusy,
    Unauthorized,
    UnknownModel,
    UnsupportedEncoding,
    UpstreamDenied,
    UpstreamError,
    UpstreamFault,
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
    UpstreamUnreachable,
)

DIALECT = AnthropicMessages()

TYPES: dict[type[KiroAsgiError], tuple[int, str]] = {
    KiroAsgiError: (500, "api_error"),
    ConfigError: (500, "api_error"),
    TooBusy: (503, "overloaded_error"),
    StoreUnavailable: (503, "api_error"),
    RequestError: (400, "invalid_request_error"),
    Unauthorized: (401, "authentication_error"),
    RouteNotFound: (404, "not_found_error"),
    ResponseNotFound: (404, "invalid_request_error"),
    UnknownModel: (404, "not_found_error"),
    MethodNotAllowed: (405, "invalid_request_error"),
    BodyTimeout: (408, "timeout_error"),
    BodyTooLarge: (413, "request_too_large"),
    UnsupportedEncoding: (415, "invalid_request_error"),
    ContextTooLong: (400, "invalid_request_error"),
    UpstreamError: (502, "api_error"),
    UpstreamFault: (502, "api_error"),
    UpstreamProtocolError: (502, "api_error"),
    NotTheUpstream: (502, "api_error"),
    UpstreamUnreachable: (502, "api_error"),
    UpstreamTimeout: (504, "timeout_error"),
    UpstreamThrottled: (429, "rate_limit_error"),
    UpstreamRateExceeded: (429, "rate_limit_error"),
    UpstreamOverloaded: (529, "overloaded_error"),
    UpstreamQuotaSpent: (429, "rate_limit_error"),
    UpstreamDenied: (403, "permission_error"),
    UpstreamTokenInvalid: (403, "permission_error"),
    UpstreamSuspicious: (403, "permission_error"),
    UpstreamSuspended: (403, "permission_error"),
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


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(UpstreamThrottled("", retry_after=1.2), {b"retry-after": b"2"}, id="rounded-up"),
        pytest.param(UpstreamThrottled("", retry_after=0), {b"retry-after": b"1"}, id="at-least-one"),
        pytest.param(TooBusy("", retry_after=3), {b"retry-after": b"3"}, id="busy"),
        pytest.param(UpstreamOverloaded("", retry_after=900), {b"retry-after": b"120"}, id="at-most-120"),
        pytest.param(UpstreamThrottled(""), {}, id="nobody-said"),
        pytest.param(UpstreamFault("", retry_after=3), {}, id="not-for-502"),
        pytest.param(UpstreamQuotaSpent(""), {b"x-should-retry": b"false"}, id="quota"),
        pytest.param(
            UpstreamQuotaSpent("", retry_after=86_400),
            {b"x-should-retry": b"false", b"retry-after": b"86400"},
            id="quota-until-the-next",
        ),
        pytest.param(RequestError(""), {b"x-should-retry": b"false"}, id="bad-request"),
        pytest.param(UpstreamDenied(""), {b"x-should-retry": b"false"}, id="denied"),
        pytest.param(BodyTimeout(""), {}, id="timeout-may-be-retried"),
        pytest.param(
            MethodNotAllowed("", allow=("GET", "HEAD")),
            {b"x-should-retry": b"false", b"allow": b"GET, HEAD"},
            id="allow",
        ),
    ],
)
def test_headers(error: KiroAsgiError, expected: dict[bytes, bytes]) -> None:
    """A client is told when to come back, or that it need not."""
    assert headers(error) == expected
