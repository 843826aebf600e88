"""Errors before the first byte, class by class, and what the official client makes of them."""

from __future__ import annotations

import json

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi import errors
from kiro_asgi.dialects.errors import REFUSED as WHOSE
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_common import openai_message, stream_error_object
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.wire.json import JsonError
from tests.dialects.strategies import HOSTILE

INVALID = "invalid_request_error"

TABLE = [
    (errors.KiroAsgiError, 500, "server_error", None, "api_error", openai.InternalServerError),
    (errors.ConfigError, 500, "server_error", None, "api_error", openai.InternalServerError),
    (errors.InternalError, 500, "server_error", "internal_error", "api_error", openai.InternalServerError),
    (errors.LimitReached, 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", openai.RateLimitError),
    (errors.LimitSpent, 402, *["insufficient_quota"] * 3, openai.APIStatusError),
    (errors.TooBusy, 503, "server_error", "server_is_overloaded", "overloaded_error", openai.InternalServerError),
    (errors.KeysUnavailable, 503, "server_error", None, "api_error", openai.InternalServerError),
    (errors.StoreUnavailable, 503, "server_error", None, "api_error", openai.InternalServerError),
    (errors.RequestError, 400, INVALID, None, INVALID, openai.BadRequestError),
    (JsonError, 400, INVALID, None, INVALID, openai.BadRequestError),
    (errors.Unauthorized, 401, INVALID, "invalid_api_key", "authentication_error", openai.AuthenticationError),
    (errors.KeyExpired, 401, INVALID, "invalid_api_key", "authentication_error", openai.AuthenticationError),
    (errors.ForeignOrigin, 403, INVALID, None, INVALID, openai.PermissionDeniedError),
    (errors.RouteNotFound, 404, INVALID, None, INVALID, openai.NotFoundError),
    (errors.ConversationNotFound, 404, INVALID, None, INVALID, openai.NotFoundError),
    (errors.ResponseNotFound, 404, INVALID, None, INVALID, openai.NotFoundError),
    (errors.UnknownModel, 404, INVALID, "model_not_found", "not_found_error", openai.NotFoundError),
    (errors.MethodNotAllowed, 405, INVALID, None, INVALID, openai.APIStatusError),
    (errors.NoWebSocket, 426, INVALID, None, INVALID, openai.APIStatusError),
    (errors.BodyTimeout, 408, INVALID, None, "timeout_error", openai.APIStatusError),
    (errors.BodyTooLarge, 413, INVALID, None, INVALID, openai.APIStatusError),
    (errors.UnsupportedEncoding, 415, INVALID, None, INVALID, openai.APIStatusError),
    (errors.UnsupportedMediaType, 415, INVALID, None, INVALID, openai.APIStatusError),
    (errors.ContextTooLong, 400, INVALID, "context_length_exceeded", INVALID, openai.BadRequestError),
    (errors.UnmetPromise, 502, "server_error", None, "api_error", openai.InternalServerError),
    (errors.UpstreamError, 502, "server_error", None, "api_error", openai.InternalServerError),
    (errors.UpstreamFault, 502, "server_error", None, "api_error", openai.InternalServerError),
    (errors.UpstreamProtocolError, 502, "server_error", None, "api_error", openai.InternalServerError),
    (errors.NotTheUpstream, 502, "server_error", None, "api_error", openai.InternalServerError),
    (errors.AnswerTooLarge, 502, "server_error", None, "api_error", openai.InternalServerError),
    (errors.UpstreamUnavailable, 503, "server_error", None, "overloaded_error", openai.InternalServerError),
    (errors.UpstreamUnreachable, 503, "server_error", None, "overloaded_error", openai.InternalServerError),
    (errors.UpstreamTimeout, 504, "server_error", None, "timeout_error", openai.InternalServerError),
    *(
        (throttled, 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", openai.RateLimitError)
        for throttled in (errors.UpstreamThrottled, errors.UpstreamRateExceeded, errors.UpstreamLimitReached)
    ),
    (
        errors.UpstreamOverloaded,
        503,
        "server_error",
        "server_is_overloaded",
        "overloaded_error",
        openai.InternalServerError,
    ),
    *(
        (spent, 402, *["insufficient_quota"] * 3, openai.APIStatusError)
        for spent in (
            errors.UpstreamQuotaSpent,
            errors.UpstreamModelQuotaSpent,
            errors.UpstreamRequestTooCostly,
            errors.UpstreamLimitSpent,
        )
    ),
    *(
        (denied, 502, "server_error", code, "api_error", openai.InternalServerError)
        for denied, code in (
            (errors.UpstreamDenied, "upstream_credential_refused"),
            (errors.UpstreamTokenInvalid, "upstream_credential_refused"),
            (errors.UpstreamSuspicious, "upstream_account_limited"),
            (errors.UpstreamSuspended, "upstream_account_suspended"),
            (errors.UpstreamForbidden, "upstream_refused"),
            (errors.UpstreamUnauthorized, "upstream_refused"),
        )
    ),
    (errors.UpstreamModelDenied, 404, INVALID, "model_not_found", "not_found_error", openai.NotFoundError),
    (errors.UpstreamRejected, 400, INVALID, None, INVALID, openai.BadRequestError),
]
"""Class, status, type, code, type in a stream, exception of the official client."""

TRANSIENT = {
    errors.KiroAsgiError,
    errors.InternalError,
    errors.LimitReached,
    errors.TooBusy,
    errors.KeysUnavailable,
    errors.StoreUnavailable,
    errors.BodyTimeout,
    errors.UpstreamError,
    errors.UpstreamFault,
    errors.UpstreamUnavailable,
    errors.UpstreamProtocolError,
    errors.NotTheUpstream,
    errors.AnswerTooLarge,
    errors.UpstreamUnreachable,
    errors.UpstreamTimeout,
    errors.UpstreamThrottled,
    errors.UpstreamRateExceeded,
    errors.UpstreamLimitReached,
    errors.UpstreamOverloaded,
}
"""Classes after which the same request may succeed; the client's own rule applies to them."""


def test_the_table_is_complete() -> None:
    """No class of the tree is left to chance."""
    assert {row[0] for row in TABLE} - {JsonError} == {getattr(errors, name) for name in errors.__all__}


@pytest.mark.parametrize(("cls", "status", "type_", "code", "streamed", "raised"), TABLE)
def test_every_class(
    cls: type[KiroAsgiError], status: int, type_: str, code: str | None, streamed: str, raised: type[Exception]
) -> None:
    """F031-F034: status, all four keys, whether to retry, and the exception that the SDK raises."""
    error = cls("What happened.")
    reply = OpenAIChat().error(error, "req_1")
    message = openai_message(error)
    assert reply.status == status
    assert json.loads(reply.body) == {"error": {"message": message, "type": type_, "param": None, "code": code}}
    assert ((b"x-should-retry", b"false") in reply.headers) == (cls not in TRANSIENT)
    assert stream_error_object(error) == {
        "message": message,
        "type": streamed,
        "param": None,
        "code": "stream_error",
    }
    response = httpx2.Response(status, content=reply.body, request=httpx2.Request("POST", "http://gateway/v1"))
    with openai.OpenAI(api_key="k", base_url="http://gateway/v1") as client:
        seen = client._make_status_error_from_response(response)
    assert type(seen) is raised
    assert (seen.code, seen.type, seen.param) == (code, type_, None)


LISTED = errors.UnknownModel("model: gpt-9 (did you mean gpt-5?)")
REFUSED = errors.UnknownModel("Invalid model ID. (HTTP 400)")
LISTED.model = REFUSED.model = "gpt-9"
UNKNOWN = "The model 'gpt-9' does not exist or you do not have access to it."
MOST = "This model's maximum context length is 200000 tokens. However, your messages resulted in 200001 tokens."
ASKED = " Please reduce the length of the messages."


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(errors.RequestError("x"), "x", id="other"),
        pytest.param(errors.UpstreamDenied("no"), f"{WHOSE}no", id="credential"),
        pytest.param(LISTED, f"{UNKNOWN} (did you mean gpt-5?)", id="model-not-listed"),
        pytest.param(REFUSED, f"{UNKNOWN} Invalid model ID. (HTTP 400)", id="model-refused"),
        pytest.param(
            errors.ContextTooLong("prompt is too long: 200001 tokens > 200000 maximum (HTTP 400)"),
            MOST + ASKED,
            id="overflow-of-anthropic",
        ),
        pytest.param(
            errors.ContextTooLong(
                "prompt is too long: The input token count (200,001) exceeds the maximum number of tokens "
                "allowed (200,000)."
            ),
            MOST + ASKED,
            id="overflow-of-gemini",
        ),
        pytest.param(errors.ContextTooLong(MOST), MOST, id="overflow-of-openai"),
        pytest.param(
            errors.ContextTooLong("prompt is too long: Input is too long. (HTTP 400)"),
            "This model's maximum context length is exceeded: Input is too long. (HTTP 400)" + ASKED,
            id="overflow-without-numbers",
        ),
    ],
)
def test_words_that_clients_look_for(error: KiroAsgiError, message: str) -> None:
    """OpenAI's own phrases, with the service's facts in them: agents act on them."""
    assert openai_message(error) == message


