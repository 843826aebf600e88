"""Device flows: what is asked, and what the answers mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi._version import __version__
from kiro_asgi.errors import KiroAsgiError, UpstreamDenied, UpstreamProtocolError, UpstreamRejected
from kiro_asgi.upstreams.base import Token, TokenKind, UpstreamRequest
from kiro_asgi.upstreams.kiro.signin import (
    BUILDER_ID,
    AuthorizationPending,
    DeviceCode,
    OidcFlow,
    Registration,
    SocialFlow,
    parse_device_code,
    parse_poll,
    parse_registration,
    registration_request,
)

NOW = 1_800_000_000.0
CODE = DeviceCode("device-code", "AB-CD", "https://page/?user_code=AB-CD", 5.0, 600.0)
REGISTRATION = Registration("client", "canary-secret")
OIDC = OidcFlow("https://oidc", "eu-west-1", "https://d-1.awsapps.com/start", REGISTRATION)
SOCIAL = SocialFlow("https://social", "us-east-1", "Github")
GOOD = {"verificationUri": "https://page", "userCode": "AB-CD", "deviceCode": "device-code"}


def written(document: Any) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(document).encode()


def asked(request: UpstreamRequest) -> tuple[str, str, Any]:
    return request.method, request.url, json.loads(request.body)


def test_what_is_asked_of_the_oidc_service() -> None:
    """Camel case JSON, our own name, and the registration with every call."""
    client = {"clientId": "client", "clientSecret": "canary-secret"}
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    method, url, document = asked(registration_request("https://oidc", BUILDER_ID))

    assert (method, url) == ("POST", "https://oidc/client/register")
    assert (document["clientName"], document["clientType"], document["issuerUrl"]) == (
        "kiro-asgi",
        "public",
        BUILDER_ID,
    )
    assert set(document["grantTypes"]) == {grant, "refresh_token"}
    assert asked(OIDC.code_request()) == (
        "POST",
        "https://oidc/device_authorization",
        {**client, "startUrl": OIDC.start_url},
    )
    assert asked(OIDC.poll_request(CODE)) == (
        "POST",
        "https://oidc/token",
        {**client, "deviceCode": "device-code", "grantType": grant},
    )


def test_what_is_asked_of_the_social_service() -> None:
    """No registration, but the same honest name."""
    assert asked(SOCIAL.code_request()) == (
        "POST",
        "https://social/oauth/device/authorization",
        {"clientId": "kiro-asgi", "loginProvider": "Github"},
    )
    assert asked(SOCIAL.poll_request(CODE)) == (
        "POST",
        "https://social/oauth/device/poll",
        {"clientId": "kiro-asgi", "deviceCode": "device-code"},
    )


@pytest.mark.parametrize(
    "request_", [registration_request("x", "y"), OIDC.code_request(), OIDC.poll_request(CODE), SOCIAL.code_request()]
)
def test_we_say_who_we_are(request_: UpstreamRequest) -> None:
    """The client name is ours, with our version, on every call."""
    assert dict(request_.headers)[b"user-agent"] == f"kiro-asgi/{__version__}".encode()


def test_secrets_do_not_show() -> None:
    """What is shown of these objects in a traceback holds no secret."""
    shown = repr([OIDC, CODE, OIDC.code_request(), OIDC.completed(Token("canary-access", "canary-refresh"))])

    assert "canary" not in shown
    assert "device-code" not in shown


@pytest.mark.parametrize(
    ("times", "interval", "lifetime"),
    [
        pytest.param({"interval": 1, "expiresIn": 300}, 1, 300, id="oidc"),
        pytest.param({"intervalInMilliseconds": 1500, "expiresInMilliseconds": 300_000}, 1.5, 300, id="social"),
        pytest.param({}, 5, 600, id="none"),
        pytest.param({"interval": "soon", "expiresIn": -1}, 5, 600, id="nonsense"),
        pytest.param({"interval": True, "expiresIn": 1e300}, 5, 366 * 86_400, id="endless"),
    ],
)
def test_times_of_a_code(times: dict[str, Any], interval: float, lifetime: float) -> None:
    """Seconds or milliseconds, and sane ones where there are none."""
    code = parse_device_code(200, written({**GOOD, **times}))

    assert (code.interval, code.lifetime) == (interval, lifetime)


def test_the_complete_address_is_the_better_one() -> None:
    """With it the user need not type the code."""
    assert parse_device_code(200, written(GOOD)).address == "https://page"
    assert parse_device_code(200, written({**GOOD, "verificationUriComplete": "https://page?c"})).address.endswith("?c")


@pytest.mark.parametrize("address", ["", None, "file:///etc/passwd", "javascript:alert(1)", "https://a b", "https://ä"])
def test_users_are_sent_to_web_pages_only(address: Any) -> None:
    """The address is opened in a browser, so it must be one."""
    with pytest.raises(UpstreamProtocolError, match="names no web page"):
        parse_device_code(200, written({**GOOD, "verificationUri": address}))


def test_what_is_shown_cannot_steer_a_terminal() -> None:
    """The code goes to the screen, without control characters."""
    assert "\x1b" not in parse_device_code(200, written({**GOOD, "userCode": "\x1b[2JAB"})).user_code


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        pytest.param(400, {"error": "authorization_pending"}, AuthorizationPending(), id="oidc-pending"),
        pytest.param(200, {"status": "authorization_pending"}, AuthorizationPending(), id="social-pending"),
        pytest.param(400, {"error": "slow_down"}, AuthorizationPending(5.0), id="slow-down"),
        pytest.param(200, {"status": "slow_down"}, AuthorizationPending(5.0), id="social-slow-down"),
        pytest.param(429, b"<html>", AuthorizationPending(5.0), id="429"),
        pytest.param(503, b"", AuthorizationPending(5.0), id="503"),
        pytest.param(
            200,
            {"accessToken": "aoa", "refreshToken": "aor", "expiresIn": 28800, "tokenType": "Bearer"},
            Token("aoa", "aor", NOW + 28800),
            id="oidc-tokens",
        ),
        pytest.param(
            200,
            {"accessToken": "aoa", "refreshToken": "aor", "profileArn": "arn:p", "identityProvider": "Google"},
            Token("aoa", "aor", NOW + 3600, profile_arn="arn:p"),
            id="social-tokens",
        ),
        pytest.param(200, {"accessToken": "aoa"}, Token("aoa", "", NOW + 3600), id="no-refresh-token"),
    ],
)
def test_what_a_poll_comes_to(status: int, answer: Any, expected: Token | AuthorizationPending) -> None:
    """RFC 8628, section 3.5, in both services' words; a service that is out of order has not said no."""
    assert parse_poll(status, written(answer), NOW) == expected


