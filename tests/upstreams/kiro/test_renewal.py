"""Renewing tokens, and finding profiles: what is asked, and what answers mean."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import KiroAsgiError, NotTheUpstream, UpstreamDenied, UpstreamFault, UpstreamThrottled
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, TokenKind, UpstreamRequest
from kiro_asgi.upstreams.kiro.account import parse_profiles
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.tokens import SIGN_IN, KiroVendor, renewal_request, renewed

NOW = 1_000_000.0
SOCIAL = Token("a", "r", NOW, TokenKind.SOCIAL, profile_arn="arn:old")
OIDC = Token("a", "r", NOW, TokenKind.OIDC, "eu-west-1", client_id="c", client_secret="s")
ENTRA = Token(
    "a",
    "r",
    NOW,
    TokenKind.EXTERNAL_IDP,
    client_id="c",
    token_endpoint="https://login.example/t/oauth2/v2.0/token",
    scopes=("api://x/y", "offline_access"),
)


def ask(token: Token, endpoint: str = "", region: str = "") -> UpstreamRequest:
    return renewal_request(token, auth_endpoint=endpoint, auth_region=region, user_agent="us/1")


@pytest.mark.parametrize(
    ("token", "region", "url"),
    [
        (SOCIAL, "", "https://prod.us-east-1.auth.desktop.kiro.dev/refreshToken"),
        (OIDC, "", "https://oidc.eu-west-1.amazonaws.com/token"),
        (OIDC, "ap-southeast-2", "https://oidc.ap-southeast-2.amazonaws.com/token"),
        (ENTRA, "eu-west-1", "https://login.example/t/oauth2/v2.0/token"),
    ],
)
def test_where_tokens_are_renewed(token: Token, region: str, url: str) -> None:
    """Each kind has its own service, in the region of the sign-in."""
    assert ask(token, region=region).url == url


def test_what_is_asked() -> None:
    """Two of them are asked in camelCase JSON, a company's provider in OAuth's own form; all by our own name."""
    social, oidc, entra = (ask(token, "http://127.0.0.1:1/") for token in (SOCIAL, OIDC, ENTRA))

    assert (social.url, json.loads(social.body)) == ("http://127.0.0.1:1/refreshToken", {"refreshToken": "r"})
    assert json.loads(oidc.body) == {
        "clientId": "c",
        "clientSecret": "s",
        "refreshToken": "r",
        "grantType": "refresh_token",
    }
    assert entra.url == "http://127.0.0.1:1/oauth2/v2.0/token"
    assert parse_qs(entra.body.decode()) == {
        "grant_type": ["refresh_token"],
        "client_id": ["c"],
        "refresh_token": ["r"],
        "scope": ["api://x/y offline_access"],
    }
    assert dict(entra.headers)[b"content-type"] == b"application/x-www-form-urlencoded"
    assert all(dict(request.headers)[b"user-agent"] == b"us/1" for request in (social, oidc, entra))


@pytest.mark.parametrize(
    "token",
    [
        evolve(SOCIAL, refresh_token=""),
        evolve(OIDC, client_secret=""),
        evolve(OIDC, region="x.evil.test/#"),
        evolve(ENTRA, client_id=""),
        evolve(ENTRA, token_endpoint=""),
        evolve(ENTRA, token_endpoint="http://login.example/token"),
        evolve(ENTRA, token_endpoint="https://login.example@evil.test/token"),
        evolve(ENTRA, token_endpoint="https://[bad/token"),
        evolve(ENTRA, token_endpoint="file:///etc/passwd"),
    ],
)
def test_what_cannot_be_renewed(token: Token) -> None:
    """R40: what is missing, or would lead a refresh token astray, needs a new sign-in."""
    with pytest.raises(UpstreamDenied, match="sign in again") as caught:
        ask(token)

    assert caught.value.code == SIGN_IN


def test_what_an_answer_leaves_out_stays() -> None:
    """Refresh token and profile are kept where the answer has none; a lifetime is an hour where it names none."""
    kept = renewed(SOCIAL, 200, [], b'{"accessToken":"new"}', NOW)
    full = renewed(
        ENTRA, 200, [], b'{"access_token":"new","refresh_token":"r2","expires_in":60,"profileArn":"arn:n"}', NOW
    )

    assert kept == evolve(SOCIAL, access_token="new", expires_at=NOW + 3600)
    assert full == evolve(ENTRA, access_token="new", refresh_token="r2", expires_at=NOW + 60, profile_arn="arn:n")


@pytest.mark.parametrize(
    ("status", "answer", "error", "code"),
    [
        (400, {"error": "invalid_grant", "error_description": "Invalid refresh token"}, UpstreamDenied, SIGN_IN),
        (400, {"message": "Invalid refresh token provided"}, UpstreamDenied, SIGN_IN),
        (400, {"__type": "aws#ExpiredTokenException:http://x"}, UpstreamDenied, SIGN_IN),
        (400, {"error": "invalid_client"}, UpstreamDenied, SIGN_IN),
        (401, {"error": "unauthorized_client"}, UpstreamDenied, SIGN_IN),
        (401, "", UpstreamDenied, SIGN_IN),
        (400, {"error": "slow_down"}, UpstreamThrottled, "credentials.throttled"),
        (400, {"__type": "SlowDownException"}, UpstreamThrottled, "credentials.throttled"),
        (429, {}, UpstreamThrottled, "credentials.throttled"),
        (403, "<html>blocked</html>", UpstreamFault, "credentials.fault"),
        (500, {"error": "invalid_grant"}, UpstreamFault, "credentials.fault"),
        (503, "", UpstreamFault, "credentials.fault"),
        (302, "", NotTheUpstream, "credentials.foreign"),
        (200, "<html>Please log in to this network</html>", NotTheUpstream, "credentials.foreign"),
        (200, {"accessToken": "two words"}, NotTheUpstream, "credentials.foreign"),
        (200, [], NotTheUpstream, "credentials.foreign"),
    ],
)
def test_what_refusals_mean(status: int, answer: Any, error: type[KiroAsgiError], code: str) -> None:
    """What only a new sign-in helps against is told apart from what passes."""
    body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
    with pytest.raises(error) as caught:
        renewed(SOCIAL, status, [(b"Retry-After", b"7")], body, NOW)

    assert caught.value.code == code
    assert caught.value.retry_after == (7.0 if error in (UpstreamThrottled, UpstreamFault) else None)


@given(st.integers(100, 599), st.binary(max_size=40) | st.dictionaries(st.text(max_size=9), st.integers()).map(repr))
def test_any_answer_is_a_token_or_an_error(status: int, body: bytes | str) -> None:
    """Nothing that is sent to us ends in a bug, and no token is made up."""
    with pytest.raises(KiroAsgiError):
        renewed(SOCIAL, status, [], body if isinstance(body, bytes) else body.encode("utf-8", "replace"), NOW)


def test_refusals_do_not_quote_secrets() -> None:
    """A service may repeat what it was sent."""
    token = "aor" + "X" * 100
    with pytest.raises(UpstreamDenied) as caught:
        renewed(SOCIAL, 400, [], json.dumps({"error_description": f"bad token {token}"}).encode(), NOW)

    assert "XXX" not in caught.value.message


# Profiles.

BEARER = Credential(CredentialKind.ACCESS_TOKEN, "t")


def test_every_region_is_asked_for_profiles() -> None:
    """A profile belongs to a region, and which one it is nobody knows; the set one is asked first, at either host."""

    def asked(**settings: str) -> list[str]:
        vendor = KiroVendor(KiroSettings(region="eu-central-1", **settings))
        return [request.url for request in vendor.profile_requests(BEARER)]

    old, new = "https://q.{}.amazonaws.com/ListAvailableProfiles", "https://management.{}.kiro.dev/"
    assert asked() == [host.format(region) for region in ("eu-central-1", "us-east-1") for host in (old, new)]
    assert asked(hosts="amazonaws") == [old.format("eu-central-1"), old.format("us-east-1")]
    assert asked(hosts="kiro.dev") == [new.format("eu-central-1"), new.format("us-east-1")]
    assert asked(management_endpoint="http://127.0.0.1:1") == ["http://127.0.0.1:1/ListAvailableProfiles"]
    (one,) = KiroVendor(KiroSettings(endpoint="http://127.0.0.1:1/")).profile_requests(BEARER)
    assert (one.url, one.body) == ("http://127.0.0.1:1/ListAvailableProfiles", b"{}")
    assert dict(one.headers)[b"authorization"] == b"Bearer t"


@pytest.mark.parametrize(
    ("vendor", "credential"),
    [
        (KiroVendor(KiroSettings(discover_profile=False)), BEARER),
        (KiroVendor(), evolve(BEARER, profile_arn="arn:p")),
        (KiroVendor(), Credential(CredentialKind.API_KEY, "k")),
    ],
)
def test_nobody_is_asked_for_a_profile_that_is_known_or_not_wanted(vendor: KiroVendor, credential: Credential) -> None:
    """An API key has no profile, and discovery can be switched off."""
    assert vendor.profile_requests(credential) == ()


def test_usable_profiles_come_first() -> None:
    """Of several the first active one is used; what is no profile is passed over."""
    entries = [{"arn": "a", "status": "SUSPENDED"}, {"arn": "b", "status": "ACTIVE", "profileName": "B"}, {}, 1]
    listing = json.dumps({"profiles": entries}).encode()

    assert [profile.arn for profile in parse_profiles(listing)] == ["b", "a"]
    assert KiroVendor().profile([b"nonsense", b"[]", b'{"profiles":null}', listing]) == "b"
    assert KiroVendor().profile([b"{}"]) == ""
