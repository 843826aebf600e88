"""Signing in with a device code: requests to the sign-in services, and their answers.

Two services, one procedure: ask for a code, let the user confirm it in a browser, poll until that has happened.

- AWS SSO OIDC, for Builder ID and IAM Identity Center.  A client has to register before it may ask.
- The desktop service, for Google and GitHub.  Its times are milliseconds, and "not yet" has status 200.

Sources: https://www.rfc-editor.org/rfc/rfc8628 (device authorization grant),
https://docs.aws.amazon.com/singlesignon/latest/OIDCAPIReference/Welcome.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from attrs import evolve, field, frozen

from kiro_asgi._version import __version__
from kiro_asgi.errors import UpstreamDenied, UpstreamProtocolError, UpstreamRejected
from kiro_asgi.failures.report import document_of
from kiro_asgi.failures.texts import clean
from kiro_asgi.upstreams.base import Token, TokenKind, UpstreamRequest
from kiro_asgi.wire.json import dumps, text_of

CLIENT: Final = "kiro-asgi"
"""Our client's name; never that of another program."""

SCOPES: Final = ("codewhisperer:completions", "codewhisperer:analysis", "codewhisperer:conversations")
BUILDER_ID: Final = "https://view.awsapps.com/start"
"""Start URL of users who are in no organisation."""

PROVIDERS: Final[Mapping[str, str]] = MappingProxyType({"google": "Google", "github": "Github"})
"""Providers that the desktop service knows, in its spelling."""

DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"

INTERVAL: Final = 5.0
"""Seconds between two polls where the service names none; RFC 8628, section 3.2."""

SLOWER: Final = 5.0
"""Seconds by which each ``slow_down`` makes that longer; RFC 8628, section 3.5."""

CODE_LIFETIME: Final = 600.0
TOKEN_LIFETIME: Final = 3600.0
"""Seconds that a token is taken to last where the service names no lifetime; the shortest that was ever seen."""

LONGEST: Final = 366 * 86_400.0
"""Seconds; nothing that is issued here lasts longer."""


@frozen
class Registration:
    """A client that the OIDC service knows."""

    client_id: str
    client_secret: str = field(repr=False)


@frozen
class DeviceCode:
    """The code that the user confirms, and the one that is polled with."""

    code: str = field(repr=False)
    user_code: str
    address: str
    """Where the user confirms the code."""

    interval: float
    """Seconds between two polls."""

    lifetime: float
    """Seconds."""


@frozen
class AuthorizationPending:
    """The user has not finished."""

    slower: float = 0.0
    """Seconds that the interval grows by."""


class DeviceFlow(Protocol):
    """One way to sign in, ready to ask for a code."""

    @property
    def provider(self) -> str:
        """The provider, as token files spell it."""
        ...

    def code_request(self) -> UpstreamRequest:
        """Ask for a code; `parse_device_code` reads the answer."""
        ...

    def poll_request(self, code: DeviceCode) -> UpstreamRequest:
        """Ask whether the user has finished; `parse_poll` reads the answer."""
        ...

    def completed(self, token: Token) -> Token:
        """*token* with what is needed to renew it."""
        ...


@frozen
class OidcFlow:
    """Builder ID, or an organisation's IAM Identity Center."""

    base: str
    region: str
    start_url: str
    registration: Registration

    @property
    def provider(self) -> str:
        """``BuilderId`` or ``Enterprise``."""
        return "BuilderId" if self.start_url == BUILDER_ID else "Enterprise"

    def code_request(self) -> UpstreamRequest:
        """Ask for a code."""
        return _post(f"{self.base}/device_authorization", **self._client(), startUrl=self.start_url)

    def poll_request(self, code: DeviceCode) -> UpstreamRequest:
        """Ask whether the user has finished."""
        return _post(f"{self.base}/token", **self._client(), deviceCode=code.code, grantType=DEVICE_GRANT)

    def completed(self, token: Token) -> Token:
        """*token* with the registration, which each refresh needs."""
        registration = self.registration
        return evolve(
            token,
            kind=TokenKind.OIDC,
            region=self.region,
            client_id=registration.client_id,
            client_secret=registration.client_secret,
        )

    def _client(self) -> dict[str, str]:
        return {"clientId": self.registration.client_id, "clientSecret": self.registration.client_secret}


@frozen
class SocialFlow:
    """An account with Google or GitHub."""

    base: str
    region: str
    provider: str
    """One of the values of `PROVIDERS`."""

    def code_request(self) -> UpstreamRequest:
        """Ask for a code."""
        return _post(f"{self.base}/oauth/device/authorization", clientId=CLIENT, loginProvider=self.provider)

    def poll_request(self, code: DeviceCode) -> UpstreamRequest:
        """Ask whether the user has finished."""
        return _post(f"{self.base}/oauth/device/poll", clientId=CLIENT, deviceCode=code.code)

    def completed(self, token: Token) -> Token:
        """*token* with its region."""
        return evolve(token, kind=TokenKind.SOCIAL, region=self.region)


