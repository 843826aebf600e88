"""What is left of a quota."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.simulator.kiro.accounts import usage_limits
from kiro_asgi.upstreams.base import Credential, CredentialKind
from kiro_asgi.upstreams.kiro.account import UsageLimits, parse_limits, parse_reset
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream

TRIAL = {"freeTrialStatus": "ACTIVE", "usageLimit": 500, "usageLimitWithPrecision": 500.0, "currentUsage": 100}
BONUS = {"status": "ACTIVE", "usageLimit": 20, "currentUsage": 5}


def limits(entry: dict[str, Any], **more: Any) -> UsageLimits:
    counted = {"resourceType": "CREDIT", "usageLimit": 50, "currentUsage": 12, "currentUsageWithPrecision": 12.5}
    return parse_limits(json.dumps({"usageBreakdownList": [{**counted, **entry}], **more}).encode())


@pytest.mark.parametrize(
    ("entry", "more", "used", "limit"),
    [
        pytest.param({}, {}, 12.5, 50, id="plan"),
        pytest.param({"freeTrialInfo": TRIAL}, {}, 112.5, 550, id="trial"),
        pytest.param({"freeTrialInfo": {**TRIAL, "freeTrialStatus": "EXPIRED"}}, {}, 12.5, 50, id="trial-over"),
        pytest.param({"bonuses": [BONUS, {**BONUS, "status": "EXPIRED"}, BONUS]}, {}, 22.5, 90, id="bonuses"),
        pytest.param(
            {"overageCap": 100}, {"overageConfiguration": {"overageStatus": "ENABLED"}}, 12.5, 150, id="overage"
        ),
        pytest.param(
            {"overageCap": 100}, {"overageConfiguration": {"overageStatus": "DISABLED"}}, 12.5, 50, id="no-overage"
        ),
        pytest.param({"currentUsageWithPrecision": 60.0}, {}, 60, 50, id="overdrawn"),
        pytest.param({"usageLimit": None, "currentUsageWithPrecision": "many"}, {}, 12, 0, id="no-numbers"),
    ],
)
def test_what_counts(entry: dict[str, Any], more: dict[str, Any], used: float, limit: float) -> None:
    """The plan, an active trial, active bonuses and enabled overages add up; nothing is left of less than nothing."""
    found = limits(entry, **more)

    assert (found.used, found.limit, found.remaining) == (used, limit, max(limit - used, 0))


def test_the_simulated_account() -> None:
    """Plan, unit and reset of a usual answer."""
    body = json.dumps(usage_limits(used=12.5, limit=1000, resets_at=1_800_000_000.5)).encode()

    assert parse_limits(body) == UsageLimits("KIRO PRO", "Credits", 12.5, 1000.0, 1_800_000_000.5)
    assert parse_reset(body) == 1_800_000_000.5


def test_credits_say_most() -> None:
    """Of several things that are counted, in any order, credits decide; a single one need not be in a list."""
    entries = [{"resourceType": name, "usageLimit": at} for at, name in enumerate(["SPEC", "VIBE", "CREDIT"], 1)]

    assert parse_limits(json.dumps({"usageBreakdownList": entries}).encode()).limit == 3
    assert parse_limits(json.dumps({"usageBreakdownList": entries[:2]}).encode()).limit == 2
    assert parse_limits(json.dumps({"usageBreakdown": entries[2]}).encode()).limit == 3


def test_the_reset_may_stand_in_either_place() -> None:
    """At the top, or with what is counted."""
    assert limits({"nextDateReset": 7}, nextDateReset=9.5).resets_at == 9.5
    assert limits({"nextDateReset": 7}).resets_at == 7
    assert limits({"nextDateReset": True}, nextDateReset="soon").resets_at is None
    assert limits({"nextDateReset": 7}, nextDateReset=1_800_000_000_000).resets_at == 7
    assert limits({}, nextDateReset=253_402_300_800).resets_at is None


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b"\xff"])
def test_no_answer_has_no_reset(body: bytes) -> None:
    """An unreadable answer is an error for who asks for limits, and silence for who asks for the reset."""
    with pytest.raises(UpstreamProtocolError) as caught:
        parse_limits(body)

    assert caught.value.code == "upstream.limits"
    assert parse_reset(body) is None


JSON = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
FIELDS = st.sampled_from(
    [
        *("usageBreakdownList", "usageBreakdown", "nextDateReset", "overageConfiguration", "subscriptionInfo"),
        *("resourceType", "usageLimit", "currentUsageWithPrecision", "freeTrialInfo", "bonuses", "status"),
    ]
)


PART = st.dictionaries(FIELDS, JSON | st.sampled_from(["CREDIT", "ACTIVE", "ENABLED"]), max_size=4)


@given(st.dictionaries(FIELDS, JSON | PART | st.lists(JSON | PART, max_size=3), max_size=5))
def test_any_object_is_understood_somehow(document: dict[str, Any]) -> None:
    """Whatever the service adds or leaves out, there are numbers, none of them negative."""
    found = parse_limits(json.dumps(document).encode())

    assert min(found.used, found.limit, found.remaining, found.resets_at or 0) >= 0


def test_the_request() -> None:
    """The profile is named where there is one; the address of the service may have a path."""
    upstream = KiroUpstream(settings=KiroSettings(endpoint="https://host/base"))
    asked = upstream.limits_request(Credential(CredentialKind.ACCESS_TOKEN, "x", "arn:aws:x/y"))
    url = urlsplit(asked.url)

    assert (asked.method, url.path, dict(asked.headers)[b"authorization"]) == (
        "GET",
        "/base/getUsageLimits",
        b"Bearer x",
    )
    assert parse_qs(url.query) == {
        "origin": ["AI_EDITOR"],
        "resourceType": ["AGENTIC_REQUEST"],
        "profileArn": ["arn:aws:x/y"],
    }
    assert "profileArn" not in upstream.limits_request(Credential(CredentialKind.ACCESS_TOKEN, "x")).url
