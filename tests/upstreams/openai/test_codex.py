"""What is Codex's own of its service: models, limits, and errors about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.errors import UpstreamProtocolError, UpstreamQuotaSpent, UpstreamTokenInvalid
from kiro_asgi.failures.waits import MAX_RENEWAL
from kiro_asgi.upstreams.base import Credential, CredentialKind, UpstreamRequest
from kiro_asgi.upstreams.openai.codex import CodexQuota, parse_models
from tests.upstreams.faults import openai as fault

DATE = (b"date", b"Thu, 26 Nov 2026 12:00:00 GMT")
NOON = 1_795_694_400
SPENT: dict[str, Any] = {"type": "usage_limit_reached", "message": "The usage limit has been reached"}


def test_models():
    """What the list names of each; entries without a name are skipped, absent facts have our defaults."""
    full = {
        "slug": "gpt-5.2",
        "display_name": "GPT-5.2",
        "context_window": 400_000,
        "input_modalities": ["text"],
        "supported_reasoning_levels": [{"effort": "high"}, {"effort": "low"}, {"effort": "new"}, 7],
    }
    page = parse_models(json.dumps({"models": [full, {}, 7, {"slug": "other", "context_window": None}]}).encode())

    assert [(card.id, card.name, card.context_window, card.images, card.efforts) for card in page.cards] == [
        ("gpt-5.2", "GPT-5.2", 400_000, False, ("low", "high")),
        ("other", "", 272_000, True, ()),
    ]


def test_models_of_a_key():
    """A key in the file lists OpenAI's."""
    page = parse_models(b'{"data": [{"id": "gpt-5"}, {"id": "whisper-1"}]}')

    assert [card.id for card in page.cards] == ["gpt-5"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"models": {}}', b'{"models": 7}'])
def test_no_models(body):
    """Anything else is no list."""
    with pytest.raises(UpstreamProtocolError):
        parse_models(body)


@pytest.mark.parametrize(
    ("report", "headers", "seconds"),
    [
        pytest.param({"resets_in_seconds": 7200}, (), 7200, id="seconds"),
        pytest.param({"resets_at": NOON + 60}, (DATE,), 60, id="a time, by the answer's own date"),
        pytest.param({"resets_at": NOON - 60}, (DATE,), None, id="in the past"),
        pytest.param({"resets_at": NOON + 60}, (), None, id="without a date"),
        pytest.param({"resets_in_seconds": 10**15}, (), MAX_RENEWAL, id="far away"),
        pytest.param({"resets_in_seconds": "soon"}, (), None, id="no number"),
        pytest.param(
            {},
            (
                (b"x-codex-primary-used-percent", b"40"),
                (b"x-codex-primary-reset-after-seconds", b"5"),
                (b"x-codex-secondary-used-percent", b"100"),
                (b"x-codex-secondary-reset-after-seconds", b"900"),
            ),
            900,
            id="the header of the spent limit",
        ),
        pytest.param({}, ((b"x-codex-primary-used-percent", b"nan"),), None, id="no percentage"),
        pytest.param({}, (), None, id="nothing"),
    ],
)
def test_a_spent_limit(report, headers, seconds):
    """It is a spent quota, with the time of its reset where that is named."""
    error = fault(429, headers, json.dumps({"error": {**SPENT, **report}}).encode())

    assert isinstance(error, UpstreamQuotaSpent)
    assert (error.code, error.retry_after) == ("usage_limit_reached", seconds)


def test_other_errors():
    """A plan without Codex is no limit that passes soon; an expired token is one, whatever its code is."""
    included = fault(429, (), b'{"error": {"type": "usage_not_included", "message": "Upgrade"}}')
    expired = fault(401, (), b'{"error": {"code": "token_expired", "message": "Sign in"}}')

    assert isinstance(included, UpstreamQuotaSpent)
    assert isinstance(expired, UpstreamTokenInvalid)
    assert "Store must be set to false" in fault(400, (), b'{"detail": "Store must be set to false"}').message


def window(**members: Any) -> dict[str, Any]:
    return {"limit_window_seconds": 18_000, **members}


@pytest.mark.parametrize(
    ("limits", "reset", "words"),
    [
        ({"primary_window": window(used_percent=25, reset_at=5)}, None, "plan plus; 25 % of 5 hours used"),
        ({"primary_window": window(used_percent=100, reset_at=5)}, 5, "plan plus; 100 % of 5 hours used"),
        (
            {
                name: window(used_percent=100.5, reset_at=at)
                for name, at in (("primary_window", 5), ("secondary_window", 9))
            },
            9,
            "plan plus; 100.5 % of 5 hours used; 100.5 % of 5 hours used",
        ),
        (
            {"primary_window": 7, "secondary_window": {"used_percent": "all"}},
            None,
            "plan plus; an unknown part of a limit used",
        ),
        (None, None, "plan plus"),
    ],
)
def test_usage(limits, reset, words):
    """When there is a new quota, and what is used; what has another form is not known."""
    quota = CodexQuota(lambda path, credential: UpstreamRequest("GET", path, ()))
    body = json.dumps({"plan_type": "plus", "rate_limit": limits}).encode()

    assert [ask(Credential(CredentialKind.ACCESS_TOKEN, "t")).url for ask in quota.questions] == ["/usage"]
    assert (quota.reset(body), quota.describe(body)) == (reset, words)
    assert quota.describe(b"<html>") == "plan unnamed plan"
