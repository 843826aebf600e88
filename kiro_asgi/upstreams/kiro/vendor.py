"""Tokens of the service: how they are presented, and how they are refreshed, by one request for each kind of sign-in.

Sources: https://docs.aws.amazon.com/singlesignon/latest/OIDCAPIReference/API_CreateToken.html,
https://www.rfc-editor.org/rfc/rfc6749#section-6
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from attrs import evolve, field, frozen

from kiro_asgi.errors import (
    KiroAsgiError,
    NotTheUpstream,
    UpstreamDenied,
    UpstreamFault,
    UpstreamThrottled,
)
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, TokenKind, UpstreamRequest
from kiro_asgi.upstreams.errors import clean
from kiro_asgi.upstreams.kiro.auth import REGION, authorization, credential, parse_profiles, profile_requests
from kiro_asgi.upstreams.kiro.errors import fault
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.tokens import ROWS, lifetime, merge_token, parse_token, parse_token_rows, text_of
from kiro_asgi.upstreams.settings import user_agent
from kiro_asgi.wire.json import JsonError, dumps, loads

SIGN_IN: Final = "credentials.login"
"""Code of the errors that only signing in again helps against."""

DEFAULT_REGION: Final = "us-east-1"
JSON: Final = b"application/json"
FORM: Final = b"application/x-www-form-urlencoded"
THIS_MACHINE: Final = ("127.0.0.1", "::1", "localhost")

LIFETIME: Final = 3600.0
"""Seconds that a token lasts whose answer does not say."""

EXTERNAL_PATH: Final = "/oauth2/v2.0/token"
"""Of a company's provider, where `auth_endpoint` stands in for it."""

TRANSIENT: Final = frozenset(
    {
        "slow_down",
        "slowdown",
        "temporarily_unavailable",
        "server_error",
        "internalserver",
        "throttling",
        "toomanyrequests",
    }
)
"""Errors with status 400 that pass, in lower case, without an ``Exception`` at the end."""


def renewal_request(token: Token, *, auth_endpoint: str, auth_region: str, user_agent: str) -> UpstreamRequest:
    """Ask for a new token.

    Args:
        token: What is known of the old one.
        auth_endpoint: Base URL; empty for the public host.
        auth_region: Region of the sign-in; empty for the token's own.
        user_agent: What we call ourselves.

    Raises:
        UpstreamDenied: Code ``credentials.login``: the token lacks what it takes.
    """
    lacking = next((name for name, value in _needs(token) if not value), "")
    if lacking:
        raise sign_in_error(f"the token cannot be renewed without {lacking}")
    region = auth_region or token.region or DEFAULT_REGION
    if not REGION.fullmatch(region):
        raise sign_in_error("the token names a region of the sign-in that cannot be one")
    base = auth_endpoint.rstrip("/")
    match token.kind:
        case TokenKind.SOCIAL:
            url, form = f"{base or social_host(region)}/refreshToken", {"refreshToken": token.refresh_token}
        case TokenKind.OIDC:
            url, form = f"{base or oidc_host(region)}/token", _oidc_form(token)
        case TokenKind.EXTERNAL_IDP:
            url = base + EXTERNAL_PATH if base else _trusted(token.token_endpoint)
            return UpstreamRequest("POST", url, _headers(FORM, user_agent), _external_form(token))
    return UpstreamRequest("POST", url, _headers(JSON, user_agent), dumps(form))


def renewed(token: Token, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, now: float) -> Token:
    """The new token that an answer holds; what the answer leaves out stays as it was.

    Args:
        token: The old one.
        status: Of the answer.
        headers: Of the answer.
        body: Of the answer.
        now: Seconds since the epoch.

    Raises:
        UpstreamDenied: Code ``credentials.login``: the refresh token, or the client's registration, has ended.
        UpstreamThrottled: Too many renewals.
        UpstreamFault: It may work later.
        NotTheUpstream: This is no sign-in service.
    """
    report = _report(body)
    access = text_of(report, "accessToken", "access_token")
    if status != 200:
        raise _refused(status, fault(status, headers, b"").retry_after, report)
    if not re.fullmatch(r"[!-~]+", access):
        raise NotTheUpstream("what answers for the sign-in service sends no token", code="credentials.foreign")
    return evolve(
        token,
        access_token=access,
        refresh_token=text_of(report, "refreshToken", "refresh_token") or token.refresh_token,
        expires_at=now + (lifetime(report) or LIFETIME),
        profile_arn=text_of(report, "profileArn", "profile_arn") or token.profile_arn,
    )


def sign_in_error(message: str) -> UpstreamDenied:
    """The error that says what only signing in again helps against."""
    return UpstreamDenied(f"{message}; sign in again, e.g. with kiro-asgi login", code=SIGN_IN)


def social_host(region: str) -> str:
    """Where accounts elsewhere sign in."""
    return f"https://prod.{region}.auth.desktop.kiro.dev"


def oidc_host(region: str) -> str:
    """Where Builder IDs and members of an IAM Identity Center sign in."""
    return f"https://oidc.{region}.amazonaws.com"


def _needs(token: Token) -> tuple[tuple[str, str], ...]:
    always = ("a refresh token", token.refresh_token)
    match token.kind:
        case TokenKind.SOCIAL:
            return (always,)
        case TokenKind.OIDC:
            return (always, ("the client's registration", token.client_id and token.client_secret))
        case TokenKind.EXTERNAL_IDP:
            return (always, ("the client's id", token.client_id))


def _oidc_form(token: Token) -> dict[str, str]:
    return {
        "clientId": token.client_id,
        "clientSecret": token.client_secret,
        "refreshToken": token.refresh_token,
        "grantType": "refresh_token",
    }


