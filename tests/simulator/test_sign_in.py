"""The switches of the simulated sign-in services."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode

import pytest

from kiro_asgi import simulator as simulators
from kiro_asgi.simulator import PROFILE_ARN, Simulator, refusal, usage_limits
from tests.simulator.asking import call

CLIENT = {"clientId": "c", "clientSecret": "s"}
DEVICE = {**CLIENT, "grantType": "urn:ietf:params:oauth:grant-type:device_code"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def fresh():
    with simulators.running() as simulator:
        yield simulator


def refresh(simulator: Simulator, token: str) -> Any:
    return call(simulator.url, "/refreshToken", {"refreshToken": token}, headers={})


def oidc_polls(simulator: Simulator, count: int) -> list[str]:
    """What *count* polls of a new device code come to."""
    device = call(simulator.url, "/device_authorization", {**CLIENT, "startUrl": "https://x"}, headers={}).json
    poll = {**DEVICE, "deviceCode": device["deviceCode"]}
    answers = [call(simulator.url, "/token", poll, headers={}).json for _ in range(count)]
    return [answer.get("error", "signed in") for answer in answers]


def test_an_old_refresh_token_may_work_until_the_new_one_is_used(fresh):
    """R33: with overlap, who never wrote the new token down can still use the old one; afterwards it is dead."""
    fresh.accounts.overlap = True
    lost, kept = refresh(fresh, "aorMine"), refresh(fresh, "aorMine")
    used = refresh(fresh, kept.json["refreshToken"])
    dead = refresh(fresh, "aorMine")

    assert [answer.status for answer in (lost, kept, used, dead)] == [200, 200, 200, 400]


def test_refreshes_fail_as_told(fresh):
    """A failure of one's own choice, as long as it is set, or once; the refresh token is not spent by it."""
    fresh.accounts.refresh_answer = refusal(500, "Out of order.")
    failures = [refresh(fresh, "aorMine").status for _ in range(2)]
    fresh.accounts.refresh_answer = None
    fresh.enqueue(refusal(429, "Slow down."), operation="RefreshToken")
    after = [refresh(fresh, "aorMine").status for _ in range(2)]

    assert (failures, after) == ([500, 500], [429, 200])
    assert (fresh.calls["RefreshToken"], fresh.accounts.refreshes) == (4, 1)


def test_a_company_has_its_own_token_endpoint(fresh):
    """Form-encoded, snake_case, and its token has to be announced as one."""
    form = {
        "grant_type": "refresh_token",
        "client_id": "c",
        "refresh_token": "1.Mine",
        "scope": "codewhisperer offline",
    }
    answers = [call(fresh.url, "/oauth2/v2.0/token", urlencode(form).encode(), headers=FORM) for _ in range(2)]
    not_a_form = call(fresh.url, "/oauth2/v2.0/token", form, headers={})
    bearer = {"authorization": f"Bearer {answers[0].json['access_token']}"}
    announced = call(fresh.url, "/ListAvailableProfiles", {}, headers={**bearer, "tokentype": "EXTERNAL_IDP"})

    assert [answer.status for answer in answers] == [200, 400]
    assert {"access_token", "refresh_token", "expires_in", "token_type"} == set(answers[0].json)
    assert not_a_form.json["error"] == "invalid_request"
    assert (announced.status, call(fresh.url, "/ListAvailableProfiles", {}, headers=bearer).status) == (200, 403)


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        pytest.param({}, ["authorization_pending", "signed in", "expired_token"], id="usual"),
        pytest.param({"pending": 0}, ["signed in", "expired_token"], id="at-once"),
        pytest.param({"slow_downs": 2}, ["slow_down", "slow_down", "authorization_pending", "signed in"], id="slow"),
        pytest.param({"outcome": "denied"}, ["authorization_pending", "access_denied", "access_denied"], id="denied"),
        pytest.param({"outcome": "expired", "pending": 0}, ["expired_token"], id="expired"),
    ],
)
def test_device_flows_go_as_told(fresh, switches, expected):
    """Slow-downs first, then patience, then what the user does; a code signs in once."""
    for name, value in switches.items():
        setattr(fresh.accounts.devices, name, value)

    assert oidc_polls(fresh, len(expected)) == expected