def registration_request(base: str, start_url: str) -> UpstreamRequest:
    """Register with the OIDC service at *base*; `parse_registration` reads the answer."""
    grants = [DEVICE_GRANT, "refresh_token"]
    return _post(
        f"{base}/client/register",
        clientName=CLIENT,
        clientType="public",
        scopes=list(SCOPES),
        grantTypes=grants,
        issuerUrl=start_url,
    )


def parse_registration(status: int, body: bytes) -> Registration:
    """The registration.

    Raises:
        UpstreamRejected: The service refuses.
        UpstreamProtocolError: The answer is not a registration.
    """
    answer = _good(status, body)
    return Registration(_secret(answer, "clientId"), _secret(answer, "clientSecret"))


def parse_device_code(status: int, body: bytes) -> DeviceCode:
    """The code, from either service.

    Raises:
        UpstreamRejected: The service refuses.
        UpstreamProtocolError: The answer is not a code, or names no web page for the user.
    """
    answer = _good(status, body)
    address = clean(text_of(answer, "verificationUriComplete") or text_of(answer, "verificationUri"))
    if not re.fullmatch(r"https?://[!-~]+", address):
        raise UpstreamProtocolError(
            "the sign-in service names no web page to confirm the code on", code="sign_in.unreadable"
        )
    interval = _seconds(answer, "intervalInMilliseconds", 1000.0, INTERVAL)
    lifetime = _seconds(answer, "expiresInMilliseconds", 1000.0, CODE_LIFETIME)
    return DeviceCode(
        _secret(answer, "deviceCode"),
        clean(text_of(answer, "userCode")),
        address,
        _seconds(answer, "interval", 1.0, interval),
        _seconds(answer, "expiresIn", 1.0, lifetime),
    )


def parse_poll(status: int, body: bytes, now: float) -> Token | AuthorizationPending:
    """Parse the answer to a poll, of either service.  A failure of the service does not count as a refusal.

    Args:
        status: Of the answer.
        body: Of the answer.
        now: Seconds since the epoch.

    Raises:
        UpstreamDenied: The user refused, code ``sign_in.denied``, or was too late, code ``sign_in.expired``.
        UpstreamRejected: The service refuses for another reason.
        UpstreamProtocolError: The answer is not a token.
    """
    if status == 429 or status >= 500:
        return AuthorizationPending(SLOWER)
    answer = document_of(body)
    match text_of(answer, "error") or text_of(answer, "status"):
        case "authorization_pending":
            return AuthorizationPending()
        case "slow_down":
            return AuthorizationPending(SLOWER)
        case "expired_token":
            raise UpstreamDenied("the code was not confirmed in time; sign in again", code="sign_in.expired")
        case "access_denied":
            raise UpstreamDenied("the sign-in was refused in the browser", code="sign_in.denied")
    answer = _good(status, body)
    return Token(
        _secret(answer, "accessToken"),
        _secret(answer, "refreshToken") if answer.get("refreshToken") is not None else "",
        now + _seconds(answer, "expiresIn", 1.0, TOKEN_LIFETIME),
        profile_arn=text_of(answer, "profileArn"),
    )


def _post(url: str, **document: Any) -> UpstreamRequest:
    headers = (
        (b"content-type", b"application/json"),
        (b"accept", b"application/json"),
        (b"accept-encoding", b"identity"),
        (b"user-agent", f"{CLIENT}/{__version__}".encode()),
    )
    return UpstreamRequest("POST", url, headers, dumps(document))


def _good(status: int, body: bytes) -> Mapping[str, Any]:
    answer = document_of(body)
    error = clean(text_of(answer, "error"))
    if status == 200 and not error:
        return answer
    explanation = clean(text_of(answer, "error_description") or text_of(answer, "message")) or "no explanation"
    raise UpstreamRejected(
        f"the sign-in service refuses: {explanation} ({error or 'HTTP'} {status})", code=error or "sign_in.refused"
    )


def _secret(answer: Mapping[str, Any], key: str) -> str:
    value = text_of(answer, key)
    if not re.fullmatch(r"[!-~]+", value):
        raise UpstreamProtocolError(f"the sign-in service's answer has no {key}", code="sign_in.unreadable")
    return value


def _seconds(answer: Mapping[str, Any], key: str, unit: float, default: float) -> float:
    value: Any = answer.get(key)
    return min(value / unit, LONGEST) if type(value) in (int, float) and value > 0 else default
