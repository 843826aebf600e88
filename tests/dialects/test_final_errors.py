"""Whether to come back, and when: one law for every error there is, in every client API."""

from __future__ import annotations

import json
from math import ceil, inf
from typing import Any

import pytest

from kiro_asgi import errors
from kiro_asgi.asgi.routing import new_dialects
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import ErrorReply
from kiro_asgi.dialects.openai_responses.frames import error_frame
from kiro_asgi.dialects.openai_responses.response import failure
from kiro_asgi.errors import KiroAsgiError
from tests.dialects.openai_chat.test_errors import TRANSIENT

DIALECTS = {api.name: dialect for api, dialect in new_dialects(Settings()).items()}
EACH_API = pytest.mark.parametrize("api", DIALECTS)

EACH_ERROR = pytest.mark.parametrize("name", errors.__all__)
WAITS = (None, 0.0, 0.4, 60.0, 120.0, 121.0, 300.0, 3600.0, 1e9, inf)


def reply_to(api: str, error: KiroAsgiError) -> tuple[ErrorReply, dict[str, str], Any]:
    """The reply, its headers, and its body."""
    reply = DIALECTS[api].error(error, "req_1")
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return reply, headers, json.loads(reply.body)


@EACH_API
@EACH_ERROR
def test_a_time_to_come_back_is_given_only_where_coming_back_helps(name: str, api: str) -> None:
    """With ``retry-after`` on an error that is final, Codex sleeps through it, and asks again, five times."""
    kind = getattr(errors, name)
    for wait in WAITS:
        for retried in (False, True):
            error = kind("What happened.")
            error.retry_after, error.retried = wait, retried
            reply, headers, body = reply_to(api, error)
            helps = kind in TRANSIENT and (wait or 0) <= 120
            times = {"retry-after", "retry-after-ms"} & headers.keys()

            assert (headers.get("x-should-retry") == "false") == (retried or not helps), (wait, retried)
            if not helps:
                assert not times, (wait, retried)
                assert "RetryInfo" not in str(body) and "try again in" not in str(failure(error))
            elif reply.status in (429, 503, 529):
                assert headers["retry-after"] == str(ceil(wait or 1)), (wait, retried)


SPENT = (
    errors.UpstreamQuotaSpent,
    errors.UpstreamModelQuotaSpent,
    errors.UpstreamRequestTooCostly,
    errors.LimitSpent,
    errors.UpstreamLimitSpent,
)
SPENT_IN = {
    "openai_chat": (402, ("insufficient_quota", "insufficient_quota")),
    "openai_completions": (402, ("insufficient_quota", "insufficient_quota")),
    "openai_responses": (429, ("insufficient_quota", "insufficient_quota")),
    "anthropic": (402, ("billing_error", None)),
    "gemini": (429, (None, 429)),
}
"""Client API to the status, and the type and the code in the body."""


@EACH_API
@pytest.mark.parametrize("kind", SPENT)
def test_a_spent_quota_is_told_alike_whoever_counts(kind: type[KiroAsgiError], api: str) -> None:
    """A service's count and the operator's budget of a day are one kind of error, in each API's own words."""
    reply, headers, body = reply_to(api, kind("Spent.", code="quota.tokens_day", retry_after=40_000.0))

    assert (reply.status, (body["error"].get("type"), body["error"].get("code"))) == SPENT_IN[api]
    assert headers == {"x-should-retry": "false"}
    assert ("QuotaFailure" in str(body)) == (api == "gemini"), "by which gemini-cli knows that waiting is no use"


@pytest.mark.parametrize("kind", SPENT)
def test_a_spent_quota_in_a_frame_and_in_a_response(kind: type[KiroAsgiError]) -> None:
    """A WebSocket, and a response that has begun, say the same."""
    error = kind("Spent.", retry_after=300.0)
    frame = json.loads(error_frame(error))

    assert (frame["status"], frame["error"]["code"], frame["headers"]) == (
        429,
        "insufficient_quota",
        {"x-should-retry": "false"},
    )
    assert failure(error) == {"code": "insufficient_quota", "message": "Spent."}


AWAY = (errors.UpstreamUnavailable, errors.UpstreamUnreachable, errors.UpstreamOverloaded, errors.TooBusy)


@EACH_API
@pytest.mark.parametrize("kind", AWAY)
def test_what_is_away_is_no_fault(kind: type[KiroAsgiError], api: str) -> None:
    """F087: a service that is not there, or has no room, is an overload or unavailability of the API, with a time."""
    reply, headers, body = reply_to(api, kind("Gone."))

    assert reply.status in (503, 529)
    assert int(headers["retry-after"]) >= 1
    if api == "anthropic":
        assert body["error"]["type"] == "overloaded_error"
    if api == "gemini":
        assert body["error"]["status"] == "UNAVAILABLE"