@pytest.mark.parametrize(
    ("status", "answer", "error", "code"),
    [
        pytest.param(400, {"error": "expired_token"}, UpstreamDenied, "sign_in.expired", id="expired"),
        pytest.param(400, {"error": "access_denied"}, UpstreamDenied, "sign_in.denied", id="denied"),
        pytest.param(400, {"error": "invalid_client"}, UpstreamRejected, "invalid_client", id="client"),
        pytest.param(200, {"error": "invalid_grant"}, UpstreamRejected, "invalid_grant", id="error-in-200"),
        pytest.param(403, b"<html>blocked</html>", UpstreamRejected, "sign_in.refused", id="blocked"),
        pytest.param(200, {}, UpstreamProtocolError, "sign_in.unreadable", id="nothing"),
        pytest.param(200, {"accessToken": "a\nb"}, UpstreamProtocolError, "sign_in.unreadable", id="no-token"),
    ],
)
def test_how_a_poll_ends_badly(status: int, answer: Any, error: type[KiroAsgiError], code: str) -> None:
    """One error for each way, with a code."""
    with pytest.raises(error) as caught:
        parse_poll(status, written(answer), NOW)

    assert (type(caught.value), caught.value.code) == (error, code)


def test_registration() -> None:
    """What the service knows us by, or its words why it does not want to."""
    answer = {"clientId": "client", "clientSecret": "canary-secret", "clientSecretExpiresAt": 4_000_000_000}

    assert parse_registration(200, written(answer)) == REGISTRATION
    with pytest.raises(UpstreamRejected, match=r"bad name \(invalid_request 400\)"):
        parse_registration(400, written({"error": "invalid_request", "error_description": "bad name"}))


def test_a_token_knows_how_to_be_renewed() -> None:
    """The region of the sign-in, and the registration where there is one."""
    token = Token("aoa", "aor", NOW)

    assert OIDC.completed(token) == Token(
        "aoa",
        "aor",
        NOW,
        TokenKind.OIDC,
        region="eu-west-1",
        client_id="client",
        client_secret="canary-secret",
    )
    assert SOCIAL.completed(token) == Token("aoa", "aor", NOW, TokenKind.SOCIAL, region="us-east-1")
    assert (OIDC.provider, SOCIAL.provider) == ("Enterprise", "Github")
    assert OidcFlow("x", "us-east-1", BUILDER_ID, REGISTRATION).provider == "BuilderId"


FIELDS = ("error", "status", "accessToken", "refreshToken", "expiresIn", "deviceCode", "verificationUri", "interval")
ANSWERS = st.binary(max_size=30) | st.dictionaries(
    st.sampled_from(FIELDS),
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.just("https://x"),
).map(lambda document: json.dumps(document, allow_nan=True).encode())


@given(st.sampled_from([200, 400, 403, 500]), ANSWERS)
def test_any_answer_is_understood_or_refused(status: int, body: bytes) -> None:
    """Nothing but our own errors leaves the parsers, and times are such that one can wait for them."""
    for parse in (parse_registration, parse_device_code, lambda status, body: parse_poll(status, body, NOW)):
        try:
            found = parse(status, body)
        except KiroAsgiError:
            continue
        if isinstance(found, DeviceCode):
            assert 0 < found.interval <= 366 * 86_400