def _external_form(token: Token) -> bytes:
    form = {"grant_type": "refresh_token", "client_id": token.client_id, "refresh_token": token.refresh_token}
    return urlencode({**form, "scope": " ".join(token.scopes)} if token.scopes else form).encode()


def _trusted(url: str) -> str:
    """*url*, if a refresh token may travel there: by TLS, or not beyond this machine.

    Raises:
        UpstreamDenied: It may not.
    """
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0 and not _NOT_URL.search(url)
    except ValueError:
        whole = False
    if whole and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in THIS_MACHINE)):
        return url
    raise sign_in_error("the token names no endpoint of the company's provider that can be trusted with it")


def _headers(content_type: bytes, user_agent: str) -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"content-type", content_type),
        (b"accept", b"application/json"),
        (b"accept-encoding", b"identity"),
        (b"user-agent", user_agent.encode()),
    )


def _refused(status: int, retry_after: float | None, report: Mapping[str, Any]) -> KiroAsgiError:
    name = text_of(report, "error", "__type", "code").partition(":")[0].rpartition("#")[2].removesuffix("Exception")
    explanation = clean(text_of(report, "error_description", "errorMessage", "message") or name) or "no explanation"
    message = f"{explanation} (HTTP {status})"
    if status == 429 or (status == 400 and name.lower() in TRANSIENT):
        return UpstreamThrottled(
            f"the sign-in service is asked too often: {message}", code="credentials.throttled", retry_after=retry_after
        )
    if status in (400, 401):
        return sign_in_error(f"the sign-in has ended: {message}")
    if 300 <= status < 400:
        return NotTheUpstream(f"something else answers for the sign-in service: {message}", code="credentials.foreign")
    return UpstreamFault(
        f"the token could not be renewed: {message}", code="credentials.fault", retry_after=retry_after
    )


def _report(body: bytes) -> Mapping[str, Any]:
    try:
        report = loads(body)
    except JsonError:
        return MappingProxyType({})
    return report if type(report) is dict else MappingProxyType({})


_NOT_URL: Final = re.compile(r"[\s\\#@\x00-\x1f\x7f-\U0010ffff]")


REACHED_BY: Final = "kiro.proxy and kiro.auth_endpoint"
"""The settings that say how the sign-in service is reached."""


@frozen
class KiroVendor:
    """The service's tokens, as `kiro_asgi.upstreams.access.Vendor`.

    Three regions are kept apart.  Tokens are renewed in the region of the sign-in: ``auth_region``, else the token's
    own.  Profiles are asked for in the service's regions, ``region`` first.  Calls then go where the profile is.

    Raises:
        ConfigError: A credential stands in the settings that cannot stand in a header.
    """

    settings: KiroSettings = field(factory=KiroSettings)
    table: str = field(kw_only=True, default="kiro")
    missing: str = field(
        kw_only=True,
        default="no Kiro credential: set KIRO_API_KEY, kiro.credentials_file or kiro.credentials_command",
    )
    reached_by: str = field(kw_only=True, default=REACHED_BY)
    rows: tuple[tuple[str, str], ...] = field(kw_only=True, default=ROWS)
    given: Credential | None = field(kw_only=True)
    """A credential that stands in the settings."""

    @given.default
    def _given_in_settings(self) -> Credential | None:
        kiro = self.settings
        if not (kiro.api_key or kiro.access_token):
            return None
        return credential(kiro.api_key, kiro.access_token, kiro.profile_arn, external_idp=kiro.external_idp)

    def parse(self, document: bytes, beside: Callable[[str], bytes | None], now: float) -> Token:
        """The token of a document; see `kiro_asgi.upstreams.kiro.tokens.parse_token`."""
        return parse_token(document, beside, now)

    def parse_rows(self, rows: Mapping[tuple[str, str], bytes], now: float) -> Token:
        """The token of a store; see `kiro_asgi.upstreams.kiro.tokens.parse_token_rows`."""
        return parse_token_rows(rows, now)

    def merge(self, document: bytes, token: Token) -> bytes:
        """*document* with *token* in it."""
        return merge_token(document, token)

    def credential(self, token: Token, source: str) -> Credential:
        """The credential of a token.  It has no region: that of the sign-in says nothing about the service's."""
        external = token.kind is TokenKind.EXTERNAL_IDP
        kind = CredentialKind.EXTERNAL_IDP if external else CredentialKind.ACCESS_TOKEN
        return Credential(kind, token.access_token, self.settings.profile_arn or token.profile_arn, source=source)

    def renewal(self, token: Token) -> UpstreamRequest:
        """Ask for a new token; see `kiro_asgi.upstreams.kiro.vendor.renewal_request`."""
        kiro = self.settings
        agent = user_agent(kiro.user_agent)
        return renewal_request(token, auth_endpoint=kiro.auth_endpoint, auth_region=kiro.auth_region, user_agent=agent)

    def renewed(
        self, token: Token, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, now: float
    ) -> Token:
        """The new token that an answer holds; see `kiro_asgi.upstreams.kiro.vendor.renewed`."""
        return renewed(token, status, headers, body, now)

    def profile_requests(self, credential: Credential) -> tuple[UpstreamRequest, ...]:
        """Ask which profile belongs to *credential*; nothing for an API key, which has none."""
        known = credential.profile_arn or credential.kind is CredentialKind.API_KEY
        if known or not self.settings.discover_profile:
            return ()
        headers = (
            *authorization(credential),
            (b"accept-encoding", b"identity"),
            (b"user-agent", user_agent(self.settings.user_agent).encode()),
        )
        return profile_requests(self.settings.endpoint, self.settings.region, headers)

    def profile(self, bodies: Iterable[bytes]) -> str:
        """The first usable profile of the answers; empty where they list none."""
        return next((profile.arn for body in bodies for profile in parse_profiles(body)), "")
