"""Errors before the first byte and inside a stream."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from openai.types.responses import ResponseError

from kiro_asgi.dialects.openai_common import openai_message
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.response import error_fields, failure
from kiro_asgi.errors import (
    AnswerTooLarge,
    ContextTooLong,
    KiroAsgiError,
    LimitReached,
    RequestError,
    UnmetPromise,
    UpstreamFault,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamThrottled,
    UpstreamUnreachable,
)

FOR_CODEX = {"context_length_exceeded", "insufficient_quota"}
"""Codes that Codex acts on although they are not in the client's own list."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UpstreamFault("x"), "server_error"),
        (UpstreamProtocolError("x"), "server_error"),
        (AnswerTooLarge("x"), "server_error"),
        (UnmetPromise("x"), "server_error"),
        (UpstreamUnreachable("x"), "server_error"),
        (UpstreamOverloaded("x"), "server_error"),
        (LimitReached("x"), "rate_limit_exceeded"),
        (UpstreamThrottled("x"), "rate_limit_exceeded"),
        (UpstreamQuotaSpent("x"), "insufficient_quota"),
        (UpstreamRejected("x"), "invalid_prompt"),
        (RequestError("x"), "invalid_prompt"),
        (ContextTooLong("x"), "context_length_exceeded"),
        (KiroAsgiError("x"), "server_error"),
    ],
)
def test_codes(error: KiroAsgiError, code: str) -> None:
    """Each says whether trying again may help; all but those for Codex are codes that strict clients know."""
    known = {*get_args(ResponseError.model_fields["code"].annotation), *FOR_CODEX}

    assert failure(error) == {"code": code, "message": openai_message(error)}
    assert error_fields(error)["code"] == code
    assert code in known


def test_how_long_to_wait() -> None:
    """Codex reads it from the message."""
    assert failure(UpstreamThrottled("Too fast.", retry_after=1.5))["message"] == (
        "Too fast. Please try again in 1.5s."
    )


def test_no_client_waits_for_a_quota() -> None:
    """Codex would sleep until the renewal without a word."""
    assert failure(UpstreamQuotaSpent("Spent.", retry_after=86_400))["message"] == "Spent."


def test_the_event_tells_everything_twice() -> None:
    """F305, F306: flat, as documented, and as the object that makes SDKs raise."""
    assert error_fields(UpstreamFault("It broke.", param="input[0]")) == {
        "code": "server_error",
        "message": "It broke.",
        "param": "input[0]",
        "error": {"message": "It broke.", "type": "server_error", "code": "stream_error", "param": "input[0]"},
    }


def test_before_the_first_byte() -> None:
    """The envelope and the headers are those of all APIs of OpenAI."""
    reply = OpenAIResponses().error(UpstreamThrottled("Too fast.", retry_after=2), "req_1")

    assert (reply.status, reply.headers) == (429, ((b"retry-after", b"2"), (b"retry-after-ms", b"2000")))
    assert json.loads(reply.body) == {
        "error": {"message": "Too fast.", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}
    }
