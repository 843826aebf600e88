"""How a token is renewed: one request for each kind of sign-in, and what its answers mean.

Sources: https://docs.aws.amazon.com/singlesignon/latest/OIDCAPIReference/API_CreateToken.html,
https://www.rfc-editor.org/rfc/rfc6749#section-6
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from attrs import evolve

from kiro_asgi.errors import (
    KiroAsgiError,
    NotTheUpstream,
    UpstreamDenied,
    UpstreamFault,
    UpstreamThrottled,
)
from kiro_asgi.upstreams.base import Token, TokenKind, UpstreamRequest
from kiro_asgi.upstreams.errors import clean
from kiro_asgi.upstreams.kiro.auth import REGION
from kiro_asgi.upstreams.kiro.faults import fault
from kiro_asgi.upstreams.kiro.tokens import lifetime, text_of
from kiro_asgi.wire.json import JsonError, dumps, loads

__all__ = ["SIGN_IN", "oidc_host", "renewal_request", "renewed", "sign_in_error", "social_host"]

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
    lacking = next((words for words, value in _needs(token) if not value), "")
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


def sign_in_error(words: str) -> UpstreamDenied:
    """The error that says what only signing in again helps against."""
    return UpstreamDenied(f"{words}; sign in again, e.g. with kiro-asgi login", code=SIGN_IN)


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
    said = clean(text_of(report, "error_description", "errorMessage", "message") or name) or "no explanation"
    words = f"{said} (HTTP {status})"
    if status == 429 or (status == 400 and name.lower() in TRANSIENT):
        return UpstreamThrottled(
            f"the sign-in service asks for patience: {words}", code="credentials.throttled", retry_after=retry_after
        )
    if status in (400, 401):
        return sign_in_error(f"the sign-in has ended: {words}")
    if 300 <= status < 400:
        return NotTheUpstream(f"something else answers for the sign-in service: {words}", code="credentials.foreign")
    return UpstreamFault(f"the token could not be renewed: {words}", code="credentials.fault", retry_after=retry_after)


def _report(body: bytes) -> Mapping[str, Any]:
    try:
        report = loads(body)
    except JsonError:
        return MappingProxyType({})
    return report if type(report) is dict else MappingProxyType({})


_NOT_URL: Final = re.compile(r"[\s\\#@\x00-\x1f\x7f-\U0010ffff]")