def test_a_subclass_is_told_as_its_parent() -> None:
    """The nearest class along the method resolution order decides."""

    class Special(errors.UpstreamTimeout):
        """A timeout of some kind."""

    assert OpenAIChat().error(Special("x"), "").status == 504
    assert stream_error_object(Special("x"))["type"] == "timeout_error"


def test_param_and_code_of_the_error_are_kept() -> None:
    """F033: a refused request names the offending field and why."""
    body = json.loads(OpenAIChat().error(errors.RequestError("x", code="unsupported_value", param="n"), "").body)
    assert (body["error"]["param"], body["error"]["code"]) == ("n", "unsupported_value")


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (errors.UpstreamThrottled("x", retry_after=1.2), b"2"),
        (errors.UpstreamOverloaded("x"), b"1"),
        (errors.TooBusy("x", retry_after=5), b"5"),
        (errors.StoreUnavailable("x"), b"1"),
        (errors.UpstreamFault("x", retry_after=5), None),
    ],
)
def test_retry_after(error: KiroAsgiError, seconds: bytes | None) -> None:
    """R41: by the status that the client sees, which of an overload is 503 here.  Messages has all cases."""
    assert dict(OpenAIChat().error(error, "").headers).get(b"retry-after") == seconds


def test_the_gateways_credential_is_not_the_clients() -> None:
    """A service's own ``invalid_api_key`` is not handed on: clients take it for one about their key."""
    error = errors.UpstreamTokenInvalid("Incorrect API key provided.", code="invalid_api_key")

    assert json.loads(OpenAIChat().error(error, "").body)["error"]["code"] == "upstream_credential_refused"


def test_allow() -> None:
    """A wrong method names the right ones."""
    reply = OpenAIChat().error(errors.MethodNotAllowed("x", allow=("GET", "POST")), "")
    assert (b"allow", b"GET, POST") in reply.headers


@given(HOSTILE, HOSTILE, st.sampled_from([row[0] for row in TABLE if row[0] is not errors.InternalError]))
def test_nothing_breaks_out(message: str, code: str, cls: type[KiroAsgiError]) -> None:
    """R26, R27: a hostile message stays inside its string and reaches no header."""
    reply = OpenAIChat().error(cls(message, code=code), message)
    assert message in json.loads(reply.body)["error"]["message"]
    assert all(not set(b"\r\n\x00") & set(name + value) for name, value in reply.headers)