def test_social_device_flow(fresh):
    """Times in milliseconds; what is not over has status 200; tokens come without a lifetime."""
    fresh.accounts.devices.slow_downs = 1
    asked = {"clientId": "kiro-asgi", "loginProvider": "Google"}
    device = call(fresh.url, "/oauth/device/authorization", asked, headers={}).json
    poll = {"clientId": "kiro-asgi", "deviceCode": device["deviceCode"]}
    answers = [call(fresh.url, "/oauth/device/poll", poll, headers={}) for _ in range(3)]

    assert (device["intervalInMilliseconds"], device["expiresInMilliseconds"]) == (1000, 600_000)
    assert [(answer.status, answer.json.get("status")) for answer in answers] == [
        (200, "slow_down"),
        (200, "authorization_pending"),
        (200, None),
    ]
    assert set(answers[2].json) == {"accessToken", "refreshToken", "profileArn", "identityProvider"}


@pytest.mark.parametrize("document", [{}, {"clientId": "c"}, {"clientId": "c", "loginProvider": "Nobody"}])
def test_social_device_flow_names_client_and_provider(fresh, document):
    """Neither has a default."""
    answered = call(fresh.url, "/oauth/device/authorization", document, headers={})

    assert (answered.status, answered.json["error"]) == (400, "invalid_request")


@pytest.mark.parametrize("rpc", [False, True])
def test_profiles_by_region(fresh, rpc):
    """One simulator stands for every region: with its own profiles, without any, or refusing to tell."""
    fresh.accounts.profiles |= {"eu-central-1": ("arn:eu",), "us-west-2": ()}
    fresh.accounts.profiles_denied.add("us-gov-east-1")
    target = {"x-amz-target": "AmazonCodeWhispererService.ListAvailableProfiles"} if rpc else {}
    headers = {"authorization": "Bearer aoa", **target}
    found = {}
    for region in ("", "/us-east-1", "/eu-central-1", "/us-west-2", "/us-gov-east-1"):
        answer = call(fresh.url, region + ("/" if rpc else "/ListAvailableProfiles"), {}, headers=headers)
        found[region] = [it["arn"] for it in answer.json["profiles"]] if answer.status == 200 else answer.status

    assert found == {
        "": [PROFILE_ARN],
        "/us-east-1": [PROFILE_ARN],
        "/eu-central-1": ["arn:eu"],
        "/us-west-2": [],
        "/us-gov-east-1": 403,
    }


def test_usage_limits_are_a_switch(fresh):
    """What is left, and when there is a new quota."""
    fresh.accounts.usage = usage_limits(used=3, limit=3, resets_at=1_900_000_000.0)
    answer = call(fresh.url, "/getUsageLimits?origin=AI_EDITOR", method="GET").json

    assert answer["nextDateReset"] == 1_900_000_000.0
    assert answer["usageBreakdownList"][0]["usageLimitWithPrecision"] == 3


def test_memory_is_bounded(monkeypatch):
    """A simulator that runs for days forgets old tokens and codes, oldest first."""
    from kiro_asgi.simulator.kiro import accounts

    monkeypatch.setattr(accounts, "MAX_KNOWN", 3)
    monkeypatch.setattr(accounts, "MAX_CODES", 3)
    account = accounts.Accounts()
    for number in range(9):
        account.refresh_social({"refreshToken": f"aor{number}"})
        account.devices.authorize({**CLIENT, "startUrl": "x"})

    assert (list(account._spent), len(account.devices._polls)) == (["aor6", "aor7", "aor8"], 3)


def test_a_failing_refresh_takes_its_time_too(fresh):
    """The delay holds for failures as well."""
    fresh.accounts.delay, fresh.accounts.refresh_answer = 0.2, refusal(503, "Busy.")
    started = time.monotonic()

    assert refresh(fresh, "aorMine").status == 503
    assert time.monotonic() - started >= 0.2
